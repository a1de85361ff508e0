//! Several readers and writers in threads of one process: every byte comes to one of the readers, once. Written for the
//! sanitizers (`make check-asan`, `make check-tsan`), which see the races that happen and not only those that show.

use std::io::{Read, Write};
use std::thread;

use millstream_pipe::{Builder, Reader, WaitPolicy, Writer};

/// Bytes of each writer, unless the environment says how many: a sanitizer takes ten times as long.
const BYTES: u64 = 4 << 20;

/// Writes numbers as bytes, in writes of all sizes; returns their sum.
fn write(writer: &Writer, bytes: u64, seed: u64) -> u64 {
    let mut random = seed | 1;
    let (mut sum, mut left) = (0, bytes);
    while left > 0 {
        random = random.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) | 1;
        let len = (random % 9000 + 1).min(left) as usize;
        let piece: Vec<u8> = (0..len).map(|index| (random as usize ^ index) as u8).collect();
        let mut writer = writer;
        writer.write_all(&piece).unwrap();
        sum += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        left -= len as u64;
    }
    sum
}

/// Reads to the end; returns how many bytes there were, and their sum.
fn read(mut reader: &Reader, largest: usize) -> (u64, u64) {
    let (mut count, mut sum, mut buffer) = (0, 0, vec![0; largest]);
    loop {
        match reader.read(&mut buffer).unwrap() {
            0 => return (count, sum),
            len => {
                count += len as u64;
                sum += buffer[..len].iter().map(|&byte| u64::from(byte)).sum::<u64>();
            }
        }
    }
}

fn all_bytes_arrive(readers: usize, writers: usize, capacity: usize, policy: WaitPolicy) {
    let bytes = std::env::var("MILLSTREAM_BYTES").map_or(BYTES, |bytes| bytes.parse().expect("a number"));
    let (reader, writer) = Builder::new().capacity(capacity).wait(policy).create().unwrap();
    let (read, written) = thread::scope(|scope| {
        let writing: Vec<_> = (0..writers as u64)
            .map(|index| {
                // Some share a handle with another thread, some have one of their own.
                let own = writer.try_clone().unwrap();
                scope.spawn(move || write(&own, bytes, index))
            })
            .collect();
        drop(writer);
        let reader = &reader;
        let reading: Vec<_> = (0..readers).map(|index| scope.spawn(move || read(reader, 100 << (3 * index)))).collect();
        let written: u64 = writing.into_iter().map(|thread| thread.join().unwrap()).sum();
        let read: Vec<_> = reading.into_iter().map(|thread| thread.join().unwrap()).collect();
        (read, written)
    });
    assert_eq!(read.iter().map(|(count, _)| count).sum::<u64>(), bytes * writers as u64);
    assert_eq!(read.iter().map(|(_, sum)| sum).sum::<u64>(), written);
}

#[test]
fn one_of_each_at_a_small_ring() {
    all_bytes_arrive(1, 1, 4096, WaitPolicy::Adaptive);
}

#[test]
fn two_readers_share_what_one_writes() {
    all_bytes_arrive(2, 1, 16_384, WaitPolicy::Block);
}

#[test]
fn three_writers_at_one_reader() {
    all_bytes_arrive(1, 3, 65_536, WaitPolicy::Adaptive);
}

#[test]
fn three_of_each_that_sleep_at_once() {
    all_bytes_arrive(3, 3, 8192, WaitPolicy::Block);
}

#[test]
fn an_end_is_resized_watched_and_cloned_while_it_is_used() {
    let (reader, writer) = Builder::new().capacity(4096).create().unwrap();
    let bytes = 1 << 20;
    thread::scope(|scope| {
        let writing = scope.spawn(|| write(&writer, bytes, 5));
        let reading = scope.spawn(|| {
            let (mut left, mut sum, mut buffer) = (bytes, 0, vec![0; 3000]);
            while left > 0 {
                let count = (&reader).read(&mut buffer).unwrap();
                sum += buffer[..count].iter().map(|&byte| u64::from(byte)).sum::<u64>();
                left -= count as u64;
            }
            sum
        });
        for round in 0..200 {
            // Refused while more waits than it would hold.
            let _ = writer.set_capacity(4096 << (round % 5));
            reader.readiness().unwrap();
            drop(writer.try_clone().unwrap());
        }
        assert_eq!(reading.join().unwrap(), writing.join().unwrap());
    });
}

#[test]
fn broadcast_reaches_every_reader() {
    let bytes = std::env::var("MILLSTREAM_BYTES").map_or(BYTES, |bytes| bytes.parse().expect("a number"));
    for policy in [WaitPolicy::Adaptive, WaitPolicy::Block] {
        let builder = millstream_pipe::broadcast::Builder::new().readers(3).capacity(65_536).wait(policy);
        let (mut writer, readers) = builder.create().unwrap();
        thread::scope(|scope| {
            // Borrowed: the sanitizer does not see the fence by which the last owner of shared memory frees it.
            let reading: Vec<_> = readers
                .iter()
                .map(|mut reader| {
                    scope.spawn(move || {
                        let (mut count, mut sum, mut buffer) = (0, 0, vec![0; 5000]);
                        while let len @ 1.. = reader.read(&mut buffer).unwrap() {
                            count += len as u64;
                            sum += buffer[..len].iter().map(|&byte| u64::from(byte)).sum::<u64>();
                        }
                        (count, sum)
                    })
                })
                .collect();
            let (mut sum, mut left) = (0, bytes);
            while left > 0 {
                let piece: Vec<u8> = (0..(left % 9000 + 1).min(left)).map(|index| (left ^ index) as u8).collect();
                writer.write_all(&piece).unwrap();
                sum += piece.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                left -= piece.len() as u64;
            }
            drop(writer);
            reading.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), (bytes, sum)));
        });
    }
}

//! What whole buffers bring: a writer that fills each record, and a reader that sums every byte, with `write` and `read`, with
//! `reserve` and `borrow`, and with buffers that are lent. The measurements behind `docs/pipe.md`, "Whole buffers".
//!
//! `cargo run --release -p millstream-pipe --example lending [BYTES...]` prints a table of records of so many bytes; it takes
//! some seconds and wants two CPUs. "lent" is the part of the bytes that was passed on without a copy.
//!
//! The ring is as large as two records, but at least 64 KiB and at most 1 MiB, which every user may have: so a writer that copies
//! can be a record ahead, as one that lends is.
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::sync::atomic::Ordering::Relaxed;

use millstream_pipe::{Builder, Reader, Writer};
use millstream_sys::fork::{self, Side};
use millstream_sys::shared::Shared;
use millstream_sys::{clock, cpu};

const TOTAL: usize = 128 << 20;
const SAMPLES: usize = 5;

/// Writes so many bytes in records of this size.
type Writes = fn(&mut Writer, usize);
/// Reads to the end in pieces of at most this size; returns the sum of all bytes.
type Reads = fn(&mut Reader, usize) -> u64;

const WAYS: [(&str, Writes, Reads); 4] = [
    ("copied", write_copied, read_copied),
    ("in place", write_in_place, read_in_place),
    ("lent, read", lend, read_copied),
    ("lent, shown", lend, read_in_place),
];

fn main() {
    let cpus = cpu::allowed().expect("the CPUs of this process");
    println!("{:>10}{:>60}{:>60}", "", "2 CPUs, GB/s", "1 CPU, GB/s");
    let heads: String = WAYS.iter().map(|(name, ..)| format!("{name:>12}")).collect();
    println!("{:>10}{heads}{:>12}{heads}{:>12}", "record", "lent", "lent");
    let asked: Vec<usize> = std::env::args().skip(1).map(|size| size.parse().expect("a number of bytes")).collect();
    let usual = vec![16 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];
    for size in if asked.is_empty() { usual } else { asked } {
        print!("{size:>10}");
        for pair in [[cpus[0], *cpus.last().expect("a CPU")], [cpus[0]; 2]] {
            let mut samples = WAYS.map(|_| Vec::new());
            for _ in 0..SAMPLES {
                for (kept, &(_, writes, reads)) in samples.iter_mut().zip(&WAYS) {
                    kept.push(rate(size, pair, writes, reads));
                }
            }
            let lent = median(samples[3].iter().map(|sample| sample.1).collect());
            for kept in samples {
                print!("{:>12.2}", median(kept.iter().map(|sample| sample.0).collect()));
            }
            print!("{:>10.0} %", 100.0 * lent);
        }
        println!();
    }
}

/// GB/s, and the part that was lent.
fn rate(size: usize, [writers_cpu, readers_cpu]: [usize; 2], writes: Writes, reads: Reads) -> (f64, f64) {
    let capacity = (2 * size).clamp(64 << 10, 1 << 20);
    // SAFETY: both ends stay with this process and its child.
    let (mut reader, mut writer) = unsafe { Builder::new().capacity(capacity).trust_peers() }.create().expect("a pipe");
    let says = Shared::anonymous(4096).expect("a page");
    // SAFETY: the program has one thread, and the child ends at once.
    let child = match unsafe { fork::fork() }.expect("a process") {
        Side::Child => {
            drop(reader);
            cpu::restrict_to(&[writers_cpu]).expect("a CPU");
            writes(&mut writer, size);
            says.word(0).store(writer.statistics().bytes_lent, Relaxed);
            drop(writer);
            fork::exit_at_once(0)
        }
        Side::Parent(child) => child,
    };
    drop(writer);
    cpu::restrict_to(&[readers_cpu]).expect("a CPU");
    let start = clock::raw_nanoseconds();
    let sum = reads(&mut reader, size);
    let time = clock::raw_nanoseconds() - start;
    assert_eq!(sum, (TOTAL / size * size) as u64, "every byte is 1");
    drop(child);
    (TOTAL as f64 / time as f64, says.word(0).load(Relaxed) as f64 / TOTAL as f64)
}

fn write_copied(writer: &mut Writer, size: usize) {
    let mut buffer = vec![0; size];
    for _ in 0..TOTAL / size {
        // Made anew for each record, as bytes are.
        buffer.fill(std::hint::black_box(1));
        writer.write_all(&buffer).expect("a write");
    }
}

fn write_in_place(writer: &mut Writer, size: usize) {
    let mut left = TOTAL / size * size;
    while left > 0 {
        let mut room = writer.reserve(size.min(left)).expect("room");
        for segment in room.segments_mut() {
            segment.fill(std::hint::black_box(1));
        }
        let count = room.len();
        left -= room.commit(count).expect("a commit");
    }
}

fn lend(writer: &mut Writer, size: usize) {
    for _ in 0..TOTAL / size {
        let mut buffer = writer.buffer(size).expect("a buffer");
        buffer.fill(std::hint::black_box(1));
        assert_eq!(writer.lend(&mut buffer, size).expect("lending"), size);
    }
}

fn read_copied(reader: &mut Reader, size: usize) -> u64 {
    let (mut buffer, mut sum) = (vec![0; size], 0);
    loop {
        match reader.read(&mut buffer).expect("a read") {
            0 => return sum,
            count => sum += sum_of(&buffer[..count]),
        }
    }
}

fn read_in_place(reader: &mut Reader, _: usize) -> u64 {
    let mut sum = 0;
    loop {
        let bytes = reader.borrow().expect("bytes");
        let count = bytes.len();
        sum += bytes.segments().map(sum_of).iter().sum::<u64>();
        bytes.consume(count);
        if count == 0 {
            return sum;
        }
    }
}

/// Of bytes that are all 0 or 1: eight at once, and 255 such words before a byte of their sum is full.
fn sum_of(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let sums = words.chunks(255).map(|words| words.iter().map(|&word| u64::from_le_bytes(word)).sum::<u64>());
    let sum: u64 = sums.map(|sum| sum.to_le_bytes().map(u64::from).iter().sum::<u64>()).sum();
    sum + tail.iter().map(|&byte| u64::from(byte)).sum::<u64>()
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

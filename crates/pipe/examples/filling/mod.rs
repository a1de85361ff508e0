//! Programs at the ends of a pipe that make each byte and look at each, as the measurements of work in place need them: the
//! writer fills each record, the reader adds up all bytes, with loops that the compiler makes vectors of. They run at 25 GB/s
//! and more, so that they do not hide what the pipe costs.
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::sync::atomic::Ordering::Relaxed;

use millstream_pipe::{Builder, Reader, Writer};
use millstream_sys::fork::{self, Side};
use millstream_sys::shared::Shared;
use millstream_sys::{clock, cpu};

/// What goes through the pipe, but for a last record that would not be whole.
pub(crate) const TOTAL: usize = 128 << 20;

/// Writes so many bytes in records of this size.
pub(crate) type Writes = fn(&mut Writer, usize);
/// Reads to the end in pieces of at most this size; returns the sum of all bytes.
pub(crate) type Reads = fn(&mut Reader, usize) -> u64;

/// GB/s, and the part of the bytes that was lent, between two processes on these CPUs.
pub(crate) fn rate(
    pipe: Builder,
    size: usize,
    [writers_cpu, readers_cpu]: [usize; 2],
    writes: Writes,
    reads: Reads,
) -> (f64, f64) {
    // SAFETY: both ends stay with this process and its child.
    let (mut reader, mut writer) = unsafe { pipe.trust_peers() }.create().expect("a pipe");
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

pub(crate) fn write_copied(writer: &mut Writer, size: usize) {
    let mut buffer = vec![0; size];
    for _ in 0..TOTAL / size {
        // Made anew for each record, as bytes are.
        buffer.fill(std::hint::black_box(1));
        writer.write_all(&buffer).expect("a write");
    }
}

pub(crate) fn write_in_place(writer: &mut Writer, size: usize) {
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

pub(crate) fn read_copied(reader: &mut Reader, size: usize) -> u64 {
    let (mut buffer, mut sum) = (vec![0; size], 0);
    loop {
        match reader.read(&mut buffer).expect("a read") {
            0 => return sum,
            count => sum += sum_of(&buffer[..count]),
        }
    }
}

pub(crate) fn read_in_place(reader: &mut Reader, _: usize) -> u64 {
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

pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

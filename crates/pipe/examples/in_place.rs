//! What a copy costs: a writer that fills each transfer, and a reader that sums every byte, with `read` and `write`
//! and in place. The measurements behind `docs/pipe.md`, section Loans.
//!
//! `cargo run --release -p millstream-pipe --example in_place [BYTES...]` prints a table of transfers of so many
//! bytes; it takes a few seconds and wants two CPUs.
//!
//! The reader in place looks at what there is, as `fill_buf` shows it; the one that copies reads transfers. The
//! compiler vectorizes the loops that fill and sum: at 25 GB/s and more they do not hide what the pipe costs.
#![allow(unsafe_code)]

use std::io::{Read, Write};

use millstream_pipe::{Builder, Reader, Writer};
use millstream_sys::fork::{self, Side};
use millstream_sys::{clock, cpu};

const SAMPLES: usize = 5;

/// Bytes through the pipe, rounded down to whole records.
const TOTAL: usize = 128 << 20;

/// Writes [`TOTAL`] bytes in records of this size.
type Writes = fn(&mut Writer, usize);
/// Reads to the end in pieces of at most this size; returns the sum of all bytes.
type Reads = fn(&mut Reader, usize) -> u64;

fn main() {
    let cpus = cpu::allowed().expect("the CPUs of this process");
    println!("{:>10}{:>36}{:>36}", "", "2 CPUs, GB/s", "1 CPU, GB/s");
    let heads = ["copied", "in place", "ratio"].map(|head| format!("{head:>12}")).concat();
    println!("{:>10}{heads}{heads}", "transfer");
    let asked: Vec<usize> = std::env::args().skip(1).map(|size| size.parse().expect("a number of bytes")).collect();
    let usual = vec![512, 4 << 10, 16 << 10, 64 << 10, 128 << 10];
    for size in if asked.is_empty() { usual } else { asked } {
        print!("{size:>10}");
        for pair in [[cpus[0], *cpus.last().expect("a CPU")], [cpus[0]; 2]] {
            let samples: Vec<_> = (0..SAMPLES)
                .map(|_| (rate(size, pair, write_copied, read_copied), rate(size, pair, write_in_place, read_in_place)))
                .collect();
            let copied = median(samples.iter().map(|sample| sample.0).collect());
            let in_place = median(samples.iter().map(|sample| sample.1).collect());
            let ratio = median(samples.iter().map(|sample| sample.1 / sample.0).collect());
            print!("{copied:>12.2}{in_place:>12.2}{ratio:>12.2}");
        }
        println!();
    }
}

/// GB/s between two processes on these CPUs.
fn rate(size: usize, [writers_cpu, readers_cpu]: [usize; 2], writes: Writes, reads: Reads) -> f64 {
    // SAFETY: both ends stay with this process and its child.
    let (mut reader, mut writer) = unsafe { Builder::new().trust_peers() }.create().expect("a pipe");
    // SAFETY: the program has one thread, and the child ends at once.
    let child = match unsafe { fork::fork() }.expect("a process") {
        Side::Child => {
            drop(reader);
            cpu::restrict_to(&[writers_cpu]).expect("a CPU");
            writes(&mut writer, size);
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
    TOTAL as f64 / time as f64
}

fn write_copied(writer: &mut Writer, size: usize) {
    let mut buffer = vec![0; size];
    for _ in 0..TOTAL / size {
        // A program makes the bytes of each record anew.
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

/// Of bytes that are 0 or 1: adds eight at once, at most 255 times before a byte of the sum overflows.
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

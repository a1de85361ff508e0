//! What whole buffers bring: a writer that fills each record, and a reader that sums every byte, with `write` and `read`, with
//! `reserve` and `borrow`, and with buffers that are lent. The measurements behind `docs/pipe.md`, "Whole buffers".
//!
//! `cargo run --release -p millstream-pipe --example lending [BYTES...]` prints a table of records of so many bytes; it takes
//! some seconds and wants two CPUs. "lent" is the part of the bytes that was passed on without a copy.
//!
//! The ring is as large as two records, but at least 64 KiB and at most 1 MiB, which every user may have: so a writer that copies
//! can be a record ahead, as one that lends is.

mod filling;

use millstream_pipe::{Builder, Writer};
use millstream_sys::cpu;

use filling::{Reads, Writes, median, read_copied, read_in_place, write_copied, write_in_place};

const SAMPLES: usize = 5;

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
        let capacity = (2 * size).clamp(64 << 10, 1 << 20);
        for pair in [[cpus[0], *cpus.last().expect("a CPU")], [cpus[0]; 2]] {
            let mut samples = WAYS.map(|_| Vec::new());
            for _ in 0..SAMPLES {
                for (kept, &(_, writes, reads)) in samples.iter_mut().zip(&WAYS) {
                    kept.push(filling::rate(Builder::new().capacity(capacity), size, pair, writes, reads));
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

fn lend(writer: &mut Writer, size: usize) {
    for _ in 0..filling::TOTAL / size {
        let mut buffer = writer.buffer(size).expect("a buffer");
        buffer.fill(std::hint::black_box(1));
        assert_eq!(writer.lend(&mut buffer, size).expect("lending"), size);
    }
}

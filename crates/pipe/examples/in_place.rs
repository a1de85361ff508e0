//! What a copy costs: a writer that fills each transfer, and a reader that sums every byte, with `read` and `write` and in
//! place. The measurements behind `docs/pipe.md`, section Loans.
//!
//! `cargo run --release -p millstream-pipe --example in_place [BYTES...]` prints a table of transfers of so many bytes; it
//! takes a few seconds and wants two CPUs.
//!
//! The reader in place looks at what there is, as `fill_buf` shows it; the one that copies reads transfers.

mod filling;

use millstream_pipe::Builder;
use millstream_sys::cpu;

use filling::{Reads, Writes, median, read_copied, read_in_place, write_copied, write_in_place};

const SAMPLES: usize = 5;

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
                .map(|_| {
                    let rate =
                        |writes: Writes, reads: Reads| filling::rate(Builder::new(), size, pair, writes, reads).0;
                    (rate(write_copied, read_copied), rate(write_in_place, read_in_place))
                })
                .collect();
            let copied = median(samples.iter().map(|sample| sample.0).collect());
            let in_place = median(samples.iter().map(|sample| sample.1).collect());
            let ratio = median(samples.iter().map(|sample| sample.1 / sample.0).collect());
            print!("{copied:>12.2}{in_place:>12.2}{ratio:>12.2}");
        }
        println!();
    }
}

//! Whether a copy saved pays on this machine: the measurements behind "Direct transfer" in `docs/pipe.md`.
//!
//! `cargo run --release -p millstream-pipe --example direct` prints a table of GB/s; it takes half a minute and wants
//! two CPUs.
#![allow(unsafe_code)]

use std::io::{Read, Write};

use millstream_pipe::{Builder, DEFAULT_CAPACITY, DirectPolicy};
use millstream_sys::fork::{self, Side};
use millstream_sys::{clock, cpu};

const SIZES: [usize; 7] = [32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 4 << 20];

/// Bytes of each sample.
const BYTES: usize = 256 << 20;

const ROUNDS: usize = 9;

/// A way through a pipe.
struct Way {
    name: &'static str,
    capacity: usize,
    policy: DirectPolicy,
}

const WAYS: [Way; 5] = [
    Way { name: "ring", capacity: DEFAULT_CAPACITY, policy: DirectPolicy::Never },
    Way { name: "ring, direct when full", capacity: DEFAULT_CAPACITY, policy: DirectPolicy::Always },
    Way { name: "ring of 64 KiB", capacity: 64 << 10, policy: DirectPolicy::Never },
    Way { name: "64 KiB, direct when full", capacity: 64 << 10, policy: DirectPolicy::Always },
    Way { name: "direct only", capacity: 4096, policy: DirectPolicy::Always },
];

fn main() {
    let cpus = cpu::allowed().expect("the CPUs of this process");
    let placements = [("1 CPU", Some([cpus[0]; 2])), ("2 CPUs", cpus.get(1).map(|&second| [cpus[0], second]))];
    for (name, placement) in placements {
        let Some(placement) = placement else { continue };
        println!("{name}, GB/s");
        for size in SIZES {
            let mut samples = WAYS.map(|_| Vec::new());
            // In turn, so that what the machine does beside hits all alike.
            for _ in 0..ROUNDS {
                WAYS.iter().zip(&mut samples).for_each(|(way, samples)| samples.push(sample(way, size, placement)));
            }
            for (way, samples) in WAYS.iter().zip(samples) {
                println!("{:>10} KiB  {:<28}{:>8.2}", size >> 10, way.name, median(samples));
            }
        }
    }
}

/// GB/s of a child that writes and this process that reads, both in transfers of `size`.
fn sample(way: &Way, size: usize, [here, there]: [usize; 2]) -> f64 {
    let made = Builder::new().capacity(way.capacity).direct(way.policy).create();
    let (mut reader, mut writer) = made.expect("a pipe");
    // SAFETY: this process has one thread, and the child ends in `exit_at_once`.
    let child = match unsafe { fork::fork() }.expect("a child") {
        Side::Parent(child) => child,
        Side::Child => {
            drop(reader);
            cpu::restrict_to(&[there]).expect("the other CPU");
            let bytes = vec![7; size];
            let outcome = (0..BYTES / size).try_for_each(|_| writer.write_all(&bytes));
            fork::exit_at_once(i32::from(outcome.is_err()))
        }
    };
    drop(writer);
    cpu::restrict_to(&[here]).expect("this CPU");
    let mut bytes = vec![0; size];
    reader.read_exact(&mut bytes).expect("the first bytes");
    let (start, mut total) = (clock::raw_nanoseconds(), 0);
    loop {
        match reader.read(&mut bytes).expect("bytes") {
            0 => break,
            count => total += count,
        }
    }
    let nanoseconds = clock::raw_nanoseconds() - start;
    child.wait().expect("the end of the child");
    assert_eq!(total, BYTES - size);
    total as f64 / nanoseconds as f64
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

//! What idle pipes cost: `cargo run --release -p millstream-pipe --example idle [PIPES]` makes them (10 000 unless
//! told otherwise) in several processes, sends one byte through each, lets a tenth of the readers sleep in a read,
//! and reports memory and processor time.
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::time::Duration;

use millstream_sys::fork::{self, Side};

/// Three descriptors each: below the usual limits on open files.
const PIPES_PER_PROCESS: usize = 1000;
const SLEEPERS_PER_PROCESS: usize = 100;
const REST: Duration = Duration::from_secs(3);

fn main() {
    let pipes: usize = std::env::args().nth(1).map_or(10_000, |number| number.parse().expect("a number of pipes"));
    let before = used_memory_bytes();
    let (mut ready, tell) = std::io::pipe().expect("a pipe");
    let mut children = Vec::new();
    for _ in 0..pipes.div_ceil(PIPES_PER_PROCESS) {
        // SAFETY: this program has one thread here; the child makes its own and ends in `exit_at_once`.
        match unsafe { fork::fork() }.expect("a child") {
            Side::Child => be_idle(tell),
            Side::Parent(child) => children.push(child),
        }
    }
    for _ in &children {
        ready.read_exact(&mut [0]).expect("a child that has made its pipes");
    }
    std::thread::sleep(Duration::from_secs(2));
    let (start, held) = (processor_ticks(&children), used_memory_bytes().saturating_sub(before));
    std::thread::sleep(REST);
    let ticks = processor_ticks(&children) - start;
    let made = children.len() * PIPES_PER_PROCESS;
    println!("{made} pipes, {} sleeping readers, {} processes", children.len() * SLEEPERS_PER_PROCESS, children.len());
    println!(
        "memory: {:.1} MiB in all, {:.1} KiB for each pipe",
        held as f64 / 1048576.0,
        held as f64 / 1024.0 / made as f64
    );
    println!("processor: {ticks} hundredths of a second in {} seconds", REST.as_secs());
}

fn be_idle(mut tell: std::io::PipeWriter) -> ! {
    let mut writers = Vec::new();
    let mut readers = Vec::new();
    for index in 0..PIPES_PER_PROCESS {
        let (mut reader, mut writer) = millstream_pipe::pipe().expect("a pipe");
        writer.write_all(&[1]).and_then(|()| reader.read_exact(&mut [0])).expect("a byte");
        writers.push(writer);
        if index < SLEEPERS_PER_PROCESS {
            let sleeper = std::thread::Builder::new().stack_size(16 << 10);
            sleeper.spawn(move || reader.read(&mut [0])).expect("a thread");
        } else {
            readers.push(reader);
        }
    }
    tell.write_all(&[1]).expect("a parent");
    loop {
        std::thread::park();
    }
}

/// Memory of the whole machine that is not available: pages, page tables and what the kernel keeps for descriptors.
fn used_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("/proc");
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("a field of meminfo");
        line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number") * 1024
    };
    field("MemTotal:") - field("MemAvailable:")
}

fn processor_ticks(children: &[fork::Child]) -> u64 {
    let of = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("a child");
        let after_name = stat.rsplit(')').next().expect("a name");
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        fields[11].parse::<u64>().expect("user time") + fields[12].parse::<u64>().expect("system time")
    };
    children.iter().map(|child| of(child.id())).sum()
}

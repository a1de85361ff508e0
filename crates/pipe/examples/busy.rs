//! What a pipe carries while other programs want the CPUs too, beside the kernel's pipe under the same load.
//!
//! `cargo run --release -p millstream-pipe --example busy [PROGRAMS [ROUNDS [WHAT]]]` starts that many programs on
//! every CPU that do nothing but use it (1 unless told otherwise; 0 for none), measures each cell that many times
//! (5), the two pipes in turns, and prints medians. `WHAT` keeps the cells whose name contains it. Takes a second for
//! each round and wants two CPUs.
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use millstream_sys::fork::{self, Child, Side};
use millstream_sys::shared::Shared;
use millstream_sys::{clock, cpu};

/// Long against the time that a program may keep a CPU: a few milliseconds.
const SAMPLE: Duration = Duration::from_millis(60);

const SIZES: [usize; 5] = [512, 2 << 10, 8 << 10, 64 << 10, 128 << 10];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual: usize| arguments.next().map_or(usual, |text| text.parse().expect("a number"));
    let (programs, rounds) = (number(1), number(5));
    let wanted = arguments.next().unwrap_or_default();
    let cpus = cpu::allowed().expect("the CPUs of this process");
    let busy: Vec<Child> = cpus.iter().flat_map(|&cpu| (0..programs).map(move |_| use_up(cpu))).collect();
    println!("{} busy programs on {} CPUs", busy.len(), cpus.len());
    println!("{:<22}{:>10}{:>12}{:>8}   (lowest and highest ratio of a round)", "", "kernel", "millstream", "x");
    for (placement, cpus) in [("2 CPUs", cpus.get(..2)), ("1 CPU", Some(&[cpus[0]; 2][..]))] {
        let Some(&[first, second]) = cpus else { continue };
        let mut cells: Vec<(String, Cell)> = vec![];
        cells.extend(SIZES.map(|size| (format!("{placement} {size} MB/s"), Cell::Bandwidth(size))));
        cells.push((format!("{placement} running us"), Cell::Running));
        cells.push((format!("{placement} asleep us"), Cell::Asleep));
        for (name, cell) in cells.into_iter().filter(|(name, _)| name.contains(&wanted)) {
            let pairs: Vec<_> = (0..rounds).map(|_| PIPES.map(|pipe| cell.sample(pipe, [first, second]))).collect();
            let ratio = |[kernel, ours]: [f64; 2]| if cell.is_time() { kernel / ours } else { ours / kernel };
            let column = |index: usize| median(pairs.iter().map(|pair| pair[index]).collect());
            let mut ratios: Vec<f64> = pairs.iter().copied().map(ratio).collect();
            ratios.sort_by(f64::total_cmp);
            let both = [column(0), column(1)];
            let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
            println!("{name:<22}{:>10.1}{:>12.1}{:>8.2}   {low:.2} .. {high:.2}", both[0], both[1], ratio(both));
        }
    }
}

/// A program that does nothing else.
fn use_up(cpu: usize) -> Child {
    start(cpu, || {
        loop {
            std::hint::spin_loop();
        }
    })
}

fn start(cpu: usize, body: impl FnOnce()) -> Child {
    // SAFETY: this program has one thread, and the child ends in `exit_at_once`.
    match unsafe { fork::fork() }.expect("a child") {
        Side::Child => {
            cpu::restrict_to(&[cpu]).expect("a CPU");
            body();
            fork::exit_at_once(0)
        }
        Side::Parent(child) => child,
    }
}

type Ends = (Box<dyn Read>, Box<dyn Write>);

const PIPES: [fn() -> Ends; 2] = [
    || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        (Box::new(reader), Box::new(writer))
    },
    || {
        let (reader, writer) = millstream_pipe::pipe().expect("a pipe");
        (Box::new(reader), Box::new(writer))
    },
];

#[derive(Clone, Copy)]
enum Cell {
    /// MB/s, with writes and reads of that many bytes.
    Bandwidth(usize),
    /// Microseconds for a byte there and back, one after the other.
    Running,
    /// The same, each after a pause in which the other falls asleep.
    Asleep,
}

impl Cell {
    fn is_time(self) -> bool {
        !matches!(self, Cell::Bandwidth(_))
    }

    fn sample(self, pipe: fn() -> Ends, cpus: [usize; 2]) -> f64 {
        match self {
            Cell::Bandwidth(size) => bandwidth(pipe, cpus, size),
            Cell::Running => round_trip(pipe, cpus, None),
            Cell::Asleep => round_trip(pipe, cpus, Some(Duration::from_micros(700))),
        }
    }
}

fn bandwidth(pipe: fn() -> Ends, [writing, reading]: [usize; 2], size: usize) -> f64 {
    let (result, (mut reader, mut writer)) = (Shared::anonymous(4096).expect("a page"), pipe());
    // The reader must not have the write end, or it would wait for itself.
    let writer = start(writing, move || {
        let (buffer, began) = (vec![7; size], clock::raw_nanoseconds());
        while clock::raw_nanoseconds() - began < SAMPLE.as_nanos() as u64 {
            (0..16).for_each(|_| writer.write_all(&buffer).expect("a reader"));
        }
    });
    let reader = start(reading, || {
        let (mut buffer, mut bytes) = (vec![0; size], 0);
        reader.read_exact(&mut buffer).expect("a first transfer");
        let began = clock::raw_nanoseconds();
        while let count @ 1.. = reader.read(&mut buffer).expect("bytes") {
            bytes += count as u64;
        }
        result.word(0).store(bytes, SeqCst);
        result.word(8).store(clock::raw_nanoseconds() - began, SeqCst);
    });
    [writer, reader].into_iter().for_each(succeed);
    result.word(0).load(SeqCst) as f64 / result.word(8).load(SeqCst) as f64 * 1e3
}

fn round_trip(pipe: fn() -> Ends, [asking, answering]: [usize; 2], pause: Option<Duration>) -> f64 {
    let (result, (mut there, mut ask), (mut back, mut answer)) =
        (Shared::anonymous(4096).expect("a page"), pipe(), pipe());
    let asker = start(asking, || {
        let mut times = vec![];
        let began = clock::raw_nanoseconds();
        while clock::raw_nanoseconds() - began < SAMPLE.as_nanos() as u64 {
            if let Some(pause) = pause {
                std::thread::sleep(pause);
            }
            let start = clock::raw_nanoseconds();
            let trips = if pause.is_some() { 1 } else { 50 };
            for _ in 0..trips {
                ask.write_all(&[1]).expect("a reader");
                back.read_exact(&mut [0]).expect("an answer");
            }
            times.push((clock::raw_nanoseconds() - start) as f64 / f64::from(trips));
        }
        // Running: all of it, with the times at which others had the CPU.
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let nanoseconds = if pause.is_some() { median(times) } else { mean };
        result.word(0).store(nanoseconds as u64, SeqCst);
    });
    drop(ask);
    let answerer = start(answering, move || {
        while there.read(&mut [0]).expect("a question") > 0 {
            // The asker may have gone before the last answer, if other programs had the CPU just then.
            let _ = answer.write_all(&[2]);
        }
    });
    [asker, answerer].into_iter().for_each(succeed);
    result.word(0).load(SeqCst) as f64 / 1e3
}

fn succeed(child: Child) {
    assert_eq!(child.wait().expect("a child").exit_status(), Some(0));
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

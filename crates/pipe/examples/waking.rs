//! What the ways of waiting cost on this machine: the measurements behind `docs/pipe.md`.
//!
//! `cargo run --release -p millstream-pipe --example waking` prints a table; it takes a few seconds and wants two CPUs.
#![allow(unsafe_code)]

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use millstream_pipe::WaitPolicy;
use millstream_sys::fork::{self, Side};
use millstream_sys::shared::Shared;
use millstream_sys::{clock, cpu, futex, memory, pipe, transfer};

const TRIPS: usize = 2000;
const SAMPLES: usize = 7;

fn main() {
    let cpus = cpu::allowed().expect("the CPUs of this process");
    println!("{:<44}{:>10}{:>10}", "round trip, us", "2 CPUs", "1 CPU");
    let ways: [Named; 6] = [
        ("read and write of a kernel pipe", || Box::new(KernelPipe::new())),
        ("poll on a kernel pipe, wake token in it", || Box::new(Bell::new())),
        ("futex", || Box::new(Futex::new())),
        ("spin, or yield on one CPU", || Box::new(Looking::new())),
        ("millstream", || Box::new(Millstream::new(WaitPolicy::Adaptive))),
        ("millstream, always asleep", || Box::new(Millstream::new(WaitPolicy::Block))),
    ];
    for (name, way) in ways {
        let there = cpus.get(1).map(|&second| round_trip(way(), [cpus[0], second]));
        let here = round_trip(way(), [cpus[0]; 2]);
        println!("{name:<44}{:>10}{here:>10.2}", there.map_or("-".into(), |there| format!("{there:.2}")));
    }
    println!("\n{:<44}{:>10}", "one call, us", "");
    let (reader, _writer) = pipe::create().expect("a pipe");
    each("poll that does not wait", || assert!(transfer::readiness(&reader).is_ok()));
    each("is the end non-blocking", || assert!(transfer::is_nonblocking(&reader).is_ok()));
    each("is there a mark", || assert!(transfer::any_mark(&reader).is_ok()));
    each("sched_yield with no thread to yield to", cpu::give_way);
    each("make and close a kernel pipe", || drop(pipe::create()));
    each("make and close a pipe of millstream", || drop(millstream_pipe::pipe()));
    each("the same, one byte through it", || {
        let (mut reader, mut writer) = millstream_pipe::pipe().expect("a pipe");
        writer.write_all(&[1]).and_then(|()| reader.read_exact(&mut [0])).expect("a byte");
    });
    each("make, seal, map and unmap a segment", || {
        let file = memory::sealable_file().expect("a file");
        memory::seal_at(&file, 1 << 21).expect("a seal");
        memory::SharedMapping::of_sealed(&file, 1 << 21).expect("a mapping").populate(0, 4096).expect("a page");
    });
}

fn each(name: &str, call: impl Fn()) {
    let sample = || {
        let start = clock::raw_nanoseconds();
        (0..TRIPS).for_each(|_| call());
        (clock::raw_nanoseconds() - start) as f64 / TRIPS as f64 / 1e3
    };
    println!("{name:<44}{:>10.2}", median((0..SAMPLES).map(|_| sample()).collect()));
}

type Named = (&'static str, fn() -> Box<dyn Way>);

/// Two streams between two processes: 0 asks, 1 answers.
trait Way {
    fn send(&mut self, side: usize);
    fn receive(&mut self, side: usize);
}

fn round_trip(mut way: Box<dyn Way>, [asking, answering]: [usize; 2]) -> f64 {
    // SAFETY: this program has one thread, and the child ends in `exit_at_once`.
    let answerer = match unsafe { fork::fork() }.expect("a child") {
        Side::Child => {
            cpu::restrict_to(&[answering]).expect("a CPU");
            for _ in 0..TRIPS * SAMPLES {
                way.receive(1);
                way.send(1);
            }
            fork::exit_at_once(0)
        }
        Side::Parent(child) => child,
    };
    cpu::restrict_to(&[asking]).expect("a CPU");
    let mut sample = || {
        let start = clock::raw_nanoseconds();
        for _ in 0..TRIPS {
            way.send(0);
            way.receive(0);
        }
        (clock::raw_nanoseconds() - start) as f64 / TRIPS as f64 / 1e3
    };
    let time = median((0..SAMPLES).map(|_| sample()).collect());
    drop(answerer);
    time
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

struct KernelPipe([(OwnedFd, OwnedFd); 2]);

impl KernelPipe {
    fn new() -> KernelPipe {
        KernelPipe([pipe::create().expect("a pipe"), pipe::create().expect("a pipe")])
    }
}

impl Way for KernelPipe {
    fn send(&mut self, side: usize) {
        transfer::write(&self.0[side].1, &[IoSlice::new(&[1])]).expect("a reader");
    }

    fn receive(&mut self, side: usize) {
        transfer::read(&self.0[1 - side].0, &mut [IoSliceMut::new(&mut [0])]).expect("a writer");
    }
}

/// As with the ring's wake token: sleep in `poll`, take the byte afterwards.
struct Bell(KernelPipe);

impl Bell {
    fn new() -> Bell {
        Bell(KernelPipe::new())
    }
}

impl Way for Bell {
    fn send(&mut self, side: usize) {
        self.0.send(side);
    }

    fn receive(&mut self, side: usize) {
        transfer::sleep_until_readable(&self.0.0[1 - side].0, Duration::from_secs(60)).expect("a writer");
        self.0.receive(side);
    }
}

struct Words(Shared);

impl Words {
    fn new() -> Words {
        Words(Shared::anonymous(4096).expect("a page"))
    }

    fn of(&self, side: usize) -> &AtomicU32 {
        // SAFETY: the first half of an aligned, zeroed word of 64 bits that only this program uses, always through
        // here.
        unsafe { AtomicU32::from_ptr(self.0.word(side * 256).as_ptr().cast()) }
    }
}

struct Futex(Words);

impl Futex {
    fn new() -> Futex {
        Futex(Words::new())
    }
}

impl Way for Futex {
    fn send(&mut self, side: usize) {
        self.0.of(side).store(1, SeqCst);
        futex::wake_one(self.0.of(side));
    }

    fn receive(&mut self, side: usize) {
        let word = self.0.of(1 - side);
        while word.swap(0, SeqCst) == 0 {
            futex::wait(word, 0, Duration::from_secs(1));
        }
    }
}

struct Looking(Words);

impl Looking {
    fn new() -> Looking {
        Looking(Words::new())
    }
}

impl Way for Looking {
    fn send(&mut self, side: usize) {
        // Noted so that the receiver can tell whether it keeps the sender from running.
        self.0.of(side).store(cpu::current() + 1, SeqCst);
        self.0.of(2 + side).store(cpu::current() + 1, SeqCst);
    }

    fn receive(&mut self, side: usize) {
        let word = self.0.of(1 - side);
        while word.load(SeqCst) == 0 {
            match self.0.of(3 - side).load(SeqCst) == cpu::current() + 1 {
                true => cpu::give_way(),
                false => std::hint::spin_loop(),
            }
        }
        word.store(0, SeqCst);
    }
}

struct Millstream([(millstream_pipe::Reader, millstream_pipe::Writer); 2]);

impl Millstream {
    fn new(policy: WaitPolicy) -> Millstream {
        let pipe = || millstream_pipe::Builder::new().wait(policy).create().expect("a pipe");
        Millstream([pipe(), pipe()])
    }
}

impl Way for Millstream {
    fn send(&mut self, side: usize) {
        self.0[side].1.write_all(&[1]).expect("a reader");
    }

    fn receive(&mut self, side: usize) {
        self.0[1 - side].0.read_exact(&mut [0]).expect("a writer");
    }
}

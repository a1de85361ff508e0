//! Faults that are planted into streams, and what a launch says of each.

use std::io::{self, Read, Write};

use millstream_sys::{cpu, signals};

use super::*;
use crate::engine::{self, Effort};
use crate::transport::{self, Fill, WriteEnd, kernel_pipe, loan};

/// A stream whose ends do something else once, when the byte at a position moves.
struct Faulty {
    inner: &'static dyn Transport,
    at: u64,
    fault: Fault,
}

/// What becomes of the bytes of a write, given the place of the byte that it is about.
type Distort = fn(&[u8], usize) -> Vec<u8>;

#[derive(Clone, Copy)]
enum Fault {
    /// What is written is this instead.
    Write(Distort),
    /// The reader does this before it reads on.
    Read(fn()),
}

impl Transport for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn connect(&self, placement: Placement) -> Result<Ends, String> {
        let Ends { writer, reader } = self.inner.connect(placement)?;
        let (at, fault) = (self.at, self.fault);
        Ok(Ends {
            writer: Box::new(FaultyWriter { inner: writer, position: 0, at, fault }),
            reader: Box::new(FaultyReader { inner: reader, position: 0, at, fault }),
        })
    }
}

struct FaultyWriter {
    inner: Box<dyn WriteEnd>,
    position: u64,
    at: u64,
    fault: Fault,
}

impl Write for FaultyWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let range = self.position..self.position + bytes.len() as u64;
        match self.fault {
            // Leaked, because some transports look at it later.
            Fault::Write(distort) if range.contains(&self.at) => {
                self.inner.write_all(distort(bytes, (self.at - self.position) as usize).leak())?;
            }
            _ => self.inner.write_all(bytes)?,
        }
        self.position = range.end;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for FaultyWriter {
    fn finish(self: Box<Self>) {
        self.inner.finish();
    }

    fn lent_writes(&self, len: usize) -> usize {
        self.inner.lent_writes(len)
    }
}

struct FaultyReader {
    inner: Box<dyn Read>,
    position: u64,
    at: u64,
    fault: Fault,
}

impl Read for FaultyReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        match self.fault {
            Fault::Read(act) if (self.position..self.position + count as u64).contains(&self.at) => act(),
            _ => (),
        }
        self.position += count as u64;
        Ok(count)
    }
}

/// Bounds how long a failure takes. Two processes that spin on one CPU take many seconds beside other busy ones.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Positions in each of the passes with 4 KiB transfers.
const IN_PASS_1: u64 = 5_000;
const IN_PASS_2: u64 = (1 << 20) + 77;
const IN_PASS_3: u64 = (5 << 20) + 5_000_000;

fn task(workload: Workload) -> Task {
    // However slow the machine is, so that each position is reached.
    Task { transfer: 4096, workload, amount: Amount::Exactly(10 << 20) }
}

fn seen(inner: &'static dyn Transport, workload: Workload, at: u64, fault: Fault) -> Result<Launch, String> {
    stream(WATCHDOG, task(workload), Placement::OneCpu, &Faulty { inner, at, fault })
}

const CHANGED: Fault = Fault::Write(|bytes, index| {
    let mut bytes = bytes.to_vec();
    bytes[index] ^= 1;
    bytes
});

const DOUBLED: Fault = Fault::Write(|bytes, index| [&bytes[..=index], &bytes[index..]].concat());

const LOST: Fault = Fault::Write(|bytes, index| [&bytes[..index], &bytes[index + 1..]].concat());

#[test]
fn a_stream_without_fault_gives_a_rate_over_every_transport_and_workload() {
    for transport in transport::ALL {
        for workload in Workload::ALL {
            let launch = seen(transport, workload, u64::MAX, CHANGED);
            let launch = launch.unwrap_or_else(|why| panic!("{} {workload:?}: {why}", transport.name()));
            assert!(launch.samples[0] > 0.0 && launch.warmup[0] > 0.0 && launch.samples.len() == 1, "{launch:?}");
        }
    }
}

#[test]
fn two_copies_in_one_process_have_every_workload() {
    for workload in Workload::ALL {
        let launch = launch(task(workload), Placement::OneCpu, Carrier::MemcpyTwice).unwrap();
        assert!(launch.samples[0] > 0.0, "{launch:?}");
    }
}

#[test]
fn a_changed_byte_is_found_over_every_transport() {
    for transport in transport::ALL {
        let why = seen(transport, Workload::Hot, IN_PASS_1, CHANGED).unwrap_err();
        assert!(why.contains("the reader: byte 5000 of the stream is wrong"), "{}: {why}", transport.name());
    }
}

#[test]
fn a_doubled_byte_is_found_over_every_transport() {
    for transport in transport::ALL {
        let why = seen(transport, Workload::Hot, IN_PASS_3, DOUBLED).unwrap_err();
        let is_said = ["is wrong", "had been written"].iter().any(|part| why.contains(part));
        assert!(is_said, "{}: {why}", transport.name());
    }
}

#[test]
fn a_doubled_byte_is_found_in_every_pass() {
    for at in [IN_PASS_1, IN_PASS_2, IN_PASS_3] {
        let why = seen(&kernel_pipe::DEFAULT, Workload::Hot, at, DOUBLED).unwrap_err();
        assert!(["is wrong", "had been written"].iter().any(|part| why.contains(part)), "{at}: {why}");
    }
}

#[test]
fn a_lost_byte_gives_no_rate() {
    for at in [IN_PASS_1, IN_PASS_3] {
        let faulty = Faulty { inner: &kernel_pipe::DEFAULT, at, fault: LOST };
        let limit = Duration::from_secs(3);
        let why = stream(limit, task(Workload::Hot), Placement::OneCpu, &faulty).unwrap_err();
        assert!(["is wrong", "said nothing"].iter().any(|part| why.contains(part)), "{at}: {why}");
    }
}

#[test]
fn a_byte_that_changed_while_the_clock_ran_is_found_by_its_sum() {
    for transport in transport::ALL {
        let why = seen(transport, Workload::Summed, IN_PASS_3, CHANGED).unwrap_err();
        assert!(why.contains("the sum of what was read is"), "{}: {why}", transport.name());
    }
}

/// A stream in place, in which a byte is not what the writer made.
struct FaultyInPlace {
    at: u64,
}

struct FaultyFill {
    inner: Box<dyn Fill>,
    position: u64,
    at: u64,
}

impl Transport for FaultyInPlace {
    fn name(&self) -> &'static str {
        loan::LOAN.name()
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        Err("not in place".into())
    }

    fn connect_in_place(&self, placement: Placement) -> Option<Result<InPlaceEnds, String>> {
        loan::LOAN.connect_in_place(placement).map(|ends| {
            let InPlaceEnds { writer, reader } = ends?;
            Ok(InPlaceEnds { writer: Box::new(FaultyFill { inner: writer, position: 0, at: self.at }), reader })
        })
    }
}

impl Fill for FaultyFill {
    fn fill(&mut self, len: usize, make: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let (position, at) = (&mut self.position, self.at);
        self.inner.fill(len, &mut |place| {
            make(place);
            if let Some(byte) = at.checked_sub(*position).and_then(|index| place.get_mut(index as usize)) {
                *byte ^= 1;
            }
            *position += place.len() as u64;
        })
    }

    fn finish(self: Box<Self>) {
        self.inner.finish();
    }
}

fn seen_in_place(workload: Workload, at: u64) -> Result<Launch, String> {
    stream(WATCHDOG, task(workload), Placement::OneCpu, &FaultyInPlace { at })
}

#[test]
fn a_changed_byte_is_found_in_place_in_every_pass() {
    for workload in Workload::ALL {
        assert!(seen_in_place(workload, u64::MAX).unwrap().samples[0] > 0.0);
        let why = seen_in_place(workload, IN_PASS_1).unwrap_err();
        assert!(why.contains("the reader: byte 5000 of the stream is wrong"), "{why}");
    }
    for at in [IN_PASS_2, IN_PASS_3] {
        let why = seen_in_place(Workload::Summed, at).unwrap_err();
        assert!(why.contains("the sum of what was read is"), "{why}");
    }
    for workload in [Workload::Hot, Workload::Fresh] {
        // The last byte of pass 3.
        let why = seen_in_place(workload, (15 << 20) - 1).unwrap_err();
        assert!(why.contains("of the last that were read is wrong"), "{why}");
    }
}

#[test]
fn a_writer_that_dies_while_the_clock_runs_gives_no_rate_over_any_transport() {
    let die = Fault::Write(|_, _| {
        signals::raise_unblocked(9);
        Vec::new()
    });
    for transport in transport::ALL {
        let why = seen(transport, Workload::Hot, IN_PASS_3, die).unwrap_err();
        assert!(why.contains("the writer was killed by signal 9"), "{}: {why}", transport.name());
    }
}

#[test]
fn an_invalid_cell_says_that_a_reader_left_its_cpu() {
    let leave = || {
        let here = cpu::current() as usize;
        let elsewhere: Vec<usize> = (0..1024).filter(|&cpu| cpu != here).collect();
        // Where this fails the cell stays valid, and the test fails.
        let _ = cpu::restrict_to(&elsewhere);
    };
    let faulty: &'static Faulty =
        Box::leak(Box::new(Faulty { inner: &kernel_pipe::DEFAULT, at: IN_PASS_2, fault: Fault::Read(leave) }));
    let mut plan = Plan::<crate::method::bw_pipe::BwPipe>::of(Depth::Quick);
    plan.transfers = vec![4096];
    plan.placements = vec![Placement::OneCpu];
    plan.carriers = vec![Carrier::Transport(faulty)];
    let cells = engine::measure(comparisons(&plan), &Effort::exactly(2), |_| ());
    let [there, _] = Placement::TwoCpus.cpus().expect("this test needs two CPUs");
    assert_eq!((cells.len(), cells[0].valid, cells[0].median), (1, false, None));
    let why = cells[0].why_invalid.as_deref().unwrap();
    assert!(why.starts_with("the reader ran on CPU [") && why.ends_with(&format!("instead of {there}")), "{why}");
}

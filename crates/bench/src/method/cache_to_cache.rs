//! The bound of everything that goes from one CPU to another: a line that two CPUs write in turns, and lines that one
//! reads which the other has just written.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use millstream_sys::shared::{self, Shared};

use super::lat_mem_rd::{TRANSPORT, powers_of_two};
use super::slices::{median_ns, rate, timed};
use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;

/// The most that is written before it is read.
pub const SIZE_MAX: usize = 64 << 20;

/// Whose turn it is, on a line of its own.
const TURN: usize = 0;
/// Where the lines begin that are read.
const LINES: usize = 4096;

/// Turns of a slice, and slices before those that count, and those.
const SLICE_TURNS: u64 = 500;
const WARM_UP_SLICES: u64 = 20;
const TIMED_SLICES: u64 = 100;

/// What is read altogether in a sample, before and while it counts.
const WARM_UP_BYTES: usize = 1 << 20;
const TIMED_BYTES: usize = 16 << 20;

/// How often less than a page is read again and again.
const PASSES_MAX: usize = 1000;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The time for a line to go from one CPU to the other.
    PingPong,
    /// Bytes a second of reading what the other CPU has just written.
    Read,
}

impl Workload {
    /// Both, in the order in which they are shown.
    pub const ALL: [Workload; 2] = [Workload::PingPong, Workload::Read];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::PingPong => "ping_pong",
            Workload::Read => "read",
        }
    }
}

/// What to measure.
pub struct Plan {
    /// Latency, bandwidth.
    pub workloads: Vec<Workload>,
    /// Bytes that are written before they are read, multiples of 8 up to [`SIZE_MAX`].
    pub sizes: Vec<usize>,
}

impl Plan {
    /// No study of pipes measured it, so there is nothing to be faithful to.
    pub fn of(depth: Depth) -> Plan {
        let sizes = match depth {
            Depth::Quick => vec![16 << 10, 256 << 10],
            Depth::Full | Depth::SeedFaithful => powers_of_two(4 << 10, 16 << 20),
        };
        Plan { workloads: Workload::ALL.to_vec(), sizes }
    }
}

/// A comparison for the line and one for each size.
pub fn comparisons(plan: &Plan) -> Vec<Comparison> {
    let mut jobs = Vec::new();
    if plan.workloads.contains(&Workload::PingPong) {
        jobs.push(job(None));
    }
    if plan.workloads.contains(&Workload::Read) {
        jobs.extend(plan.sizes.iter().map(|&size| job(Some(size))));
    }
    jobs.into_iter().map(|job| Comparison { baseline: None, rehearsals: 0, jobs: vec![job] }).collect()
}

/// The line by itself, or so many bytes.
fn job(size: Option<usize>) -> Job {
    let (workload, unit) = match size {
        None => (Workload::PingPong, "ns"),
        Some(_) => (Workload::Read, MEGABYTES_PER_SECOND),
    };
    let mut params = BTreeMap::from([("workload", workload.name().into())]);
    params.extend(size.map(|size| ("size", size.into())));
    let cell = Cell::new("cache_to_cache", TRANSPORT, Placement::TwoCpus.name(), params, unit);
    Job::new(cell, move || launch(size))
}

fn launch(size: Option<usize>) -> Result<Launch, String> {
    let [first, second] = Placement::TwoCpus.cpus()?;
    let memory = Shared::anonymous(LINES + size.unwrap_or(0)).map_err(|error| format!("no shared memory: {error}"))?;
    let posts = [Post { name: "writer", cpu: first }, Post { name: "reader", cpu: second }];
    crew::run(&posts, |index| match (index, size) {
        (0, None) => {
            take_turns(&memory, (WARM_UP_SLICES + TIMED_SLICES) * SLICE_TURNS);
            Ok(None)
        }
        (_, None) => Ok(Some(answer(&memory))),
        (0, Some(size)) => {
            write(&memory, size);
            Ok(None)
        }
        (_, Some(size)) => read(&memory, size).map(Some),
    })
}

/// Waits for even turns and makes them odd.
fn take_turns(memory: &Shared, turns: u64) {
    for turn in 0..turns {
        await_turn(memory, 2 * turn);
        memory.word(TURN).store(2 * turn + 1, Relaxed);
    }
}

/// Waits for odd turns and makes them even; the nanoseconds that the line takes one way.
fn answer(memory: &Shared) -> Launch {
    let mut turn = 0;
    let mut slice = || {
        for _ in 0..SLICE_TURNS {
            await_turn(memory, 2 * turn + 1);
            memory.word(TURN).store(2 * turn + 2, Relaxed);
            turn += 1;
        }
    };
    let [warm, sample] = [WARM_UP_SLICES, TIMED_SLICES].map(|slices| {
        let slices: Vec<u64> = (0..slices).map(|_| timed(&mut slice).1).collect();
        // There and back.
        median_ns(&slices, 2 * SLICE_TURNS)
    });
    Launch { warmup: vec![warm], ..Launch::of(sample) }
}

/// How many times `size` bytes are written and read: before it counts, and while.
fn passes(size: usize) -> [u64; 2] {
    [WARM_UP_BYTES, TIMED_BYTES].map(|bytes| (bytes / size).clamp(3, PASSES_MAX) as u64)
}

/// What is written to word `index` in a pass: another value in each.
fn value(pass: u64, index: u64) -> u64 {
    (pass + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index)
}

fn write(memory: &Shared, size: usize) {
    for pass in 0..passes(size).iter().sum() {
        await_turn(memory, 2 * pass);
        for (index, word) in (0..).zip(memory.words(LINES, size / 8)) {
            word.store(value(pass, index), Relaxed);
        }
        memory.word(TURN).store(2 * pass + 1, Release);
    }
}

/// MB/s of the reading alone. Each pass is compared with the sum that it must have.
fn read(memory: &Shared, size: usize) -> Result<Launch, String> {
    let [warm_up, timed] = passes(size);
    let warm = read_passes(memory, size, 0..warm_up)?;
    let rate = read_passes(memory, size, warm_up..warm_up + timed)?;
    Ok(Launch { warmup: vec![warm], ..Launch::of(rate) })
}

fn read_passes(memory: &Shared, size: usize, passes: std::ops::Range<u64>) -> Result<f64, String> {
    let words = memory.words(LINES, size / 8);
    let mut slices = Vec::new();
    for pass in passes {
        await_turn(memory, 2 * pass + 1);
        let (sum, nanoseconds) = timed(|| shared::sum(words));
        // The values are an arithmetic series.
        let (len, pairs) = (words.len() as u64, (words.len() * words.len().saturating_sub(1) / 2) as u64);
        if sum != value(pass, 0).wrapping_mul(len).wrapping_add(pairs) {
            return Err(format!("what was read in pass {pass} is not what was written"));
        }
        slices.push(nanoseconds);
        memory.word(TURN).store(2 * pass + 2, Release);
    }
    Ok(rate(size, median_ns(&slices, 1)))
}

fn await_turn(memory: &Shared, turn: u64) {
    let word = memory.word(TURN);
    while word.load(Acquire) != turn {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_and_every_size_give_a_sample() {
        for size in [None, Some(8), Some(64 << 10)] {
            let seen = launch(size).unwrap();
            assert!(seen.samples.len() == 1 && seen.samples[0] > 0.0, "{seen:?}");
            assert_ne!(seen.telemetry.cpus[0], seen.telemetry.cpus[1]);
        }
    }

    #[test]
    fn what_was_not_written_is_noticed() {
        let memory = Shared::anonymous(LINES + 64).unwrap();
        memory.word(TURN).store(1, Relaxed);
        let seen = read_passes(&memory, 64, 0..1);
        assert_eq!(seen.unwrap_err(), "what was read in pass 0 is not what was written");
    }
}

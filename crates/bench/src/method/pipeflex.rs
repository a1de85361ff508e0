//! How many bytes a second go through pipes between processes that also have something to do.
//!
//! Half of the processes write: they write a few bytes, compute, and so on. The other half read: one read of up to so
//! many bytes, then they compute. Each pipe has one of each. A pipe that holds more lets a reader find more at each
//! read, and lets the two compute at the same time for longer: that is what this shows and `bw_pipe` does not.
//!
//! The study of Linux 2.5 pipe patches from 2002 that made it known ran it for 20 seconds with 512 bytes for each write
//! and 500 us of computing after each read, and printed how many percent a patch gained. What its tool printed is not
//! told; here it is the bytes that were read, for each second. That a read takes what is there, and is not repeated until
//! it is full, is what fits its figures: the larger the reads, up to 32 KiB, the more a pipe of 32 KiB gained over one of
//! 4 KiB.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;
use crate::transport::{Ends, Transport, kernel_pipe, millstream};

mod board;
mod parts;
mod runs;
mod work;

use board::Board;
pub use runs::{NO_COMPUTE, READS, Run, SEED_RUN, SHAPES, seed_runs};
use work::Work;

/// The name in options and results.
pub const NAME: &str = "pipeflex";

/// The largest read and write: beyond it nothing changes but the memory that a run takes.
pub const TRANSFER_MAX: usize = 16 << 20;

/// The most processes: enough to show what many pipes do, and few enough to start at once.
pub const PROCESSES_MAX: usize = 64;

/// The longest computing between two calls, in microseconds, before it is drawn.
pub const COMPUTE_US_MAX: u32 = 1_000_000;

/// The shortest and the longest time for a sample.
pub const SECONDS: std::ops::RangeInclusive<f64> = 0.01..=600.0;

/// What the study's run took.
pub const SEED_SECONDS: f64 = 20.0;

/// What a sample takes unless something else is asked for: 200 reads with 500 us of computing.
pub const DEFAULT_SECONDS: f64 = 0.1;

/// What the draws come from unless something else is asked for: any number will do, as long as it stays.
pub const DEFAULT_SEED: u64 = 2002;

/// What carries the bytes, in the order in which it is shown. The first is what the others are measured against.
pub const CARRIERS: [&dyn Transport; 3] = [&kernel_pipe::DEFAULT, &kernel_pipe::ONE_MEBIBYTE, &millstream::ADAPTIVE];

/// What to measure.
pub struct Plan {
    /// What the processes do.
    pub runs: Vec<Run>,
    /// How long each sample takes, within [`SECONDS`].
    pub seconds: f64,
    /// What the draws come from; the same for every transport.
    pub seed: u64,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// Which transports.
    pub carriers: Vec<&'static dyn Transport>,
}

impl Plan {
    /// Faithful to the study in all but its 20 seconds, which as `seconds` make 27 minutes of each round.
    pub fn of(depth: Depth) -> Plan {
        let (runs, seconds) = match depth {
            Depth::Quick => (vec![SEED_RUN, SHAPES[2]], 0.075),
            Depth::Full => ([seed_runs(), SHAPES.to_vec(), NO_COMPUTE.to_vec()].concat(), DEFAULT_SECONDS),
            Depth::SeedFaithful => (seed_runs(), DEFAULT_SECONDS),
        };
        let (placements, carriers) = (Placement::ALL.to_vec(), CARRIERS.to_vec());
        Plan { runs, seconds, seed: DEFAULT_SEED, placements, carriers }
    }
}

/// A comparison for each run and placement.
///
/// # Errors
/// A sentence: something in the plan is out of its range.
pub fn comparisons(plan: &Plan) -> Result<Vec<Comparison>, String> {
    plan.check()?;
    // Once for all: whatever it says, every transport gets the same work.
    let work = Rc::new(OnceCell::new());
    let mut comparisons = Vec::new();
    for &run in &plan.runs {
        for &placement in &plan.placements {
            let shape = Shape { run, placement, seconds: plan.seconds, seed: plan.seed };
            let jobs = plan.carriers.iter().map(|&carrier| job(shape, carrier, Rc::clone(&work))).collect();
            // Each launch warms up for itself.
            comparisons.push(Comparison { baseline: Some(CARRIERS[0].name()), rehearsals: 0, jobs });
        }
    }
    Ok(comparisons)
}

impl Plan {
    fn check(&self) -> Result<(), String> {
        if !SECONDS.contains(&self.seconds) {
            return Err(format!("a sample takes {} to {} seconds", SECONDS.start(), SECONDS.end()));
        }
        for run in &self.runs {
            let Run { processes, reader_us, writer_us, read, write, .. } = *run;
            if processes < 2 || processes % 2 == 1 || processes > PROCESSES_MAX {
                return Err(format!(
                    "{processes} processes cannot be paired: an even number from 2 to {PROCESSES_MAX}"
                ));
            }
            if reader_us.max(writer_us) > COMPUTE_US_MAX {
                return Err(format!("computing between two calls takes at most {COMPUTE_US_MAX} us"));
            }
            if !(1..=TRANSFER_MAX).contains(&read) || !(1..=TRANSFER_MAX).contains(&write) {
                return Err(format!("a read and a write have 1 to {TRANSFER_MAX} bytes"));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Shape {
    run: Run,
    placement: Placement,
    seconds: f64,
    seed: u64,
}

fn job(shape: Shape, carrier: &'static dyn Transport, work: Rc<OnceCell<Work>>) -> Job {
    let run = shape.run;
    let params = BTreeMap::from([
        ("workload", run.workload.into()),
        ("transfer", run.read.into()),
        ("size", run.write.into()),
        ("processes", run.processes.into()),
        ("reader_us", run.reader_us.into()),
        ("writer_us", run.writer_us.into()),
        ("seconds", shape.seconds.into()),
        ("seed", shape.seed.into()),
    ]);
    let cell = Cell::new(NAME, carrier.name(), shape.placement.name(), params, MEGABYTES_PER_SECOND);
    Job::new(cell, move || launch(shape, carrier, *work.get_or_init(Work::calibrated)))
}

/// MB/s of all pipes together in one launch, or the check that failed.
fn launch(shape: Shape, carrier: &'static dyn Transport, work: Work) -> Result<Launch, String> {
    let Shape { run, placement, seconds, seed } = shape;
    let [writers_cpu, readers_cpu] = placement.cpus()?;
    let pairs = run.processes / 2;
    let streams: Vec<Ends> = (0..pairs).map(|_| carrier.connect(placement)).collect::<Result<_, _>>()?;
    let board = Board::new(pairs).map_err(|error| format!("no shared memory: {error}"))?;
    let pair = [Post { name: "writer", cpu: writers_cpu }, Post { name: "reader", cpu: readers_cpu }];
    let posts = vec![pair; pairs].concat();
    let limit = Duration::from_secs(30) + Duration::from_secs_f64(2.0 * seconds);
    crew::run_within(limit, &posts, move |index| {
        let (pair, draws) = (index / 2, seed.wrapping_add(index as u64));
        // Those before and after it are dropped.
        let Some(Ends { writer, reader }) = streams.into_iter().nth(pair) else {
            return Err(format!("there is no pipe {pair}"));
        };
        if index % 2 == 0 {
            drop(reader);
            let pauses = work.pauses(run.writer_us, draws);
            return parts::write(writer, run.write, pauses, &board, pair).map(|()| None);
        }
        drop(writer);
        let pauses = work.pauses(run.reader_us, draws);
        let mut reader = parts::Reader::new(reader, run, pauses, &board, pair);
        reader.run(seconds)?;
        Ok(if pair == 0 { Some(board.of_all_readers()) } else { None })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(run: Run) -> Shape {
        Shape { run, placement: Placement::OneCpu, seconds: 0.02, seed: 1 }
    }

    #[test]
    fn every_transport_moves_bytes_while_both_ends_compute() {
        let work = Work::calibrated();
        for carrier in CARRIERS {
            let seen = launch(shape(Run { reader_us: 20, writer_us: 5, ..SEED_RUN }), carrier, work).unwrap();
            assert!(seen.samples.len() == 1 && seen.samples[0] > 0.0 && seen.operations > 0, "{seen:?}");
            assert_eq!((seen.warmup.len(), seen.telemetry.pids.len()), (1, 2));
        }
    }

    #[test]
    fn the_pipes_of_many_processes_are_counted_together() {
        let run = Run { processes: 6, reader_us: 50, ..SEED_RUN };
        let seen = launch(shape(run), CARRIERS[0], Work::calibrated()).unwrap();
        assert!(seen.samples[0] > 0.0 && seen.operations >= 3, "{seen:?}");
        assert_eq!(seen.telemetry.pids.len(), 6);
    }

    #[test]
    fn plans_have_the_study_s_parameters() {
        let runs = Plan::of(Depth::SeedFaithful).runs;
        assert_eq!(runs.iter().map(|run| run.read).collect::<Vec<_>>(), READS);
        assert!(runs.iter().all(|run| Run { read: 0, ..*run } == Run { read: 0, ..SEED_RUN }));
        assert_eq!((SEED_RUN.processes, SEED_RUN.reader_us, SEED_RUN.writer_us, SEED_RUN.write), (2, 500, 0, 512));
        assert_eq!(comparisons(&Plan::of(Depth::Quick)).unwrap().len(), 4);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for (run, says) in [
            (Run { processes: 3, ..SEED_RUN }, "3 processes cannot be paired"),
            (Run { processes: 0, ..SEED_RUN }, "0 processes cannot be paired"),
            (Run { processes: 66, ..SEED_RUN }, "66 processes cannot be paired"),
            (Run { reader_us: COMPUTE_US_MAX + 1, ..SEED_RUN }, "at most 1000000 us"),
            (Run { read: 0, ..SEED_RUN }, "1 to 16777216 bytes"),
            (Run { write: TRANSFER_MAX + 1, ..SEED_RUN }, "1 to 16777216 bytes"),
        ] {
            let plan = Plan { runs: vec![run], ..Plan::of(Depth::Quick) };
            let why = comparisons(&plan).err().unwrap();
            assert!(why.contains(says), "{why}");
        }
        for seconds in [0.0, -1.0, f64::NAN, 601.0] {
            assert!(comparisons(&Plan { seconds, ..Plan::of(Depth::Quick) }).is_err(), "{seconds}");
        }
    }
}

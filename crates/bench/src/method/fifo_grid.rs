//! How long a producer and a consumer take for a number of messages of one size over a FIFO.
//!
//! The grid of sizes and counts is that of a study of FreeBSD's FIFOs from 2009. It printed the average of 100
//! repetitions, in which one slow start weighs as much as ten good ones: its 100 messages of 64 bytes took longer than
//! 1000 of them. Here nothing cold is timed, the figure is the median, and the average is shown beside it.
//!
//! A launch makes one stream and two processes and repeats the cell in them; what makes a repetition count is in
//! `repetitions`.

use std::collections::BTreeMap;

use crate::cell::Cell;
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;
use crate::method::baton::SharedBaton;
use crate::transport::{Ends, Transport, fifo, kernel_pipe, millstream, unix};

mod repetitions;

pub use repetitions::Repetitions;

/// The name in options and results.
pub const NAME: &str = "fifo_grid";

/// Bytes of a message in the study.
pub const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

/// Messages of a repetition in the study.
pub const COUNTS: [u64; 5] = [100, 1000, 5000, 10_000, 100_000];

/// The largest message: beyond it nothing changes but the memory that a run takes.
pub const SIZE_MAX: usize = 16 << 20;

/// The most messages of a repetition: half a minute or so over a slow pipe.
pub const COUNT_MAX: u64 = 10_000_000;

/// The most repetitions of a launch.
pub const REPETITIONS_MAX: usize = 10_000;

/// What carries the messages, in the order in which it is shown. The first is what the others are measured against.
pub const CARRIERS: [&dyn Transport; 5] =
    [&fifo::FIFO, &kernel_pipe::DEFAULT, &unix::UNIX, &millstream::ADAPTIVE, &fifo::OURS];

/// What to measure.
pub struct Plan {
    /// Bytes for each message, each 1 to [`SIZE_MAX`].
    pub sizes: Vec<usize>,
    /// Messages for each repetition, each 1 to [`COUNT_MAX`].
    pub counts: Vec<u64>,
    /// How often a launch repeats.
    pub repetitions: Repetitions,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// Which transports.
    pub carriers: Vec<&'static dyn Transport>,
}

impl Plan {
    /// Quick: the corners but the longest. Faithful to the study: its grid, in five launches of 20 repetitions, which make
    /// its 100; over what it measured, a FIFO, against millstream's FIFO and pipe; and on two CPUs, because its two processes had four to
    /// choose from. With everything else it would take twice as long as a user waits for.
    pub fn of(depth: Depth) -> Plan {
        let brief = |most| Repetitions { most, milliseconds: 30 };
        let (sizes, counts, repetitions) = match depth {
            Depth::Quick => (vec![64, 4096], vec![100, 10_000], brief(10)),
            Depth::Full => (SIZES.to_vec(), COUNTS.to_vec(), brief(20)),
            Depth::SeedFaithful => (SIZES.to_vec(), COUNTS.to_vec(), Repetitions::exactly(20)),
        };
        let (placements, carriers) = match depth {
            Depth::Quick | Depth::Full => (Placement::ALL.to_vec(), CARRIERS.to_vec()),
            Depth::SeedFaithful => (vec![Placement::TwoCpus], vec![CARRIERS[0], &millstream::ADAPTIVE, &fifo::OURS]),
        };
        Plan { sizes, counts, repetitions, placements, carriers }
    }
}

/// A comparison for each size, count and placement.
pub fn comparisons(plan: &Plan) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for &size in &plan.sizes {
        for &count in &plan.counts {
            for &placement in &plan.placements {
                let shape = Shape { size, count, repetitions: plan.repetitions, placement };
                let jobs = plan.carriers.iter().map(|&carrier| job(shape, carrier)).collect();
                // Each launch warms up for itself.
                comparisons.push(Comparison { baseline: Some(CARRIERS[0].name()), rehearsals: 0, jobs });
            }
        }
    }
    comparisons
}

#[derive(Clone, Copy)]
struct Shape {
    size: usize,
    count: u64,
    repetitions: Repetitions,
    placement: Placement,
}

fn job(shape: Shape, carrier: &'static dyn Transport) -> Job {
    let params = BTreeMap::from([("size", shape.size.into()), ("messages", shape.count.into())]);
    let cell = Cell::new(NAME, carrier.name(), shape.placement.name(), params, "us");
    Job::new(cell, move || launch(shape, carrier))
}

/// Microseconds of each repetition, or the check that failed.
fn launch(shape: Shape, carrier: &'static dyn Transport) -> Result<Launch, String> {
    let Shape { size, count, repetitions, placement } = shape;
    let cpus = placement.cpus()?;
    let Ends { writer, reader } = carrier.connect(placement)?;
    let baton = SharedBaton::new(placement.idle()).map_err(|error| format!("no shared memory: {error}"))?;
    let posts = [Post { name: "producer", cpu: cpus[0] }, Post { name: "consumer", cpu: cpus[1] }];
    crew::run_within(repetitions.limit(), &posts, move |index| match index {
        0 => {
            drop(reader);
            repetitions::produce(writer, baton, size).map(|()| None)
        }
        _ => {
            drop(writer);
            repetitions::consume(reader, baton, size, count, repetitions).map(Some)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_study_s_grid_is_whole() {
        let plan = Plan::of(Depth::SeedFaithful);
        let comparisons = comparisons(&plan);
        assert_eq!(comparisons.len(), 7 * 5);
        assert!(comparisons.iter().all(|comparison| comparison.jobs.len() == 3));
        assert_eq!(plan.repetitions.most * 5, 100);
    }

    #[test]
    fn every_plan_has_what_it_is_compared_with() {
        for depth in [Depth::Quick, Depth::Full, Depth::SeedFaithful] {
            for comparison in comparisons(&Plan::of(depth)) {
                let baseline = comparison.baseline.unwrap();
                assert!(comparison.jobs.iter().any(|job| job.cell.transport == baseline));
            }
        }
    }

    #[test]
    fn a_launch_gives_a_sample_for_each_repetition_over_every_transport() {
        for carrier in CARRIERS {
            for (size, count) in [(64, 100), (3, 1), (5000, 50)] {
                let shape = Shape { size, count, repetitions: Repetitions::exactly(3), placement: Placement::OneCpu };
                let seen = launch(shape, carrier).unwrap();
                assert_eq!((seen.samples.len(), seen.operations), (3, 3 * count));
                assert!(seen.samples.iter().all(|&sample| sample > 0.0), "{seen:?}");
            }
        }
    }
}

//! How long one byte takes there and back, over two streams between two processes.
//!
//! Two questions with answers that lie a factor of ten apart: what it takes while both processes are running and waiting
//! for nothing else, and what it takes when the one that answers has gone to sleep. Tools that mix them report whichever
//! the scheduler happened to make of it.

use std::collections::BTreeMap;

use crate::cell::Cell;
use crate::crew::{self, Post};
use crate::interleave;
use crate::placement::Placement;
use crate::transport::{Ends, Transport, kernel_pipe, millstream, spsc_bare};

mod sleeper;
mod trips;

use sleeper::Sleeper;

/// What both processes do before a round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// They have just finished the one before.
    Running,
    /// The one that answers sleeps.
    Asleep,
}

impl Waiting {
    /// Both, in the order in which they are shown.
    pub const ALL: [Waiting; 2] = [Waiting::Running, Waiting::Asleep];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Waiting::Running => "running",
            Waiting::Asleep => "asleep",
        }
    }
}

/// A transport to choose.
#[derive(Clone, Copy)]
pub struct Carrier(&'static dyn Transport);

impl Carrier {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Carrier; 4] = [
        Carrier(&kernel_pipe::DEFAULT),
        Carrier(&millstream::ADAPTIVE),
        Carrier(&millstream::BLOCK),
        Carrier(&spsc_bare::SPSC_BARE),
    ];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The bare ring cannot sleep.
    fn is_for(self, waiting: Waiting) -> bool {
        waiting == Waiting::Running || self.name() != spsc_bare::SPSC_BARE.name()
    }
}

/// What to measure and how often.
pub struct Plan {
    /// Running, asleep.
    pub waitings: Vec<Waiting>,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// Which transports.
    pub carriers: Vec<Carrier>,
    /// Samples for each cell.
    pub rounds: usize,
}

#[derive(Clone, Copy)]
struct Combination {
    waiting: Waiting,
    placement: Placement,
    carrier: Carrier,
}

/// Measures. `progress` is told how many samples of how many are taken. No cells, if the plan combines nothing that can
/// be combined. What goes wrong makes its cell invalid.
pub fn measure(plan: &Plan, progress: impl FnMut(usize, usize)) -> Vec<Cell> {
    let (mut combinations, mut groups) = (Vec::new(), Vec::new());
    for &waiting in &plan.waitings {
        for &placement in &plan.placements {
            let first = combinations.len();
            let carriers = plan.carriers.iter().filter(|carrier| carrier.is_for(waiting));
            combinations.extend(carriers.map(|&carrier| Combination { waiting, placement, carrier }));
            groups.push((first..combinations.len()).collect());
        }
    }
    let mut cells: Vec<Cell> = combinations.iter().map(|combination| combination.cell()).collect();
    // No rehearsal: each sample warms up for itself.
    interleave::measure(&mut cells, groups, 0, plan.rounds, |index| combinations[index].sample(), progress);
    cells
}

impl Combination {
    fn cell(self) -> Cell {
        let params = BTreeMap::from([("waiting", self.waiting.name().into())]);
        Cell::new("lat_pipe", self.carrier.name(), self.placement.name(), params, "us")
    }

    /// Microseconds for a round trip in one launch, or the check that it failed.
    fn sample(self) -> Result<f64, String> {
        let Combination { waiting, placement, carrier } = self;
        let cpus = placement.cpus()?;
        let (there, back): (Ends, Ends) = (carrier.0.connect(placement)?, carrier.0.connect(placement)?);
        let answerer = Sleeper::new().map_err(|error| format!("no shared memory: {error}"))?;
        let posts = [Post { name: "asker", cpu: cpus[0] }, Post { name: "answerer", cpu: cpus[1] }];
        crew::run(&posts, move |index| match index {
            0 => {
                drop((there.reader, back.writer));
                trips::ask(there.writer, back.reader, waiting, &answerer).map(Some)
            }
            _ => {
                drop((there.writer, back.reader));
                trips::answer(there.reader, back.writer, waiting, &answerer).map(|()| None)
            }
        })
    }
}

//! How long one byte takes there and back, over two streams between two processes.
//!
//! Two questions with answers that lie a factor of ten apart: what it takes while both processes are running and waiting
//! for nothing else, and what it takes when the one that answers has gone to sleep. Tools that mix them report whichever
//! the scheduler happened to make of it.

use std::collections::BTreeMap;

use crate::cell::Cell;
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;
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

/// What to measure.
pub struct Plan {
    /// Running, asleep.
    pub waitings: Vec<Waiting>,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// Which transports.
    pub carriers: Vec<Carrier>,
}

impl Plan {
    /// It is small enough to be the same at every depth.
    pub fn of(_: Depth) -> Plan {
        Plan { waitings: Waiting::ALL.to_vec(), placements: Placement::ALL.to_vec(), carriers: Carrier::ALL.to_vec() }
    }
}

/// A comparison for each state and placement; none, if the plan combines nothing that can be combined.
pub fn comparisons(plan: &Plan) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for &waiting in &plan.waitings {
        for &placement in &plan.placements {
            let carriers = plan.carriers.iter().filter(|carrier| carrier.is_for(waiting));
            let jobs: Vec<Job> = carriers.map(|&carrier| job(waiting, placement, carrier)).collect();
            if !jobs.is_empty() {
                // Each launch warms up for itself.
                comparisons.push(Comparison { baseline: Some(kernel_pipe::DEFAULT.name()), rehearsals: 0, jobs });
            }
        }
    }
    comparisons
}

fn job(waiting: Waiting, placement: Placement, carrier: Carrier) -> Job {
    let params = BTreeMap::from([("waiting", waiting.name().into())]);
    let cell = Cell::new("lat_pipe", carrier.name(), placement.name(), params, "us");
    Job::new(cell, move || launch(waiting, placement, carrier))
}

/// Microseconds for a round trip in one launch, or the check that it failed.
fn launch(waiting: Waiting, placement: Placement, carrier: Carrier) -> Result<Launch, String> {
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

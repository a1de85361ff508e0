//! How long one byte takes there and back, over two streams between two processes: what `lat_pipe`, `lat_fifo` and
//! `lat_unix` do.
//!
//! Two questions with answers that lie a factor of ten apart: what it takes while both processes are running and waiting
//! for nothing else, and what it takes when the one that answers has gone to sleep. Tools that mix them report whichever
//! the scheduler happened to make of it.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use crate::cell::Cell;
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;
use crate::transport::{Ends, Transport, millstream};

mod sleeper;
mod trips;
mod waiting;

use sleeper::Sleeper;
pub use waiting::Waiting;

/// What tells a method of this kind from the others.
pub trait Method: 'static {
    /// In options and results.
    const NAME: &'static str;

    /// What the others are measured against.
    fn baseline() -> &'static dyn Transport;

    /// What is measured where nothing else is asked for, in the order in which it is shown.
    fn transports() -> Vec<&'static dyn Transport>;
}

/// What to measure.
pub struct Plan<M> {
    /// Running, asleep.
    pub waitings: Vec<Waiting>,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// Which transports, also such as this crate does not know.
    pub transports: Vec<&'static dyn Transport>,
    method: PhantomData<M>,
}

impl<M: Method> Plan<M> {
    /// The quick one leaves out the pipe that never looks before it sleeps: no user chooses that one, which only
    /// tells what sleeping costs.
    pub fn of(depth: Depth) -> Plan<M> {
        let is_wanted =
            |transport: &&dyn Transport| depth != Depth::Quick || transport.name() != millstream::BLOCK.name();
        Plan {
            waitings: Waiting::ALL.to_vec(),
            placements: Placement::ALL.to_vec(),
            transports: M::transports().into_iter().filter(is_wanted).collect(),
            method: PhantomData,
        }
    }
}

/// A comparison for each state and placement; none, if the plan combines nothing that can be combined.
pub fn comparisons<M: Method>(plan: &Plan<M>) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for &waiting in &plan.waitings {
        for &placement in &plan.placements {
            let transports = plan.transports.iter().filter(|transport| waiting.is_for(**transport));
            let jobs: Vec<Job> = transports.map(|&transport| job::<M>(waiting, placement, transport)).collect();
            if !jobs.is_empty() {
                // Each launch warms up for itself.
                comparisons.push(Comparison { baseline: Some(M::baseline().name()), rehearsals: 0, jobs });
            }
        }
    }
    comparisons
}

fn job<M: Method>(waiting: Waiting, placement: Placement, transport: &'static dyn Transport) -> Job {
    let params = BTreeMap::from([("waiting", waiting.name().into())]);
    let cell = Cell::new(M::NAME, transport.name(), placement.name(), params, "us");
    Job::new(cell, move || launch(waiting, placement, transport))
}

/// Microseconds for a round trip in one launch, or the check that it failed.
fn launch(waiting: Waiting, placement: Placement, transport: &dyn Transport) -> Result<Launch, String> {
    let cpus = placement.cpus()?;
    let (there, back): (Ends, Ends) = (transport.connect(placement)?, transport.connect(placement)?);
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

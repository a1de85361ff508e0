//! How many bytes a second go from one process to another: what `bw_pipe`, `bw_unix` and `bw_tcp` do.
//!
//! A writer process writes one page-aligned buffer again and again; a reader process reads in pieces of the same size.
//! Each sample has a stream and two processes of its own, so nothing that one launch was lucky or unlucky with (page
//! colours, addresses, the scheduler's history) stays for all samples. What makes a sample count is in `passes`.

use std::marker::PhantomData;
use std::time::Duration;

use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;
use crate::transport::{Ends, InPlaceEnds, Transport};

mod ends;
mod memcpy_twice;
mod passes;
pub mod remote;
mod task;
#[cfg(test)]
mod tests;
mod workload;

use super::baton::SharedBaton;
use ends::{Sink, Source};
pub use memcpy_twice::NAME as MEMCPY_TWICE;
pub use task::Amount;
use task::Task;
pub use workload::Workload;

/// The largest transfer: beyond it nothing changes but the memory that a run takes.
pub const TRANSFER_MAX: usize = 16 << 20;

/// What tells a method of this kind from the others.
pub trait Method: 'static {
    /// In options and results.
    const NAME: &'static str;

    /// What a sample moves at least; most move more, to last long enough.
    const SAMPLE_BYTES: u64;

    /// What a sample moves when it is faithful to the studies: exactly that.
    const SEED_BYTES: u64;

    /// Bytes for each write and read where nothing else is asked for.
    fn transfers(depth: Depth) -> Vec<usize>;

    /// What the others are measured against.
    fn baseline() -> &'static dyn Transport;

    /// What is measured where nothing else is asked for, in the order in which it is shown.
    fn carriers(depth: Depth) -> Vec<Carrier>;
}

/// What carries the bytes.
#[derive(Clone, Copy)]
pub enum Carrier {
    /// From one process to the other.
    Transport(&'static dyn Transport),
    /// Nowhere: the bound on one CPU.
    MemcpyTwice,
}

impl Carrier {
    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Transport(transport) => transport.name(),
            Carrier::MemcpyTwice => MEMCPY_TWICE,
        }
    }

    /// One process cannot be on two CPUs.
    fn is_for(self, placement: Placement) -> bool {
        !matches!((self, placement), (Carrier::MemcpyTwice, Placement::TwoCpus))
    }
}

/// What to measure.
pub struct Plan<M> {
    /// Bytes for each write and read, each 1 to [`TRANSFER_MAX`].
    pub transfers: Vec<usize>,
    /// What writer and reader do besides.
    pub workloads: Vec<Workload>,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// Which carriers: any transport, also one that this crate does not know.
    pub carriers: Vec<Carrier>,
    /// What a sample moves.
    pub amount: Amount,
    method: PhantomData<M>,
}

impl<M: Method> Plan<M> {
    /// What the method measures at that depth.
    pub fn of(depth: Depth) -> Plan<M> {
        let amount = match depth {
            Depth::Quick | Depth::Full => Amount::AtLeast(M::SAMPLE_BYTES),
            Depth::SeedFaithful => Amount::Exactly(M::SEED_BYTES),
        };
        Plan {
            transfers: M::transfers(depth),
            workloads: vec![Workload::Hot],
            placements: Placement::ALL.to_vec(),
            carriers: M::carriers(depth),
            amount,
            method: PhantomData,
        }
    }
}

/// A comparison for each transfer, workload and placement; none, if the plan combines nothing that can be combined.
pub fn comparisons<M: Method>(plan: &Plan<M>) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for &transfer in &plan.transfers {
        for &workload in &plan.workloads {
            let task = Task { transfer, workload, amount: plan.amount };
            for &placement in &plan.placements {
                let carriers = plan.carriers.iter().filter(|carrier| carrier.is_for(placement));
                let jobs: Vec<Job> = carriers.map(|&carrier| job::<M>(task, placement, carrier)).collect();
                if !jobs.is_empty() {
                    // Each launch warms up for itself.
                    comparisons.push(Comparison { baseline: Some(M::baseline().name()), rehearsals: 0, jobs });
                }
            }
        }
    }
    comparisons
}

fn job<M: Method>(task: Task, placement: Placement, carrier: Carrier) -> Job {
    let cell = Cell::new(M::NAME, carrier.name(), placement.name(), task.params(), MEGABYTES_PER_SECOND);
    Job::new(cell, move || launch(task, placement, carrier))
}

/// MB/s of one launch, or the check that it failed.
fn launch(task: Task, placement: Placement, carrier: Carrier) -> Result<Launch, String> {
    match carrier {
        Carrier::Transport(transport) => stream(crew::LIMIT, task, placement, transport),
        Carrier::MemcpyTwice => {
            let post = Post { name: "copier", cpu: placement.cpus()?[0] };
            crew::run(&[post], |_| memcpy_twice::copy(task).map(Some))
        }
    }
}

fn stream(limit: Duration, task: Task, placement: Placement, transport: &dyn Transport) -> Result<Launch, String> {
    let cpus = placement.cpus()?;
    let (sink, source) = match transport.connect_in_place(placement) {
        Some(ends) => {
            let InPlaceEnds { writer, reader } = ends?;
            (Sink::InPlace(writer), Source::InPlace(reader))
        }
        None => {
            let Ends { writer, reader } = transport.connect(placement)?;
            (Sink::Copying(writer), Source::copying(reader, task.transfer))
        }
    };
    let baton = SharedBaton::new(placement.idle()).map_err(|error| format!("no shared memory: {error}"))?;
    let posts = [Post { name: "writer", cpu: cpus[0] }, Post { name: "reader", cpu: cpus[1] }];
    crew::run_within(limit, &posts, move |index| match index {
        0 => {
            drop(source);
            passes::write(sink, baton, task).map(|()| None)
        }
        _ => {
            drop(sink);
            passes::read(source, baton, task).map(Some)
        }
    })
}

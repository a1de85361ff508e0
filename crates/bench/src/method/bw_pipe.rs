//! How many bytes a second go from one process to another.
//!
//! A writer process writes one page-aligned buffer again and again; a reader process reads in pieces of the same size.
//! Each sample has a stream and two processes of its own, so nothing that one launch was lucky or unlucky with (page
//! colours, addresses, the scheduler's history) stays for all samples. What makes a sample count is in `passes`.

use std::collections::BTreeMap;

use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::engine::crew::{self, Post};
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch};
use crate::method::Depth;
use crate::transport::{Ends, Transport, kernel_pipe, millstream, spsc_bare};

pub(super) mod baton;
mod memcpy_twice;
mod passes;

use baton::Baton;
pub use memcpy_twice::NAME as MEMCPY_TWICE;

/// The sizes of a study of Linux pipes from 2002, and 512 bytes, which is what many programs write.
pub const TRANSFERS: [usize; 11] =
    [512, 2 << 10, 4 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 64 << 10, 128 << 10];

/// The largest transfer: beyond it nothing changes but the memory that a run takes.
pub const TRANSFER_MAX: usize = 16 << 20;

/// What carries the bytes.
#[derive(Clone, Copy)]
pub enum Carrier {
    /// From one process to the other.
    Transport(&'static dyn Transport),
    /// Nowhere: the bound on one CPU.
    MemcpyTwice,
}

impl Carrier {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Carrier; 5] = [
        Carrier::Transport(&kernel_pipe::DEFAULT),
        Carrier::Transport(&kernel_pipe::ONE_MEBIBYTE),
        Carrier::Transport(&millstream::ADAPTIVE),
        Carrier::Transport(&spsc_bare::SPSC_BARE),
        Carrier::MemcpyTwice,
    ];

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
pub struct Plan {
    /// Bytes for each write and read, each 1 to [`TRANSFER_MAX`].
    pub transfers: Vec<usize>,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// Which carriers.
    pub carriers: Vec<Carrier>,
}

impl Plan {
    /// The transfers of the study are all in the full plan, so there is nothing more to be faithful to.
    pub fn of(depth: Depth) -> Plan {
        let transfers = match depth {
            Depth::Quick => vec![2 << 10, 8 << 10, 64 << 10],
            Depth::Full | Depth::SeedFaithful => TRANSFERS.to_vec(),
        };
        Plan { transfers, placements: Placement::ALL.to_vec(), carriers: Carrier::ALL.to_vec() }
    }
}

/// A comparison for each transfer and placement; none, if the plan combines nothing that can be combined.
pub fn comparisons(plan: &Plan) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for &transfer in &plan.transfers {
        for &placement in &plan.placements {
            let carriers = plan.carriers.iter().filter(|carrier| carrier.is_for(placement));
            let jobs: Vec<Job> = carriers.map(|&carrier| job(transfer, placement, carrier)).collect();
            if !jobs.is_empty() {
                // Each launch warms up for itself.
                comparisons.push(Comparison { baseline: Some(kernel_pipe::DEFAULT.name()), rehearsals: 0, jobs });
            }
        }
    }
    comparisons
}

fn job(transfer: usize, placement: Placement, carrier: Carrier) -> Job {
    let params = BTreeMap::from([("transfer", transfer.into())]);
    let cell = Cell::new("bw_pipe", carrier.name(), placement.name(), params, MEGABYTES_PER_SECOND);
    Job::new(cell, move || launch(transfer, placement, carrier))
}

/// MB/s of one launch, or the check that it failed.
fn launch(transfer: usize, placement: Placement, carrier: Carrier) -> Result<Launch, String> {
    let cpus = placement.cpus()?;
    let Carrier::Transport(transport) = carrier else {
        let post = Post { name: "copier", cpu: cpus[0] };
        return crew::run(&[post], |_| memcpy_twice::copy(transfer).map(Some));
    };
    let Ends { writer, reader } = transport.connect(placement)?;
    let baton = Baton::new(placement.idle()).map_err(|error| format!("no shared memory: {error}"))?;
    let posts = [Post { name: "writer", cpu: cpus[0] }, Post { name: "reader", cpu: cpus[1] }];
    crew::run(&posts, move |index| match index {
        0 => {
            drop(reader);
            passes::write(writer, baton, transfer).map(|()| None)
        }
        _ => {
            drop(writer);
            passes::read(reader, baton, transfer).map(Some)
        }
    })
}

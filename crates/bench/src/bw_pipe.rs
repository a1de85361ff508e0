//! How many bytes a second go from one process to another.
//!
//! A writer process writes one page-aligned buffer again and again; a reader process reads in pieces of the same size.
//! Each sample has a stream and two processes of its own, so nothing that one launch was lucky or unlucky with (page
//! colours, addresses, the scheduler's history) stays for all samples. What makes a sample count is in `passes`.

use std::collections::BTreeMap;

use crate::cell::{Cell, MEGABYTES_PER_SECOND};
use crate::crew::{self, Post};
use crate::interleave;
use crate::placement::Placement;
use crate::transport::{Ends, Transport, kernel_pipe, millstream, spsc_bare};

mod baton;
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

/// What to measure and how often.
pub struct Plan {
    /// Bytes for each write and read, each 1 to [`TRANSFER_MAX`].
    pub transfers: Vec<usize>,
    /// Which placements.
    pub placements: Vec<Placement>,
    /// Which carriers.
    pub carriers: Vec<Carrier>,
    /// Samples for each cell.
    pub rounds: usize,
}

#[derive(Clone, Copy)]
struct Combination {
    transfer: usize,
    placement: Placement,
    carrier: Carrier,
}

/// Measures. `progress` is told how many samples of how many are taken. No cells, if the plan combines nothing that can
/// be combined. What goes wrong makes its cell invalid.
pub fn measure(plan: &Plan, progress: impl FnMut(usize, usize)) -> Vec<Cell> {
    let (mut combinations, mut groups) = (Vec::new(), Vec::new());
    for &transfer in &plan.transfers {
        for &placement in &plan.placements {
            let first = combinations.len();
            let carriers = plan.carriers.iter().filter(|carrier| carrier.is_for(placement));
            combinations.extend(carriers.map(|&carrier| Combination { transfer, placement, carrier }));
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
        let params = BTreeMap::from([("transfer", self.transfer.into())]);
        Cell::new("bw_pipe", self.carrier.name(), self.placement.name(), params, MEGABYTES_PER_SECOND)
    }

    /// MB/s of one launch, or the check that it failed.
    fn sample(self) -> Result<f64, String> {
        let Combination { transfer, placement, carrier } = self;
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
}

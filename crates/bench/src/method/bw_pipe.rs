//! Bandwidth over everything there is, against the kernel's pipe.

use super::bandwidth::{self, Carrier};
use crate::method::Depth;
use crate::transport::{self, Transport, fifo, kernel_pipe, loan, millstream, spsc_bare};

pub use super::bandwidth::comparisons;

/// The sizes of a study of Linux pipes from 2002, and 512 bytes, which is what many programs write.
pub const TRANSFERS: [usize; 11] =
    [512, 2 << 10, 4 << 10, 6 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 64 << 10, 128 << 10];

/// The method.
pub struct BwPipe;

/// What it measures.
pub type Plan = bandwidth::Plan<BwPipe>;

impl bandwidth::Method for BwPipe {
    const NAME: &'static str = "bw_pipe";
    /// What the classic benchmark of pipes moves today.
    const SAMPLE_BYTES: u64 = 10 << 20;
    /// What it moved in the studies.
    const SEED_BYTES: u64 = 50_000_000;

    fn transfers(depth: Depth) -> Vec<usize> {
        match depth {
            Depth::Quick => vec![2 << 10, 8 << 10, 64 << 10],
            Depth::Full => TRANSFERS.to_vec(),
            Depth::SeedFaithful => TRANSFERS[1..].to_vec(),
        }
    }

    fn baseline() -> &'static dyn Transport {
        &kernel_pipe::DEFAULT
    }

    /// In full: without what differs from its neighbour in how it is found or how it waits, not in how it moves bytes, and
    /// without what does other work than the others where the workload is not `summed`.
    fn carriers(depth: Depth) -> Vec<Carrier> {
        let few = [kernel_pipe::DEFAULT.name(), millstream::ADAPTIVE.name(), spsc_bare::SPSC_BARE.name()];
        let apart = [fifo::FIFO.name(), fifo::OURS.name(), millstream::BLOCK.name(), loan::LOAN.name()];
        let is_chosen = |name| match depth {
            Depth::Quick | Depth::SeedFaithful => few.contains(&name),
            Depth::Full => !apart.contains(&name),
        };
        let transports = transport::ALL.into_iter().filter(|transport| is_chosen(transport.name()));
        transports.map(Carrier::Transport).chain([Carrier::MemcpyTwice]).collect()
    }
}

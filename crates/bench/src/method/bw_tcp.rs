//! Bandwidth over TCP within one machine, and how pipes compare with it; between two, see
//! [`remote`](super::bandwidth::remote).

use super::bandwidth::{self, Carrier};
use crate::method::{Depth, bw_pipe};
use crate::transport::{Transport, kernel_pipe, millstream, tcp};

pub use super::bandwidth::comparisons;

/// The method.
pub struct BwTcp;

/// What it measures.
pub type Plan = bandwidth::Plan<BwTcp>;

impl bandwidth::Method for BwTcp {
    const NAME: &'static str = "bw_tcp";
    /// What the classic benchmark of TCP moves.
    const SAMPLE_BYTES: u64 = 3_000_000;
    const SEED_BYTES: u64 = 3_000_000;

    fn transfers(depth: Depth) -> Vec<usize> {
        match depth {
            Depth::Full => bw_pipe::TRANSFERS.to_vec(),
            Depth::Quick | Depth::SeedFaithful => vec![64 << 10],
        }
    }

    fn baseline() -> &'static dyn Transport {
        &tcp::TCP
    }

    fn carriers(_: Depth) -> Vec<Carrier> {
        let all: [&'static dyn Transport; 3] = [&tcp::TCP, &kernel_pipe::DEFAULT, &millstream::ADAPTIVE];
        all.map(Carrier::Transport).to_vec()
    }
}

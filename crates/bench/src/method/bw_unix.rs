//! Bandwidth over a pair of Unix stream sockets, and how pipes compare with it.

use super::bandwidth::{self, Carrier};
use crate::method::{Depth, bw_pipe};
use crate::transport::{Transport, kernel_pipe, millstream, unix};

pub use super::bandwidth::comparisons;

/// The method.
pub struct BwUnix;

/// What it measures.
pub type Plan = bandwidth::Plan<BwUnix>;

impl bandwidth::Method for BwUnix {
    const NAME: &'static str = "bw_unix";
    const SAMPLE_BYTES: u64 = bw_pipe::BwPipe::SAMPLE_BYTES;
    const SEED_BYTES: u64 = bw_pipe::BwPipe::SEED_BYTES;

    fn transfers(depth: Depth) -> Vec<usize> {
        match depth {
            Depth::Full => bw_pipe::TRANSFERS.to_vec(),
            Depth::Quick | Depth::SeedFaithful => vec![64 << 10],
        }
    }

    fn baseline() -> &'static dyn Transport {
        &unix::UNIX
    }

    fn carriers(_: Depth) -> Vec<Carrier> {
        let all: [&'static dyn Transport; 3] = [&unix::UNIX, &kernel_pipe::DEFAULT, &millstream::ADAPTIVE];
        all.map(Carrier::Transport).to_vec()
    }
}

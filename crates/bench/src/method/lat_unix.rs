//! Round trips over pairs of Unix stream sockets, and how pipes compare with it.

use super::round_trip;
use crate::transport::{Transport, kernel_pipe, millstream, unix};

pub use super::round_trip::{Waiting, comparisons};

/// The method.
pub struct LatUnix;

/// What it measures.
pub type Plan = round_trip::Plan<LatUnix>;

impl round_trip::Method for LatUnix {
    const NAME: &'static str = "lat_unix";

    fn baseline() -> &'static dyn Transport {
        &unix::UNIX
    }

    fn transports() -> Vec<&'static dyn Transport> {
        vec![&unix::UNIX, &kernel_pipe::DEFAULT, &millstream::ADAPTIVE]
    }
}

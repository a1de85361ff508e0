//! Round trips over pipes, and over whatever else carries bytes.

use super::round_trip;
use crate::transport::{Transport, kernel_pipe, millstream, spsc_bare};

pub use super::round_trip::{Waiting, comparisons};

/// The method.
pub struct LatPipe;

/// What it measures.
pub type Plan = round_trip::Plan<LatPipe>;

impl round_trip::Method for LatPipe {
    const NAME: &'static str = "lat_pipe";

    fn baseline() -> &'static dyn Transport {
        &kernel_pipe::DEFAULT
    }

    fn transports() -> Vec<&'static dyn Transport> {
        vec![&kernel_pipe::DEFAULT, &millstream::ADAPTIVE, &millstream::BLOCK, &spsc_bare::SPSC_BARE]
    }
}

//! Round trips over a FIFO: the kernel's pipe, found by its name, and how pipes compare with it.

use super::round_trip;
use crate::transport::{Transport, fifo, kernel_pipe, millstream};

pub use super::round_trip::{Waiting, comparisons};

/// The method.
pub struct LatFifo;

/// What it measures.
pub type Plan = round_trip::Plan<LatFifo>;

impl round_trip::Method for LatFifo {
    const NAME: &'static str = "lat_fifo";

    fn baseline() -> &'static dyn Transport {
        &fifo::FIFO
    }

    fn transports() -> Vec<&'static dyn Transport> {
        vec![&fifo::FIFO, &kernel_pipe::DEFAULT, &millstream::ADAPTIVE]
    }
}

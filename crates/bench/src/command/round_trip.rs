//! `millstream bench lat_pipe`, `lat_fifo` and `lat_unix`: round trips.

use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{StreamOptions, chosen, named};
use super::outputs::Outputs;
use crate::engine::Effort;
use crate::engine::placement::Placement;
use crate::method::Depth;
use crate::method::round_trip::{self, Method, Plan, Waiting};
use crate::transport;

/// Shown below the options of `lat_pipe`.
pub(super) const PIPE_EXAMPLES: &str = "\
Examples:
  millstream bench lat_pipe
  millstream bench lat_pipe --waiting asleep --rounds 41
  millstream bench lat_pipe --transport pipe,millstream --placement 2cpu --json lat.json

Transports: pipe is the kernel's; millstream-block sleeps as soon as it has to wait; spsc-bare is a
ring in shared memory without locks, sleep or safety: the bound.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Shown below the options of `lat_fifo`.
pub(super) const FIFO_EXAMPLES: &str = "\
Examples:
  millstream bench lat_fifo
  millstream bench lat_fifo --waiting running --json fifo.json

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Shown below the options of `lat_unix`.
pub(super) const UNIX_EXAMPLES: &str = "\
Examples:
  millstream bench lat_unix
  millstream bench lat_unix --placement 2cpu --json unix.json

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of every round trip.
#[derive(Args)]
pub(super) struct Options {
    /// Whether the process that answers was still running or had gone to sleep [default: both]
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = ["running", "asleep"])]
    waiting: Vec<String>,

    /// What carries the bytes [default: what the method is about, pipe and millstream; 'all' for all there is]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = transports())]
    transport: Vec<String>,

    #[command(flatten)]
    common: StreamOptions,
}

/// The names that `--transport` takes.
fn transports() -> Vec<&'static str> {
    transport::ALL.iter().map(|transport| transport.name()).chain(["all"]).collect()
}

/// Measures.
pub(super) fn run<M: Method>(options: Options) -> Result<ExitCode, Failure> {
    let Options { waiting, transport, common } = options;
    let outputs = Outputs::open(&common.output)?;
    let mut plan = Plan::<M>::of(Depth::Full);
    plan.waitings = chosen(&Waiting::ALL, Waiting::name, &waiting);
    plan.placements = chosen(&Placement::ALL, Placement::name, &common.placement);
    plan.transports = named(plan.transports, transport::ALL, |transport| transport.name(), &transport);
    let comparisons = round_trip::comparisons(&plan);
    if comparisons.is_empty() {
        let names = transport.join(" and ");
        return Err(Failure::usage(format!(
            "{names} never sleeps, so it is measured running only; nothing was measured"
        )));
    }
    measure(comparisons, Effort::exactly(common.rounds as usize), outputs)
}

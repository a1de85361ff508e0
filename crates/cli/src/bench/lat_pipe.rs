//! `millstream bench lat_pipe`: round trips.

use std::process::ExitCode;

use clap::Args;
use millstream_bench::engine::Effort;
use millstream_bench::engine::placement::Placement;
use millstream_bench::method::lat_pipe;
use millstream_bench::report::table;

use super::options::{StreamOptions, chosen};
use super::outputs::Outputs;
use crate::failure::Failure;

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream bench lat_pipe
  millstream bench lat_pipe --waiting asleep --rounds 41
  millstream bench lat_pipe --transport pipe,millstream --placement 2cpu --json lat.json

Transports: pipe is the kernel's; millstream-block sleeps as soon as it has to wait; spsc-bare is a
ring in shared memory without locks, sleep or safety: the bound.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench lat_pipe`.
#[derive(Args)]
pub(crate) struct Options {
    /// Whether the process that answers was still running or had gone to sleep [default: both]
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = ["running", "asleep"])]
    waiting: Vec<String>,

    /// What carries the bytes [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',',
        value_parser = ["pipe", "millstream", "millstream-block", "spsc-bare"])]
    transport: Vec<String>,

    #[command(flatten)]
    common: StreamOptions,
}

/// Measures.
pub(crate) fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { waiting, transport, common } = options;
    let outputs = Outputs::open(&common.output)?;
    let comparisons = lat_pipe::comparisons(&lat_pipe::Plan {
        waitings: chosen(&lat_pipe::Waiting::ALL, lat_pipe::Waiting::name, &waiting),
        placements: chosen(&Placement::ALL, Placement::name, &common.placement),
        carriers: chosen(&lat_pipe::Carrier::ALL, lat_pipe::Carrier::name, &transport),
    });
    if comparisons.is_empty() {
        return Err(Failure::usage("spsc-bare never sleeps, so it is measured running only; nothing was measured"));
    }
    super::measure(comparisons, Effort::exactly(common.rounds as usize), outputs, table::render)
}

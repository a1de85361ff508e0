//! `millstream bench cache_to_cache`: lines that go from one CPU to another.

use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{MemoryOptions, chosen, sorted};
use super::outputs::Outputs;
use super::sizes::parse_lines;
use crate::method::Depth;
use crate::method::cache_to_cache::{self, Plan, Workload};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench cache_to_cache
  millstream bench cache_to_cache --workload read --size 16k,256k --json lines.json

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench cache_to_cache`.
#[derive(Args)]
pub(super) struct Options {
    /// One line written in turns, or reading what the other CPU has just written [default: both]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["ping_pong", "read"])]
    workload: Vec<String>,

    /// Bytes that are written before they are read, a multiple of 8, at most 64M [default: powers of two from 4k to 16m]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_lines)]
    size: Vec<usize>,

    #[command(flatten)]
    common: MemoryOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { workload, size, common } = options;
    let outputs = Outputs::open(&common.output)?;
    let mut plan = Plan::of(Depth::Full);
    plan.workloads = chosen(&Workload::ALL, Workload::name, &workload);
    if !size.is_empty() {
        plan.sizes = sorted(size);
    }
    measure(cache_to_cache::comparisons(&plan), common.effort(), outputs)
}

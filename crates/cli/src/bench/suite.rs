//! `millstream bench` by itself: every method.

use std::process::ExitCode;

use clap::Args;
use millstream_bench::method::Depth;
use millstream_bench::method::suite::{METHODS, Plan};
use millstream_bench::report::table;

use super::options::OutputOptions;
use super::outputs::Outputs;
use crate::failure::Failure;

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream bench --quick
  millstream bench --full --json all.json
  millstream bench --quick --method bw_pipe,lat_pipe

Without a command every method is measured, and what counts is shown: millstream against what it
stands in for. 'millstream bench METHOD --help' has the options of one method.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench` without a command.
#[derive(Args)]
pub(crate) struct Options {
    /// The cells that tell most, in less than three minutes; the default
    #[arg(long, conflicts_with_all = ["full", "seed_faithful"])]
    quick: bool,

    /// Every cell, in less than 25 minutes
    #[arg(long, conflicts_with = "seed_faithful")]
    full: bool,

    /// The exact parameters of the studies that made the methods known
    #[arg(long)]
    seed_faithful: bool,

    /// Only these methods [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = METHODS)]
    method: Vec<String>,

    #[command(flatten)]
    output: OutputOptions,
}

/// Measures.
pub(crate) fn run(options: Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(&options.output)?;
    let depth = match (options.full, options.seed_faithful) {
        (true, _) => Depth::Full,
        (_, true) => Depth::SeedFaithful,
        _ => Depth::Quick,
    };
    let plan = Plan { depth, methods: options.method, program: super::own_path()? };
    let parts = plan.parts().map_err(Failure::own)?;
    super::measure_and_show(parts, outputs, table::verdicts::render)
}

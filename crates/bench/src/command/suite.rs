//! `millstream bench` by itself: every method.

use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure_and_show;
use super::options::OutputOptions;
use super::outputs::Outputs;
use crate::method::Depth;
use crate::method::suite::{METHODS, Plan};
use crate::programs::Programs;
use crate::report::table;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench --quick
  millstream bench --full --json all.json
  millstream bench --quick --method bw_pipe,lat_pipe

Without a command every method is measured, and what counts is shown: millstream against what it
stands in for. 'millstream bench METHOD --help' has the options of one method.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench` without a command.
#[derive(Args)]
pub(super) struct Options {
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
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(&options.output)?;
    let depth = match (options.full, options.seed_faithful) {
        (true, _) => Depth::Full,
        (_, true) => Depth::SeedFaithful,
        _ => Depth::Quick,
    };
    let plan = Plan { depth, methods: options.method, programs: Programs::find().map_err(Failure::own)? };
    let parts = plan.parts().map_err(Failure::own)?;
    measure_and_show(parts, outputs, table::verdicts::render)
}

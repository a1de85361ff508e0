//! `millstream bench grep`: unmodified pipelines.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{OutputOptions, chosen};
use super::outputs::Outputs;
use crate::engine::Effort;
use crate::engine::placement::Placement;
use crate::method::grep::{self, Workload, corpus};
use crate::programs::Programs;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench grep
  millstream bench grep --file access.log --pattern 'no such line' --json grep.json
  millstream bench grep --placement 2cpu --workload cat-cat --pairs 101";

/// Options of `millstream bench grep`.
#[derive(Args)]
pub(super) struct Options {
    /// The text to read [default: 50 MB gathered from this machine's documentation and sources, kept in
    /// $XDG_CACHE_HOME/millstream]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// A pattern that does not occur in the text
    #[arg(long, value_name = "PATTERN", default_value = crate::method::grep::ABSENT_PATTERN)]
    pattern: String,

    /// Interleaved pairs for each row
    #[arg(long, value_name = "N", default_value_t = 41, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pairs: u32,

    /// Which pipelines [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["grep", "cat-cat", "cat-wc"])]
    workload: Vec<String>,

    /// Both stages on one CPU, or one CPU for each [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    placement: Vec<String>,

    #[command(flatten)]
    output: OutputOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(&options.output)?;
    let file = match options.file {
        Some(file) => file,
        None => corpus::text()
            .map_err(|error| Failure::own(format!("cannot gather a text to read: {error}; name one with --file")))?,
    };
    let plan = grep::Plan {
        programs: Programs::find().map_err(Failure::own)?,
        pattern: options.pattern,
        workloads: chosen(&Workload::ALL, Workload::name, &options.workload),
        placements: chosen(&Placement::ALL, Placement::name, &options.placement),
        file: file.clone(),
    };
    let comparisons = grep::comparisons(plan)
        .map_err(|error| Failure::own(format!("cannot measure over '{}': {error}", file.display())))?;
    measure(comparisons, Effort::exactly(options.pairs as usize), outputs)
}

//! `millstream bench memcpy`: what one copy moves.

use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{MemoryOptions, sorted};
use super::outputs::Outputs;
use super::sizes::parse_copy;
use crate::method::Depth;
use crate::method::memcpy::{self, Plan};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench memcpy
  millstream bench memcpy --size 64k,1m,64m --json memcpy.json

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench memcpy`.
#[derive(Args)]
pub(super) struct Options {
    /// Bytes for each copy, with K, M or G, at most 2G [default: powers of two from 512 to twice the last level of cache]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_copy)]
    size: Vec<usize>,

    #[command(flatten)]
    common: MemoryOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { size, common } = options;
    let outputs = Outputs::open(&common.output)?;
    let plan = if size.is_empty() { Plan::of(Depth::Full) } else { Plan { sizes: sorted(size) } };
    measure(memcpy::comparisons(&plan), common.effort(), outputs)
}

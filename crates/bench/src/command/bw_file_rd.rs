//! `millstream bench bw_file_rd`: reading a cached file again.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{MemoryOptions, chosen, sorted};
use super::outputs::Outputs;
use super::sizes::parse_read;
use crate::method::Depth;
use crate::method::bw_file_rd::{self, Workload};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench bw_file_rd
  millstream bench bw_file_rd --transfer 4k,64k,1m --workload io_only
  millstream bench bw_file_rd --file big.log --json file.json

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench bw_file_rd`.
#[derive(Args)]
pub(super) struct Options {
    /// The file to read, which must stay cached [default: 8 MiB made for it in $TMPDIR, without a name]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Bytes for each read, a multiple of 8, with K or M for 1024 or 1024², at most 16M [default: 4k, 64k and 1m]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_read)]
    transfer: Vec<usize>,

    /// Reading an open file, or opening, reading and closing it [default: both]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["io_only", "open2close"])]
    workload: Vec<String>,

    /// 8 MiB in pieces of 64 KiB, as the classic study did
    #[arg(long, conflicts_with_all = ["file", "transfer", "workload"])]
    seed_faithful: bool,

    #[command(flatten)]
    common: MemoryOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { file, transfer, workload, seed_faithful, common } = options;
    let outputs = Outputs::open(&common.output)?;
    let mut plan = bw_file_rd::Plan::of(if seed_faithful { Depth::SeedFaithful } else { Depth::Full });
    plan.workloads = chosen(&Workload::ALL, Workload::name, &workload);
    if !transfer.is_empty() {
        plan.transfers = sorted(transfer);
    }
    let comparisons = bw_file_rd::comparisons(&plan, file.as_deref()).map_err(Failure::own)?;
    measure(comparisons, common.effort(), outputs)
}

//! `millstream bench bw_mmap_rd`: going through a mapped file.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{MemoryOptions, chosen};
use super::outputs::Outputs;
use crate::method::Depth;
use crate::method::bw_mmap_rd::{self, Workload};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench bw_mmap_rd
  millstream bench bw_mmap_rd --file big.log --workload mmap_only --json mmap.json

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench bw_mmap_rd`.
#[derive(Args)]
pub(super) struct Options {
    /// The file to map, which must stay cached [default: 8 MiB made for it in $TMPDIR, without a name]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Going through a mapping, or opening, mapping, going through, unmapping and closing [default: both]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["mmap_only", "open2close"])]
    workload: Vec<String>,

    /// 8 MiB, as the classic study did: what is measured without options too
    #[arg(long, conflicts_with_all = ["file", "workload"])]
    seed_faithful: bool,

    #[command(flatten)]
    common: MemoryOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { file, workload, seed_faithful, common } = options;
    let outputs = Outputs::open(&common.output)?;
    let mut plan = bw_mmap_rd::Plan::of(if seed_faithful { Depth::SeedFaithful } else { Depth::Full });
    if !workload.is_empty() {
        plan.workloads = chosen(&Workload::ALL, Workload::name, &workload);
    }
    let comparisons = bw_mmap_rd::comparisons(&plan, file.as_deref()).map_err(Failure::own)?;
    measure(comparisons, common.effort(), outputs)
}

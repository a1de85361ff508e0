//! `millstream bench bw_pipe`: bandwidth.

use std::process::ExitCode;

use clap::Args;
use millstream_bench::engine::Effort;
use millstream_bench::engine::placement::Placement;
use millstream_bench::method::bw_pipe;
use millstream_bench::report::table;

use super::options::{StreamOptions, chosen};
use super::outputs::Outputs;
use crate::bytes::parse_transfer;
use crate::failure::Failure;

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream bench bw_pipe
  millstream bench bw_pipe --placement 2cpu --transfer 64k,128k --rounds 41
  millstream bench bw_pipe --transport pipe,millstream --json bw.json

Transports: pipe and pipe-1m are the kernel's, of 64 KiB and 1 MiB; spsc-bare is a ring in shared
memory without locks, sleep or safety, and memcpy-twice two copies in one process: the bounds.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench bw_pipe`.
#[derive(Args)]
pub(crate) struct Options {
    /// Bytes for each write and read, with K or M for 1024 or 1024², at most 16M [default: 512 and 2k to 128k]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_transfer)]
    transfer: Vec<usize>,

    /// What carries the bytes [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',',
        value_parser = ["pipe", "pipe-1m", "millstream", "spsc-bare", "memcpy-twice"])]
    transport: Vec<String>,

    #[command(flatten)]
    common: StreamOptions,
}

/// Measures.
pub(crate) fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { mut transfer, transport, common } = options;
    let outputs = Outputs::open(&common.output)?;
    if transfer.is_empty() {
        transfer = bw_pipe::TRANSFERS.to_vec();
    }
    transfer.sort_unstable();
    transfer.dedup();
    let comparisons = bw_pipe::comparisons(&bw_pipe::Plan {
        transfers: transfer,
        placements: chosen(&Placement::ALL, Placement::name, &common.placement),
        carriers: chosen(&bw_pipe::Carrier::ALL, bw_pipe::Carrier::name, &transport),
    });
    if comparisons.is_empty() {
        return Err(Failure::usage("memcpy-twice is one process and has no placement but 1cpu; nothing was measured"));
    }
    super::measure(comparisons, Effort::exactly(common.rounds as usize), outputs, table::render)
}

//! `millstream bench seeds`: the table of the study of 2002.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::Failure;

use super::measuring::measure_and_show;
use super::options::{StreamOptions, chosen, sorted};
use super::outputs::Outputs;
use super::pipeflex::parse_seconds;
use super::sizes::parse_transfer;
use crate::engine::Effort;
use crate::engine::placement::Placement;
use crate::method::pipeflex::{self, DEFAULT_SECONDS};
use crate::method::seeds::{self, METHODS, Plan};
use crate::method::suite::Part;
use crate::programs::Programs;
use crate::report::table;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench seeds
  millstream bench seeds --placement 2cpu --method bw_pipe --transfer 2k,64k --json seeds.json

The table has the shape of the study's Table 1, with its figures beside ours: what each way gains over
the kernel's pipe, for grep, bw_pipe and pipeflex, on two CPUs and on one.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench seeds`.
#[derive(Args)]
pub(super) struct Options {
    /// Only these parts of the table [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = METHODS)]
    method: Vec<String>,

    /// Bytes for each transfer of bw_pipe and each read of pipeflex, with K or M for 1024 or 1024² [default: 2k to 128k]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_transfer)]
    transfer: Vec<usize>,

    /// Seconds for each sample of pipeflex
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_SECONDS, value_parser = parse_seconds)]
    seconds: f64,

    /// The text that grep reads [default: as for 'bench grep']
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    common: StreamOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { method, transfer, seconds, file, common } = options;
    let outputs = Outputs::open(&common.output)?;
    let plan = Plan {
        methods: if method.is_empty() { METHODS.map(str::to_owned).to_vec() } else { method },
        transfers: if transfer.is_empty() { pipeflex::READS.to_vec() } else { sorted(transfer) },
        placements: chosen(&Placement::ALL, Placement::name, &common.placement),
        seconds,
        programs: Programs::find().map_err(Failure::own)?,
        file,
    };
    let comparisons = seeds::comparisons(&plan).map_err(Failure::own)?;
    let part = Part { comparisons, effort: Effort::exactly(common.rounds as usize) };
    measure_and_show(vec![part], outputs, table::seeds::render)
}

//! `millstream bench increment`: one added to every byte, by processes and by a network.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{OutputOptions, chosen, sorted};
use super::outputs::Outputs;
use super::sizes::parse_file_size;
use crate::engine::Effort;
use crate::engine::placement::Placement;
use crate::method::increment::{self, Plan, STAGES_MAX, Way};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench increment
  millstream bench increment --size 64M --stages 0,1,2,3,4 --json increment.json --html increment.html
  millstream bench increment --stages 8 --way pipe,millstream-net --placement 2cpu --rounds 21

Ways: pipe is a process for each stage, one that reads the file and one that adds up, and kernel pipes between them;
pipe-tight has no processes but those of the stages; millstream is pipe over the library's pipes; millstream-net-1 is a
network on one thread, millstream-net one on a thread for each CPU.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench increment`.
#[derive(Args)]
pub(super) struct Options {
    /// Bytes of the file that is read, with K, M or G, 64 to 4G
    #[arg(long, value_name = "BYTES", default_value = "512M", value_parser = parse_file_size)]
    size: usize,

    /// How many stages, 0 to 64
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "0,1,2,4,8,16",
        value_parser = clap::value_parser!(u64).range(0..=STAGES_MAX as u64))]
    stages: Vec<u64>,

    /// Processes or a network [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(Way::ALL.map(Way::name)))]
    way: Vec<String>,

    /// Everything on one CPU, or on two [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    placement: Vec<String>,

    /// Interleaved launches for each cell, each with new processes
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    rounds: u32,

    #[command(flatten)]
    output: OutputOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(&options.output)?;
    let plan = Plan {
        stages: sorted(options.stages.iter().map(|&stages| stages as usize).collect()),
        size: options.size,
        ways: chosen(&Way::ALL, Way::name, &options.way),
        placements: chosen(&Placement::ALL, Placement::name, &options.placement),
    };
    let comparisons = increment::comparisons(&plan).map_err(Failure::own)?;
    measure(comparisons, Effort::exactly(options.rounds as usize), outputs)
}

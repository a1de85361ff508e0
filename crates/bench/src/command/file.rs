//! `millstream bench file`: files through a mount.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use millstream_command::failure::{self, Failure};

use super::measuring::measure_and_show;
use super::options::{OutputOptions, chosen};
use super::outputs::Outputs;
use super::sizes::parse_file_size;
use crate::engine::Effort;
use crate::method::file::{self, Plan, Planned, Row};
use crate::method::suite::Part;
use crate::programs::Programs;
use crate::report::table;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench file
  millstream bench file --size 1G --pairs 11 --json file.json
  millstream bench file --only gunzip,zstd --size 64M

Rows: unbound and identity: a text without a view, and unchanged through the daemon, against the bare file system;
increment: 1 to 16 stages against as many processes; gunzip, zstd, zstd-write: against gzip and zstd; open: opening and closing
by number of stages; tar: many small files; archive: the members of a tar.gz file; encrypted: an age file; random: 4 KiB at
random places of gzip, bgzip and zstd files, and the memory that takes.

Beside them what people use today, where it is installed: passthrough_ll of libfuse, ratarmount, fuse-archive, squashfuse,
gocryptfs. What is not is left out and named. 'make mount-rivals' installs them and measures everything with 1 GiB.

Needs /dev/fuse. Files are made in $TMPDIR, five times the size, and removed.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench file`.
#[derive(Args)]
pub(super) struct Options {
    /// Only these rows [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(Row::ALL.map(Row::name)))]
    only: Vec<String>,

    /// Bytes of the text that is read, with K, M or G, 64 to 4G
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = parse_file_size)]
    size: usize,

    /// How many small files there are
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,

    /// Interleaved launches of each command
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pairs: u32,

    #[command(flatten)]
    output: OutputOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(&options.output)?;
    let plan = Plan {
        programs: Programs::find().map_err(Failure::own)?,
        rows: chosen(&Row::ALL, Row::name, &options.only),
        size: options.size,
        files: options.files as usize,
    };
    let Planned { comparisons, left_out } = file::comparisons(&plan).map_err(Failure::own)?;
    left_out.iter().for_each(failure::warn);
    let part = Part { comparisons, effort: Effort::exactly(options.pairs as usize) };
    measure_and_show(vec![part], outputs, table::file::render)
}

/// The hidden `millstream-bench add`.
pub(super) fn add() -> Result<ExitCode, Failure> {
    // Not those of the library, which look for the ends of lines.
    let input = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let output = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let added = input.and_then(|input| file::add(input, output?));
    added.map_err(|error| Failure::own(format!("cannot read or write: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

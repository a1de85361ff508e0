//! The one table of commands and options. Help texts come from here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};

use millstream_bench::bw_pipe::TRANSFER_MAX;

use crate::failure::Failure;

/// What the user asked for.
pub(crate) enum Action {
    /// `millstream run`
    Run(RunOptions),
    /// `millstream bench`
    Bench(BenchOptions),
    /// `--help` and `--version`
    Print(String),
}

#[derive(Parser)]
#[command(name = "millstream", version, about, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run programs over larger pipes, the programs unchanged
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunOptions),
    /// Measure pipes on this machine
    #[command(subcommand)]
    Bench(BenchOptions),
}

const RUN_EXAMPLES: &str = "\
Examples:
  millstream run -c 'zcat access.log.gz | grep ERROR | sort | uniq -c'
  millstream run -- ./nightly-backup.sh --full
  millstream run --stats -c 'cat big | grep x | wc -l'
  tar c dir | millstream run --pipe-size 1M -- zstd -o dir.tar.zst

Exit status: that of the command (128 + N if it died of signal N);
  2 wrong use, 125 millstream itself failed, 126 the command cannot be run, 127 it was not found.";

/// Options of `millstream run`.
#[derive(Args)]
pub(crate) struct RunOptions {
    /// Run SCRIPT with the shell; ARGs after it are $0, $1 and so on
    #[arg(short = 'c', value_name = "SCRIPT")]
    pub(crate) script: Option<OsString>,

    /// The shell for -c [default: $SHELL, or /bin/sh]
    #[arg(long, value_name = "SHELL", requires = "script")]
    pub(crate) shell: Option<OsString>,

    /// Bytes for each pipe, with K, M or G for 1024, 1024² or 1024³; the kernel rounds up to a power of two of pages
    /// and may grant less [default: chosen from the cache and what the user's quota allows]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) pipe_size: Option<u64>,

    /// Afterwards list every pipe of the run: who made it, its size, the bytes that were seen to pass
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    pub(crate) stats: Option<StatsFormat>,

    /// Write the statistics to FILE instead of stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,

    /// The command and its arguments; put -- before it if it has options
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// How statistics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum BenchOptions {
    /// Unmodified pipelines over a 50 MB text: kernel pipes against millstream run
    #[command(after_help = GREP_EXAMPLES)]
    Grep(GrepOptions),
    /// Bytes a second from one process to another: millstream, kernel pipes, and what the hardware allows
    #[command(name = "bw_pipe", after_help = BW_PIPE_EXAMPLES)]
    BwPipe(BwPipeOptions),
    /// Time for one byte there and back between two processes, both running or one of them asleep
    #[command(name = "lat_pipe", after_help = LAT_PIPE_EXAMPLES)]
    LatPipe(LatPipeOptions),
    /// Runs one pipeline with a CPU for each stage and tells how it went; `bench grep` runs itself this way
    #[command(hide = true)]
    Pipeline(PipelineOptions),
}

const GREP_EXAMPLES: &str = "\
Examples:
  millstream bench grep
  millstream bench grep --file access.log --pattern 'no such line' --json grep.json
  millstream bench grep --placement 2cpu --workload cat-cat --pairs 101";

/// Options of `millstream bench grep`.
#[derive(Args)]
pub(crate) struct GrepOptions {
    /// The text to read [default: 50 MB gathered from this machine's documentation and sources, kept in
    /// $XDG_CACHE_HOME/millstream]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// A pattern that does not occur in the text
    #[arg(long, value_name = "PATTERN", default_value = millstream_bench::unmodified::ABSENT_PATTERN)]
    pub(crate) pattern: String,

    /// Interleaved pairs for each row
    #[arg(long, value_name = "N", default_value_t = 41, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pub(crate) pairs: u32,

    /// Which pipelines [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["grep", "cat-cat", "cat-wc"])]
    pub(crate) workload: Vec<String>,

    /// Both stages on one CPU, or one CPU for each [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    pub(crate) placement: Vec<String>,

    /// Write every cell with its raw samples to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

const BW_PIPE_EXAMPLES: &str = "\
Examples:
  millstream bench bw_pipe
  millstream bench bw_pipe --placement 2cpu --transfer 64k,128k --rounds 41
  millstream bench bw_pipe --transport pipe,millstream --json bw.json

Transports: pipe and pipe-1m are the kernel's, of 64 KiB and 1 MiB; spsc-bare is a ring in shared
memory without locks, sleep or safety, and memcpy-twice two copies in one process: the bounds.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench bw_pipe`.
#[derive(Args)]
pub(crate) struct BwPipeOptions {
    /// Bytes for each write and read, with K or M for 1024 or 1024², at most 16M [default: 512 and 2k to 128k]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_transfer)]
    pub(crate) transfer: Vec<usize>,

    /// What carries the bytes [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',',
        value_parser = ["pipe", "pipe-1m", "millstream", "spsc-bare", "memcpy-twice"])]
    pub(crate) transport: Vec<String>,

    #[command(flatten)]
    pub(crate) common: StreamOptions,
}

const LAT_PIPE_EXAMPLES: &str = "\
Examples:
  millstream bench lat_pipe
  millstream bench lat_pipe --waiting asleep --rounds 41
  millstream bench lat_pipe --transport pipe,millstream --placement 2cpu --json lat.json

Transports: pipe is the kernel's; millstream-block sleeps as soon as it has to wait; spsc-bare is a
ring in shared memory without locks, sleep or safety: the bound.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench lat_pipe`.
#[derive(Args)]
pub(crate) struct LatPipeOptions {
    /// Whether the process that answers was still running or had gone to sleep [default: both]
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = ["running", "asleep"])]
    pub(crate) waiting: Vec<String>,

    /// What carries the bytes [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',',
        value_parser = ["pipe", "millstream", "millstream-block", "spsc-bare"])]
    pub(crate) transport: Vec<String>,

    #[command(flatten)]
    pub(crate) common: StreamOptions,
}

/// Options of every measurement between two processes.
#[derive(Args)]
pub(crate) struct StreamOptions {
    /// Both processes on one CPU, or one CPU for each [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    pub(crate) placement: Vec<String>,

    /// Interleaved samples for each cell, each from two new processes
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pub(crate) rounds: u32,

    /// Write every cell with its raw samples to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Options of the hidden `millstream bench pipeline`.
#[derive(Args)]
pub(crate) struct PipelineOptions {
    /// One CPU for each stage
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) cpus: Vec<usize>,

    /// Where the report goes
    #[arg(long)]
    pub(crate) report: PathBuf,

    /// Stages, separated by `,`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub(crate) stages: Vec<OsString>,
}

/// Reads this process's arguments.
pub(crate) fn parse() -> Result<Action, Failure> {
    match Program::try_parse() {
        Ok(Program { command: Command::Run(options) }) => Ok(Action::Run(options)),
        Ok(Program { command: Command::Bench(options) }) => Ok(Action::Bench(options)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Action::Print(error.render().to_string())),
            _ => Err(Failure::usage(one_sentence(&error))),
        },
    }
}

/// clap's message without its headings, usage and tips, which are a page; this is a line.
fn one_sentence(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "what to do is missing; see 'millstream --help'".into();
    }
    let text = error.render().to_string();
    let first_paragraph: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let message = first_paragraph.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let suggestion = match error.get(ContextKind::SuggestedArg).or_else(|| error.get(ContextKind::SuggestedSubcommand))
    {
        Some(suggested) => format!(" (did you mean '{suggested}'?)"),
        None => String::new(),
    };
    format!("{message}{suggestion}; see 'millstream --help'")
}

/// The size of a pipe.
fn parse_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes if bytes <= 1 << 31 => Ok(bytes),
        _ => Err("the kernel's limit for a pipe is 2G".into()),
    }
}

/// What one call of the benchmark moves.
fn parse_transfer(text: &str) -> Result<usize, String> {
    match usize::try_from(parse_bytes(text)?) {
        Ok(bytes) if bytes <= TRANSFER_MAX => Ok(bytes),
        _ => Err("a transfer is at most 16M".into()),
    }
}

/// A number of bytes as people write it.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| "a size is a number of bytes, or a number with K, M or G, such as 256K".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_arguments_is_consistent() {
        use clap::CommandFactory;
        Program::command().debug_assert();
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64K", 65_536),
            ("64k", 65_536),
            ("1M", 1 << 20),
            ("1MiB", 1 << 20),
            ("2G", 1 << 31),
            ("7b", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn a_transfer_is_one_byte_to_16_mebibytes() {
        assert_eq!(parse_transfer("1"), Ok(1));
        assert_eq!(parse_transfer("16M"), Ok(16 << 20));
        for text in ["0", "16385k", "17M", "4G", "x"] {
            assert!(parse_transfer(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "K",
            "0",
            "-1",
            "1.5M",
            "12x",
            "1 K",
            "K1",
            "3G",
            "99999999999999999999",
            "18446744073709551615G",
            "1é",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}

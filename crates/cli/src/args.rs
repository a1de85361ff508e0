//! The one table of commands and options. Help texts come from here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ErrorKind};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench::{bw_pipe, compare, grep, history, lat_pipe, pipeline};
use crate::bytes;
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
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_pipe_size)]
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
    #[command(after_help = grep::EXAMPLES)]
    Grep(grep::Options),
    /// Bytes a second from one process to another: millstream, kernel pipes, and what the hardware allows
    #[command(name = "bw_pipe", after_help = bw_pipe::EXAMPLES)]
    BwPipe(bw_pipe::Options),
    /// Time for one byte there and back between two processes, both running or one of them asleep
    #[command(name = "lat_pipe", after_help = lat_pipe::EXAMPLES)]
    LatPipe(lat_pipe::Options),
    /// Earlier runs, kept in the user's data directory: list them, show one, forget the oldest
    #[command(after_help = history::EXAMPLES)]
    History(history::Options),
    /// Tell whether a run is slower than another, or than the runs before it
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::Options),
    /// Runs one pipeline with a CPU for each stage and tells how it went; `bench grep` runs itself this way
    #[command(hide = true)]
    Pipeline(pipeline::Options),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_arguments_is_consistent() {
        use clap::CommandFactory;
        Program::command().debug_assert();
    }
}

//! The one table of commands and options. Help texts come from here.

mod late;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::failure::Failure;
use crate::{bench, buffer, bytes, ctl, explain, fifo, gc, manual, mount, mounts, net, ps, top};

use late::Late;

/// What the user asked for.
pub(crate) enum Action {
    /// `millstream run`
    Run(RunOptions),
    /// `millstream bench`
    Bench,
    /// `millstream ctl`
    Ctl(ctl::Options),
    /// `millstream ps`
    Ps(ps::Options),
    /// `millstream gc`
    Gc(gc::Options),
    /// `millstream fifo`
    Fifo(fifo::Options),
    /// `millstream net`
    Net(Box<net::Options>),
    /// `millstream top`
    Top(top::Options),
    /// `millstream explain`
    Explain(explain::Options),
    /// `millstream buffer`
    Buffer(Box<buffer::Options>),
    /// `millstream mount`
    Mount(Box<mount::Options>),
    /// `millstream mounts`
    Mounts(mounts::Options),
    /// `millstream link`
    Link(mounts::LinkOptions),
    /// `millstream push`
    Push(mounts::PushOptions),
    /// `millstream pop`
    Pop(mounts::PopOptions),
    /// `millstream man`
    Man(manual::Options),
    /// `millstream completions`
    Completions(manual::CompletionsOptions),
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
    Run(Late<RunOptions>),
    /// Make, open, read and write FIFOs, which any program can share
    #[command(after_help = fifo::EXAMPLES)]
    Fifo(Late<fifo::Options>),
    /// Measure pipes on this machine
    Bench(Late<bench::Options>),
    /// Show and change the settings of pipes: sizes, limits, how to wait
    #[command(after_help = ctl::EXAMPLES)]
    Ctl(Late<ctl::Options>),
    /// List the pipes that live: their ends, what waits in them, how fast they are
    #[command(after_help = ps::EXAMPLES)]
    Ps(Late<ps::Options>),
    /// Show pipelines that run, and which of their programs is the bound
    #[command(after_help = top::EXAMPLES)]
    Top(Late<top::Options>),
    /// Tell in words what a pipeline that runs does, what bounds it, and what would help
    #[command(after_help = explain::EXAMPLES)]
    Explain(Late<explain::Options>),
    /// Prove that no pipe has left anything behind
    #[command(after_help = gc::EXAMPLES)]
    Gc(Late<gc::Options>),
    /// Transform a stream: compress, filter, count and more, in one process and one buffer
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = net::EXAMPLES)]
    Net(Late<net::Options>),
    /// Take up what comes faster than it goes: a large buffer in a pipeline, with its rates
    #[command(after_help = buffer::EXAMPLES)]
    Buffer(Late<buffer::Options>),
    /// Mount a directory whose files are transformed while programs read and write them
    #[command(after_help = mount::EXAMPLES)]
    Mount(Late<mount::Options>),
    /// List what is mounted: files, bytes, hits of the cache, errors
    #[command(after_help = mounts::EXAMPLES)]
    Mounts(Late<mounts::Options>),
    /// Have a file appear under a further name, transformed, wherever its directory is mounted
    #[command(after_help = mounts::LINK_EXAMPLES)]
    Link(Late<mounts::LinkOptions>),
    /// Put a stage between a mounted file and the programs that have it open
    #[command(after_help = mounts::PUSH_EXAMPLES)]
    Push(Late<mounts::PushOptions>),
    /// Take away the stage that was pushed last
    #[command(after_help = mounts::PUSH_EXAMPLES)]
    Pop(Late<mounts::PopOptions>),
    /// Print the manual page of a command, or write all of them
    #[command(after_help = manual::EXAMPLES)]
    Man(Late<manual::Options>),
    /// Print completions for a shell
    #[command(after_help = manual::COMPLETIONS_EXAMPLES)]
    Completions(Late<manual::CompletionsOptions>),
}

const RUN_EXAMPLES: &str = "\
Examples:
  millstream run -c 'zcat access.log.gz | grep ERROR | sort | uniq -c'
  millstream run -- ./nightly-backup.sh --full
  millstream run --stats -c 'cat big | grep x | wc -l'
  millstream run --explain -c 'tar c dir | zstd -3 >dir.tar.zst'
  millstream run --progress -- ./nightly-backup.sh
  millstream run --buffer 1G -c 'zcat dump.gz | ./load'
  millstream run --unbuffered -c 'tail -f access.log | grep -v bot | cut -c 1-40'
  millstream run --stats=json --stats-file run.json -c 'cat big | wc'
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

    /// Let each pipe take up SIZE bytes (64K or more) of what comes faster than it goes, with memory that is taken as it
    /// fills and given back as it empties; says so if the kernel grants less
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_buffer,
        conflicts_with_all = ["pipe_size", "ring", "ring_after"])]
    pub(crate) buffer: Option<u64>,

    /// Move the bytes of pipes between dynamic programs through shared memory, where one program writes, one reads and no
    /// other holds the pipe (x86-64); this is the default
    #[arg(long)]
    pub(crate) ring: bool,

    /// Leave all bytes to the kernel, in larger pipes
    #[arg(long, conflicts_with_all = ["ring", "ring_after"])]
    pub(crate) no_ring: bool,

    /// Move each pipe to shared memory after SIZE bytes and not when it is worth what that costs: for tests and measurements
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse)]
    pub(crate) ring_after: Option<u64>,

    /// Have every program write each line at once, as to a terminal: programs that use the C library's stdio, Python, Perl
    /// and Ruby, and what they start
    #[arg(long)]
    pub(crate) unbuffered: bool,

    /// Afterwards list every pipe of the run: the programs that made it and were at its ends, its size, the bytes that were seen to
    /// pass, how fast, and whether it was attached
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    pub(crate) stats: Option<StatsFormat>,

    /// Write the statistics to FILE instead of stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_file: Option<PathBuf>,

    /// While it runs, show on stderr what passes through each pipe and how fast: one line that is drawn again on a terminal,
    /// else lines every second
    #[arg(long)]
    pub(crate) progress: bool,

    /// Afterwards tell on stderr what bounded the run: a program, the CPUs, something outside, or that it is unclear
    #[arg(long)]
    pub(crate) explain: bool,

    /// The command and its arguments; put -- before it if it has options
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

impl RunOptions {
    /// Bytes after which pipes are attached, 0 for when it is worth it; `None` if they never are.
    pub(crate) fn joins_after(&self) -> Option<u64> {
        (!self.no_ring).then_some(self.ring_after.unwrap_or(0))
    }
}

/// How statistics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}

/// `millstream run` without the tables of the other subcommands: building those takes longer than starting the command.
#[derive(Parser)]
struct RunAlone {
    #[command(flatten)]
    options: RunOptions,
}

/// The options of `millstream run`, if that is what is asked for and nothing is to be said about them.
fn run_alone() -> Option<RunOptions> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    arguments.next_if(|first| first == "run")?;
    RunAlone::try_parse_from(std::iter::once("run".into()).chain(arguments)).ok().map(|run| run.options)
}

/// Reads this process's arguments.
pub(crate) fn parse() -> Result<Action, Failure> {
    if let Some(options) = run_alone() {
        return Ok(Action::Run(options));
    }
    match Program::try_parse() {
        Ok(Program { command: Command::Run(options) }) => Ok(Action::Run(*options.0)),
        Ok(Program { command: Command::Fifo(options) }) => Ok(Action::Fifo(*options.0)),
        Ok(Program { command: Command::Bench(_) }) => Ok(Action::Bench),
        Ok(Program { command: Command::Ctl(options) }) => Ok(Action::Ctl(*options.0)),
        Ok(Program { command: Command::Ps(options) }) => Ok(Action::Ps(*options.0)),
        Ok(Program { command: Command::Gc(options) }) => Ok(Action::Gc(*options.0)),
        Ok(Program { command: Command::Net(options) }) => Ok(Action::Net(options.0)),
        Ok(Program { command: Command::Top(options) }) => Ok(Action::Top(*options.0)),
        Ok(Program { command: Command::Explain(options) }) => Ok(Action::Explain(*options.0)),
        Ok(Program { command: Command::Buffer(options) }) => Ok(Action::Buffer(options.0)),
        Ok(Program { command: Command::Mount(options) }) => Ok(Action::Mount(options.0)),
        Ok(Program { command: Command::Mounts(options) }) => Ok(Action::Mounts(*options.0)),
        Ok(Program { command: Command::Link(options) }) => Ok(Action::Link(*options.0)),
        Ok(Program { command: Command::Push(options) }) => Ok(Action::Push(*options.0)),
        Ok(Program { command: Command::Pop(options) }) => Ok(Action::Pop(*options.0)),
        Ok(Program { command: Command::Man(options) }) => Ok(Action::Man(*options.0)),
        Ok(Program { command: Command::Completions(options) }) => Ok(Action::Completions(*options.0)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Action::Print(error.render().to_string())),
            _ => Err(Failure::wrong_use(&error)),
        },
    }
}

/// All commands and options.
pub(crate) fn table() -> clap::Command {
    Program::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_arguments_is_consistent() {
        table().debug_assert();
    }
}

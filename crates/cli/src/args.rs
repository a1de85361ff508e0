//! The one table of commands and options. Help texts come from here.

mod late;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use crate::{bench, buffer, ctl, explain, fifo, gc, manual, mount, mounts, net, ps, run, top};
use millstream_command::failure::Failure;

use late::Late;

/// What the user asked for.
pub(crate) enum Action {
    /// `millstream run`
    Run(run::Options),
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
    #[command(after_help = run::EXAMPLES)]
    Run(Late<run::Options>),
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

/// `millstream run` without the tables of the other subcommands: building those takes longer than starting the command.
#[derive(Parser)]
struct RunAlone {
    #[command(flatten)]
    options: run::Options,
}

/// The options of `millstream run`, if that is what is asked for and nothing is to be said about them.
fn run_alone() -> Option<run::Options> {
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

//! `millstream bench`: options in, measurements run with progress shown, table, JSON and page out.
//!
//! All of it runs in `millstream-bench`, a program of its own, so that `millstream` carries neither SQLite nor the page. It
//! has the [`table`] of options, for `--help`, manual pages and completions, and becomes this program.

mod arguments;
mod bandwidth;
mod bw_file_rd;
mod bw_mmap_rd;
mod bw_tcp;
mod cache_to_cache;
mod compare;
mod corpus;
mod fifo_grid;
mod file;
mod grep;
mod history;
mod increment;
mod lat_mem_rd;
mod measuring;
mod memcpy;
mod options;
mod outputs;
mod pipeflex;
mod pipeline;
mod progress;
mod report;
mod round_trip;
mod seeds;
mod sizes;
mod suite;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Command, FromArgMatches};
use millstream_command::failure::{self, Failure};

use crate::method::bw_pipe::BwPipe;
use crate::method::bw_unix::BwUnix;
use crate::method::lat_fifo::LatFifo;
use crate::method::lat_pipe::LatPipe;
use crate::method::lat_unix::LatUnix;
use arguments::{Action, Options};

/// The file name of the program, beside that of the main one.
pub const PROGRAM: &str = "millstream-bench";

/// Adds every option and command of `millstream bench`.
pub fn table(command: Command) -> Command {
    Options::augment_args(command)
        .about("Measure pipes on this machine")
        .args_conflicts_with_subcommands(true)
        .after_help(suite::EXAMPLES)
}

/// The program: this process's arguments in, exit status out.
pub fn main() -> ExitCode {
    failure::report_bugs(|| {});
    let program =
        Command::new(PROGRAM).bin_name("millstream bench").version(env!("CARGO_PKG_VERSION")).max_term_width(100);
    let parsed = table(program).try_get_matches().and_then(|matches| Options::from_arg_matches(&matches));
    let outcome = match parsed {
        Ok(options) => run(options),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            failure::print(&error.render().to_string())
        }
        Err(error) => Err(Failure::wrong_use(&error)),
    };
    outcome.unwrap_or_else(Failure::report)
}

/// The measurement that the options ask for.
fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { command, suite } = options;
    let Some(command) = command else { return suite::run(suite) };
    match command {
        Action::Grep(options) => grep::run(options),
        Action::Increment(options) => increment::run(options),
        Action::BwPipe(options) => bandwidth::run::<BwPipe>(options),
        Action::BwUnix(options) => bandwidth::run::<BwUnix>(options),
        Action::BwTcp(options) => bw_tcp::run(options),
        Action::LatPipe(options) => round_trip::run::<LatPipe>(options),
        Action::LatFifo(options) => round_trip::run::<LatFifo>(options),
        Action::LatUnix(options) => round_trip::run::<LatUnix>(options),
        Action::Pipeline(options) => pipeline::run(options),
        Action::BwFileRd(options) => bw_file_rd::run(options),
        Action::BwMmapRd(options) => bw_mmap_rd::run(options),
        Action::LatMemRd(options) => lat_mem_rd::run(options),
        Action::Memcpy(options) => memcpy::run(options),
        Action::CacheToCache(options) => cache_to_cache::run(options),
        Action::Pipeflex(options) => pipeflex::run(options),
        Action::FifoGrid(options) => fifo_grid::run(options),
        Action::File(options) => file::run(options),
        Action::Add => file::add(),
        Action::Corpus(options) => corpus::run(options),
        Action::Seeds(options) => seeds::run(options),
        Action::Report(options) => report::run(options),
        Action::History(options) => history::run(options),
        Action::Compare(options) => compare::run(options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_arguments_is_consistent() {
        table(Command::new(PROGRAM)).debug_assert();
    }
}

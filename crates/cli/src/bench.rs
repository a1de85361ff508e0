//! `millstream bench`: its options, for help, manual pages and completions, and the program that measures. This process becomes
//! that program: SQLite and the page of results are in no other.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use millstream_bench::command::{self, PROGRAM};
use millstream_sys::Errno;
use millstream_sys::process::{self, Program};

use millstream_command::failure::Failure;

/// The options of `millstream bench`, which only the program that measures looks at.
pub(crate) struct Options;

impl Args for Options {
    fn augment_args(command: Command) -> Command {
        command::table(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command::table(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(_: &ArgMatches) -> Result<Options, Error> {
        Ok(Options)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), Error> {
        Ok(())
    }
}

/// Becomes the program, which is installed beside this one.
pub(crate) fn bench() -> Result<ExitCode, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::own(format!("cannot find its own file: {error}")))?;
    let path = own.with_file_name(PROGRAM);
    // What follows 'millstream bench'.
    let arguments = std::env::args_os().skip(2);
    let words = std::iter::once(OsString::from(&path)).chain(arguments);
    let refused = Program::new(words, process::environment()).map_or_else(|errno| errno, |program| program.exec());
    Err(match refused {
        Errno::NOENT => Failure::own(format!(
            "the program that measures is missing: there is no '{}'; install millstream with 'make install', build it with \
             'make build', or add it with 'cargo install --path crates/bench'",
            path.display()
        )),
        errno => Failure::own(format!("cannot run '{}': {errno}", path.display())),
    })
}

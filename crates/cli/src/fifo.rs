//! `millstream fifo`: making, opening, reading and writing FIFOs.

mod advice;
mod hold;
mod stat;
mod stream;

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use millstream_pipe::Fifo;

use millstream_command::failure::Failure;

use advice::cannot;

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
Examples:
  millstream fifo create --mode 0620 /run/user/1000/log
  zcat access.log.gz | millstream fifo write --stats log &
  millstream fifo read log | wc -l
  millstream fifo open log -- ./server       the FIFO stays open while the server runs
  millstream fifo rm log

A FIFO made here is one of the system's: any program can open it, at either end.

Exit status: 0, 2 for wrong use, 125 if it cannot be done; of open, that of the command.";

/// Options of `millstream fifo`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make FIFOs
    Create {
        /// Permissions in octal, less what the umask forbids
        #[arg(long, value_name = "MODE", default_value = "0666", value_parser = parse_mode)]
        mode: u32,
        /// Where
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Keep a FIFO open at both sides until killed, or while CMD runs: readers see no end between two writers
    Open(hold::Options),
    /// Remove FIFOs, and nothing else
    Rm {
        /// Which
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Say what a FIFO is, without opening it
    Stat {
        /// As JSON
        #[arg(long)]
        json: bool,
        /// Which
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
    /// Copy from a FIFO to the standard output until the last writer is gone
    Read(stream::ReadOptions),
    /// Copy from the standard input to a FIFO until the input ends
    Write(stream::WriteOptions),
}

/// Does it.
pub(crate) fn run(options: Options) -> Result<ExitCode, Failure> {
    match options.action {
        Action::Create { mode, paths } => {
            for path in paths {
                Fifo::create(&path, mode).map_err(|error| cannot("make", &path, &error))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Open(options) => hold::run(options),
        Action::Rm { paths } => {
            for path in paths {
                remove(&path)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Stat { json, path } => stat::run(&path, json),
        Action::Read(options) => stream::read(&options),
        Action::Write(options) => stream::write(&options),
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    let status = fs::symlink_metadata(path).map_err(|error| cannot("remove", path, &error))?;
    if !status.file_type().is_fifo() {
        return Err(Failure::own(format!("'{}' is no FIFO and stays; remove it with rm", path.display())));
    }
    fs::remove_file(path).map_err(|error| cannot("remove", path, &error))
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o7777 => Ok(mode),
        _ => Err("a mode is octal, 0 to 7777".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal() {
        assert_eq!(parse_mode("0640"), Ok(0o640));
        assert_eq!(parse_mode("7777"), Ok(0o7777));
        assert!(parse_mode("10000").is_err() && parse_mode("8").is_err() && parse_mode("rw").is_err());
    }
}

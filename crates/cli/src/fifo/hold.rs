//! `millstream fifo open`.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use millstream_pipe::{Fifo, FifoOptions};

use super::advice::cannot;
use millstream_command::failure::Failure;

/// Options of `millstream fifo open`.
#[derive(Args)]
pub(super) struct Options {
    /// Open it for reading, as the standard input of CMD; waits for a writer
    #[arg(long, requires = "command", conflicts_with = "write")]
    read: bool,

    /// Open it for writing, as the standard output of CMD; waits for a reader
    #[arg(long, requires = "command")]
    write: bool,

    /// Do not wait for the other side; fail if CMD is to write and the FIFO has no reader
    #[arg(long)]
    nonblock: bool,

    /// Which
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// A command and its arguments, after --
    #[arg(value_name = "CMD", last = true)]
    command: Vec<OsString>,
}

/// Becomes the command, or stays for ever.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let both = !options.read && !options.write;
    let how = FifoOptions::new()
        .read(options.read || both)
        .write(options.write || both)
        .nonblocking(options.nonblock)
        // Both sides are only to stay open beside the command; one side becomes a standard stream, which does.
        .cloexec(!both);
    let ends = Fifo::open(&options.path, &how).map_err(|error| cannot("open", &options.path, &error))?;
    let Some((name, arguments)) = options.command.split_first() else {
        loop {
            std::thread::park();
        }
    };
    let plain = |fd: std::io::Result<OwnedFd>| fd.map_err(|error| cannot("hand on", &options.path, &error));
    let mut command = Command::new(name);
    command.args(arguments);
    match (ends.reader, ends.writer) {
        (Some(reader), None) => {
            _ = command.stdin(Stdio::from(plain(reader.set_nonblocking(false).and_then(|()| reader.into_fd()))?))
        }
        (None, Some(writer)) => {
            _ = command.stdout(Stdio::from(plain(writer.set_nonblocking(false).and_then(|()| writer.into_fd()))?))
        }
        (reader, writer) => {
            // Not dropped before the exec, which keeps their descriptors.
            let error = command.exec();
            drop((reader, writer));
            return Err(failed(name, &error));
        }
    }
    Err(failed(name, &command.exec()))
}

fn failed(name: &OsString, error: &std::io::Error) -> Failure {
    let sentence = format!("cannot run '{}': {error}", name.to_string_lossy());
    match error.kind() {
        std::io::ErrorKind::NotFound => Failure::not_found(sentence),
        _ => Failure::cannot_run(sentence),
    }
}

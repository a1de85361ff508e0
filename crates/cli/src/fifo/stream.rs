//! `millstream fifo read` and `millstream fifo write`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use millstream_pipe::{Fifo, FifoOptions, Statistics};
use serde::Serialize;

use super::advice::cannot;
use crate::statistics::StatsFormat;
use millstream_command::failure::{Failure, warn};

/// Bytes that are moved at once.
const PIECE: usize = 128 << 10;

/// Options of `millstream fifo read`.
#[derive(Args)]
pub(super) struct ReadOptions {
    /// Go on when the last writer is gone, until killed: opens the FIFO at both sides, for which it takes the permission to
    /// write
    #[arg(long)]
    follow: bool,

    /// Do not wait for a first writer: end at once if there is none
    #[arg(long, conflicts_with = "follow")]
    nonblock: bool,

    /// Read through the kernel alone, and never ahead: without it up to a FIFO full may come through shared memory
    /// and be in this program's hands before it is read, where writers of millstream are
    #[arg(long)]
    no_ring: bool,

    /// Afterwards say on stderr how the bytes came
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    stats: Option<StatsFormat>,

    /// Which
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// Options of `millstream fifo write`.
#[derive(Args)]
pub(super) struct WriteOptions {
    /// Do not wait for a first reader: fail if there is none
    #[arg(long)]
    nonblock: bool,

    /// Write through the kernel alone: without it shared memory carries the bytes to a reader of millstream
    #[arg(long)]
    no_ring: bool,

    /// Afterwards say on stderr how the bytes went
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "table")]
    stats: Option<StatsFormat>,

    /// Which
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

/// Copies from the FIFO.
pub(super) fn read(options: &ReadOptions) -> Result<ExitCode, Failure> {
    let mut output = standard(io::stdout().as_fd())?;
    let mut piece = vec![0; PIECE];
    let how = FifoOptions::new().read(true).write(options.follow).nonblocking(options.nonblock).ring(!options.no_ring);
    let ends = Fifo::open(&options.path, &how).map_err(|error| cannot("open", &options.path, &error))?;
    let mut reader = ends.reader.expect("reading was asked for");
    // Opening may go on at once; reading waits as ever.
    reader.set_nonblocking(false).map_err(|error| cannot("read", &options.path, &error))?;
    loop {
        let count = reader.read(&mut piece).map_err(|error| cannot("read", &options.path, &error))?;
        let written = output.write_all(&piece[..count]);
        // The reader of our output may have had enough, which is no failure.
        let is_refused = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if count == 0 || is_refused {
            report(options.stats, &options.path, "read", reader.statistics());
            return Ok(ExitCode::SUCCESS);
        }
        written.map_err(|error| Failure::own(format!("cannot write to the standard output: {error}")))?;
    }
}

/// Copies to the FIFO.
pub(super) fn write(options: &WriteOptions) -> Result<ExitCode, Failure> {
    let mut input = standard(io::stdin().as_fd())?;
    let opened = FifoOptions::new().nonblocking(options.nonblock).ring(!options.no_ring).open_writer(&options.path);
    let mut writer = opened.map_err(|error| cannot("open", &options.path, &error))?;
    writer.set_nonblocking(false).map_err(|error| cannot("write", &options.path, &error))?;
    let mut piece = vec![0; PIECE];
    loop {
        let count = match input.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => return Err(Failure::own(format!("cannot read the standard input: {error}"))),
        };
        match writer.write_all(&piece[..count]) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                let bytes = writer.statistics().bytes;
                let path = options.path.display();
                return Err(Failure::own(format!("'{path}' has no reader any longer; {bytes} bytes were written")));
            }
            outcome => outcome.map_err(|error| cannot("write", &options.path, &error))?,
        }
    }
    let statistics = writer.statistics();
    writer.close().map_err(|error| cannot("write", &options.path, &error))?;
    report(options.stats, &options.path, "written", statistics);
    Ok(ExitCode::SUCCESS)
}

/// Without the buffer that the standard library puts around it.
fn standard(fd: std::os::fd::BorrowedFd<'_>) -> Result<File, Failure> {
    let copy = fd.try_clone_to_owned();
    Ok(File::from(copy.map_err(|error| Failure::own(format!("a standard stream is closed: {error}")))?))
}

/// What one end did.
#[derive(Serialize)]
struct Report<'a> {
    path: &'a str,
    side: &'a str,
    bytes: u64,
    bytes_through_kernel: u64,
    transfers: u64,
    spins: u64,
    yields: u64,
    gathered: u64,
    sleeps: u64,
    wakes: u64,
}

fn report(format: Option<StatsFormat>, path: &Path, side: &str, statistics: Statistics) {
    let Some(format) = format else { return };
    let Statistics { bytes, bytes_through_kernel, transfers, spins, yields, gathered, sleeps, wakes, .. } = statistics;
    // What is no UTF-8 is shown with signs in its place.
    let path = &*path.to_string_lossy();
    let report = Report { path, side, bytes, bytes_through_kernel, transfers, spins, yields, gathered, sleeps, wakes };
    let text = match format {
        StatsFormat::Json => serde_json::to_string(&report).expect("numbers and strings"),
        StatsFormat::Table => format!(
            "{bytes} bytes {side} in {transfers} transfers, {bytes_through_kernel} of them through the kernel; \
             {sleeps} sleeps, {wakes} wakes"
        ),
    };
    match format {
        StatsFormat::Json => drop(writeln!(io::stderr(), "{text}")),
        StatsFormat::Table => warn(text),
    }
}

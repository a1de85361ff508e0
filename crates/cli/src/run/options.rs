//! The options of `millstream run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::bytes;
use crate::statistics::StatsFormat;

/// Shown below the options.
pub(crate) const EXAMPLES: &str = "\
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
pub(crate) struct Options {
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

impl Options {
    /// Bytes after which pipes are attached, 0 for when it is worth it; `None` if they never are.
    pub(crate) fn joins_after(&self) -> Option<u64> {
        (!self.no_ring).then_some(self.ring_after.unwrap_or(0))
    }
}

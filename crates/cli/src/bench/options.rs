//! Options that several measurements have.

use std::path::PathBuf;

use clap::Args;

/// Options of every measurement between two processes.
#[derive(Args)]
pub(crate) struct StreamOptions {
    /// Both processes on one CPU, or one CPU for each [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    pub(crate) placement: Vec<String>,

    /// Interleaved samples for each cell, each from two new processes
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pub(crate) rounds: u32,

    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// Where the results go besides the table.
#[derive(Args, Clone)]
pub(crate) struct OutputOptions {
    /// Write every cell with its raw samples to FILE; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write a row for each cell to FILE; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Do not keep the run for 'bench history' and 'bench compare'
    #[arg(long)]
    pub(crate) no_history: bool,
}

/// Those of `all` that are named, or all if none is.
pub(super) fn chosen<T: Copy>(all: &[T], name: fn(T) -> &'static str, names: &[String]) -> Vec<T> {
    all.iter().copied().filter(|&item| names.is_empty() || names.iter().any(|chosen| chosen == name(item))).collect()
}

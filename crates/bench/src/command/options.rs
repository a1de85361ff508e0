//! Options that several measurements have.

use std::path::PathBuf;

use clap::Args;

use crate::engine::Effort;

/// Options of every measurement between two processes.
#[derive(Args)]
pub(super) struct StreamOptions {
    /// Both processes on one CPU, or one CPU for each [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    pub(super) placement: Vec<String>,

    /// Interleaved samples for each cell, each from two new processes
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pub(super) rounds: u32,

    #[command(flatten)]
    pub(super) output: OutputOptions,
}

/// Options of every measurement without a stream.
#[derive(Args)]
pub(super) struct MemoryOptions {
    /// Interleaved samples for each cell, each from a new process
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pub(super) rounds: u32,

    #[command(flatten)]
    pub(super) output: OutputOptions,
}

impl MemoryOptions {
    /// So many launches.
    pub(super) fn effort(&self) -> Effort {
        Effort::exactly(self.rounds as usize)
    }
}

/// Where the results go besides the table.
#[derive(Args, Clone, Default)]
pub(super) struct OutputOptions {
    /// Write every cell with its raw samples to FILE; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// Draw the results as one page that needs no network
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Write a row for each cell to FILE; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,

    /// Do not keep the run for 'bench history' and 'bench compare'
    #[arg(long)]
    pub(super) no_history: bool,
}

/// Those of `all` that are named, or all if none is.
pub(super) fn chosen<T: Copy>(all: &[T], name: fn(T) -> &'static str, names: &[String]) -> Vec<T> {
    all.iter().copied().filter(|&item| names.is_empty() || names.iter().any(|chosen| chosen == name(item))).collect()
}

/// Those of `all` that are named, all of them for the name `all`, or `usual` if none is named.
pub(super) fn named<T: Copy>(
    usual: Vec<T>,
    all: impl IntoIterator<Item = T>,
    name: fn(T) -> &'static str,
    names: &[String],
) -> Vec<T> {
    let is_wanted = |item: &T| names.iter().any(|chosen| chosen == "all" || chosen == name(*item));
    if names.is_empty() { usual } else { all.into_iter().filter(is_wanted).collect() }
}

/// In order, each once.
pub(super) fn sorted(mut sizes: Vec<usize>) -> Vec<usize> {
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

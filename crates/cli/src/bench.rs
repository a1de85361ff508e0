//! `millstream bench`: options in, measurements run with progress shown, table, JSON and page out.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use millstream_bench::cell::Document;
use millstream_bench::engine::{self, Comparison, Effort};
use millstream_bench::method::bw_pipe::BwPipe;
use millstream_bench::method::bw_unix::BwUnix;
use millstream_bench::method::lat_fifo::LatFifo;
use millstream_bench::method::lat_pipe::LatPipe;
use millstream_bench::method::lat_unix::LatUnix;
use millstream_bench::method::suite::Part;
use millstream_bench::report::table;

use crate::args::{BenchCommand, BenchOptions};
use crate::failure::{self, Failure};
use crate::progress::Progress;

pub(crate) mod bandwidth;
pub(crate) mod bw_file_rd;
pub(crate) mod bw_mmap_rd;
pub(crate) mod bw_tcp;
pub(crate) mod cache_to_cache;
pub(crate) mod compare;
pub(crate) mod corpus;
pub(crate) mod fifo_grid;
pub(crate) mod file;
pub(crate) mod grep;
pub(crate) mod history;
pub(crate) mod increment;
pub(crate) mod lat_mem_rd;
pub(crate) mod memcpy;
mod options;
mod outputs;
pub(crate) mod pipeflex;
pub(crate) mod pipeline;
pub(crate) mod report;
pub(crate) mod round_trip;
pub(crate) mod seeds;
pub(crate) mod suite;

use outputs::Outputs;

/// Some cell failed its checks, so the comparison cannot be trusted.
const INVALID: u8 = 3;

/// The measurement that the options ask for.
pub(crate) fn bench(options: BenchOptions) -> Result<ExitCode, Failure> {
    let BenchOptions { command, suite } = options;
    let Some(command) = command else { return suite::run(suite) };
    match command {
        BenchCommand::Grep(options) => grep::run(options),
        BenchCommand::Increment(options) => increment::run(options),
        BenchCommand::BwPipe(options) => bandwidth::run::<BwPipe>(options),
        BenchCommand::BwUnix(options) => bandwidth::run::<BwUnix>(options),
        BenchCommand::BwTcp(options) => bw_tcp::run(options),
        BenchCommand::LatPipe(options) => round_trip::run::<LatPipe>(options),
        BenchCommand::LatFifo(options) => round_trip::run::<LatFifo>(options),
        BenchCommand::LatUnix(options) => round_trip::run::<LatUnix>(options),
        BenchCommand::Pipeline(options) => pipeline::run(options),
        BenchCommand::BwFileRd(options) => bw_file_rd::run(options),
        BenchCommand::BwMmapRd(options) => bw_mmap_rd::run(options),
        BenchCommand::LatMemRd(options) => lat_mem_rd::run(options),
        BenchCommand::Memcpy(options) => memcpy::run(options),
        BenchCommand::CacheToCache(options) => cache_to_cache::run(options),
        BenchCommand::Pipeflex(options) => pipeflex::run(options),
        BenchCommand::FifoGrid(options) => fifo_grid::run(options),
        BenchCommand::File(options) => file::run(options),
        BenchCommand::Add => file::add(),
        BenchCommand::Corpus(options) => corpus::run(options),
        BenchCommand::Seeds(options) => seeds::run(options),
        BenchCommand::Report(options) => report::run(options),
        BenchCommand::History(options) => history::run(options),
        BenchCommand::Compare(options) => compare::run(options),
    }
}

/// Measures with progress shown, then shows and writes the results.
fn measure(comparisons: Vec<Comparison>, effort: Effort, outputs: Outputs) -> Result<ExitCode, Failure> {
    measure_and_show(vec![Part { comparisons, effort }], outputs, table::render)
}

/// As [`measure`], and shows the results in a certain way.
fn measure_and_show(parts: Vec<Part>, outputs: Outputs, render: fn(&Document) -> String) -> Result<ExitCode, Failure> {
    let command = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let start = Instant::now();
    let mut cells = Vec::new();
    for Part { comparisons, effort } in parts {
        let mut progress = Progress::new();
        cells.extend(engine::measure(comparisons, &effort, |now| progress.update(now)));
    }
    let document = Document::new(cells, command, began, start.elapsed().as_secs_f64());
    let is_table_shown = !outputs.takes_stdout();
    outputs.write(&document)?;
    if is_table_shown {
        failure::print(&render(&document))?;
    }
    let all_valid = document.cells.iter().all(|cell| cell.valid);
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

/// The program as users start it, which some methods start again: the small one, if that stands where it is installed.
fn own_path() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::own(format!("cannot find its own file: {error}")))?;
    let beside_lib =
        own.parent().filter(|directory| directory.ends_with("lib/millstream")).and_then(|at| at.ancestors().nth(2));
    let candidates = beside_lib.map(|prefix| [prefix.join("bin/millstream"), prefix.join("millstream")]);
    Ok(candidates.into_iter().flatten().find(|path| path.is_file()).unwrap_or(own))
}

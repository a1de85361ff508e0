//! `millstream bench`: options in, measurements run with progress shown, table and JSON out.

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use millstream_bench::cell::Document;
use millstream_bench::engine::{self, Comparison, Effort};
use millstream_bench::report::table;

use crate::args::BenchOptions;
use crate::failure::{self, Failure};
use crate::progress::Progress;

pub(crate) mod bw_pipe;
pub(crate) mod compare;
pub(crate) mod grep;
pub(crate) mod history;
pub(crate) mod lat_pipe;
mod options;
mod outputs;
pub(crate) mod pipeline;

use outputs::Outputs;

/// Some cell failed its checks, so the comparison cannot be trusted.
const INVALID: u8 = 3;

/// The measurement that the options ask for.
pub(crate) fn bench(options: BenchOptions) -> Result<ExitCode, Failure> {
    match options {
        BenchOptions::Grep(options) => grep::run(options),
        BenchOptions::BwPipe(options) => bw_pipe::run(options),
        BenchOptions::LatPipe(options) => lat_pipe::run(options),
        BenchOptions::History(options) => history::run(options),
        BenchOptions::Compare(options) => compare::run(options),
        BenchOptions::Pipeline(options) => pipeline::run(options),
    }
}

/// Measures with progress shown, then shows and writes the results.
fn measure(comparisons: Vec<Comparison>, effort: Effort, outputs: Outputs) -> Result<ExitCode, Failure> {
    let command = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let start = Instant::now();
    let mut progress = Progress::new();
    let cells = engine::measure(comparisons, &effort, |now| progress.update(now));
    drop(progress);
    let document = Document::new(cells, command, began, start.elapsed().as_secs_f64());
    let is_table_shown = !outputs.takes_stdout();
    outputs.write(&document)?;
    if is_table_shown {
        failure::print(&table::render(&document))?;
    }
    let all_valid = document.cells.iter().all(|cell| cell.valid);
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

//! Measures with progress shown, then shows and writes the results.

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use millstream_command::failure::{self, Failure};

use super::outputs::Outputs;
use super::progress::Progress;
use crate::cell::Document;
use crate::engine::{self, Comparison, Effort};
use crate::method::suite::Part;
use crate::report::table;

/// Some cell failed its checks, so the comparison cannot be trusted.
pub(super) const INVALID: u8 = 3;

/// Measures, and shows a table of the method.
pub(super) fn measure(comparisons: Vec<Comparison>, effort: Effort, outputs: Outputs) -> Result<ExitCode, Failure> {
    measure_and_show(vec![Part { comparisons, effort }], outputs, table::render)
}

/// As [`measure`], and shows the results in a certain way.
pub(super) fn measure_and_show(
    parts: Vec<Part>,
    outputs: Outputs,
    render: fn(&Document) -> String,
) -> Result<ExitCode, Failure> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let start = Instant::now();
    let mut cells = Vec::new();
    for Part { comparisons, effort } in parts {
        let mut progress = Progress::new();
        cells.extend(engine::measure(comparisons, &effort, |now| progress.update(now)));
    }
    let document = Document::new(cells, command(), began, start.elapsed().as_secs_f64());
    let is_table_shown = !outputs.takes_stdout();
    outputs.write(&document)?;
    if is_table_shown {
        failure::print(&render(&document))?;
    }
    let all_valid = document.cells.iter().all(|cell| cell.valid);
    Ok(if all_valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

/// What a user types to measure it again: not the name of this program.
fn command() -> Vec<String> {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned());
    ["millstream".to_owned(), "bench".to_owned()].into_iter().chain(arguments).collect()
}

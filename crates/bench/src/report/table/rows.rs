//! Tables with a row for each value of a parameter, and a column for each transport.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use crate::cell::Cell;

/// What tells the methods apart.
pub(super) struct Shape {
    pub(super) title: &'static str,
    pub(super) parameter: &'static str,
    pub(super) figure: fn(f64) -> String,
    pub(super) baseline: &'static str,
    /// What no pipe can beat, on two CPUs and on one, where that is measured.
    pub(super) bounds: Option<[&'static str; 2]>,
    pub(super) sample: &'static str,
}

/// Transports and values of the parameter, in the order in which they first occur.
pub(super) fn axes<'a>(cells: &[&'a Cell], shape: &Shape) -> (Vec<&'a str>, Vec<&'a Value>) {
    let (mut transports, mut rows) = (Vec::new(), Vec::new());
    for cell in cells {
        if !transports.contains(&&*cell.transport) {
            transports.push(&*cell.transport);
        }
        if let Some(value) = cell.params.get(shape.parameter).filter(|value| !rows.contains(value)) {
            rows.push(value);
        }
    }
    (transports, rows)
}

/// A table whose columns, but for the first, hold numbers.
pub(crate) fn new_table(header: Vec<String>) -> Table {
    let columns = header.len();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A number of bytes as it is given to `--transfer`, or a word.
pub(super) fn label(value: &Value) -> String {
    match (value.as_u64(), value.as_str()) {
        (Some(bytes), _) if bytes % (1 << 20) == 0 => format!("{}m", bytes >> 20),
        (Some(bytes), _) if bytes % (1 << 10) == 0 => format!("{}k", bytes >> 10),
        (Some(bytes), _) => bytes.to_string(),
        (None, word) => word.unwrap_or_default().to_owned(),
    }
}

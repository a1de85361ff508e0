//! The tables of methods that compare nothing: a row for each cell, with its interval, and with the average that studies
//! gave before medians were usual.

use std::fmt::Write;

use serde_json::Value;

use comfy_table::{CellAlignment, Table, presets};

use super::labels::{invalid_cells, on_machine, size_label};
use crate::cell::{Cell, Document};

/// What tells the methods apart.
pub(super) struct Shape {
    title: &'static str,
    /// Parameters that are shown, in this order.
    parameters: &'static [&'static str],
}

/// That of a method.
pub(super) fn shape(method: &str) -> Option<&'static Shape> {
    Some(match method {
        "bw_file_rd" => &Shape { title: "Reading a cached file again", parameters: &["workload", "size", "transfer"] },
        "bw_mmap_rd" => &Shape { title: "Going through a mapped, cached file", parameters: &["workload", "size"] },
        "memcpy" => &Shape { title: "One copy on one CPU, each byte counted once", parameters: &["size"] },
        "cache_to_cache" => &Shape {
            title: "Lines from one CPU to another: ping_pong for one line one way, read for what was just written",
            parameters: &["workload", "size"],
        },
        _ => return None,
    })
}

/// One table.
pub(super) fn render(document: &Document, cells: &[&Cell], shape: &Shape) -> String {
    let mut text = format!("{}\n{}\n\n", shape.title, table(cells, shape));
    let launches = cells.iter().map(|cell| cell.n).max().unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "Medians of {launches} launches, MB = 10^6 bytes, {}.", on_machine(&document.machine));
    text += &invalid_cells(cells, |cell| {
        let values = shape.parameters.iter().filter_map(|name| cell.params.get(*name)).map(label);
        std::iter::once(cell.method.to_string()).chain(values).collect::<Vec<_>>().join(" ")
    });
    text
}

fn table(cells: &[&Cell], shape: &Shape) -> Table {
    let mut header: Vec<&str> = shape.parameters.to_vec();
    header.extend(["median", "95 % interval", "average", "unit"]);
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(&header);
    for cell in cells {
        let mut row: Vec<String> =
            shape.parameters.iter().map(|name| cell.params.get(*name).map_or("-".into(), label)).collect();
        let interval = cell.ci95.map(|[low, high]| format!("{} .. {}", figure(low), figure(high)));
        let shown = [cell.median.map(figure), interval, average(cell).map(figure), Some(cell.unit.to_string())];
        row.extend(shown.map(|shown| shown.unwrap_or_else(|| "-".into())));
        table.add_row(row);
    }
    for index in shape.parameters.len()..header.len() - 1 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Of all samples of a cell that is valid.
pub(super) fn average(cell: &Cell) -> Option<f64> {
    cell.median.map(|_| cell.samples.iter().sum::<f64>() / cell.samples.len() as f64)
}

/// Four digits or so.
pub(super) fn figure(value: f64) -> String {
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$}")
}

fn label(value: &Value) -> String {
    value.as_u64().map_or_else(|| value.as_str().unwrap_or_default().to_owned(), size_label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::made::{of_samples, rendered};
    use std::collections::BTreeMap;

    fn cell(workload: &'static str, samples: &[f64], why_invalid: Option<&str>) -> Cell {
        let params =
            BTreeMap::from([("workload", workload.into()), ("size", (8 << 20).into()), ("transfer", 65536.into())]);
        of_samples(Cell::new("bw_file_rd", "file", "1cpu", params, "MB/s"), samples, why_invalid)
    }

    #[test]
    fn the_average_stands_beside_the_median() {
        let cells =
            vec![cell("io_only", &[1000.0, 1000.0, 1600.0], None), cell("open2close", &[9.0], Some("not cached"))];
        let text = rendered(cells);
        let words = |line: usize| text.lines().nth(line).unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(
            words(2),
            ["io_only", "8m", "64k", "1000", "1000", "..", "1600", "1200", "MB/s"].map(ToOwned::to_owned)
        );
        assert_eq!(words(3), ["open2close", "8m", "64k", "-", "-", "-", "MB/s"].map(ToOwned::to_owned));
        assert!(text.contains("not valid: bw_file_rd open2close 8m 64k over file at 1cpu: not cached"), "{text}");
    }

    #[test]
    fn figures_have_about_four_digits() {
        assert_eq!([1.784, 12.34, 123.4].map(figure), ["1.78", "12.3", "123"]);
    }
}

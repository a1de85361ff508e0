//! The table of `bench grep`, in the shape that such results have been shown in since the pipe patches of 2002.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::labels::{invalid_cells, on_machine};
use crate::cell::{Cell, Document};
use crate::engine::placement::Placement;
use crate::method::grep::Workload;
use crate::report::earlier;

/// A row for each pipeline and placement, then what could not be measured and why.
pub(super) fn render(document: &Document, cells: &[&Cell]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "pipeline",
        "CPUs",
        "kernel pipe",
        "millstream",
        "improvement",
        "95 % interval",
        "grep FILE",
        "LP",
        "ZC",
        "LP+ZC",
    ]);
    for workload in Workload::ALL {
        for placement in Placement::ALL {
            if let Some(row) = row(cells, workload.name(), placement.name()) {
                table.add_row(row);
            }
        }
    }
    for index in 1..10 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{table}\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\nMedians in ms of whole commands over {}, {} runs each, {}.",
        cells.first().and_then(|cell| cell.params.get("size")).map_or("no text".into(), megabytes),
        cells.iter().map(|cell| cell.n).max().unwrap_or(0),
        on_machine(&document.machine),
    );
    text += "LP, ZC, LP+ZC: the larger-pipe, single-copy and combined kernel patches of 2002, each in % over its own\n\
             kernel, on other hardware.\n";
    text + &invalid_cells(cells, |cell| workload_of(cell).to_owned())
}

fn row(cells: &[&Cell], workload: &str, placement: &str) -> Option<Vec<String>> {
    let find = |transport| {
        cells
            .iter()
            .copied()
            .find(|cell| workload_of(cell) == workload && cell.placement == placement && cell.transport == transport)
    };
    let (pipe, millstream) = (find("pipe")?, find("millstream")?);
    let mut row = vec![
        title(workload).to_owned(),
        placement.trim_end_matches("cpu").to_owned(),
        milliseconds(Some(pipe)),
        milliseconds(Some(millstream)),
        millstream.ratio.map_or("-".into(), percent),
        millstream.ratio_ci95.map_or("-".into(), |[low, high]| format!("{} .. {}", percent(low), percent(high))),
        milliseconds(find("file")),
    ];
    row.extend(
        earlier::grep(workload, placement).map(|figure| figure.map_or("-".into(), |figure| format!("{figure:+} %"))),
    );
    Some(row)
}

fn title(workload: &str) -> &str {
    match workload {
        "grep" => "cat FILE | grep ABSENT",
        "cat-cat" => "cat FILE | cat >/dev/null",
        "cat-wc" => "cat FILE | wc -c",
        other => other,
    }
}

fn workload_of(cell: &Cell) -> &str {
    cell.params.get("workload").and_then(serde_json::Value::as_str).unwrap_or("")
}

fn milliseconds(cell: Option<&Cell>) -> String {
    cell.and_then(|cell| cell.median).map_or("-".into(), |median| format!("{median:.1}"))
}

fn percent(ratio: f64) -> String {
    format!("{:+.0} %", (ratio - 1.0) * 100.0)
}

fn megabytes(bytes: &serde_json::Value) -> String {
    format!("{:.0} MB", bytes.as_f64().unwrap_or(0.0) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::made::{compared as rendered, of_samples};
    use std::collections::BTreeMap;

    fn cell(workload: &str, transport: &'static str, placement: &'static str, samples: &[f64]) -> Cell {
        let params = BTreeMap::from([("workload", workload.into()), ("size", 50_000_000.into())]);
        let why_invalid = samples.is_empty().then_some("stage 2 ran on CPU 0 instead of 1");
        of_samples(Cell::new("grep", transport, placement, params, "ms"), samples, why_invalid)
    }

    #[test]
    fn a_row_shows_both_times_the_improvement_and_the_old_figures() {
        let text = rendered(vec![
            cell("grep", "pipe", "2cpu", &[40.0, 40.0, 40.0]),
            cell("grep", "millstream", "2cpu", &[20.0, 20.0, 20.0]),
            cell("grep", "file", "2cpu", &[10.0, 10.0, 10.0]),
        ]);
        let row = text.lines().find(|line| line.contains("grep ABSENT")).unwrap();
        for part in ["40.0", "20.0", "+100 %", "10.0", "+165 %", "+40 %", "+203 %"] {
            assert!(row.contains(part), "{part} in {row}");
        }
    }

    #[test]
    fn an_invalid_cell_shows_why_and_no_number() {
        let text = rendered(vec![cell("cat-cat", "pipe", "2cpu", &[40.0]), cell("cat-cat", "millstream", "2cpu", &[])]);
        assert!(
            text.contains("not valid: cat-cat over millstream at 2cpu: stage 2 ran on CPU 0 instead of 1"),
            "{text}"
        );
        assert!(!text.contains('%') || !text.lines().nth(1).unwrap().contains('%'), "{text}");
    }
}

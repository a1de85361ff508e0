//! The table of `bench lat_mem_rd`: a row for each size and a column for each way to walk, so that each level of cache is a
//! step down the column.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::figures::{average, figure};
use super::labels::{invalid_cells, on_machine, size_label};
use crate::cell::{Cell, Document};

/// What the study that made the method known gives for main memory was measured with this stride.
const STUDY_STRIDE: u64 = 8192;

/// One table; where the study's own parameters were asked for a second one with its averages.
pub(super) fn render(document: &Document, cells: &[&Cell]) -> String {
    let mut text = format!("ns for a load\n{}\n\n", table(cells, |cell| cell.median));
    // Writing to a string cannot fail.
    if cells.iter().any(|cell| cell.params.contains_key("summary")) {
        let _ = writeln!(text, "ns for a load, averages as in the study\n{}\n", table(cells, average));
        text += &table_11(document, cells);
    }
    let launches = cells.iter().map(|cell| cell.n).max().unwrap_or(0);
    let _ = writeln!(text, "Medians of {launches} launches, 1000000 loads each, {}.", on_machine(&document.machine));
    text += "Columns: pattern/stride/pages, in bytes. tlb loads one line of each page.\n";
    text += &invalid_cells(cells, |cell| format!("{} {} {}", cell.method, column(cell), size_label(size(cell))));
    text
}

/// The study's figure for main memory, which was the largest size at a stride of 8192 bytes.
fn table_11(document: &Document, cells: &[&Cell]) -> String {
    let of_stride = cells.iter().filter(|cell| number(cell, "stride") == STUDY_STRIDE);
    let Some(cell) = of_stride.max_by_key(|cell| size(cell)) else { return String::new() };
    let shown = [cell.median, average(cell)].map(|value| value.map_or("-".into(), figure));
    let caches = document.machine.last_level_cache();
    let where_it_is = if size(cell) <= caches { "which fits into the caches here" } else { "beyond the caches here" };
    format!(
        "Stride {STUDY_STRIDE} bytes, {}, {where_it_is}: median {} ns, average {} ns.\n",
        size_label(size(cell)),
        shown[0],
        shown[1]
    )
}

fn table(cells: &[&Cell], value: impl Fn(&Cell) -> Option<f64>) -> Table {
    let mut columns: Vec<((usize, u64, u64), String)> = cells.iter().map(|cell| (rank(cell), column(cell))).collect();
    columns.sort();
    columns.dedup();
    let mut sizes: Vec<u64> = cells.iter().map(|cell| size(cell)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut table = Table::new();
    let header = std::iter::once("size".to_owned()).chain(columns.iter().map(|(_, name)| name.clone()));
    table.load_style(presets::NOTHING).set_header(header.collect::<Vec<_>>());
    for row_size in sizes {
        let find = |name: &str| cells.iter().find(|cell| size(cell) == row_size && column(cell) == name);
        let figures =
            columns.iter().map(|(_, name)| find(name).and_then(|cell| value(cell)).map_or("-".into(), figure));
        table.add_row(std::iter::once(size_label(row_size)).chain(figures).collect::<Vec<_>>());
    }
    for index in 1..=columns.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Where a column stands: what shows the levels best is first.
fn rank(cell: &Cell) -> (usize, u64, u64) {
    let patterns = ["random", "sequential", "tlb"];
    let pattern = patterns.iter().position(|&pattern| pattern == workload(cell)).unwrap_or(patterns.len());
    (pattern, number(cell, "pages"), number(cell, "stride"))
}

fn column(cell: &Cell) -> String {
    let [stride, pages] = ["stride", "pages"].map(|name| size_label(number(cell, name)));
    match workload(cell) {
        // Its stride is its page.
        "tlb" => format!("tlb/{pages}"),
        // Short, because there are many.
        "sequential" => format!("seq/{stride}/{pages}"),
        pattern => format!("{pattern}/{stride}/{pages}"),
    }
}

fn workload(cell: &Cell) -> &str {
    cell.params.get("workload").and_then(|name| name.as_str()).unwrap_or_default()
}

fn size(cell: &Cell) -> u64 {
    number(cell, "size")
}

fn number(cell: &Cell, name: &str) -> u64 {
    cell.params.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::made::{of_samples, rendered, rows};
    use std::collections::BTreeMap;

    fn cell(workload: &'static str, size: u64, stride: u64, samples: &[f64]) -> Cell {
        let params = BTreeMap::from([
            ("workload", workload.into()),
            ("size", size.into()),
            ("stride", stride.into()),
            ("pages", 4096.into()),
        ]);
        let why_invalid = samples.is_empty().then_some("no huge pages");
        of_samples(Cell::new("lat_mem_rd", "memory", "1cpu", params, "ns"), samples, why_invalid)
    }

    #[test]
    fn sizes_go_down_and_patterns_across() {
        let text = rendered(vec![
            cell("sequential", 1 << 20, 64, &[2.0]),
            cell("random", 1 << 20, 64, &[14.5]),
            cell("random", 4096, 64, &[1.78]),
            cell("tlb", 1 << 20, 4096, &[]),
        ]);
        assert_eq!(rows(&text, "size")[0], ["size", "random/64/4k", "seq/64/4k", "tlb/4k"]);
        assert_eq!(rows(&text, "4k")[0], ["4k", "1.78", "-", "-"]);
        assert_eq!(rows(&text, "1m")[0], ["1m", "14.5", "2.00", "-"]);
        assert!(text.contains("not valid: lat_mem_rd tlb/4k 1m over memory at 1cpu: no huge pages"), "{text}");
        assert!(!text.contains("averages"));
    }

    #[test]
    fn the_study_is_shown_with_its_averages_and_its_one_figure() {
        let mut cells = vec![
            cell("sequential", 4 << 20, 8192, &[10.0, 10.0, 40.0]),
            cell("sequential", 8 << 20, 8192, &[20.0, 20.0, 50.0]),
        ];
        cells.iter_mut().for_each(|cell| _ = cell.params.insert("summary".into(), "average".into()));
        let text = rendered(cells);
        assert_eq!(rows(&text, "8m"), [["8m", "20.0"], ["8m", "30.0"]]);
        let line = "Stride 8192 bytes, 8m, which fits into the caches here: median 20.0 ns, average 30.0 ns.";
        assert!(text.contains(line), "{text}");
    }
}

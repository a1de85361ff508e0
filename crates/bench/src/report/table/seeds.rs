//! The table of `bench seeds`: Table 1 of the study of 2002, here and then.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::labels::{invalid_cells, number, on_machine, percent, size_label};
use crate::cell::{Cell, Document, Verdict};
use crate::engine::placement::Placement;
use crate::method::seeds::{COLUMNS, METHODS};
use crate::report::earlier;

/// A table for each placement.
pub fn render(document: &Document) -> String {
    let cells: Vec<&Cell> = document.cells.iter().collect();
    let mut text = String::new();
    for placement in Placement::ALL {
        let of_placement: Vec<&Cell> =
            cells.iter().copied().filter(|cell| cell.placement == placement.name()).collect();
        if !of_placement.is_empty() {
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "improvement over the kernel's pipe, {}\n{}\n", placement.title(), table(&of_placement));
        }
    }
    let launches = cells.iter().map(|cell| cell.launches.len()).max().unwrap_or(0);
    let _ = writeln!(text, "Of medians of {launches} interleaved launches, {}.", on_machine(&document.machine));
    for column in &COLUMNS {
        let _ = writeln!(text, "{}: {}.", column.title, column.means);
    }
    text += "~: no more than the noise, or not to be told. LP, ZC, LP+ZC: the larger-pipe, single-copy and combined patches of\n\
             2002, each over its own kernel, on other hardware: only the shape compares.\n";
    text + &invalid_cells(&cells, |cell| format!("{} {}", cell.method, size_label(size(cell))))
}

/// What a row is about; of grep the size is that of its text, which is the same in every cell.
fn size(cell: &Cell) -> u64 {
    number(cell, if cell.method == "grep" { "size" } else { "transfer" })
}

fn table(cells: &[&Cell]) -> Table {
    let mut header = vec!["", "transfer"];
    header.extend(COLUMNS.iter().map(|column| column.title));
    header.extend(["2002: LP", "ZC", "LP+ZC"]);
    let columns = header.len();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for method in METHODS {
        let mut sizes: Vec<u64> = cells.iter().filter(|cell| cell.method == method).map(|cell| size(cell)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            table.add_row(row(cells, method, size));
        }
    }
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(cells: &[&Cell], method: &str, of_size: u64) -> Vec<String> {
    let of_row: Vec<&Cell> =
        cells.iter().copied().filter(|cell| cell.method == method && size(cell) == of_size).collect();
    let label = if method == "grep" { String::new() } else { size_label(of_size) };
    let placement = of_row.first().map_or("", |cell| &cell.placement);
    let then = earlier::table_1(method, &label, placement);
    let mut line = vec![method.to_owned(), label];
    line.extend(COLUMNS.iter().map(|column| {
        of_row.iter().find(|cell| cell.transport == column.transport.name()).map_or("-".into(), |cell| gain(cell))
    }));
    line.extend((0..3).map(|index| then.map_or("-".into(), |figures| format!("{:+} %", figures[index]))));
    line
}

/// In percent, marked where it may as well be nothing.
fn gain(cell: &Cell) -> String {
    let is_certain = matches!(cell.verdict, Some(Verdict::Better | Verdict::Worse));
    cell.ratio.map_or("-".into(), |ratio| format!("{}{}", if is_certain { "" } else { "~" }, percent(ratio)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::MEGABYTES_PER_SECOND;
    use crate::engine::Launch;
    use std::collections::BTreeMap;

    fn cell(method: &'static str, transport: &'static str, size: u64, value: f64) -> Cell {
        let is_grep = method == "grep";
        let params = BTreeMap::from([(if is_grep { "size" } else { "transfer" }, size.into())]);
        let mut cell = Cell::new(method, transport, "2cpu", params, if is_grep { "ms" } else { MEGABYTES_PER_SECOND });
        (0..11).for_each(|_| cell.add(Launch::of(value)));
        cell.why_invalid = value.is_nan().then(|| "a byte was lost".into());
        cell.conclude();
        cell
    }

    fn compared(method: &'static str, size: u64, pipe: f64, ours: f64) -> [Cell; 2] {
        let (pipe, mut ours) = (cell(method, "pipe", size, pipe), cell(method, "millstream", size, ours));
        ours.noise_ci95 = Some([1.0, 1.0]);
        ours.compare_with(&pipe);
        [pipe, ours]
    }

    fn words<'a>(text: &'a str, first: &str) -> Vec<&'a str> {
        let line = text.lines().find(|line| line.trim_start().starts_with(first)).unwrap();
        line.split_whitespace().collect()
    }

    #[test]
    fn what_was_gained_stands_beside_what_was_gained_then() {
        let cells = [
            compared("grep", 50_000_000, 100.0, 50.0),
            compared("bw_pipe", 64 << 10, 1000.0, 5000.0),
            compared("pipeflex", 128 << 10, 100.0, 100.0),
        ];
        let text = render(&Document::for_tests(cells.concat()));
        assert_eq!(words(&text, "grep"), "grep - - - +100 % - +165 % +40 % +203 %".split(' ').collect::<Vec<_>>());
        assert_eq!(
            words(&text, "bw_pipe"),
            "bw_pipe 64k - - - +400 % - -24 % +23 % +23 %".split(' ').collect::<Vec<_>>()
        );
        let flex = "pipeflex 128k - - - ~+0 % - +292 % -15 % +279 %";
        assert_eq!(words(&text, "pipeflex"), flex.split(' ').collect::<Vec<_>>());
        assert!(text.contains("11 interleaved launches, on Some CPU") && text.contains("on other hardware"), "{text}");
        assert!(text.contains("each end on its own CPU") && !text.contains("on one CPU"), "{text}");
    }

    #[test]
    fn a_cell_that_failed_its_checks_shows_why_and_no_number() {
        let text = render(&Document::for_tests(compared("bw_pipe", 5000, 1000.0, f64::NAN).to_vec()));
        assert_eq!(words(&text, "bw_pipe"), ["bw_pipe", "5000", "-", "-", "-", "-", "-", "-", "-", "-"]);
        assert!(text.contains("not valid: bw_pipe 5000 over millstream at 2cpu: a byte was lost"), "{text}");
    }
}

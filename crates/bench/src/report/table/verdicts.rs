//! What a suite comes to: a line for each cell of millstream that was compared.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::labels::{invalid_cells, on_machine, size_label};
use crate::cell::{Cell, Document, Verdict};

/// The transports that are ours.
fn is_ours(cell: &Cell) -> bool {
    cell.transport.starts_with("millstream")
}

/// The table, how it was measured, and what could not be.
pub fn render(document: &Document) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "method",
        "cell",
        "CPUs",
        "millstream",
        "baseline",
        "x",
        "95 % interval",
        "noise",
        "verdict",
    ]);
    let mut counts = [0; 4];
    for cell in document.cells.iter().filter(|cell| is_ours(cell) && cell.baseline.is_some()) {
        if let Some(verdict) = cell.verdict {
            counts[verdict as usize] += 1;
        }
        table.add_row(row(document, cell));
    }
    for index in 2..8 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{table}\n\n");
    let [better, same, worse, inconclusive] = counts;
    let invalid: Vec<&Cell> = document.cells.iter().collect();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{better} better, {same} same, {worse} worse, {inconclusive} inconclusive.");
    let precise = document.cells.iter().filter(|cell| cell.converged).count();
    let _ = writeln!(text, "{precise} of {} cells are as precise as was asked for.", document.cells.len());
    let _ = writeln!(
        text,
        "{} cells in {:.0} s, {}. x: speed over the baseline's, above 1 is faster;\nnoise: the same for the baseline against itself.",
        document.cells.len(),
        document.seconds,
        on_machine(&document.machine),
    );
    text + &invalid_cells(&invalid, |cell| format!("{} {}", cell.method, params(cell)))
}

fn row(document: &Document, cell: &Cell) -> [String; 9] {
    let baseline = document.cells.iter().find(|other| {
        Some(&other.transport) == cell.baseline.as_ref()
            && (&other.method, &other.placement, &other.params) == (&cell.method, &cell.placement, &cell.params)
    });
    let interval =
        |interval: Option<[f64; 2]>| interval.map_or("-".into(), |[low, high]| format!("{low:.2} .. {high:.2}"));
    [
        cell.method.to_string(),
        format!("{}{}", params(cell), cell.transport.strip_prefix("millstream").unwrap_or_default().replace('-', " ")),
        cell.placement.trim_end_matches("cpu").to_owned(),
        figure(Some(cell)),
        figure(baseline),
        cell.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
        interval(cell.ratio_ci95),
        interval(cell.noise_ci95),
        match cell.verdict {
            Some(Verdict::Better) => "better",
            Some(Verdict::Same) => "same",
            Some(Verdict::Worse) => "WORSE",
            Some(Verdict::Inconclusive) => "inconclusive",
            None => "not valid",
        }
        .to_owned(),
    ]
}

/// What tells cells of a method apart for a reader; the other parameters are the same in all of a suite.
const TELLING: [&str; 8] = ["workload", "waiting", "transfer", "size", "messages", "stages", "stride", "pages"];

/// What tells a cell from others of its method, in words.
pub(super) fn params(cell: &Cell) -> String {
    let told = TELLING.iter().filter_map(|&name| Some((name, cell.params.get(name)?)));
    let words = told.filter(|(_, value)| *value != "hot").map(|(name, value)| match (name, value.as_u64()) {
        ("messages" | "stages", Some(count)) => format!("{count} {name}"),
        (_, Some(bytes)) => size_label(bytes),
        (_, None) => value.as_str().unwrap_or_default().to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

pub(super) fn figure(cell: Option<&Cell>) -> String {
    cell.and_then(|cell| Some(format!("{} {}", three_digits(cell.median?), cell.unit))).unwrap_or_else(|| "-".into())
}

fn three_digits(number: f64) -> String {
    match number {
        ..10.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::made::of_samples;
    use std::collections::BTreeMap;

    fn cell(transport: &'static str, samples: [f64; 5]) -> Cell {
        let cell = Cell::new("bw_pipe", transport, "2cpu", BTreeMap::from([("transfer", 4096.into())]), "MB/s");
        of_samples(cell, &samples, None)
    }

    #[test]
    fn a_row_says_what_was_compared_and_what_came_of_it() {
        let (pipe, mut ours) = (cell("pipe", [1000.0; 5]), cell("millstream", [2500.0; 5]));
        ours.compare_with(&pipe);
        let text = render(&Document::for_tests(vec![pipe, ours, cell("spsc-bare", [4000.0; 5])]));
        let line = text.lines().find(|line| line.contains("bw_pipe")).unwrap();
        for part in ["4k", "2500 MB/s", "1000 MB/s", "2.50", "better"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(text.contains("1 better, 0 same, 0 worse, 0 inconclusive."), "{text}");
        assert!(!text.contains("4000"), "only ours are judged: {text}");
    }

    #[test]
    fn a_cell_that_failed_its_checks_shows_why() {
        let (pipe, mut ours) = (cell("pipe", [1000.0; 5]), cell("millstream", [2500.0; 5]));
        ours.why_invalid = Some("lost a byte".into());
        ours.valid = false;
        ours.median = None;
        ours.compare_with(&pipe);
        let text = render(&Document::for_tests(vec![pipe, ours]));
        assert!(text.contains("not valid: bw_pipe 4k over millstream at 2cpu: lost a byte"), "{text}");
        assert!(!text.contains("2500"), "{text}");
    }
}

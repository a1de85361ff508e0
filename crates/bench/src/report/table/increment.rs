//! The tables of `bench increment`: times by number of stages, and the line through them.

use std::collections::BTreeSet;
use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::figures::figure;
use super::labels::{invalid_cells, number, on_machine, size_label};
use crate::cell::{Cell, Document};
use crate::engine::fit::{Fit, fit};
use crate::engine::placement::Placement;
use crate::method::increment::Way;

/// For each placement the times and the lines, then what could not be measured and why.
pub(super) fn render(document: &Document, all: &[&Cell]) -> String {
    let mut text = String::new();
    for placement in Placement::ALL {
        let cells: Vec<&Cell> = all.iter().copied().filter(|cell| cell.placement == placement.name()).collect();
        if cells.is_empty() {
            continue;
        }
        let title = match placement {
            Placement::OneCpu => "everything on one CPU",
            Placement::TwoCpus => "half of the processes on each of two CPUs, the network on both",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "ms, {title}\n{}\n", times(&cells));
        let _ = writeln!(text, "a + b N, the line of least squares\n{}\n", lines(&cells));
    }
    let launches = all.iter().map(|cell| cell.n).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "Medians of {launches} launches over a cached file of {}, {}. x: times as fast as pipe.\n\
         pipe: N processes that add, one that reads the file and one that adds up; pipe-tight: N processes in all.",
        all.first().map_or("-".into(), |cell| size_label(number(cell, "size"))),
        on_machine(&document.machine),
    );
    text + &invalid_cells(all, |cell| format!("{} stages", number(cell, "stages")))
}

/// The ways that were measured.
fn ways(cells: &[&Cell]) -> Vec<&'static str> {
    let names = Way::ALL.into_iter().map(Way::name);
    names.filter(|name| cells.iter().any(|cell| cell.transport == *name)).collect()
}

fn aligned(header: Vec<String>) -> Table {
    let mut table = Table::new();
    let columns = header.len();
    table.load_style(presets::NOTHING).set_header(header);
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn times(cells: &[&Cell]) -> Table {
    let ways = ways(cells);
    let mut header = vec!["N".to_owned()];
    for way in &ways {
        header.push((*way).into());
        header.extend((*way != Way::Pipe.name()).then(|| "x".to_owned()));
    }
    let mut table = aligned(header);
    let stages: BTreeSet<u64> = cells.iter().map(|cell| number(cell, "stages")).collect();
    for count in stages {
        let mut row = vec![count.to_string()];
        for way in &ways {
            let cell = cells.iter().find(|cell| cell.transport == *way && number(cell, "stages") == count);
            row.push(cell.and_then(|cell| cell.median).map_or("-".into(), figure));
            let ratio = cell.and_then(|cell| cell.ratio).map_or("-".into(), |ratio| format!("{ratio:.2}"));
            row.extend((*way != Way::Pipe.name()).then_some(ratio));
        }
        table.add_row(row);
    }
    table
}

fn lines(cells: &[&Cell]) -> Table {
    let mut table = aligned(["", "a", "b", "95 % interval of b", "R\u{b2}", "farthest"].map(str::to_owned).to_vec());
    for way in ways(cells) {
        let measured: Vec<(f64, &[f64])> = cells
            .iter()
            .filter(|cell| cell.transport == way && cell.valid)
            .map(|cell| (number(cell, "stages") as f64, &*cell.samples))
            .collect();
        let shown = match fit(&measured) {
            Some(Fit { a, b, b_interval: [low, high], r_squared, farthest }) => [
                figure(a),
                figure(b),
                format!("{} .. {}", figure(low), figure(high)),
                format!("{r_squared:.4}"),
                format!("{:.0} %", farthest * 100.0),
            ],
            None => ["-"; 5].map(str::to_owned),
        };
        table.add_row([vec![way.to_owned()], shown.to_vec()].concat());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::made::{of_samples, rendered, rows};
    use std::collections::BTreeMap;

    fn cell(stages: u64, transport: &'static str, samples: &[f64], why_invalid: Option<&str>) -> Cell {
        let params = BTreeMap::from([("stages", stages.into()), ("size", (1 << 20).into())]);
        of_samples(Cell::new("increment", transport, "1cpu", params, "ms"), samples, why_invalid)
    }

    #[test]
    fn times_and_the_line_through_them_are_shown() {
        let mut cells = Vec::new();
        for stages in [0, 1, 2, 4] {
            let base = 10.0 + 20.0 * stages as f64;
            let pipe = cell(stages, "pipe", &[base, base + 1.0, base - 1.0], None);
            let mut network = cell(stages, "millstream-net", &[5.0 + stages as f64; 3], None);
            network.compare_with(&pipe);
            cells.extend([pipe, network]);
        }
        let text = rendered(cells);
        assert_eq!(rows(&text, "2 ")[0], ["2", "50.0", "7.00", "7.14"], "{text}");
        let line = &rows(&text, "pipe ")[0];
        assert_eq!((line[1], line[2], *line.last().unwrap()), ("10.0", "20.0", "%"), "{text}");
        assert_eq!(rows(&text, "millstream-net ")[0][1..3], ["5.00", "1.00"], "{text}");
    }

    #[test]
    fn what_failed_its_checks_shows_no_number_and_no_line() {
        let cells = [0, 1, 2].map(|stages| cell(stages, "pipe", &[9.0], Some("the sum of what came out is wrong")));
        let text = rendered(cells.to_vec());
        assert!(text.contains("not valid: 2 stages over pipe at 1cpu: the sum of what came out is wrong"), "{text}");
        assert_eq!(rows(&text, "pipe ")[0][1..], ["-"; 5], "{text}");
    }
}

//! The tables of `bench pipeflex`: a row for each size of a read, as the study of 2002 had it, and then for each shape of
//! a real pipeline.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::labels::{invalid_cells, number, on_machine, percent, size_label};
use crate::cell::{Cell, Document};
use crate::engine::placement::Placement;
use crate::method::pipeflex::{READS, SEED_RUN};

/// Improvement in percent over its own kernel's pipe as the study reported it, on two CPUs and on one, for each of
/// [`READS`]: larger pipe, single copy, both together. Other hardware; the shape is what compares.
const HISTORICAL: [[[i32; 3]; 2]; 10] = [
    [[0, -24, -2], [-1, -24, -5]],
    [[0, -42, -5], [-2, -42, -11]],
    [[10, -11, 11], [-4, -23, -11]],
    [[46, -16, 24], [-7, -41, -20]],
    [[93, -15, 95], [-6, -57, -14]],
    [[163, -14, 97], [-6, -65, -31]],
    [[183, -16, 174], [-7, -74, -31]],
    [[359, -18, 167], [-8, -79, -43]],
    [[276, -15, 338], [-7, -85, -39]],
    [[292, -15, 279], [-4, -88, -48]],
];

fn historical(cell: &Cell) -> Option<[i32; 3]> {
    let read = number(cell, "transfer");
    let row = READS.iter().position(|&known| known as u64 == read)?;
    let placement = Placement::ALL.iter().position(|placement| placement.name() == cell.placement)?;
    let is_study = workload(cell) == SEED_RUN.workload && number(cell, "processes") == SEED_RUN.processes as u64;
    is_study.then(|| HISTORICAL[row][placement])
}

/// A table for each placement.
pub(super) fn render(document: &Document, all: &[&Cell]) -> String {
    let mut text = String::new();
    for placement in Placement::ALL {
        let cells: Vec<&Cell> = all.iter().copied().filter(|cell| cell.placement == placement.name()).collect();
        if !cells.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "MB/s, {}\n{}\n", placement.title().replace("end", "side"), table(&cells));
        }
    }
    let launches = all.iter().map(|cell| cell.n).max().unwrap_or(0);
    let seconds = all.iter().find_map(|cell| cell.params.get("seconds")?.as_f64()).unwrap_or(0.0);
    let reads = || all.iter().flat_map(|cell| &cell.launches).map(|launch| launch.operations);
    let _ = writeln!(
        text,
        "Medians of {launches} launches of {seconds} s, {} to {} reads each, {}.",
        reads().min().unwrap_or(0),
        reads().max().unwrap_or(0),
        on_machine(&document.machine)
    );
    text += "compute: us after each read / after each write. gain: millstream's over pipe.\n";
    if all.iter().any(|cell| historical(cell).is_some()) {
        text += "LP, ZC, LP+ZC: the larger-pipe, single-copy and combined kernel patches of 2002, each in % over its own\n\
                 kernel, on other hardware.\n";
    }
    text + &invalid_cells(all, |cell| format!("{} {}", workload(cell), size_label(number(cell, "transfer"))))
}

/// What is the same in all cells of a row.
type Row<'a> = (&'a str, u64, u64, u64, u64, u64);

fn row_of(cell: &Cell) -> Row<'_> {
    let number = |name| number(cell, name);
    let compute = (number("reader_us"), number("writer_us"));
    (workload(cell), number("processes"), compute.0, compute.1, number("transfer"), number("size"))
}

fn table(cells: &[&Cell]) -> Table {
    let (mut transports, mut rows): (Vec<&str>, Vec<Row<'_>>) = (Vec::new(), Vec::new());
    for cell in cells {
        if !transports.contains(&&*cell.transport) {
            transports.push(&cell.transport);
        }
        if !rows.contains(&row_of(cell)) {
            rows.push(row_of(cell));
        }
    }
    let mut header: Vec<&str> = vec!["workload", "processes", "compute", "write", "read"];
    header.extend(&transports);
    let is_compared = transports.contains(&"millstream") && transports.len() > 1;
    if is_compared {
        header.extend(["gain", "95 % interval"]);
    }
    let is_study = cells.iter().any(|cell| historical(cell).is_some());
    if is_study {
        header.extend(["LP", "ZC", "LP+ZC"]);
    }
    let columns = header.len();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        let of_row: Vec<&Cell> = cells.iter().copied().filter(|cell| row_of(cell) == row).collect();
        let (workload, processes, reader_us, writer_us, read, write) = row;
        let compute = format!("{reader_us}/{writer_us}");
        let mut line = vec![workload.to_owned(), processes.to_string(), compute, size_label(write), size_label(read)];
        let find = |transport: &str| of_row.iter().find(|cell| cell.transport == transport);
        let median = |transport: &&str| find(transport).and_then(|cell| cell.median);
        line.extend(transports.iter().map(|transport| median(transport).map_or("-".into(), megabytes)));
        if is_compared {
            let ours = find("millstream");
            let interval = ours.and_then(|cell| cell.ratio_ci95);
            line.push(ours.and_then(|cell| cell.ratio).map_or("-".into(), percent));
            line.push(interval.map_or("-".into(), |[low, high]| format!("{} .. {}", percent(low), percent(high))));
        }
        if is_study {
            let old = of_row.first().and_then(|cell| historical(cell));
            line.extend((0..3).map(|index| old.map_or("-".into(), |figures| format!("{:+} %", figures[index]))));
        }
        table.add_row(line);
    }
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn workload(cell: &Cell) -> &str {
    cell.params.get("workload").and_then(serde_json::Value::as_str).unwrap_or("")
}

fn megabytes(rate: f64) -> String {
    format!("{rate:.*}", if rate < 100.0 { 2 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::MEGABYTES_PER_SECOND;
    use crate::engine::Launch;
    use crate::method::pipeflex::NAME;
    use crate::report::table::made::{compared as text, concluded, rows};
    use std::collections::BTreeMap;

    fn cell(transport: &'static str, workload: &'static str, read: u64, rate: f64) -> Cell {
        let params = BTreeMap::from([
            ("workload", workload.into()),
            ("transfer", read.into()),
            ("size", 512.into()),
            ("processes", 2.into()),
            ("reader_us", 500.into()),
            ("writer_us", 0.into()),
            ("seconds", 0.1.into()),
        ]);
        let cell = Cell::new(NAME, transport, "2cpu", params, MEGABYTES_PER_SECOND);
        let why_invalid = rate.is_nan().then_some("the writer was killed by signal 9");
        let launches = (0..5).map(|index| Launch { operations: 190 + index, ..Launch::of(rate) });
        concluded(cell, launches, why_invalid)
    }

    #[test]
    fn a_row_of_the_study_shows_rates_the_gain_and_the_old_figures() {
        let text = text(vec![cell("pipe", "study", 64 << 10, 100.0), cell("millstream", "study", 64 << 10, 250.0)]);
        let row = "study 2 500/0 512 64k 100 250 +150 % +150 % .. +150 % +276 % -15 % +338 %";
        assert_eq!(rows(&text, "study")[0], row.split(' ').collect::<Vec<_>>());
        assert!(text.contains("5 launches of 0.1 s, 190 to 194 reads each, on Some CPU"), "{text}");
        assert!(text.contains("on other hardware"), "{text}");
    }

    #[test]
    fn another_workload_has_no_old_figures() {
        let text = text(vec![cell("pipe", "grep", 64 << 10, 100.0)]);
        assert_eq!(rows(&text, "grep")[0], ["grep", "2", "500/0", "512", "64k", "100"]);
        assert!(!text.contains("2002"), "{text}");
    }

    #[test]
    fn an_invalid_cell_shows_why_and_no_number() {
        let text = text(vec![cell("pipe", "grep", 4096, 100.0), cell("millstream", "grep", 4096, f64::NAN)]);
        assert_eq!(rows(&text, "grep")[0], ["grep", "2", "500/0", "512", "4k", "100", "-", "-", "-"]);
        let why = "not valid: grep 4k over millstream at 2cpu: the writer was killed by signal 9";
        assert!(text.contains(why), "{text}");
    }
}

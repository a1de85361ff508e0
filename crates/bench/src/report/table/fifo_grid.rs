//! The tables of `bench fifo_grid`, in the shape of the study that they come from: a grid of sizes and counts for each
//! transport.

use std::collections::BTreeSet;
use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::labels::{invalid_cells, number, on_machine, percent, size_label};
use crate::cell::{Cell, Document};
use crate::engine::placement::Placement;
use crate::method::fifo_grid::{COUNTS, SIZES};

/// Averages of 100 in us, a row for each of [`SIZES`], a column for each of [`COUNTS`]: FreeBSD 8.0-CURRENT in 2009 on a
/// Core 2 Quad 9400, with FIFOs made of pipes.
const PIPE_BASED: [[u32; 5]; 7] = [
    [274, 148, 418, 753, 8909],
    [89, 216, 769, 1545, 17729],
    [106, 353, 1530, 3700, 35265],
    [138, 595, 3709, 7310, 70396],
    [184, 1183, 7300, 14103, 141_104],
    [295, 2696, 13929, 29296, 309_294],
    [502, 5988, 29094, 58351, 583_801],
];

/// The same with FIFOs made of sockets, as they had been.
const SOCKET_BASED: [[u32; 5]; 7] = [
    [85, 175, 584, 1126, 11905],
    [96, 280, 1128, 2171, 23427],
    [119, 484, 2170, 4559, 53267],
    [159, 891, 4645, 9276, 109_152],
    [239, 1732, 9554, 18825, 222_931],
    [403, 3552, 18939, 38081, 451_727],
    [723, 7546, 39151, 83753, 905_902],
];

/// A grid for each placement and transport, then the old ones, then what could not be measured and why.
pub(super) fn render(document: &Document, all: &[&Cell]) -> String {
    let mut text = String::new();
    for placement in Placement::ALL {
        let cells: Vec<&Cell> = all.iter().copied().filter(|cell| cell.placement == placement.name()).collect();
        for transport in transports(&cells) {
            let grid: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.transport == transport).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{transport}, {}\n{}\n", placement.title(), table(&grid));
        }
    }
    for (title, figures) in [("pipe-based FIFO", PIPE_BASED), ("socket-based FIFO", SOCKET_BASED)] {
        if let Some(table) = old_table(all, &figures) {
            let _ = writeln!(text, "{title} of FreeBSD 8.0-CURRENT, 2009, averages, other hardware\n{table}\n");
        }
    }
    let samples = |pick: fn(usize, usize) -> usize| all.iter().map(|cell| cell.n).reduce(pick).unwrap_or(0);
    let repetitions = match (samples(usize::min), samples(usize::max)) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    };
    let launches = all.iter().map(|cell| cell.launches.len()).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "us until all messages arrived: the median and (the average) of {repetitions} repetitions in {launches} launches,\n\
         % faster than {}, {}.",
        all.iter().find_map(|cell| cell.baseline.as_deref()).unwrap_or("nothing"),
        on_machine(&document.machine),
    );
    text + &invalid_cells(all, |cell| {
        format!("{} messages of {} bytes", number(cell, "messages"), number(cell, "size"))
    })
}

fn transports<'a>(cells: &[&'a Cell]) -> Vec<&'a str> {
    let mut transports = Vec::new();
    for cell in cells {
        if !transports.contains(&&*cell.transport) {
            transports.push(&*cell.transport);
        }
    }
    transports
}

/// The values of a parameter, in order.
fn values(cells: &[&Cell], name: &str) -> BTreeSet<u64> {
    cells.iter().map(|cell| number(cell, name)).collect()
}

fn table(cells: &[&Cell]) -> Table {
    let figure = |size, count| {
        let cell = cells.iter().find(|cell| (number(cell, "size"), number(cell, "messages")) == (size, count));
        cell.and_then(|cell| figure(cell)).unwrap_or("-".into())
    };
    grid(&values(cells, "size"), &values(cells, "messages"), figure)
}

/// `median (average)`, and the improvement if there is a baseline.
fn figure(cell: &Cell) -> Option<String> {
    let median = cell.median?;
    let average = cell.samples.iter().sum::<f64>() / cell.samples.len() as f64;
    let improvement = cell.ratio.map_or(String::new(), |ratio| format!(" {:>7}", percent(ratio)));
    Some(format!("{} ({}){improvement}", microseconds(median), microseconds(average)))
}

/// The part of an old grid that was measured anew, if it is more than one figure.
fn old_table(cells: &[&Cell], figures: &[[u32; 5]; 7]) -> Option<Table> {
    let old = |size: u64, count: u64| {
        let row = SIZES.iter().position(|&known| known as u64 == size)?;
        let column = COUNTS.iter().position(|&known| known == count)?;
        Some(figures[row][column])
    };
    let (sizes, counts) = (values(cells, "size"), values(cells, "messages"));
    let is_known = sizes.iter().any(|&size| counts.iter().any(|&count| old(size, count).is_some()));
    is_known.then(|| grid(&sizes, &counts, |size, count| old(size, count).map_or("-".into(), |us| us.to_string())))
}

fn grid(sizes: &BTreeSet<u64>, counts: &BTreeSet<u64>, figure: impl Fn(u64, u64) -> String) -> Table {
    let mut header = vec!["bytes".to_owned()];
    header.extend(counts.iter().map(ToString::to_string));
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for &size in sizes {
        let mut row = vec![size_label(size)];
        row.extend(counts.iter().map(|&count| figure(size, count)));
        table.add_row(row);
    }
    for index in 1..=counts.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn microseconds(us: f64) -> String {
    format!("{us:.*}", usize::from(us < 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Launch;
    use crate::method::fifo_grid::NAME;
    use crate::report::table::made::{compared as text, concluded, rows};
    use std::collections::BTreeMap;

    fn cell(transport: &'static str, size: u64, count: u64, samples: &[f64]) -> Cell {
        let params = BTreeMap::from([("size", size.into()), ("messages", count.into())]);
        let cell = Cell::new(NAME, transport, "2cpu", params, "us");
        let why_invalid = samples.is_empty().then_some("the consumer: byte 3 of the stream is wrong");
        concluded(cell, (0..5).map(|_| Launch { samples: samples.to_vec(), ..Launch::default() }), why_invalid)
    }

    fn row<'a>(text: &'a str, title: &str, first: &str) -> Vec<&'a str> {
        let table = &text[text.find(title).unwrap()..];
        rows(table, &format!("{first} ")).swap_remove(0)
    }

    #[test]
    fn a_grid_shows_medians_averages_and_what_is_gained() {
        let text = text(vec![cell("fifo", 64, 100, &[40.0, 40.0, 130.0]), cell("millstream", 64, 100, &[20.0; 3])]);
        assert_eq!(row(&text, "fifo, each end on its own CPU", "64"), ["64", "40.0", "(70.0)"]);
        assert_eq!(row(&text, "millstream, each", "64"), ["64", "20.0", "(20.0)", "+100", "%"]);
        assert!(text.contains("of 15 repetitions in 5 launches,\n% faster than fifo, on Some CPU"), "{text}");
    }

    #[test]
    fn the_old_figures_stand_beside_the_same_cells_and_say_where_they_come_from() {
        let text = text(vec![cell("fifo", 4096, 100_000, &[1.0; 3]), cell("fifo", 3000, 100_000, &[1.0; 3])]);
        assert_eq!(
            row(&text, "pipe-based FIFO of FreeBSD 8.0-CURRENT, 2009, averages, other hardware", "4k")[1],
            "583801"
        );
        assert_eq!(row(&text, "socket-based FIFO", "4k")[1], "905902");
        assert_eq!(row(&text, "socket-based FIFO", "3000")[1], "-");
        assert!(!self::text(vec![cell("fifo", 3000, 7, &[1.0; 3])]).contains("FreeBSD"));
    }

    #[test]
    fn an_invalid_cell_shows_why_and_no_number() {
        let text = text(vec![cell("fifo", 64, 100, &[40.0; 3]), cell("millstream", 64, 100, &[])]);
        assert_eq!(row(&text, "millstream, each", "64"), ["64", "-"]);
        let why =
            "not valid: 100 messages of 64 bytes over millstream at 2cpu: the consumer: byte 3 of the stream is wrong";
        assert!(text.contains(why), "{text}");
    }
}

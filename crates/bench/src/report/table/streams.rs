//! The tables of `bench bw_pipe` and `bench lat_pipe`: for each placement a row for each parameter and a column for
//! each transport, then how millstream compares with the kernel's pipe and with what no pipe can beat.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

use super::{invalid_cells, on_machine};
use crate::cell::{Cell, Document};
use crate::engine::placement::Placement;
use crate::method::bw_pipe::MEMCPY_TWICE;

/// What tells the two methods apart.
pub(super) struct Shape {
    title: &'static str,
    parameter: &'static str,
    figure: fn(f64) -> String,
    /// What no pipe can beat, on two CPUs and on one.
    bounds: [&'static str; 2],
    sample: &'static str,
}

static BANDWIDTH: Shape = Shape {
    title: "GB/s",
    parameter: "transfer",
    figure: |megabytes| format!("{:.*}", if megabytes < 100.0 { 4 } else { 2 }, megabytes / 1e3),
    bounds: ["spsc-bare", MEMCPY_TWICE],
    sample: "GB = 10^9 bytes",
};

static LATENCY: Shape = Shape {
    title: "us for a round trip",
    parameter: "waiting",
    figure: |microseconds| format!("{microseconds:.2}"),
    bounds: ["spsc-bare", "spsc-bare"],
    sample: "1 byte there and back",
};

/// That of a method.
pub(super) fn shape(method: &str) -> Option<&'static Shape> {
    match method {
        "bw_pipe" => Some(&BANDWIDTH),
        "lat_pipe" => Some(&LATENCY),
        _ => None,
    }
}

/// A table for each placement.
pub(super) fn render(document: &Document, all: &[&Cell], shape: &Shape) -> String {
    let mut text = String::new();
    for (placement, bound) in Placement::ALL.into_iter().zip(shape.bounds) {
        let cells: Vec<&Cell> = all.iter().copied().filter(|cell| cell.placement == placement.name()).collect();
        if !cells.is_empty() {
            let cpus = placement.title();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}, {cpus}\n{}\n", shape.title, table(&cells, shape, bound));
        }
    }
    let launches = all.iter().map(|cell| cell.n).max().unwrap_or(0);
    let _ = writeln!(text, "Medians of {launches} launches, {}, {}.", shape.sample, on_machine(&document.machine));
    text += "x NAME: millstream's speed over that of NAME, above 1 is faster; the interval is that of x pipe.\n";
    text += &invalid_cells(all, |cell| format!("{} {}", cell.method, label(&cell.params[shape.parameter])));
    text
}

fn table(cells: &[&Cell], shape: &Shape, bound: &str) -> Table {
    let (mut transports, mut rows) = (Vec::new(), Vec::new());
    for cell in cells {
        let value = &cell.params[shape.parameter];
        if !transports.contains(&&*cell.transport) {
            transports.push(&*cell.transport);
        }
        if !rows.contains(&value) {
            rows.push(value);
        }
    }
    let mut header = vec![shape.parameter.to_owned()];
    header.extend(transports.iter().map(ToString::to_string));
    let is_compared = transports.contains(&"millstream") && transports.len() > 1;
    if is_compared {
        header.extend(["x pipe".into(), "95 % interval".into(), format!("x {bound}")]);
    }
    let columns = header.len();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for value in rows {
        let find = |transport: &str| {
            cells.iter().find(|cell| cell.transport == transport && &cell.params[shape.parameter] == value)
        };
        let mut row = vec![label(value)];
        let median = |transport: &&str| find(transport).and_then(|cell| cell.median);
        row.extend(transports.iter().map(|transport| median(transport).map_or("-".into(), shape.figure)));
        if is_compared {
            let ours = find("millstream");
            let interval = ours.and_then(|cell| cell.ratio_ci95);
            row.push(ours.and_then(|cell| cell.ratio).map_or("-".into(), times));
            row.push(interval.map_or("-".into(), |[low, high]| format!("{} .. {}", times(low), times(high))));
            let of_bound = ours.zip(find(bound)).and_then(|(ours, bound)| speed_over(ours, bound));
            row.push(of_bound.map_or("-".into(), times));
        }
        table.add_row(row);
    }
    for index in 1..columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn speed_over(ours: &Cell, other: &Cell) -> Option<f64> {
    let (ours_median, other_median) = (ours.median?, other.median?);
    Some(if ours.is_rate() { ours_median / other_median } else { other_median / ours_median })
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// A number of bytes as it is given to `--transfer`, or a word.
fn label(value: &Value) -> String {
    match (value.as_u64(), value.as_str()) {
        (Some(bytes), _) if bytes % (1 << 20) == 0 => format!("{}m", bytes >> 20),
        (Some(bytes), _) if bytes % (1 << 10) == 0 => format!("{}k", bytes >> 10),
        (Some(bytes), _) => bytes.to_string(),
        (None, word) => word.unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Launch;
    use crate::report::table::render as rendered;
    use std::collections::BTreeMap;

    fn document(method: &'static str, unit: &'static str, samples: &[(&'static str, Value, f64)]) -> Document {
        let parameter = if method == "bw_pipe" { "transfer" } else { "waiting" };
        let cells = samples.iter().map(|(transport, value, sample)| {
            let params = BTreeMap::from([(parameter, value.clone())]);
            let mut cell = Cell::new(method, *transport, "2cpu", params, unit);
            (0..5).for_each(|_| cell.add(Launch::of(*sample)));
            cell.why_invalid = sample.is_nan().then(|| "the reader was killed by signal 9".into());
            cell.conclude();
            cell
        });
        let mut cells: Vec<Cell> = cells.collect();
        let baseline = cells[0].clone();
        cells[1..].iter_mut().for_each(|cell| cell.compare_with(&baseline));
        Document::for_tests(cells)
    }

    fn words<'a>(text: &'a str, first: &str) -> Vec<&'a str> {
        let line = text.lines().find(|line| line.trim_start().starts_with(first)).unwrap();
        line.split_whitespace().collect()
    }

    #[test]
    fn bandwidths_are_shown_with_their_ratios() {
        let size = Value::from(4096);
        let text = rendered(&document(
            "bw_pipe",
            "MB/s",
            &[("pipe", size.clone(), 1000.0), ("millstream", size.clone(), 4000.0), ("spsc-bare", size, 8000.0)],
        ));
        assert_eq!(words(&text, "4k"), ["4k", "1.00", "4.00", "8.00", "4.00", "4.00", "..", "4.00", "0.50"]);
        assert!(text.starts_with("GB/s, each end on its own CPU\n"), "{text}");
        assert!(text.contains("on Some CPU, 2 CPUs, Linux 6.18."), "{text}");
    }

    #[test]
    fn a_latency_of_half_is_twice_as_fast() {
        let word = Value::from("running");
        let text =
            rendered(&document("lat_pipe", "us", &[("pipe", word.clone(), 1000.0), ("millstream", word, 500.0)]));
        assert_eq!(words(&text, "running"), ["running", "1000.00", "500.00", "2.00", "2.00", "..", "2.00", "-"]);
    }

    #[test]
    fn an_invalid_cell_shows_why_and_no_number() {
        let size = Value::from(512);
        let cells = [("pipe", size.clone(), 1000.0), ("millstream", size, f64::NAN)];
        let text = rendered(&document("bw_pipe", "MB/s", &cells));
        assert_eq!(words(&text, "512"), ["512", "1.00", "-", "-", "-", "-"]);
        let why = "not valid: bw_pipe 512 over millstream at 2cpu: the reader was killed by signal 9";
        assert!(text.contains(why), "{text}");
    }
}

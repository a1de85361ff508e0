//! The tables of bandwidths and round trips: for each placement a row for each parameter and a column for each
//! transport, then how millstream compares with the baseline and with what no pipe can beat.

use std::fmt::Write;

use comfy_table::Table;
use serde_json::Value;

use super::averages;
use super::labels::{invalid_cells, on_machine};
use super::rows::{Shape, axes, label, new_table};
use crate::cell::{Cell, Document};
use crate::engine::placement::Placement;
use crate::method::bandwidth::{MEMCPY_TWICE, Workload};

const BANDWIDTH: Shape = Shape {
    title: "GB/s",
    parameter: "transfer",
    figure: |megabytes| format!("{:.*}", if megabytes < 100.0 { 4 } else { 2 }, megabytes / 1e3),
    baseline: "pipe",
    bounds: None,
    sample: "GB = 10^9 bytes",
};

const LATENCY: Shape = Shape {
    title: "us for a round trip",
    parameter: "waiting",
    figure: |microseconds| format!("{microseconds:.2}"),
    baseline: "pipe",
    bounds: None,
    sample: "1 byte there and back",
};

static BW_PIPE: Shape = Shape { bounds: Some(["spsc-bare", MEMCPY_TWICE]), ..BANDWIDTH };
static BW_UNIX: Shape = Shape { baseline: "unix", ..BANDWIDTH };
static BW_TCP: Shape = Shape { baseline: "tcp", ..BANDWIDTH };
static LAT_PIPE: Shape = Shape { bounds: Some(["spsc-bare", "spsc-bare"]), ..LATENCY };
static LAT_FIFO: Shape = Shape { baseline: "fifo", ..LATENCY };
static LAT_UNIX: Shape = Shape { baseline: "unix", ..LATENCY };

/// That of a method.
pub(super) fn shape(method: &str) -> Option<&'static Shape> {
    match method {
        "bw_pipe" => Some(&BW_PIPE),
        "bw_unix" => Some(&BW_UNIX),
        "bw_tcp" => Some(&BW_TCP),
        "lat_pipe" => Some(&LAT_PIPE),
        "lat_fifo" => Some(&LAT_FIFO),
        "lat_unix" => Some(&LAT_UNIX),
        _ => None,
    }
}

/// Where the ends ran: the name in results, and for people.
const PLACES: [(&str, &str); 3] = [
    (Placement::TwoCpus.name(), Placement::TwoCpus.title()),
    (Placement::OneCpu.name(), Placement::OneCpu.title()),
    ("free", "from another host"),
];

/// A table for each placement and workload.
pub(super) fn render(document: &Document, all: &[&Cell], shape: &Shape) -> String {
    let mut text = String::new();
    for (index, (place, title)) in PLACES.into_iter().enumerate() {
        let bound = shape.bounds.and_then(|bounds| bounds.get(index).copied());
        for workload in Workload::ALL {
            let is_here = |cell: &&Cell| cell.placement == place && workload_of(cell) == workload.name();
            let cells: Vec<&Cell> = all.iter().copied().filter(is_here).collect();
            if !cells.is_empty() {
                let title = format!("{title}{}", besides(workload));
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{}, {title}\n{}\n", shape.title, table(&cells, shape, bound));
                text += &averages::render(&cells, shape, &title);
            }
        }
    }
    let launches = all.iter().map(|cell| cell.n).max().unwrap_or(0);
    let _ = writeln!(text, "Medians of {launches} launches, {}, {}.", shape.sample, on_machine(&document.machine));
    if is_compared(all) {
        let baseline = shape.baseline;
        let _ = writeln!(
            text,
            "x NAME: millstream's speed over that of NAME, above 1 is faster; the interval is that of x {baseline}."
        );
    }
    text += &invalid_cells(all, |cell| format!("{} {}", cell.method, row_of(cell, shape)));
    text
}

/// Of cells without one, and of files from before there were any, too.
fn workload_of(cell: &Cell) -> &str {
    cell.params.get("workload").and_then(Value::as_str).unwrap_or(Workload::Hot.name())
}

fn besides(workload: Workload) -> &'static str {
    match workload {
        Workload::Hot => "",
        Workload::Fresh => ", written afresh before each write",
        Workload::Summed => ", added up by the reader",
    }
}

fn row_of(cell: &Cell, shape: &Shape) -> String {
    cell.params.get(shape.parameter).map_or(String::new(), label)
}

fn is_compared(cells: &[&Cell]) -> bool {
    let is_ours = |cell: &&&Cell| cell.transport == "millstream";
    cells.iter().any(|cell| is_ours(&cell)) && !cells.iter().all(|cell| is_ours(&cell))
}

fn table(cells: &[&Cell], shape: &Shape, bound: Option<&str>) -> Table {
    let (transports, rows) = axes(cells, shape);
    let mut header = vec![shape.parameter.to_owned()];
    header.extend(transports.iter().map(ToString::to_string));
    let is_compared = is_compared(cells);
    if is_compared {
        header.extend([format!("x {}", shape.baseline), "95 % interval".into()]);
        header.extend(bound.map(|bound| format!("x {bound}")));
    }
    let mut table = new_table(header);
    for value in rows {
        let find = |transport: &str| {
            cells.iter().find(|cell| cell.transport == transport && cell.params.get(shape.parameter) == Some(value))
        };
        let mut row = vec![label(value)];
        let median = |transport: &&str| find(transport).and_then(|cell| cell.median);
        row.extend(transports.iter().map(|transport| median(transport).map_or("-".into(), shape.figure)));
        if is_compared {
            let ours = find("millstream");
            let interval = ours.and_then(|cell| cell.ratio_ci95);
            row.push(ours.and_then(|cell| cell.ratio).map_or("-".into(), times));
            row.push(interval.map_or("-".into(), |[low, high]| format!("{} .. {}", times(low), times(high))));
            row.extend(bound.map(|bound| {
                let of_bound = ours.zip(find(bound)).and_then(|(ours, bound)| speed_over(ours, bound));
                of_bound.map_or("-".into(), times)
            }));
        }
        table.add_row(row);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::made::{compared, of_samples, rendered, rows};
    use std::collections::BTreeMap;

    /// The tables of cells with a sample, five times the same, or without.
    fn text(method: &'static str, unit: &'static str, samples: &[(&'static str, Value, Option<f64>)]) -> String {
        let parameter = if method == "bw_pipe" { "transfer" } else { "waiting" };
        let cells = samples.iter().map(|(transport, value, sample)| {
            let params = BTreeMap::from([(parameter, value.clone())]);
            let (samples, why_invalid) = match sample {
                Some(sample) => (vec![*sample; 5], None),
                None => (Vec::new(), Some("the reader was killed by signal 9")),
            };
            of_samples(Cell::new(method, *transport, "2cpu", params, unit), &samples, why_invalid)
        });
        compared(cells.collect())
    }

    #[test]
    fn bandwidths_are_shown_with_their_ratios() {
        let size = Value::from(4096);
        let text = text(
            "bw_pipe",
            "MB/s",
            &[
                ("pipe", size.clone(), Some(1000.0)),
                ("millstream", size.clone(), Some(4000.0)),
                ("spsc-bare", size, Some(8000.0)),
            ],
        );
        assert_eq!(rows(&text, "4k")[0], ["4k", "1.00", "4.00", "8.00", "4.00", "4.00", "..", "4.00", "0.50"]);
        assert!(text.starts_with("GB/s, each end on its own CPU\n"), "{text}");
        assert!(text.contains("on Some CPU, 2 CPUs, Linux 6.18."), "{text}");
    }

    #[test]
    fn a_latency_of_half_is_twice_as_fast() {
        let word = Value::from("running");
        let cells = [("pipe", word.clone(), Some(1000.0)), ("millstream", word, Some(500.0))];
        let text = text("lat_pipe", "us", &cells);
        assert_eq!(rows(&text, "running")[0], ["running", "1000.00", "500.00", "2.00", "2.00", "..", "2.00", "-"]);
    }

    #[test]
    fn each_workload_has_a_table_and_what_came_from_another_host_too() {
        let mut cells = Vec::new();
        for (workload, place) in [("hot", "1cpu"), ("summed", "1cpu"), ("hot", "free")] {
            let params = BTreeMap::from([("transfer", Value::from(65_536)), ("workload", workload.into())]);
            cells.push(of_samples(Cell::new("bw_tcp", "tcp", place, params, "MB/s"), &[1000.0], None));
        }
        let text = rendered(cells);
        for title in ["both ends on one CPU", "both ends on one CPU, added up by the reader", "from another host"] {
            assert!(text.lines().any(|line| line == format!("GB/s, {title}")), "{text}");
        }
        assert!(!text.contains("x NAME"), "{text}");
    }

    #[test]
    fn an_invalid_cell_shows_why_and_no_number() {
        let size = Value::from(512);
        let cells = [("pipe", size.clone(), Some(1000.0)), ("millstream", size, None)];
        let text = text("bw_pipe", "MB/s", &cells);
        assert_eq!(rows(&text, "512")[0], ["512", "1.00", "-", "-", "-", "-"]);
        let why = "not valid: bw_pipe 512 over millstream at 2cpu: the reader was killed by signal 9";
        assert!(text.contains(why), "{text}");
    }
}

//! Which charts a document gets: for each method the shape that shows best what it measures, and for methods that this
//! version does not know, what follows from their parameters.

use serde_json::Value;

use super::blocks::{Room, paragraph};
use super::chart::axis::Axis;
use super::chart::heat::{self, Field, Heat};
use super::chart::intervals::{Intervals, Row};
use super::chart::legend;
use super::chart::lines::{Lines, Point, Series};
use super::groups::{Group, grouped, varying};
use super::markup::{Element, element};
use super::setup;
use super::words::{self, Unit, count, number};
use crate::cell::{Cell, Document};

/// Bytes for all charts together.
const ROOM: usize = 250_000;

/// Rows of one chart of intervals.
const MOST_ROWS: usize = 14;

/// Steps of a distribution; more are closer together than a pixel.
const MOST_STEPS: usize = 150;

/// A group of charts for each method.
pub(super) fn section(document: &Document, methods: &[Group<'_>]) -> Option<Element> {
    let mut room = Room(ROOM);
    let mut left_out = 0;
    let mut section = element("div");
    for (method, cells) in methods {
        let measured: Vec<&Cell> =
            cells.iter().copied().filter(|cell| cell.median.is_some_and(f64::is_finite)).collect();
        if measured.is_empty() {
            continue;
        }
        let subject =
            Subject { method, all: cells, measured, transports: transports(cells), caches: &document.machine.caches };
        for Chapter { title, note, legend, figures } in subject.chapters() {
            let heading = element("h3").text(title);
            let (kept, dropped): (Vec<Element>, Vec<Element>) =
                figures.into_iter().partition(|figure| room.take(figure));
            left_out += dropped.len();
            if !kept.is_empty() && room.take(&heading) {
                section = section.child(heading).child(paragraph(note).class("key")).children(legend);
                section = section.child(element("div").class("charts").children(kept));
            }
        }
    }
    if left_out > 0 {
        let says = format!(
            "{} left out to keep this page below 1 MB; the figures are in the raw data.",
            count(left_out, "chart")
        );
        section = section.child(paragraph(says));
    }
    (section.len() > 0).then_some(section)
}

/// Every transport of a method. The first two looks mean the same in every chart: ours and its baseline.
fn transports<'a>(cells: &[&'a Cell]) -> Vec<&'a str> {
    let baseline = cells.iter().find_map(|cell| cell.baseline.as_deref()).unwrap_or("pipe");
    let mut all = vec!["millstream", baseline];
    for cell in cells {
        if !all.contains(&&*cell.transport) {
            all.push(&cell.transport);
        }
    }
    all
}

/// Charts under one heading.
struct Chapter {
    title: String,
    note: String,
    legend: Option<Element>,
    figures: Vec<Element>,
}

/// What is drawn.
struct Subject<'a> {
    method: &'a str,
    all: &'a [&'a Cell],
    measured: Vec<&'a Cell>,
    transports: Vec<&'a str>,
    caches: &'a [u64],
}

impl<'a> Subject<'a> {
    fn chapters(&self) -> Vec<Chapter> {
        let is_latency = self.method.starts_with("lat_") && self.method != "lat_mem_rd";
        if self.method == "fifo_grid" && self.measured.iter().any(|cell| cell.ratio.is_some()) {
            return vec![self.heat()];
        }
        match self.abscissa() {
            Some(x) => vec![self.lines(x)],
            None if is_latency => vec![self.intervals(), self.distribution()],
            None => vec![self.intervals()],
        }
    }

    /// The parameter along which there is a curve to see: of numbers, at least three different ones.
    fn abscissa(&self) -> Option<&'a str> {
        let varying = varying(&self.measured);
        let is_curve = |name: &&str| distinct_numbers(&self.measured, name).len() >= 3;
        let known = ["transfer", "size", "read", "messages", "stages", "stride"];
        let known = known.into_iter().filter_map(|name| varying.iter().copied().find(|other| *other == name));
        known.chain(varying.iter().copied()).find(is_curve)
    }

    /// The parameter that tells lines apart where the transport does not.
    fn secondary(&self, x: &str) -> Option<&'a str> {
        let several_transports = self.measured.iter().any(|cell| cell.transport != self.measured[0].transport);
        let others: Vec<&str> = varying(&self.measured).into_iter().filter(|name| *name != x).collect();
        let stride = others.iter().copied().find(|name| *name == "stride");
        if self.method == "lat_mem_rd" && stride.is_some() {
            return stride;
        }
        if several_transports { None } else { stride.or(others.first().copied()) }
    }

    fn look(&self, cell: &Cell) -> usize {
        self.transports.iter().position(|transport| *transport == cell.transport).unwrap_or(0)
    }

    fn legend_of_transports(&self) -> Element {
        let used = self.transports.iter().enumerate();
        let used = used.filter(|(_, transport)| self.measured.iter().any(|cell| cell.transport == **transport));
        legend(&used.map(|(look, transport)| (look, (*transport).to_owned())).collect::<Vec<_>>())
    }

    /// Lines over a parameter, a chart for each combination of what else differs.
    fn lines(&self, x: &'a str) -> Chapter {
        let unit = Unit::of(&self.measured);
        let secondary = self.secondary(x);
        let values: Vec<(u64, String)> = match secondary {
            Some(name) => sorted_values(&self.measured, name),
            None => Vec::new(),
        };
        let look = |cell: &Cell| match secondary {
            Some(name) => {
                values.iter().position(|(_, label)| Some(label) == label_of(cell, name).as_ref()).unwrap_or(0)
            }
            None => self.look(cell),
        };
        let legend = match secondary {
            Some(name) => {
                let labels = values.iter().enumerate().map(|(look, (_, label))| (look, format!("{name} {label}")));
                legend(&labels.collect::<Vec<_>>())
            }
            None => self.legend_of_transports(),
        };
        let facets = self.facets(&[Some(x), secondary], secondary.is_some());
        let figures = self.share(&unit);
        let y = Axis::fitting(&figures);
        let places = distinct_numbers(&self.measured, x);
        let figures = facets.iter().map(|(facet, cells)| {
            let series = grouped(cells.iter().copied(), look);
            let lines = series.iter().map(|(look, cells)| Series {
                look: *look,
                is_marked: true,
                points: points(cells, x, &unit),
            });
            let lines: Vec<Series> = lines.collect();
            let says: Vec<String> = series.iter().filter_map(|(_, cells)| told(cells, x, secondary, &unit)).collect();
            let title = format!("{}, {facet}", self.method);
            let chart = Lines {
                title: &title,
                description: &format!("{} by {x}. {}", unit.name, says.join(" ")),
                x: Axis::log(places.iter().copied()),
                y,
                x_title: &abscissa_title(x),
                y_title: &format!("{}{}", unit.name, if y.is_log() { ", log scale" } else { "" }),
                x_ticks: ticks(&places, x),
                y_tick: words::tick,
                landmarks: self.landmarks(x),
                series: lines,
            };
            figure(facet, chart.draw())
        });
        let what = match self.method {
            "lat_mem_rd" => "Time of one load; each level is a cache, whose sizes are drawn in".to_owned(),
            _ => format!("Median by {x}"),
        };
        let note = format!("{what}, with 95 % bands. {}", better(&self.measured));
        Chapter { title: self.method.into(), note, legend: Some(legend), figures: figures.collect() }
    }

    /// Cells by placement and by those parameters that differ and are not named; also by transport, if that is asked for.
    fn facets(&self, without: &[Option<&str>], by_transport: bool) -> Vec<(String, Vec<&'a Cell>)> {
        let names: Vec<&str> =
            varying(&self.measured).into_iter().filter(|name| !without.contains(&Some(*name))).collect();
        let several = by_transport && self.measured.iter().any(|cell| cell.transport != self.measured[0].transport);
        grouped(self.measured.iter().copied(), |cell| {
            let parameters = words::params(cell, &names);
            let transport = if several { &*cell.transport } else { "" };
            let parts = [words::placement(&cell.placement), transport, &parameters];
            parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
        })
    }

    /// All figures and bounds, in the unit that is shown.
    fn share(&self, unit: &Unit) -> Vec<f64> {
        let of_cell = |cell: &&Cell| cell.ci95.into_iter().flatten().chain(cell.median).collect::<Vec<_>>();
        self.measured.iter().flat_map(of_cell).map(|value| value * unit.factor).collect()
    }

    fn landmarks(&self, x: &str) -> Vec<(f64, String)> {
        match (self.method, x) {
            ("lat_mem_rd" | "memcpy", "size") => {
                setup::levels(self.caches).map(|(level, bytes)| (bytes as f64, format!("L{level}"))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// How the samples are distributed.
    fn distribution(&self) -> Chapter {
        let unit = Unit::of(&self.measured);
        let samples = |cells: &[&Cell]| -> Vec<f64> {
            cells.iter().flat_map(|cell| &cell.samples).map(|sample| sample * unit.factor).collect()
        };
        let facets = self.facets(&[], false).into_iter().filter(|(_, cells)| !samples(cells).is_empty());
        let figures = facets.map(|(facet, cells)| {
            let x = Axis::log(samples(&cells));
            let series = cells.iter().map(|cell| steps(cell, self.look(cell), &unit)).collect();
            let says = cells
                .iter()
                .filter_map(|cell| Some(format!("{}: median {}.", cell.transport, unit.figure(cell.median?))));
            let chart = Lines {
                title: &format!("{}, distribution, {facet}", self.method),
                description: &says.collect::<Vec<_>>().join(" "),
                x,
                y: Axis::linear([100.0]),
                x_title: &format!("{}, log scale", unit.name),
                y_title: "% of samples at most",
                x_ticks: x.ticks(6).into_iter().map(|value| (value, words::tick(value))).collect(),
                y_tick: |value| format!("{value:.0}"),
                landmarks: Vec::new(),
                series,
            };
            figure(&facet, chart.draw())
        });
        Chapter {
            title: format!("{}, all samples", self.method),
            note:
                "How many of the samples took at most so long; the mark is the median. A steep line is a steady time, \
                   two steps are two humps."
                    .into(),
            legend: Some(self.legend_of_transports()),
            figures: figures.collect(),
        }
    }

    /// One row for each cell.
    fn intervals(&self) -> Chapter {
        let unit = Unit::of(&self.measured);
        let axis = Axis::fitting(&self.share(&unit));
        let by_placement = grouped(self.measured.iter().copied(), |cell| words::placement(&cell.placement).to_owned());
        let is_small = by_placement.iter().all(|(_, cells)| cells.len() <= MOST_ROWS);
        let names = if is_small { varying(&self.measured) } else { Vec::new() };
        let facets = if is_small { by_placement } else { self.facets(&[], false) };
        let pages = facets.iter().flat_map(|(facet, cells)| cells.chunks(MOST_ROWS).map(move |cells| (facet, cells)));
        let figures = pages.map(|(facet, cells)| {
            let rows = cells.iter().map(|cell| {
                let parameters = words::params(cell, &names);
                let label = if parameters.is_empty() {
                    cell.transport.to_string()
                } else {
                    format!("{}, {parameters}", cell.transport)
                };
                Row {
                    look: self.look(cell),
                    label,
                    median: cell.median.map(|median| median * unit.factor),
                    interval: cell.ci95.map(|bounds| bounds.map(|bound| bound * unit.factor)),
                    says: cell.median.map_or(String::new(), |median| unit.figure(median)),
                }
            });
            let rows: Vec<Row> = rows.collect();
            let chart = Intervals {
                title: &format!("{}, medians, {facet}", self.method),
                description: &rows
                    .iter()
                    .map(|row| format!("{}: {}.", row.label, row.says))
                    .collect::<Vec<_>>()
                    .join(" "),
                axis,
                axis_title: &format!("{}{}", unit.name, if axis.is_log() { ", log scale" } else { "" }),
                tick: words::tick,
                rows,
            };
            figure(facet, chart.draw())
        });
        Chapter {
            title: self.method.into(),
            note: format!("Medians with their 95 % intervals. {}", better(&self.measured)),
            legend: None,
            figures: figures.collect(),
        }
    }

    /// Ratios by size and number of messages.
    fn heat(&self) -> Chapter {
        let names: Vec<&str> =
            varying(self.all).into_iter().filter(|name| !matches!(*name, "size" | "messages")).collect();
        let compared = self.all.iter().copied().filter(|cell| cell.baseline.is_some());
        let facets = grouped(compared, |cell| (&*cell.transport, &*cell.placement, words::params(cell, &names)));
        let figures = facets.iter().map(|((transport, placement, parameters), cells)| {
            let (sizes, counts) = (sorted_values(cells, "size"), sorted_values(cells, "messages"));
            let rows = sizes.iter().map(|(_, size)| {
                let field = |count: &str| {
                    let found = cells.iter().find(|cell| {
                        label_of(cell, "size").as_ref() == Some(size)
                            && label_of(cell, "messages").as_deref() == Some(count)
                    });
                    match found {
                        Some(Cell { ratio: Some(ratio), verdict, .. }) => Field::Ratio(*ratio, *verdict),
                        Some(_) => Field::Invalid,
                        None => Field::Empty,
                    }
                };
                (size.clone(), counts.iter().map(|(_, count)| field(count)).collect())
            });
            let over = cells[0].baseline.as_deref().unwrap_or("the baseline");
            let rest = if parameters.is_empty() { String::new() } else { format!(", {parameters}") };
            let title = format!("{transport} against {over}, {}{rest}", words::placement(placement));
            let range = cells
                .iter()
                .filter_map(|cell| cell.ratio)
                .fold([f64::INFINITY, 0.0], |[low, high], ratio| [low.min(ratio), high.max(ratio)]);
            let chart = Heat {
                title: &format!("{}, {title}", self.method),
                description: &format!("Between {} and {} as fast.", words::times(range[0]), words::times(range[1])),
                columns: counts.iter().map(|(_, count)| count.clone()).collect(),
                column_title: "messages",
                rows: rows.collect(),
                row_title: "size",
            };
            figure(&title, chart.draw())
        });
        Chapter {
            title: self.method.into(),
            note: "How many times as fast as the baseline, by size and number of messages. A question mark stands where it \
                   cannot be told from 1."
                .into(),
            legend: Some(heat::legend()),
            figures: figures.collect(),
        }
    }
}

fn figure(title: &str, chart: Element) -> Element {
    element("figure").child(element("figcaption").text(title)).child(chart)
}

fn better(cells: &[&Cell]) -> &'static str {
    match cells.first() {
        Some(cell) if cell.is_rate() => "Higher is better.",
        _ => "Lower is better.",
    }
}

fn abscissa_title(name: &str) -> String {
    format!("{name}{}, log scale", if words::is_in_bytes(name) { " in bytes" } else { "" })
}

/// The parameter as a number above 0, which a scale of powers can show.
fn number_of(cell: &Cell, name: &str) -> Option<f64> {
    cell.params.get(name).and_then(Value::as_f64).filter(|value| value.is_finite() && *value > 0.0)
}

fn label_of(cell: &Cell, name: &str) -> Option<String> {
    cell.params.get(name).map(|value| words::value(name, value))
}

fn distinct_numbers(cells: &[&Cell], name: &str) -> Vec<f64> {
    let mut values: Vec<f64> = cells.iter().filter_map(|cell| number_of(cell, name)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Labels of a parameter's values, numbers in their order and before words.
fn sorted_values(cells: &[&Cell], name: &str) -> Vec<(u64, String)> {
    let order = |cell: &&Cell| cell.params.get(name).and_then(Value::as_u64).unwrap_or(u64::MAX);
    let mut values: Vec<(u64, String)> =
        cells.iter().filter_map(|cell| Some((order(cell), label_of(cell, name)?))).collect();
    values.sort();
    values.dedup();
    values
}

/// Values that are written below a chart: of sizes the powers of two, if there are enough of them.
fn ticks(places: &[f64], name: &str) -> Vec<(f64, String)> {
    let is_round = |value: &f64| (value.log2() - value.log2().round()).abs() < 1e-9;
    let round: Vec<f64> = places.iter().copied().filter(is_round).collect();
    let chosen = if words::is_in_bytes(name) && round.len() >= 3 { &round } else { places };
    let label = |value: f64| {
        if words::is_in_bytes(name) && value.fract() == 0.0 { words::size(value as u64) } else { number(value) }
    };
    chosen.iter().map(|&value| (value, label(value))).collect()
}

fn points(cells: &[&Cell], x: &str, unit: &Unit) -> Vec<Point> {
    let mut points: Vec<Point> = cells
        .iter()
        .filter_map(|cell| {
            let (place, median) = (number_of(cell, x)?, cell.median?);
            let band = cell.ci95.map(|bounds| bounds.map(|bound| bound * unit.factor));
            let reach =
                band.map_or(String::new(), |[low, high]| format!(" ({} \u{2013} {})", number(low), number(high)));
            let says = format!("{}, {}: {}{reach}", cell.transport, label_of(cell, x)?, unit.figure(median));
            Some(Point { at: [place, median * unit.factor], band, says })
        })
        .collect();
    points.sort_by(|a, b| a.at[0].total_cmp(&b.at[0]));
    points
}

/// A line in words: its two ends.
fn told(cells: &[&Cell], x: &str, secondary: Option<&str>, unit: &Unit) -> Option<String> {
    let by_place = |a: &&&Cell, b: &&&Cell| number_of(a, x).unwrap_or(0.0).total_cmp(&number_of(b, x).unwrap_or(0.0));
    let (first, last) = (cells.iter().min_by(by_place)?, cells.iter().max_by(by_place)?);
    let name = secondary.map_or(first.transport.to_string(), |name| words::params(first, &[name]));
    Some(format!(
        "{name}: {} at {}, {} at {}.",
        unit.figure(first.median?),
        label_of(first, x)?,
        unit.figure(last.median?),
        label_of(last, x)?
    ))
}

/// The share of samples that are at most so large.
fn steps(cell: &Cell, look: usize, unit: &Unit) -> Series {
    let mut sorted: Vec<f64> =
        cell.samples.iter().map(|sample| sample * unit.factor).filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let all = sorted.len();
    let stride = all.div_ceil(MOST_STEPS).max(1);
    let mut points = Vec::new();
    let mut share = 0.0;
    let point = |at| Point { at, band: None, says: String::new() };
    for (index, value) in sorted.iter().enumerate().filter(|(index, _)| index % stride == 0 || index + 1 == all) {
        points.push(point([*value, share]));
        share = 100.0 * (index + 1) as f64 / all as f64;
        points.push(point([*value, share]));
    }
    if let Some(middle) = points.iter_mut().find(|point| point.at[1] >= 50.0) {
        middle.says = format!("{}: median {}", cell.transport, unit.figure(cell.median.unwrap_or(f64::NAN)));
    }
    Series { look, points, is_marked: false }
}

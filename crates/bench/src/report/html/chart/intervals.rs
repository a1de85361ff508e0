//! Medians with their intervals one below the other, and the bars in the table of verdicts.

use super::axis::Axis;
use super::{line, marker, rect, svg, text};
use crate::report::html::markup::{Element, element};

/// A figure that is compared with the others of the chart.
pub(crate) struct Row {
    /// The number of its look.
    pub(crate) look: usize,
    pub(crate) label: String,
    /// Median and interval, if there are any.
    pub(crate) median: Option<f64>,
    pub(crate) interval: Option<[f64; 2]>,
    /// What is written at the end of the row.
    pub(crate) says: String,
}

/// A chart of rows.
pub(crate) struct Intervals<'a> {
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    pub(crate) axis: Axis,
    pub(crate) axis_title: &'a str,
    pub(crate) tick: fn(f64) -> String,
    pub(crate) rows: Vec<Row>,
}

impl Intervals<'_> {
    /// Draws it.
    pub(crate) fn draw(&self) -> Element {
        const WIDTH: f64 = 440.0;
        const ROW: f64 = 34.0;
        /// Characters beside the figure at the other end.
        const LONGEST: usize = 48;
        let bottom = 8.0 + ROW * self.rows.len() as f64;
        let axis = self.axis.onto(8.0, WIDTH - 12.0);
        let mut chart = svg(WIDTH, bottom + 40.0, self.title, self.description);
        for value in axis.ticks(7) {
            let at = axis.place(value);
            chart = chart.child(line("grid", [at, 4.0], [at, bottom])).child(text(
                at,
                bottom + 16.0,
                "tick middle",
                (self.tick)(value),
            ));
        }
        chart = chart.child(text(WIDTH / 2.0, bottom + 34.0, "axis middle", self.axis_title));
        for (index, row) in self.rows.iter().enumerate() {
            let top = 8.0 + ROW * index as f64;
            chart = chart
                .child(text(8.0, top + 11.0, "name", row.label.chars().take(LONGEST).collect::<String>()))
                .child(text(WIDTH - 12.0, top + 11.0, "tick end", &row.says))
                .child(whisker(row, &axis, top + 22.0));
        }
        chart
    }
}

fn whisker(row: &Row, axis: &Axis, y: f64) -> Element {
    let colour = super::colour(row.look);
    let mut group = element("g");
    if let Some([low, high]) = row.interval {
        let (from, to) = (axis.place(low), axis.place(high));
        group = group.child(rect(&format!("reach {colour}"), [from - 1.0, y - 3.0], [(to - from).abs() + 2.0, 6.0]));
    }
    match row.median {
        Some(median) => group.child(marker(row.look, [axis.place(median), y])),
        None => group,
    }
}

/// Width and height of a bar in the table of verdicts.
const BAR: [f64; 2] = [300.0, 20.0];

/// The ratio's interval, over the noise, with a line at 1. It repeats the numbers beside it, so screen
/// readers skip it.
pub(crate) fn bar(
    axis: &Axis,
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    noise: Option<[f64; 2]>,
    word: &str,
) -> Element {
    let axis = axis.onto(5.0, BAR[0] - 5.0);
    let mut bar = bar_svg();
    if let Some([low, high]) = noise {
        let (from, to) = (axis.place(low), axis.place(high));
        bar = bar.child(rect("noise", [from, 0.0], [(to - from).abs().max(1.0), BAR[1]]));
    }
    let one = axis.place(1.0);
    bar = bar.child(line("one", [one, 0.0], [one, BAR[1]]));
    if let Some([low, high]) = interval {
        let (from, to) = (axis.place(low), axis.place(high));
        bar = bar.child(rect(&format!("reach v-{word}"), [from - 1.0, 8.0], [(to - from).abs() + 2.0, 4.0]));
    }
    match ratio {
        Some(ratio) => bar.child(
            element("circle")
                .class(format!("mark v-{word}"))
                .with("cx", super::short(axis.place(ratio)))
                .with("cy", 10)
                .with("r", 4),
        ),
        None => bar,
    }
}

/// The scale above the bars.
pub(crate) fn bar_scale(axis: &Axis) -> Element {
    let axis = axis.onto(5.0, BAR[0] - 5.0);
    let mut scale = bar_svg();
    let mut last = f64::NEG_INFINITY;
    for value in axis.ticks(7) {
        let label = format!("{}\u{d7}", (value * 1e6).round() / 1e6);
        let half = 3.6 * label.chars().count() as f64;
        let at = axis.place(value).clamp(half, BAR[0] - half);
        if at - half > last + 4.0 {
            scale = scale.child(text(at, 14.0, "tick middle", label));
            last = at + half;
        }
    }
    scale
}

fn bar_svg() -> Element {
    element("svg").class("bar").with("viewBox", format!("0 0 {} {}", BAR[0], BAR[1])).with("aria-hidden", "true")
}

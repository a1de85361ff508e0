//! Lines over a parameter with their 95 % bands, and the steps of a distribution.

use super::axis::Axis;
use super::{line, marker, path, short, stroke, svg, text};
use crate::report::html::markup::{Element, element};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 44.0;

/// One line.
pub(crate) struct Series {
    /// The number of its look, which is that of its entry in the legend.
    pub(crate) look: usize,
    /// From left to right.
    pub(crate) points: Vec<Point>,
    /// Whether each point is marked; steps are not, except for the middle.
    pub(crate) is_marked: bool,
}

/// One figure of a line.
pub(crate) struct Point {
    /// Where it lies.
    pub(crate) at: [f64; 2],
    /// From where to where its 95 % interval goes.
    pub(crate) band: Option<[f64; 2]>,
    /// What it says when it is pointed at.
    pub(crate) says: String,
}

/// A chart of lines.
pub(crate) struct Lines<'a> {
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) x_title: &'a str,
    pub(crate) y_title: &'a str,
    /// Values written below the chart.
    pub(crate) x_ticks: Vec<(f64, String)>,
    /// How a value beside the chart is written.
    pub(crate) y_tick: fn(f64) -> String,
    /// Places that mean something, drawn in as upright lines.
    pub(crate) landmarks: Vec<(f64, String)>,
    pub(crate) series: Vec<Series>,
}

impl Lines<'_> {
    /// Draws it.
    pub(crate) fn draw(&self) -> Element {
        let (x, y) = (self.x.onto(LEFT + 6.0, RIGHT - 6.0), self.y.onto(BOTTOM, TOP));
        let bands = self.series.iter().filter_map(|series| band(series, &x, &y));
        let lines = self.series.iter().map(|series| drawn(series, &x, &y));
        svg(WIDTH, HEIGHT, self.title, self.description).children(self.frame(&x, &y)).children(bands).children(lines)
    }

    fn frame(&self, x: &Axis, y: &Axis) -> Vec<Element> {
        let mut parts = vec![text(LEFT - 38.0, 16.0, "axis", self.y_title)];
        for value in y.ticks(6) {
            let at = y.place(value);
            parts.push(line("grid", [LEFT, at], [RIGHT, at]));
            parts.push(text(LEFT - 7.0, at + 4.0, "tick end", (self.y_tick)(value)));
        }
        for (value, label) in readable(&self.x_ticks, x) {
            let at = x.place(value);
            parts.push(line("grid", [at, BOTTOM], [at, BOTTOM + 4.0]));
            parts.push(text(at, BOTTOM + 18.0, "tick middle", label));
        }
        parts.push(line("base", [LEFT, BOTTOM], [RIGHT, BOTTOM]));
        parts.push(text((LEFT + RIGHT) / 2.0, HEIGHT - 6.0, "axis middle", self.x_title));
        for (value, label) in self.landmarks.iter().filter(|(value, _)| x.holds(*value)) {
            let at = x.place(*value);
            parts.push(line("landmark", [at, TOP - 6.0], [at, BOTTOM]));
            parts.push(text(at, TOP - 10.0, "tick middle", label));
        }
        parts
    }
}

/// Those of the labels that have room, the first and then as many as fit.
fn readable<'a>(ticks: &'a [(f64, String)], axis: &Axis) -> Vec<(f64, &'a str)> {
    let mut shown: Vec<(f64, &str)> = Vec::new();
    for (value, label) in ticks {
        let room = 8.5 * (label.chars().count().max(2) as f64) + 7.0;
        let is_free = shown.last().is_none_or(|(last, _)| axis.place(*value) - axis.place(*last) >= room);
        if is_free && axis.holds(*value) {
            shown.push((*value, label));
        }
    }
    shown
}

fn band(series: &Series, x: &Axis, y: &Axis) -> Option<Element> {
    let edge = |bound: usize| -> Vec<[f64; 2]> {
        let places = series.points.iter().filter_map(|point| Some((point.at[0], point.band?[bound])));
        places.map(|(at, value)| [x.place(at), y.place(value)]).collect()
    };
    let (below, mut above) = (edge(0), edge(1));
    above.reverse();
    let outline = path(&[below, above].concat());
    (!outline.is_empty())
        .then(|| element("path").class(format!("band {}", super::colour(series.look))).with("d", format!("{outline}z")))
}

fn drawn(series: &Series, x: &Axis, y: &Axis) -> Element {
    let places: Vec<[f64; 2]> =
        series.points.iter().map(|point| [x.place(point.at[0]), y.place(point.at[1])]).collect();
    let mut group = element("g");
    if !series.is_marked || places.len() > 1 {
        group = group.child(element("path").class(format!("line {}", stroke(series.look))).with("d", path(&places)));
    }
    let marked = places.iter().zip(&series.points).filter(|(_, point)| series.is_marked || !point.says.is_empty());
    group.children(marked.map(|(place, point)| {
        let place = place.map(|position| short(position).parse().unwrap_or(position));
        marker(series.look, place).child(element("title").text(&point.says))
    }))
}

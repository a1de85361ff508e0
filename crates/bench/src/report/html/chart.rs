//! Small charts in SVG. Positions are attributes and colours are classes, because the page's policy forbids inline styles.

use super::markup::{Element, element};

pub(super) mod axis;
pub(super) mod heat;
pub(super) mod intervals;
pub(super) mod lines;

/// How many dashes and markers the style sheet and [`marker`] know.
const DASHES: usize = 5;
const MARKERS: usize = 7;

/// The colour of a look, of eight. The first two are only for millstream and its baseline.
fn colour(look: usize) -> String {
    format!("c{}", if look < 2 { look } else { 2 + (look - 2) % 6 })
}

/// A chart, with a title and a description for screen readers (SVG accessibility mappings:
/// the two elements are what a picture is called and described by).
fn svg(width: f64, height: f64, title: &str, description: &str) -> Element {
    element("svg")
        .with("viewBox", format!("0 0 {width:.0} {height:.0}"))
        .with("role", "img")
        .child(element("title").text(title))
        .child(element("desc").text(description))
}

fn text(x: f64, y: f64, class: &str, text: impl std::fmt::Display) -> Element {
    element("text").with("x", short(x)).with("y", short(y)).class(class).text(text)
}

fn line(class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) -> Element {
    let line = element("line").class(class).with("x1", short(x1)).with("y1", short(y1));
    line.with("x2", short(x2)).with("y2", short(y2))
}

fn rect(class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2]) -> Element {
    let rect = element("rect").class(class).with("x", short(x)).with("y", short(y));
    rect.with("width", short(width)).with("height", short(height))
}

/// A tenth of a unit is below what a screen shows.
fn short(position: f64) -> String {
    let text = format!("{position:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A polyline as a path.
fn path(points: &[[f64; 2]]) -> String {
    let parts = points
        .iter()
        .enumerate()
        .map(|(index, [x, y])| format!("{}{} {}", if index == 0 { "M" } else { "L" }, short(*x), short(*y)));
    parts.collect()
}

/// The classes of a line's look: colour and dashes.
fn stroke(look: usize) -> String {
    format!("{} d{}", colour(look), look % DASHES)
}

/// A marker of a line's look, around a place.
fn marker(look: usize, [x, y]: [f64; 2]) -> Element {
    let outline = match look % MARKERS {
        0 => "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
        1 => "m-3-3h6v6h-6z",
        2 => "m0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6z",
        3 => "m0-4.4l4.2 7.4h-8.4z",
        4 => "m0 4.4l4.2-7.4h-8.4z",
        5 => "m-1.4-4.2h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8h-2.8v-2.8h2.8z",
        _ => "m-4.4 0l2.2-3.8h4.4l2.2 3.8l-2.2 3.8h-4.4z",
    };
    let class = format!("mark {}", colour(look));
    element("path").class(class).with("d", format!("M{} {}{outline}", short(x), short(y)))
}

/// What the looks stand for, above the charts that share them.
pub(super) fn legend(labels: &[(usize, String)]) -> Element {
    let items = labels.iter().map(|&(look, ref label)| {
        let swatch = element("svg")
            .with("viewBox", "0 0 34 12")
            .with("aria-hidden", "true")
            .child(element("path").class(format!("line {}", stroke(look))).with("d", "M1 6H33"))
            .child(marker(look, [17.0, 6.0]));
        element("li").child(swatch).text(label)
    });
    element("ul").class("legend").children(items)
}

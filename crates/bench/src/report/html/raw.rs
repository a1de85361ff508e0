//! Everything that was measured, for people and for programs, as far as a page below 1 MB holds it.

use std::fmt::Write;

use super::blocks::{Room, folded, header_row, paragraph, scrolling};
use super::groups::{Group, varying};
use super::markup::{self, Element, element};
use super::words::{self, count, grouped, number};
use crate::cell::{Cell, Document};

/// Bytes for the tables of samples, and for the JSON.
const ROOM_FOR_TABLES: usize = 130_000;
const ROOM_FOR_JSON: usize = 200_000;

/// Samples of a cell in the tables.
const MOST_SAMPLES: usize = 100;

/// Tables of samples, and the document.
pub(super) fn section(whole: &Document, methods: &[Group<'_>]) -> Option<Element> {
    let mut room = Room(ROOM_FOR_TABLES);
    let mut section = element("div").child(paragraph(
        "Samples in the order in which they were taken. An asterisk marks one that lies far out; it counts all the same.",
    ));
    for (method, cells) in methods {
        let rows: Vec<Element> =
            cells.iter().map(|cell| row(cell, &varying(cells))).take_while(|row| room.take(row)).collect();
        if !rows.is_empty() {
            let left_out = cells.len() - rows.len();
            let more = (left_out > 0)
                .then(|| paragraph(format!("{} more would make this page too large.", count(left_out, "cell"))));
            let summary = format!("{method}: samples of {}", count(cells.len(), "cell"));
            section = section.child(folded(summary, [table(method, rows, &varying(cells))].into_iter().chain(more)));
        }
    }
    let (json, says) = enclosed(whole);
    let data = json.map(|json| {
        element("script").with("type", "application/json").with("id", "document").verbatim(&markup::data(&json))
    });
    Some(section.child(paragraph(says)).children(data))
}

fn table(method: &str, rows: Vec<Element>, parameters: &[&str]) -> Element {
    let mut titles: Vec<(&str, &str)> = parameters.iter().map(|name| ("", *name)).collect();
    titles.extend([
        ("", "transport"),
        ("", "CPUs"),
        ("n", "median"),
        ("", "unit"),
        ("n", "95 % interval"),
        ("n", "n"),
        ("samples", "samples"),
    ]);
    let table = element("table")
        .class("raw")
        .child(element("caption").text(format!("{method}: every cell")))
        .child(header_row(titles))
        .child(element("tbody").children(rows));
    scrolling(&format!("Samples of {method}"), table)
}

fn row(cell: &Cell, parameters: &[&str]) -> Element {
    let text = |text: &str| element("td").text(text);
    let figure = |text: String| element("td").class("n").text(text);
    let values = parameters
        .iter()
        .map(|name| text(&cell.params.get(*name).map_or("-".into(), |value| words::value(name, value))));
    element("tr")
        .children(values)
        .child(text(&cell.transport))
        .child(text(words::placement(&cell.placement)))
        .child(figure(cell.median.map_or("not valid".into(), number)))
        .child(text(&cell.unit))
        .child(figure(cell.ci95.map_or("-".into(), |[low, high]| format!("{} \u{2013} {}", number(low), number(high)))))
        .child(figure(grouped(cell.n as f64)))
        .child(element("td").class("samples").text(samples(cell)))
}

fn samples(cell: &Cell) -> String {
    let mut text = String::new();
    for (index, sample) in cell.samples.iter().take(MOST_SAMPLES).enumerate() {
        let mark = if cell.outliers.contains(&index) { "*" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{}{mark}", if index > 0 { "  " } else { "" }, number(*sample));
    }
    if cell.samples.len() > MOST_SAMPLES {
        let _ = write!(text, "  and {} more", grouped((cell.samples.len() - MOST_SAMPLES) as f64));
    }
    text
}

/// Takes something away from a document.
type Reduction = fn(&mut Document);

/// The document as JSON, as complete as there is room for, and how complete that is.
fn enclosed(document: &Document) -> (Option<String>, String) {
    let mut document = document.clone();
    let ways: [(Reduction, &str); 5] = [
        (|_| (), "The page's source holds the whole document as JSON, in the element with the id \"document\"."),
        (
            round,
            "The page's source holds the document as JSON, in the element with the id \"document\"; its samples are rounded \
                 to five digits. What --json wrote is exact.",
        ),
        (
            forget_launches,
            "The page's source holds the document as JSON, in the element with the id \"document\", its samples \
                           rounded to five digits and without what was counted for each launch. What --json wrote is complete.",
        ),
        (
            thin,
            "The page's source holds the document as JSON, in the element with the id \"document\", with at most 12 \
                samples of each cell, evenly chosen and rounded. What --json wrote is complete.",
        ),
        (
            forget_samples,
            "The page's source holds the document as JSON, in the element with the id \"document\", without \
                          samples. What --json wrote is complete.",
        ),
    ];
    for (reduce, says) in ways {
        reduce(&mut document);
        match serde_json::to_string(&document) {
            Ok(json) if json.len() <= ROOM_FOR_JSON => return (Some(json), says.into()),
            _ => (),
        }
    }
    (None, "The document is too large to be part of this page. What --json wrote is complete.".into())
}

fn round(document: &mut Document) {
    let samples = document.cells.iter_mut().flat_map(|cell| cell.samples.iter_mut().chain(&mut cell.warmup));
    samples.for_each(|sample| *sample = format!("{sample:.4e}").parse().unwrap_or(*sample));
}

fn forget_launches(document: &mut Document) {
    document.cells.iter_mut().for_each(|cell| (cell.launches, cell.warmup) = Default::default());
}

fn thin(document: &mut Document) {
    const KEPT: usize = 12;
    for cell in &mut document.cells {
        // What it says of places among the samples holds no longer.
        cell.outliers.clear();
        let all = cell.samples.len();
        if all > KEPT {
            cell.samples = (0..KEPT).map(|index| cell.samples[index * all / KEPT]).collect();
        }
    }
}

fn forget_samples(document: &mut Document) {
    document.cells.iter_mut().for_each(|cell| cell.samples.clear());
}

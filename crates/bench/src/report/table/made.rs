//! What the tests of tables share.

use crate::cell::{Cell, Document};
use crate::engine::Launch;

/// A cell of these launches, with its figures; without, where it failed.
pub(super) fn concluded(mut cell: Cell, launches: impl IntoIterator<Item = Launch>, why_invalid: Option<&str>) -> Cell {
    launches.into_iter().for_each(|launch| cell.add(launch));
    cell.why_invalid = why_invalid.map(str::to_owned);
    cell.conclude();
    cell
}

/// A launch for each sample.
pub(super) fn of_samples(cell: Cell, samples: &[f64], why_invalid: Option<&str>) -> Cell {
    concluded(cell, samples.iter().copied().map(Launch::of), why_invalid)
}

/// The tables of cells of which the first is what the others are compared with.
pub(super) fn compared(mut cells: Vec<Cell>) -> String {
    let baseline = cells[0].clone();
    cells[1..].iter_mut().for_each(|cell| cell.compare_with(&baseline));
    rendered(cells)
}

/// The tables.
pub(super) fn rendered(cells: Vec<Cell>) -> String {
    super::render(&Document::for_tests(cells))
}

/// The words of each line that begins with `first`, behind its indentation.
pub(super) fn rows<'a>(text: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let lines = text.lines().filter(|line| line.trim_start().starts_with(first));
    lines.map(|line| line.split_whitespace().collect()).collect()
}

//! Tables for the terminal: each method in the shape that its results have been shown in since the first such studies.

use crate::cell::{Cell, Document};

mod averages;
mod fifo_grid;
mod figures;
pub mod file;
mod grep;
mod increment;
mod labels;
#[cfg(test)]
mod made;
mod pipeflex;
mod rows;
pub mod seeds;
mod staircase;
mod streams;
pub mod verdicts;

pub(crate) use rows::new_table;

/// What people read: a table for each method that was measured, and what could not be measured and why.
pub fn render(document: &Document) -> String {
    let mut methods: Vec<&str> = Vec::new();
    for cell in &document.cells {
        if !methods.contains(&&*cell.method) {
            methods.push(&cell.method);
        }
    }
    let tables = methods.into_iter().map(|method| {
        let cells: Vec<&Cell> = document.cells.iter().filter(|cell| cell.method == method).collect();
        match (streams::shape(method), figures::shape(method)) {
            (Some(shape), _) => streams::render(document, &cells, shape),
            (_, Some(shape)) => figures::render(document, &cells, shape),
            _ if method == "lat_mem_rd" => staircase::render(document, &cells),
            _ if method == crate::method::fifo_grid::NAME => fifo_grid::render(document, &cells),
            _ if method == crate::method::pipeflex::NAME => pipeflex::render(document, &cells),
            _ if method == crate::method::increment::NAME => increment::render(document, &cells),
            _ => grep::render(document, &cells),
        }
    });
    tables.collect::<Vec<_>>().join("\n")
}

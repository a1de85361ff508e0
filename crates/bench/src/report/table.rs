//! Tables for the terminal: each method in the shape that its results have been shown in since the first such studies.

use std::fmt::Write;

use crate::cell::{Cell, Document};
use crate::machine::Machine;

mod averages;
mod fifo_grid;
mod figures;
pub mod file;
mod grep;
mod increment;
#[cfg(test)]
mod made;
mod pipeflex;
pub mod seeds;
mod staircase;
mod streams;

pub(crate) use streams::new_table;
pub mod verdicts;

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

fn on_machine(machine: &Machine) -> String {
    format!("on {}, {} CPUs, Linux {}", machine.cpu, machine.cpus, machine.kernel)
}

/// A number of bytes as it is given to options.
fn size_label(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 30) == 0 => format!("{}g", bytes >> 30),
        bytes if bytes % (1 << 20) == 0 => format!("{}m", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// How much faster than what it is compared with.
fn percent(ratio: f64) -> String {
    format!("{:+.0} %", (ratio - 1.0) * 100.0)
}

/// A parameter that is a number; 0 where it is missing.
fn number(cell: &Cell, name: &str) -> u64 {
    cell.params.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// A line for each cell that shows no number, and why.
fn invalid_cells(cells: &[&Cell], title: impl Fn(&Cell) -> String) -> String {
    let mut lines = String::new();
    for cell in cells.iter().filter(|cell| !cell.valid) {
        let why = cell.why_invalid.as_deref().unwrap_or("no run was counted");
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "not valid: {} over {} at {}: {why}", title(cell), cell.transport, cell.placement);
    }
    lines
}

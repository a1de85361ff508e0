//! How tables name machines, sizes and cells.

use std::fmt::Write;

use crate::cell::Cell;
use crate::machine::Machine;

/// Where it was measured.
pub(super) fn on_machine(machine: &Machine) -> String {
    format!("on {}, {} CPUs, Linux {}", machine.cpu, machine.cpus, machine.kernel)
}

/// A number of bytes as it is given to options.
pub(super) fn size_label(bytes: u64) -> String {
    match bytes {
        bytes if bytes % (1 << 30) == 0 => format!("{}g", bytes >> 30),
        bytes if bytes % (1 << 20) == 0 => format!("{}m", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

/// How much faster than what it is compared with.
pub(super) fn percent(ratio: f64) -> String {
    format!("{:+.0} %", (ratio - 1.0) * 100.0)
}

/// A parameter that is a number; 0 where it is missing.
pub(super) fn number(cell: &Cell, name: &str) -> u64 {
    cell.params.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// A line for each cell that shows no number, and why.
pub(super) fn invalid_cells(cells: &[&Cell], title: impl Fn(&Cell) -> String) -> String {
    let mut lines = String::new();
    for cell in cells.iter().filter(|cell| !cell.valid) {
        let why = cell.why_invalid.as_deref().unwrap_or("no run was counted");
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "not valid: {} over {} at {}: {why}", title(cell), cell.transport, cell.placement);
    }
    lines
}

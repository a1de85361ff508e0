//! What each row is to reach.

use crate::cell::Cell;

/// A bound that a cell is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// So many times as fast as this transport, at least.
    AtLeast(f64, &'static str),
    /// So much in the unit of the cell, at most.
    AtMost(f64),
}

/// What a cell of ours is to reach; `None` if it is only shown.
pub fn target(cell: &Cell) -> Option<Target> {
    let workload = cell.params.get("workload").and_then(serde_json::Value::as_str)?;
    let stages = cell.params.get("stages").and_then(serde_json::Value::as_u64);
    Some(match (workload, stages) {
        ("unbound", _) => Target::AtLeast(0.95, "bare"),
        ("identity", _) => Target::AtLeast(0.9, "passthrough_ll"),
        ("increment", Some(8)) => Target::AtLeast(3.0, "pipe"),
        ("increment", _) => Target::AtLeast(1.0, "pipe"),
        ("gunzip", _) => Target::AtLeast(0.9, "pipe"),
        ("zstd", _) => Target::AtLeast(0.9, "zstd"),
        ("zstd-write", _) => Target::AtLeast(0.9, "pipe"),
        // At most twice the time.
        ("open", Some(1)) => Target::AtLeast(0.5, "unbound"),
        // Within 1.2 times its time.
        ("tar", _) => Target::AtLeast(1.0 / 1.2, "passthrough_ll"),
        (random, _) if random.starts_with("random-") => Target::AtMost(20.0),
        (memory, _) if memory.starts_with("memory-") => Target::AtMost(64.0),
        _ => return None,
    })
}

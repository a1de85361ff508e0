//! What sources and sinks are called in messages.

use std::path::Path;

use crate::graph::Target;

/// A source; `None` is the standard input.
pub(super) fn of_source(path: Option<&Path>) -> String {
    path.map_or_else(|| "the standard input".into(), quoted)
}

pub(super) fn of_target(target: &Target) -> String {
    match target {
        Target::Stdout => "the standard output".into(),
        Target::File(path) | Target::Append(path) => quoted(path),
    }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

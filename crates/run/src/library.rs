//! Which programs get the library.

use millstream_sys::executable::Kind;
use millstream_sys::settings::Settings;
use millstream_sys::{machine, pipe};

/// Whether a program of this kind that takes over this process's standard input and output gets the library: not where
/// it would be harmful or no use. Inside programs the library decides likewise about those that they start.
pub fn gets_library(kind: Kind, settings: &Settings<'_>) -> bool {
    let has_pipe = || machine::standing_ends().into_iter().any(|end| pipe::identity(end).is_some());
    match kind {
        Kind::Foreign => false,
        Kind::Leaf => settings.ledger.is_some() || settings.flushes_lines || settings.ring.is_some() && has_pipe(),
        Kind::Threaded | Kind::Other => true,
    }
}

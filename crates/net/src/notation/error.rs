//! What is wrong with a text that should be a network.

use std::fmt;

/// Nodes of a network, at most: each is a call within the call of the one before it.
pub(super) const NODES_MAX: usize = 1000;

/// Why a text is no network, as a sentence that says where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    says: String,
    kind: NotationErrorKind,
}

/// In which notation such a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotationErrorKind {
    /// One line.
    Line,
    /// A file in TOML.
    Toml,
}

impl NotationError {
    pub(super) fn line(says: String) -> NotationError {
        NotationError { says, kind: NotationErrorKind::Line }
    }

    pub(super) fn toml(says: String) -> NotationError {
        NotationError { says, kind: NotationErrorKind::Toml }
    }

    /// In which notation the text is.
    pub fn kind(&self) -> NotationErrorKind {
        self.kind
    }
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl std::error::Error for NotationError {}

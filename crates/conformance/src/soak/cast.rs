//! How many processes write to a pipe, and how many read from it.

/// The participants: writers first, then readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cast {
    /// One writer, one reader.
    Pair,
    /// So many writers, one reader.
    Writers(usize),
    /// One writer, so many readers.
    Readers(usize),
}

impl Cast {
    pub(super) fn writers(self) -> usize {
        if let Cast::Writers(count) = self { count } else { 1 }
    }

    pub(super) fn readers(self) -> usize {
        if let Cast::Readers(count) = self { count } else { 1 }
    }
}

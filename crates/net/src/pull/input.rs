//! What a line of transforms reads from.

use std::io::Read;

/// What a [`Pull`](super::Pull) reads from.
pub struct Input {
    /// Where the bytes come from.
    pub bytes: Box<dyn Read + Send>,
    /// How it is called in a message.
    pub name: String,
    /// The number of the first byte: transforms in place at the beginning of the line count from it.
    pub offset: u64,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("offset", &self.offset).finish_non_exhaustive()
    }
}

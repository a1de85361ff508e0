//! What `poll(2)` says of a ring.

/// How full the ring is, in the terms of `poll(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing to read.
    Empty,
    /// Something to read, and room for a write of `PIPE_BUF`.
    Partial,
    /// Less room than that.
    Full,
}

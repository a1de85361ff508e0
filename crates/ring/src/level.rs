//! What `poll(2)` has to know of a ring.

/// How full the ring is, as `poll(2)` would put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing to read.
    Empty,
    /// Something to read, and room for a write of `PIPE_BUF`.
    Partial,
    /// Less room than that.
    Full,
}

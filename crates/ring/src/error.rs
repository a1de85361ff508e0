//! What can be wrong with a segment.

use core::fmt;

/// The shared words are impossible, or a lock is never released: another process is broken or hostile. The stream
/// cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingError;

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another process has broken this pipe's shared memory; close the pipe and start again")
    }
}

impl core::error::Error for RingError {}

/// What differs between a segment and what a process that attaches to it expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignError {
    /// It is not a segment of millstream.
    Magic,
    /// Its version has another layout.
    Version(u32),
    /// Its size is not what it says.
    Size,
    /// It belongs to another pipe, or to processes of another PID namespace.
    Pipe,
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForeignError::Magic => f.write_str("this is no segment of millstream"),
            ForeignError::Version(version) => write!(f, "the segment has layout {version}, this library has another"),
            ForeignError::Size => f.write_str("the segment has another size than it says"),
            ForeignError::Pipe => f.write_str("the segment belongs to another pipe or PID namespace"),
        }
    }
}

impl core::error::Error for ForeignError {}

/// Why a ring keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// More bytes wait than it would hold, or a process works in place.
    Busy,
    /// Larger than its banks, or not a power of two.
    TooLarge,
    /// The header is impossible.
    Broken,
}

impl fmt::Display for ResizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResizeError::Busy => {
                f.write_str("more bytes wait than the ring would hold, or some are worked on in place")
            }
            ResizeError::TooLarge => {
                f.write_str("the new size is no power of two, or larger than the memory of the ring")
            }
            ResizeError::Broken => RingError.fmt(f),
        }
    }
}

impl core::error::Error for ResizeError {}

impl From<RingError> for ResizeError {
    fn from(_: RingError) -> ResizeError {
        ResizeError::Broken
    }
}

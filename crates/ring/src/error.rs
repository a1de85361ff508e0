//! The one error of this crate: another process has broken the shared memory.

/// The shared words are impossible, or a lock is never released: another process is broken or hostile. The stream
/// cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingError;

impl core::fmt::Display for RingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("another process has broken this pipe's shared memory; close the pipe and start again")
    }
}

impl core::error::Error for RingError {}

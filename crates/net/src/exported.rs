//! Transforms that work elsewhere, such as in another process.
//!
//! What is done elsewhere has a pace of its own: it may write before it reads, long after, or nothing at all. So such a
//! transform has two halves, one that it is fed through and one that is drained, and each runs in a thread of its own.

use crate::error::TransformError;

/// A transform outside of this program that has not been started.
pub trait Export: Send {
    /// Starts it, before the first byte moves.
    ///
    /// # Errors
    /// [`TransformError`]: why it cannot be started.
    fn start(self: Box<Self>) -> Result<Halves, TransformError>;
}

/// The two halves of a transform that was started.
pub struct Halves {
    /// Where bytes go in.
    pub feed: Box<dyn Feed>,
    /// Where bytes come out.
    pub drain: Box<dyn Drain>,
}

impl std::fmt::Debug for Halves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Halves").finish_non_exhaustive()
    }
}

/// Where bytes go in.
pub trait Feed: Send {
    /// Hands over some bytes from the start of `bytes`, which are not empty. Sleeps until there is room. Returns how many;
    /// 0 if no more are wanted.
    ///
    /// # Errors
    /// [`TransformError`]: what keeps them from being handed over.
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, TransformError>;

    /// No bytes follow. Does not wait for what comes of it.
    fn end(&mut self);

    /// Stops all work and wakes whoever drains: the network has failed, and what would come out is of no use.
    fn break_off(&mut self);
}

/// Where bytes come out.
pub trait Drain: Send {
    /// Writes to the start of `output`. Sleeps until there is something. Returns how many bytes; 0 at the end, when all
    /// work was done and all is well.
    ///
    /// # Errors
    /// [`TransformError`]: the work was not done.
    fn drain(&mut self, output: &mut [u8]) -> Result<usize, TransformError>;

    /// No more bytes are wanted. Sleeps until nothing of the work is left.
    fn has_enough(&mut self);

    /// Stops all work and wakes whoever feeds: the network has failed.
    fn break_off(&mut self);
}

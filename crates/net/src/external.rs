//! External transforms, which run in another process.
//!
//! An external transform has a pace of its own: it may write before it reads, long after, or nothing at all. So one
//! thread feeds each of its inputs, and another drains each of its outputs.

use std::sync::Arc;
use std::time::Duration;

use crate::error::TransformError;

/// What a network connects to an external transform.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Whether the stream goes into it: for a command, into its standard input.
    pub has_input: bool,
    /// Whether a stream comes out of it: for a command, of its standard output.
    pub has_output: bool,
    /// Names of further inputs.
    pub inputs: Vec<String>,
    /// Names of further outputs.
    pub outputs: Vec<String>,
}

impl Ends {
    /// Those of a stage in a line.
    pub fn plain() -> Ends {
        Ends { has_input: true, has_output: true, ..Ends::default() }
    }

    /// Whether there are others than those of a stage in a line.
    pub fn are_named(&self) -> bool {
        !self.inputs.is_empty() || !self.outputs.is_empty()
    }
}

/// An external transform that has not been started.
pub trait Export: Send {
    /// Whether it can have named inputs and outputs.
    fn has_named_ends(&self) -> bool {
        false
    }

    /// Starts it, before the first byte moves.
    ///
    /// # Errors
    /// [`TransformError`]: why it cannot be started.
    fn start(self: Box<Self>, ends: &Ends) -> Result<Started, TransformError>;

    /// Sets how long it may give nothing while a thread waits for its bytes and there is input for it, before it is
    /// ended. Without a limit it goes on for ever.
    fn limit(&mut self, _timeout: Duration) {}
}

/// A transform that was started.
pub struct Started {
    /// Where bytes go in: the stream, if it has that input, and then the named inputs in their order.
    pub feeds: Vec<Box<dyn Feed>>,
    /// Where bytes come out, in the same order.
    pub drains: Vec<Box<dyn Drain>>,
    /// For the whole of it.
    pub control: Arc<dyn Control>,
}

impl std::fmt::Debug for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Started").finish_non_exhaustive()
    }
}

/// Where bytes go in.
pub trait Feed: Send {
    /// Hands over some bytes from the start of `bytes`, which are not empty. Sleeps until there is room. Returns how
    /// many; 0 if no more are wanted.
    ///
    /// # Errors
    /// [`TransformError`]: why it does not take them.
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, TransformError>;

    /// No bytes follow. Does not wait until the transform has ended.
    ///
    /// # Errors
    /// [`TransformError`]: what was fed is not complete.
    fn end(&mut self) -> Result<(), TransformError>;
}

/// Where bytes come out.
pub trait Drain: Send {
    /// Writes to the start of `output`. Sleeps until there is something. Returns how many bytes; 0 at the end, when all
    /// work was done and all is well.
    ///
    /// # Errors
    /// [`TransformError`]: the work was not done.
    fn drain(&mut self, output: &mut [u8]) -> Result<usize, TransformError>;

    /// No more bytes of this output are wanted. Sleeps until the transform has ended.
    fn has_enough(&mut self);
}

/// A transform that was started, as a whole, for every thread.
pub trait Control: Send + Sync {
    /// Stops all work, and wakes the threads that feed and drain: the network has failed, and its output is of no use.
    fn stop(&self);

    /// How it ended; `None` while it runs.
    fn ending(&self) -> Option<Ending>;
}

/// How an external transform has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The exit status; of several processes that of the first that failed.
    pub status: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Whether it was stopped because the network had failed.
    pub is_stopped: bool,
    /// From the start to the end.
    pub wall: Duration,
    /// Processes that were started.
    pub processes: u64,
}

//! What carries bytes from one process to another: each rival behind one trait, in a file of its own.

use std::io::{Read, Write};

use crate::engine::placement::Placement;

pub mod kernel_fifo;
pub mod kernel_pipe;
pub mod millstream;
pub mod spsc_bare;

/// A way to carry bytes.
pub trait Transport: Sync {
    /// The name in options and results.
    fn name(&self) -> &'static str;

    /// Makes a stream whose ends work in this process and in any that is forked from it.
    ///
    /// # Errors
    /// A sentence: why this machine does not give what the name promises.
    fn connect(&self, placement: Placement) -> Result<Ends, String>;
}

/// The two ends of a new stream.
pub struct Ends {
    /// Takes bytes, and waits while there is no room.
    pub writer: Box<dyn WriteEnd>,
    /// Gives bytes, and waits while there are none; 0 after the last.
    pub reader: Box<dyn Read>,
}

/// An end that bytes are written to.
pub trait WriteEnd: Write {
    /// Tells the reader that nothing more comes. Dropping a copy in a process that does not write tells it nothing.
    fn finish(self: Box<Self>);
}

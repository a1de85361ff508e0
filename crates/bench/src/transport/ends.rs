//! What every transport is: a name, and a way to make the two ends of a stream.

use std::io::{self, BufRead, Read, Write};

use crate::engine::placement::Placement;
use crate::page_aligned::PageAligned;

/// A way to carry bytes.
pub trait Transport: Sync {
    /// The name in options and results.
    fn name(&self) -> &'static str;

    /// Makes a stream whose ends work in this process and in any that is forked from it.
    ///
    /// # Errors
    /// A sentence: why this machine does not give what the name promises.
    fn connect(&self, placement: Placement) -> Result<Ends, String>;

    /// The same, where bytes are made and looked at in the stream itself, if this transport has that.
    fn connect_in_place(&self, _: Placement) -> Option<Result<InPlaceEnds, String>> {
        None
    }

    /// Whether an end that has to wait goes to sleep. One that only spins or gives way has no round trips from sleep.
    fn sleeps(&self) -> bool {
        true
    }
}

/// The two ends of a new stream.
pub struct Ends {
    /// Takes bytes, and waits while there is no room.
    pub writer: Box<dyn WriteEnd>,
    /// Gives bytes, and waits while there are none; 0 after the last.
    pub reader: Box<dyn Read>,
}

/// The two ends of a new stream in which nothing is copied.
pub struct InPlaceEnds {
    /// Has bytes made, and waits while there is no room.
    pub writer: Box<dyn Fill>,
    /// Shows bytes, and waits while there are none; none after the last.
    pub reader: Box<dyn BufRead>,
}

/// An end whose bytes are made where they will be read.
pub trait Fill {
    /// Has up to `len` bytes made by `make`, which gets their places in their order, in one call or two; returns how many.
    ///
    /// # Errors
    /// As for writing.
    fn fill(&mut self, len: usize, make: &mut dyn FnMut(&mut [u8])) -> io::Result<usize>;

    /// As [`WriteEnd::finish`].
    fn finish(self: Box<Self>);
}

/// An end that bytes are written to.
pub trait WriteEnd: Write {
    /// Tells the reader that nothing more comes. Dropping a copy in a process that does not write tells it nothing.
    /// When it returns, everything that was written may be changed.
    fn finish(self: Box<Self>);

    /// How many of the last writes of `len` bytes each, on a page of their own, the reader may not have got yet though
    /// they returned: their bytes must not change. 0 where bytes are copied.
    fn lent_writes(&self, _len: usize) -> usize {
        0
    }
}

/// Buffers to write from, taken in turn: each is given out again when its bytes may change.
pub(crate) struct Buffers {
    buffers: Vec<PageAligned>,
    next: usize,
}

impl Buffers {
    /// As many of `len` bytes as `end` needs.
    pub(crate) fn of(end: &dyn WriteEnd, len: usize) -> Buffers {
        let buffers = (0..=end.lent_writes(len)).map(|_| PageAligned::new(len)).collect();
        Buffers { buffers, next: 0 }
    }

    /// The one whose turn it is.
    pub(crate) fn next(&mut self) -> &mut [u8] {
        let index = self.next;
        self.next = (index + 1) % self.buffers.len();
        &mut self.buffers[index]
    }
}

/// A write that was interrupted before it moved anything, or an error as the standard library has it.
pub(super) fn retried<T>(mut call: impl FnMut() -> Result<T, millstream_sys::Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(millstream_sys::Errno::INTR) => (),
            outcome => return outcome.map_err(io::Error::from),
        }
    }
}

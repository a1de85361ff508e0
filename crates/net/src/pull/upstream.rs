//! The stages of a line that is read from: each pulls from the one above it.

use std::io::{self, ErrorKind, Read};

use super::input::Input;
use crate::error::{NetworkError, TransformError};
use crate::transform::{InPlace, Next, OUTPUT_MIN, Rewrite};

/// Bytes that a stage reads at once.
pub(super) const BUFFER: usize = 128 << 10;

/// A stage with everything above it.
pub(super) trait Upstream: Send {
    /// Writes some bytes to the start of `out`, which has at least [`OUTPUT_MIN`]. Returns 0 at the end, again and
    /// again.
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError>;
}

pub(super) fn failure(stage: &str, start: u64, fault: TransformError) -> NetworkError {
    NetworkError::Stage { stage: stage.into(), offset: fault.offset(start), fault }
}

pub(super) struct Source {
    input: Input,
    read: u64,
}

impl Source {
    pub(super) fn new(input: Input) -> Source {
        Source { input, read: 0 }
    }

    fn failure(&self, error: io::Error) -> NetworkError {
        NetworkError::Source { name: self.input.name.clone(), offset: self.input.offset + self.read, error }
    }
}

impl Upstream for Source {
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        loop {
            match self.input.bytes.read(out) {
                Ok(count) => {
                    self.read += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(error)),
            }
        }
    }
}

/// A transform in place.
pub(super) struct Changed {
    above: Box<dyn Upstream>,
    transform: Box<dyn InPlace>,
    text: String,
    offset: u64,
    has_ended: bool,
}

impl Changed {
    pub(super) fn new(above: Box<dyn Upstream>, transform: Box<dyn InPlace>, text: String, offset: u64) -> Changed {
        Changed { above, transform, text, offset, has_ended: false }
    }
}

impl Upstream for Changed {
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        if self.has_ended {
            return Ok(0);
        }
        let count = self.above.pull(out)?;
        if count == 0 {
            self.transform.finish().map_err(|fault| failure(&self.text, self.offset, fault))?;
            self.has_ended = true;
            return Ok(0);
        }
        let applied = self.transform.apply(self.offset, &mut out[..count]);
        applied.map_err(|fault| failure(&self.text, self.offset, fault))?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A transform that writes other bytes than it reads.
pub(super) struct Rewritten {
    above: Box<dyn Upstream>,
    transform: Box<dyn Rewrite>,
    text: String,
    /// What came from above and was not consumed is `buffer[start..end]`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    consumed: u64,
    /// Nothing follows from above.
    is_last: bool,
    is_done: bool,
}

impl Upstream for Rewritten {
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        while !self.is_done {
            if self.start == self.end && !self.is_last {
                self.refill(0)?;
            }
            let input = &self.buffer[self.start..self.end];
            let step = self.transform.step(input, out, self.is_last);
            let step = step.map_err(|fault| failure(&self.text, self.consumed, fault))?;
            self.start += step.consumed;
            self.consumed += step.consumed as u64;
            self.is_done = step.next == Next::Done;
            if step.produced > 0 {
                return Ok(step.produced);
            }
            if step.consumed == 0 && !self.is_done {
                self.unblock()?;
            }
        }
        Ok(0)
    }
}

impl Rewritten {
    pub(super) fn new(above: Box<dyn Upstream>, transform: Box<dyn Rewrite>, text: String) -> Rewritten {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let (start, end, consumed) = (0, 0, 0);
        Rewritten { above, transform, text, buffer, start, end, consumed, is_last: false, is_done: false }
    }

    /// Reads from above behind the `kept` bytes at the start of the buffer.
    fn refill(&mut self, kept: usize) -> Result<(), NetworkError> {
        let count = self.above.pull(&mut self.buffer[kept..])?;
        (self.start, self.end) = (0, kept + count);
        self.is_last = count == 0;
        Ok(())
    }

    /// The transform has neither read nor written: it needs more than there is, or cannot go on.
    fn unblock(&mut self) -> Result<(), NetworkError> {
        let kept = self.end - self.start;
        if self.is_last || kept + OUTPUT_MIN > self.buffer.len() {
            let fault = TransformError::new("the transform neither reads nor writes, and wants to go on");
            return Err(failure(&self.text, self.consumed, fault));
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.refill(kept)
    }
}

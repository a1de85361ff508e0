//! The ends of a sample: those that bytes are copied into and out of, and those where they are made and looked at in place.

use std::io::{self, BufRead, Read};

use crate::page_aligned::PageAligned;
use crate::transport::{Fill, WriteEnd};

/// The writer's end.
pub(super) enum Sink {
    Copying(Box<dyn WriteEnd>),
    InPlace(Box<dyn Fill>),
}

/// The reader's end.
pub(super) enum Source {
    Copying(Box<dyn Read>, PageAligned),
    InPlace(Box<dyn BufRead>),
}

impl Source {
    /// One that reads `transfer` bytes at once.
    pub(super) fn copying(end: Box<dyn Read>, transfer: usize) -> Source {
        Source::Copying(end, PageAligned::new(transfer))
    }

    pub(super) fn is_in_place(&self) -> bool {
        matches!(self, Source::InPlace(_))
    }

    /// The `count` bytes that were taken last; `None` where their place is the stream's again.
    pub(super) fn last(&self, count: usize) -> Option<&[u8]> {
        match self {
            Source::Copying(_, buffer) => Some(&buffer[..count]),
            Source::InPlace(_) => None,
        }
    }

    /// Takes some bytes, after `look` has looked at them; none at the end.
    pub(super) fn take<T>(&mut self, look: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        match self {
            Source::Copying(end, buffer) => {
                let count = end.read(buffer)?;
                Ok(look(&buffer[..count]))
            }
            Source::InPlace(end) => {
                let bytes = end.fill_buf()?;
                let (count, seen) = (bytes.len(), look(bytes));
                end.consume(count);
                Ok(seen)
            }
        }
    }
}

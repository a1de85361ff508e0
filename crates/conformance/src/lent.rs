//! On trial: `millstream_pipe` where programs fill whole buffers and lend them.
//!
//! A write to an empty pipe lends. Any other is a plain one, as lending would be a copy there: and while it sleeps it would
//! keep its buffer, with which the capacity of a pipe cannot be changed.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::fd::{BorrowedFd, OwnedFd};

use crate::ours::{Ours, Reader, Writer};
use crate::{BetweenProcesses, End, Implementation, Polled, WriteEnd, paths};

/// millstream's pipe, whose writers lend.
#[derive(Debug)]
pub enum Lent {}

/// The write end.
#[derive(Debug)]
pub struct Lender {
    plain: Writer,
    /// Bytes that were not copied.
    lent: AtomicU64,
}

impl Lender {
    fn new(plain: Writer) -> Lender {
        Lender { plain, lent: AtomicU64::new(0) }
    }
}

impl Implementation for Lent {
    type Reader = Reader;
    type Writer = Lender;

    fn pipe() -> io::Result<(Reader, Lender)> {
        let (reader, writer) = Ours::pipe()?;
        Ok((reader, Lender::new(writer)))
    }
}

impl BetweenProcesses for Lent {}

impl WriteEnd for Lender {
    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.plain.bytes_readable()? > 0 {
            return self.plain.write(buffer);
        }
        let (written, lent) = paths::lend_counted(&self.plain.0, buffer)?;
        self.lent.fetch_add(lent, Relaxed);
        Ok(written)
    }

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        self.write(&bytes)
    }
}

impl End for Lender {
    fn try_clone(&self) -> io::Result<Self> {
        self.plain.try_clone().map(Lender::new)
    }

    fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.plain.set_nonblocking(yes)
    }

    fn capacity(&self) -> io::Result<usize> {
        self.plain.capacity()
    }

    fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
        self.plain.set_capacity(bytes)
    }

    fn bytes_readable(&self) -> io::Result<usize> {
        self.plain.bytes_readable()
    }
}

impl Polled for Lender {
    fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
        self.plain.readiness()
    }

    fn into_descriptor(self) -> io::Result<OwnedFd> {
        self.plain.into_descriptor()
    }

    fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
        Writer::from_descriptor(descriptor).map(Lender::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReadEnd;

    #[test]
    fn what_is_written_to_an_empty_pipe_is_lent() {
        let (reader, writer) = Lent::pipe().unwrap();
        let mut buffer = [0; 9000];
        for len in [1, 4096, 9000] {
            assert_eq!(writer.write(&vec![7; len]).unwrap(), len);
            assert_eq!(reader.read(&mut buffer).unwrap(), len);
        }
        assert_eq!(writer.lent.load(Relaxed), 1 + 4096 + 9000);
    }
}

//! The kernel's pipe without the writer's copy: pages are lent to it with `vmsplice(2)`, and the reader's `read` copies
//! straight from them.
//!
//! This is what the call gives to a program that is honest about its memory: nothing is gifted, and a buffer is written
//! to again only when the reader has got it. The pipe has 16 slots and lent memory takes one for each page, so whatever
//! lies 16 slots back has been read; a writer whose bytes change takes that many buffers in turn
//! ([`WriteEnd::lent_writes`]), which is more memory than its cache may like. The hot buffer never changes and is lent
//! again and again.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::OwnedFd;

use millstream_sys::lend::{Lender, SLOTS};
use millstream_sys::{cpu, transfer};

use super::ends::{Ends, Transport, WriteEnd, retried};
use crate::engine::placement::Placement;

const PAGE_BYTES: usize = 4096;

/// A pipe of the default size.
pub struct Vmsplice;

/// The only one.
pub static VMSPLICE: Vmsplice = Vmsplice;

impl Transport for Vmsplice {
    fn name(&self) -> &'static str {
        "vmsplice"
    }

    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let (reader, writer): (PipeReader, PipeWriter) =
            io::pipe().map_err(|error| format!("cannot make a pipe: {error}"))?;
        let granted = millstream_sys::pipe::capacity(&reader).unwrap_or(0);
        if granted != millstream_sys::pipe::DEFAULT_CAPACITY {
            return Err(format!("the pipe holds {granted} bytes instead of 65536; is the user's quota used up?"));
        }
        let lender = Lender::new(OwnedFd::from(writer)).map_err(|error| format!("cannot lend to a pipe: {error}"))?;
        Ok(Ends { writer: Box::new(Lending(lender)), reader: Box::new(reader) })
    }
}

struct Lending(Lender);

impl Write for Lending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        retried(|| self.0.lend(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for Lending {
    /// Waits until everything was read, because then the memory may go.
    fn finish(self: Box<Self>) {
        while transfer::bytes_waiting(&self.0).is_ok_and(|bytes| bytes > 0)
            && transfer::readiness(&self.0).is_ok_and(|end| !end.peer_gone)
        {
            cpu::give_way();
        }
    }

    fn lent_writes(&self, len: usize) -> usize {
        SLOTS.div_ceil(len.div_ceil(PAGE_BYTES).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_writes_are_lent_as_fill_the_slots() {
        let lender = Lending(Lender::new(OwnedFd::from(io::pipe().unwrap().1)).unwrap());
        let seen = [1, 512, 4096, 4097, 6144, 65_536, 16 << 20].map(|len| lender.lent_writes(len));
        assert_eq!(seen, [16, 16, 16, 8, 8, 1, 1]);
    }
}

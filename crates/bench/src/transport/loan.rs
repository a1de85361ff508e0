//! Our own pipe, whose ends work in the ring itself: bytes are made and read there, and never copied.
#![allow(unsafe_code, reason = "a promise: both ends of a measurement keep to the protocol")]

use std::io::{self, BufRead, Write};

use millstream_pipe::{Builder, Reader, Writer};

use super::ends::{Ends, Fill, InPlaceEnds, Transport, WriteEnd};
use crate::engine::placement::Placement;

/// A pipe of whose ends each trusts the other.
pub struct Loan;

/// The only one.
pub static LOAN: Loan = Loan;

impl Loan {
    fn pipe() -> Result<(Reader, Writer), String> {
        // SAFETY: both ends stay with this process and those that it forks, which run this crate; a forked process
        // touches nothing that was reserved or borrowed before, because nothing is.
        let made = unsafe { Builder::new().trust_peers() }.create();
        made.map_err(|error| format!("cannot make a millstream pipe: {error}"))
    }
}

impl Transport for Loan {
    fn name(&self) -> &'static str {
        "millstream-loan"
    }

    /// For methods that have their bytes elsewhere: the writer copies into what it reserves, the reader reads.
    fn connect(&self, _: Placement) -> Result<Ends, String> {
        let (reader, writer) = Loan::pipe()?;
        Ok(Ends { writer: Box::new(Lender(writer)), reader: Box::new(reader) })
    }

    fn connect_in_place(&self, _: Placement) -> Option<Result<InPlaceEnds, String>> {
        let ends = |(reader, writer)| InPlaceEnds {
            writer: Box::new(Lender(writer)),
            reader: Box::new(reader) as Box<dyn BufRead>,
        };
        Some(Loan::pipe().map(ends))
    }
}

struct Lender(Writer);

impl Fill for Lender {
    fn fill(&mut self, len: usize, make: &mut dyn FnMut(&mut [u8])) -> io::Result<usize> {
        let mut room = self.0.reserve(len)?;
        let count = room.len();
        room.segments_mut().into_iter().filter(|segment| !segment.is_empty()).for_each(make);
        room.commit(count)
    }

    fn finish(self: Box<Self>) {}
}

impl Write for Lender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        self.fill(bytes.len(), &mut |room| {
            room.copy_from_slice(&bytes[done..done + room.len()]);
            done += room.len();
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteEnd for Lender {
    fn finish(self: Box<Self>) {}
}

//! What carries bytes from one process to another: each rival behind one trait, in a file of its own.
//!
//! A new one is such a file and a line in [`ALL`]. Rivals with heavy dependencies live in packages of their own, which
//! give the plans of the methods any other `&'static dyn Transport`.

use std::io::{self, BufRead, Read, Write};

use crate::engine::placement::Placement;
use crate::page_aligned::PageAligned;

pub mod fifo;
pub mod kernel_pipe;
pub mod loan;
pub mod millstream;
pub mod posix_mq;
pub mod process_vm_readv;
pub mod spsc_bare;
pub mod tcp;
pub mod unix;
pub mod vmsplice;

/// All of them, in the order in which they are shown.
pub static ALL: [&dyn Transport; 13] = [
    &kernel_pipe::DEFAULT,
    &kernel_pipe::ONE_MEBIBYTE,
    &fifo::FIFO,
    &vmsplice::VMSPLICE,
    &unix::UNIX,
    &tcp::TCP,
    &posix_mq::POSIX_MQ,
    &process_vm_readv::PROCESS_VM_READV,
    &millstream::ADAPTIVE,
    &millstream::BLOCK,
    &loan::LOAN,
    &fifo::OURS,
    &spsc_bare::SPSC_BARE,
];

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
fn retried<T>(mut call: impl FnMut() -> Result<T, millstream_sys::Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(millstream_sys::Errno::INTR) => (),
            outcome => return outcome.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Launch;
    use crate::engine::crew::{self, Post};
    use crate::pattern;
    use std::time::Duration;

    /// Prime, so that they divide nothing: below a page, above a message, above every pipe but the largest.
    const WRITES: [usize; 4] = [7, 4099, 10_007, 600_011];
    const READS: [usize; 3] = [65_537, 13, 8191];
    const TOTAL: u64 = 3_000_017;

    fn posts(placement: Placement) -> [Post; 2] {
        let cpus = placement.cpus().expect("this test needs two CPUs");
        [Post { name: "writer", cpu: cpus[0] }, Post { name: "reader", cpu: cpus[1] }]
    }

    fn write_pattern(mut writer: Box<dyn WriteEnd>) -> Result<(), String> {
        let mut turns: Vec<Buffers> = WRITES.iter().map(|&len| Buffers::of(&*writer, len)).collect();
        let mut position = 0;
        for size in (0..WRITES.len()).cycle() {
            let left = TOTAL - position;
            let bytes = turns[size].next();
            let count = bytes.len().min(left as usize);
            pattern::fill(position, &mut bytes[..count]);
            writer.write_all(&bytes[..count]).map_err(|error| error.to_string())?;
            position += count as u64;
            if position == TOTAL {
                break;
            }
        }
        writer.finish();
        Ok(())
    }

    fn read_pattern(mut reader: Box<dyn Read>) -> Result<u64, String> {
        let (mut position, mut buffer) = (0, vec![0; 65_537]);
        for size in READS.iter().cycle() {
            let count = reader.read(&mut buffer[..*size]).map_err(|error| error.to_string())?;
            if count == 0 {
                break;
            }
            if let Some(at) = pattern::first_difference(position, &buffer[..count]) {
                return Err(format!("byte {at} is wrong"));
            }
            position += count as u64;
        }
        match reader.read(&mut buffer) {
            Ok(0) => Ok(position),
            other => Err(format!("behind the end: {other:?}")),
        }
    }

    #[test]
    fn every_transport_carries_odd_sizes_between_two_processes_up_to_its_end() {
        for transport in ALL {
            for placement in Placement::ALL {
                let Ends { writer, reader } = transport.connect(placement).unwrap();
                let seen = crew::run(&posts(placement), move |index| match index {
                    0 => {
                        drop(reader);
                        write_pattern(writer).map(|()| None)
                    }
                    _ => {
                        drop(writer);
                        read_pattern(reader).map(|count| Some(Launch::of(count as f64)))
                    }
                });
                let name = transport.name();
                assert_eq!(seen.map(|launch| launch.samples), Ok(vec![TOTAL as f64]), "{name} {placement:?}");
            }
        }
    }

    #[test]
    fn a_dead_writer_is_found_out_over_every_transport() {
        for transport in ALL {
            let Ends { mut writer, reader } = transport.connect(Placement::TwoCpus).unwrap();
            let limit = Duration::from_secs(120);
            let seen = crew::run_within(limit, &posts(Placement::TwoCpus), move |index| match index {
                0 => {
                    drop(reader);
                    let mut turns = Buffers::of(&*writer, 1000);
                    writer.write_all(turns.next()).map_err(|error| error.to_string())?;
                    millstream_sys::signals::raise_unblocked(9);
                    Ok(None)
                }
                _ => {
                    drop(writer);
                    read_pattern(reader).map(|count| Some(Launch::of(count as f64)))
                }
            });
            let why = seen.unwrap_err();
            assert!(why.contains("the writer was killed by signal 9"), "{}: {why}", transport.name());
        }
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(|transport| transport.name()).collect();
        assert_eq!(names.len(), ALL.len());
    }
}

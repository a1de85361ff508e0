//! What a mark on a pipe says: where another process finds the memory.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use millstream_sys::transfer::{self, Access, Mark};
use millstream_sys::{Errno, memory};

use crate::error::PipeErrorKind;

/// What a mark's position says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) process: u32,
    pub(crate) descriptor: u32,
    /// Tells apart the marks of write ends, of which two may not have the same position. At a FIFO, the descriptor of
    /// the ring's wake-up pipe.
    pub(crate) serial: u32,
    pub(crate) is_write_end: bool,
}

const PROCESS_BITS: u32 = 22;
const DESCRIPTOR_BITS: u32 = 20;
const SERIAL_BITS: u32 = 19;

/// Marks of read ends are below this position, those of write ends are not.
pub(crate) const FIRST_OF_WRITERS: Mark = Mark(1 << (PROCESS_BITS + DESCRIPTOR_BITS + SERIAL_BITS));

impl Place {
    /// What some mark on a pipe says. A description does not see its own mark; another one does.
    pub(crate) fn marked_on(pipe: &OwnedFd, access: Access) -> Option<Place> {
        let probe = transfer::reopened(pipe, access, true).ok()?;
        Some(Place::of(transfer::any_mark(&probe).ok()??))
    }

    /// The memory there, if it is this user's. Root may open the memory of every process, but shares rings only with
    /// processes of root.
    pub(crate) fn open_memory(self) -> Option<OwnedFd> {
        let file = memory::open_of_process(self.process, self.descriptor).ok()?;
        memory::is_of_this_user(&file).ok()?.then_some(file)
    }

    pub(crate) fn mark(self) -> Option<Mark> {
        let fits = |value: u32, bits: u32| (value >> bits == 0).then_some(u64::from(value));
        let process = fits(self.process, PROCESS_BITS)?;
        let descriptor = fits(self.descriptor, DESCRIPTOR_BITS)? << PROCESS_BITS;
        let serial = fits(self.serial, SERIAL_BITS)? << (PROCESS_BITS + DESCRIPTOR_BITS);
        let side = u64::from(self.is_write_end) << (PROCESS_BITS + DESCRIPTOR_BITS + SERIAL_BITS);
        Some(Mark(side | serial | descriptor | process))
    }

    pub(crate) fn of(Mark(position): Mark) -> Place {
        let field = |start: u32, bits: u32| ((position >> start) & ((1 << bits) - 1)) as u32;
        Place {
            process: field(0, PROCESS_BITS),
            descriptor: field(PROCESS_BITS, DESCRIPTOR_BITS),
            serial: field(PROCESS_BITS + DESCRIPTOR_BITS, SERIAL_BITS),
            is_write_end: field(PROCESS_BITS + DESCRIPTOR_BITS + SERIAL_BITS, 1) == 1,
        }
    }
}

/// The process and descriptor at which the segment can be found after this end has left. These are the ones where it
/// was found itself, if it is still open there: this process may close its own with the end.
pub(crate) fn place_of(file: &OwnedFd, found_at: Option<(u32, u32)>) -> (u32, u32) {
    let is_still_there = |&(process, descriptor): &(u32, u32)| {
        let there = memory::open_of_process(process, descriptor);
        there.is_ok_and(|there| memory::is_same(&there, file) == Ok(true))
    };
    let here = (millstream_sys::own_pid(), file.as_raw_fd().unsigned_abs());
    found_at.filter(is_still_there).unwrap_or(here)
}

pub(crate) fn mark_with_place(given: &OwnedFd, access: Access, (process, descriptor): (u32, u32)) -> io::Result<()> {
    for serial in 0..1 << SERIAL_BITS {
        let place = Place { process, descriptor, serial, is_write_end: access == Access::Write };
        let mark = place.mark().ok_or(PipeErrorKind::NumberTooLarge)?;
        match transfer::mark(given, mark) {
            Err(Errno::AGAIN) => {}
            outcome => return Ok(outcome?),
        }
    }
    Err(PipeErrorKind::TooManyExported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_being_a_mark() {
        for (process, descriptor, serial, is_write_end) in
            [(1, 0, 0, false), (4_194_303, 1_048_575, 524_287, true), (77, 3, 9, true)]
        {
            let place = Place { process, descriptor, serial, is_write_end };
            assert_eq!(place.mark().map(Place::of), Some(place));
            assert!(place.mark().unwrap().0 < 1 << 63);
        }
        let outsize = Place { process: 1 << 22, descriptor: 0, serial: 0, is_write_end: false };
        assert_eq!(outsize.mark(), None);
    }
}

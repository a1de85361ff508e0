//! The backing pipe's readiness bytes: meaningless bytes in a kernel pipe of two pages.

use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use millstream_ring::Shadow;
use millstream_sys::{Errno, clock, pipe, transfer};

static MEANINGLESS: [u8; 4096] = [0; 4096];

/// Capacity of the backing pipe while it holds readiness bytes: two pages. One is enough for a ring of one page,
/// which is empty or full.
pub(crate) const BYTES: usize = 8192;

/// Makes the backing pipe large enough for the readiness bytes of a ring of `capacity`. It may have become a single
/// page while it carried the stream.
///
/// # Errors
/// `EPERM`: the kernel refuses this user one page more.
pub(crate) fn make_room(shadow: BorrowedFd<'_>, capacity: usize) -> Result<(), Errno> {
    if capacity >= BYTES && pipe::capacity(shadow)? < BYTES {
        pipe::set_capacity(shadow, BYTES)?;
    }
    Ok(())
}

/// The backing pipe behind one descriptor: bytes go in through a write end and come out of a read end.
pub(crate) struct Mirror<'a> {
    end: BorrowedFd<'a>,
    has_lost_readers: Cell<bool>,
}

impl<'a> Mirror<'a> {
    pub(crate) fn of(end: BorrowedFd<'a>) -> Mirror<'a> {
        Mirror { end, has_lost_readers: Cell::new(false) }
    }

    /// Whether the kernel refused bytes because no reader is left. It has sent SIGPIPE then, once.
    pub(crate) fn has_lost_readers(&self) -> bool {
        self.has_lost_readers.get()
    }
}

impl Shadow for Mirror<'_> {
    fn narrow(&self) {
        if pipe::capacity(self.end) != Ok(BYTES) {
            // Refused only while more bytes lie in it: never while it holds readiness bytes.
            let _ = pipe::set_capacity(self.end, BYTES);
        }
    }

    fn put(&self, bytes: u32) -> u32 {
        let bytes = &MEANINGLESS[..(bytes as usize).min(MEANINGLESS.len())];
        let moved = transfer::write_now(self.end, &[IoSlice::new(bytes)]);
        if moved == Err(Errno::PIPE) {
            self.has_lost_readers.set(true);
        }
        count(moved)
    }

    fn take(&self, bytes: u32) -> u32 {
        let mut taken = [0; 2 * MEANINGLESS.len()];
        let len = (bytes as usize).min(taken.len());
        count(transfer::read_now(self.end, &mut [IoSliceMut::new(&mut taken[..len])]))
    }

    fn bytes(&self) -> u32 {
        count(transfer::bytes_waiting(self.end))
    }

    fn now(&self) -> u64 {
        clock::ticks()
    }
}

/// An error counts as nothing moved: the caller counts what moved, and needs no reason.
fn count(moved: Result<usize, Errno>) -> u32 {
    moved.ok().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0)
}

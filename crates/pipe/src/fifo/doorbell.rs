//! The bell of a FIFO's ring: a pipe without a name, of which everybody in company has both sides.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use millstream_ring::Shadow;
use millstream_sys::{Errno, clock, pipe, transfer};

static MEANINGLESS: [u8; 4096] = [0; 4096];

/// Pages that the ring's fill level is told by.
const NARROW_BYTES: usize = 8192;

/// The pipe through a descriptor that never blocks. It is open for both sides, so it never ends and never lacks a reader:
/// of the end of the stream the FIFO itself tells.
pub(super) struct Doorbell<'a>(pub(super) BorrowedFd<'a>);

impl Shadow for Doorbell<'_> {
    fn narrow(&self) {
        if pipe::capacity(self.0) != Ok(NARROW_BYTES) {
            // Refused only while more lies in it, which is not so while it is a bell.
            let _ = pipe::set_capacity(self.0, NARROW_BYTES);
        }
    }

    fn put(&self, bytes: u32) -> u32 {
        let bytes = &MEANINGLESS[..(bytes as usize).min(MEANINGLESS.len())];
        count(transfer::write(self.0, &[IoSlice::new(bytes)]))
    }

    fn take(&self, bytes: u32) -> u32 {
        let mut taken = [0; NARROW_BYTES];
        let len = (bytes as usize).min(taken.len());
        count(transfer::read(self.0, &mut [IoSliceMut::new(&mut taken[..len])]))
    }

    fn bytes(&self) -> u32 {
        count(transfer::bytes_waiting(self.0))
    }

    fn now(&self) -> u64 {
        clock::ticks()
    }
}

fn count(moved: Result<usize, Errno>) -> u32 {
    moved.ok().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0)
}

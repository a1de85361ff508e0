//! The wake-up pipe of a FIFO's ring: an anonymous pipe that every participant has open for both sides.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use millstream_ring::Shadow;
use millstream_sys::{Errno, clock, pipe, transfer};

static MEANINGLESS: [u8; 4096] = [0; 4096];

/// The two pages that tell the ring's fill level.
const NARROW_BYTES: usize = 8192;

/// The pipe through a descriptor that never blocks. It is open for both sides, so it never ends and never lacks a
/// reader: the FIFO itself reports the end of the stream.
///
/// Not a [`Mirror`](crate::mirror::Mirror), though it does the same: the kernel has no call that never waits for a pipe
/// that was opened by a path. A `Mirror` opens it once more for each call then, and a round trip takes 19 us, not 11.
pub(super) struct Doorbell<'a>(pub(super) BorrowedFd<'a>);

impl Shadow for Doorbell<'_> {
    fn narrow(&self) {
        if pipe::capacity(self.0) != Ok(NARROW_BYTES) {
            // Refused only while more bytes lie in it: never while it serves for wake-ups.
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

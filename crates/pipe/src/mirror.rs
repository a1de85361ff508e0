//! The shadow as a mirror: meaningless bytes in a kernel pipe of two pages.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use millstream_ring::Shadow;
use millstream_sys::{pipe, transfer};

static MEANINGLESS: [u8; 4096] = [0; 4096];

/// Pages of the shadow while it is a mirror.
const NARROW_BYTES: usize = 8192;

/// The shadow behind one descriptor: bytes go in through a write end and come out of a read end.
#[derive(Clone, Copy)]
pub(crate) struct Mirror<'a>(pub(crate) BorrowedFd<'a>);

impl Mirror<'_> {
    /// Two pages full must mean that a writer's `poll(2)` sleeps.
    pub(crate) fn narrow(self) {
        if pipe::capacity(self.0) != Ok(NARROW_BYTES) {
            // Refused only while more lies in it, which is not so while it is a mirror.
            let _ = pipe::set_capacity(self.0, NARROW_BYTES);
        }
    }
}

impl Shadow for Mirror<'_> {
    fn put(&self, bytes: u32) -> u32 {
        let bytes = &MEANINGLESS[..(bytes as usize).min(MEANINGLESS.len())];
        count(transfer::write_now(self.0, &[IoSlice::new(bytes)]))
    }

    fn take(&self, bytes: u32) -> u32 {
        let mut taken = [0; 2 * MEANINGLESS.len()];
        let len = (bytes as usize).min(taken.len());
        count(transfer::read_now(self.0, &mut [IoSliceMut::new(&mut taken[..len])]))
    }

    fn bytes(&self) -> u32 {
        count(transfer::bytes_waiting(self.0))
    }
}

/// The bell is not told why nothing moved: it counts what did.
fn count(moved: Result<usize, millstream_sys::Errno>) -> u32 {
    moved.ok().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0)
}

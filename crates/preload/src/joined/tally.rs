//! What an end of this process tells the ledger, if the run has one and this is the library that counts. Nothing otherwise.

use core::ffi::c_int;

use millstream_sys::fate::Fate;
use millstream_sys::ledger::{Direction, SharedEnd};

use super::end::End;

/// Counts what has gone through the kernel, and passes the number on.
pub(super) fn count(fd: c_int, direction: Direction, moved: isize) -> isize {
    #[cfg(feature = "count")]
    crate::counted::count(fd, direction, moved);
    #[cfg(not(feature = "count"))]
    let _ = (fd, direction);
    moved
}

/// What is known of a pipe that is not, or not yet, an end of this process.
pub(super) fn tell(fd: c_int, direction: Direction, fate: Fate) {
    #[cfg(feature = "count")]
    if let Some(end) = crate::counted::end_of(fd, direction) {
        end.set_fate(fate);
    }
    #[cfg(not(feature = "count"))]
    let _ = (fd, direction, fate);
}

/// The place of an end in the ledger, from the first attempt to join.
pub(super) struct Tally {
    #[cfg(feature = "count")]
    end: core::sync::atomic::AtomicPtr<SharedEnd>,
}

impl Tally {
    pub(super) const fn new() -> Tally {
        Tally {
            #[cfg(feature = "count")]
            end: core::sync::atomic::AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Finds the place of the pipe that stands at the end's number now.
    #[cfg(feature = "count")]
    pub(super) fn begin(&self, end: &End) {
        let direction = if end.is_reader() { Direction::Read } else { Direction::Written };
        let found = crate::counted::end_of(end.fd(), direction);
        let place = found.map_or(core::ptr::null_mut(), |end| core::ptr::from_ref(end).cast_mut());
        self.end.store(place, core::sync::atomic::Ordering::SeqCst);
    }

    #[cfg(not(feature = "count"))]
    #[expect(clippy::unused_self, reason = "the library that counts needs it")]
    pub(super) fn begin(&self, _end: &End) {}

    #[cfg(feature = "count")]
    #[inline]
    fn end(&self) -> Option<&'static SharedEnd> {
        // SAFETY: null, or in the ledger's mapping, which lasts; it only holds atomics.
        unsafe { self.end.load(core::sync::atomic::Ordering::Relaxed).as_ref() }
    }

    #[cfg(not(feature = "count"))]
    #[expect(clippy::unused_self, reason = "the library that counts needs it")]
    fn end(&self) -> Option<&'static SharedEnd> {
        None
    }

    /// What became of it, as far as one knows.
    pub(super) fn tell(&self, fate: Fate) {
        if let Some(end) = self.end().filter(|_| fate != Fate::Untold) {
            end.set_fate(fate);
        }
    }

    /// Bytes went through the ring.
    #[inline]
    pub(super) fn moved(&self, bytes: usize) {
        if let Some(end) = self.end() {
            end.count_in_ring(bytes as u64);
        }
    }

    pub(super) fn slept(&self) {
        if let Some(end) = self.end() {
            end.count_sleep();
        }
    }

    pub(super) fn woke(&self) {
        if let Some(end) = self.end() {
            end.count_wake();
        }
    }

    pub(super) fn looked(&self, times: u32) {
        if let Some(end) = self.end() {
            end.count_spins(times);
        }
    }
}

//! What an end of this process adds to the run's counters, if the run counts. Nothing otherwise.

use core::ffi::c_int;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use millstream_sys::fate::Fate;
use millstream_sys::ledger::{Direction, SharedEnd};

use crate::counters;

/// What is known of a pipe that is not, or not yet, an end of this process.
pub(super) fn tell(fd: c_int, direction: Direction, fate: Fate) {
    if let Some(end) = counters::end_of(fd, direction) {
        end.set_reason(fate);
    }
}

/// The counters of an end, from the first attempt to attach.
pub(super) struct Tally {
    end: AtomicPtr<SharedEnd>,
}

impl Tally {
    pub(super) const fn new() -> Tally {
        Tally { end: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Finds the place of the pipe that stands at the end's number now.
    pub(super) fn begin(&self, fd: c_int, direction: Direction) {
        let found = counters::end_of(fd, direction);
        let place = found.map_or(core::ptr::null_mut(), |end| core::ptr::from_ref(end).cast_mut());
        self.end.store(place, SeqCst);
    }

    #[inline]
    fn end(&self) -> Option<&'static SharedEnd> {
        // SAFETY: null, or in the mapping of the counters, which lasts; it only holds atomics.
        unsafe { self.end.load(Relaxed).as_ref() }
    }

    /// What became of it, as far as one knows.
    pub(super) fn tell(&self, fate: Fate) {
        if let Some(end) = self.end().filter(|_| fate != Fate::Untold) {
            end.set_reason(fate);
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

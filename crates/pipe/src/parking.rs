//! How this process waits for a lock of the ring, and what tells it that waiting is in vain.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use millstream_ring::{Parked, Parking};
use millstream_sys::futex::{self, Announced, Thread};
use millstream_sys::transfer;

/// Between two looks at whether the owner still lives. The kernel wakes us at once for nearly every death; this is for
/// the owner of two locks, of which the kernel knows one.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks, after the other end of the pipe has gone, until we no longer believe that the lock will be given back: one
/// second. A lock is held for the time of a copy; who holds it that long is stopped, or never held it at all.
const LOOKS_ALONE: u32 = 20;

/// The calling thread, at a pipe.
pub(crate) struct Parker<'a> {
    thread: Thread,
    shadow: BorrowedFd<'a>,
    looks_alone: Cell<u32>,
    is_own_peer: bool,
}

impl<'a> Parker<'a> {
    #[inline]
    pub(crate) fn at(shadow: BorrowedFd<'a>) -> Parker<'a> {
        Parker { thread: Thread::current(), shadow, looks_alone: Cell::new(0), is_own_peer: false }
    }

    /// The calling thread, while it has the shadow open for both reading and writing: it would never see the other end
    /// gone, and so believes in every owner only as long as it otherwise would when alone.
    pub(crate) fn with_both(both: BorrowedFd<'a>) -> Parker<'a> {
        Parker { is_own_peer: true, ..Parker::at(both) }
    }
}

impl Parking for Parker<'_> {
    type Announced = Announced;

    #[inline]
    fn owner(&self) -> u32 {
        self.thread.id()
    }

    #[inline]
    fn announce(&self, word: &std::sync::atomic::AtomicU32) -> Announced {
        self.thread.announce(word)
    }

    #[inline]
    fn restore(&self, before: Announced) {
        self.thread.restore(before);
    }

    fn park(&self, word: &std::sync::atomic::AtomicU32, expected: u32, owner: u32) -> Parked {
        futex::wait(word, expected, LOOK_EVERY);
        if word.load(std::sync::atomic::Ordering::Relaxed) != expected {
            return Parked::LookAgain;
        }
        if !futex::may_be_alive(owner) {
            return Parked::OwnerIsGone;
        }
        if self.is_own_peer || transfer::readiness(self.shadow).is_ok_and(|ready| ready.peer_gone) {
            self.looks_alone.set(self.looks_alone.get() + 1);
        }
        if self.looks_alone.get() > LOOKS_ALONE { Parked::GiveUp } else { Parked::LookAgain }
    }

    fn unpark_one(&self, word: &std::sync::atomic::AtomicU32) {
        futex::wake_one(word);
    }
}

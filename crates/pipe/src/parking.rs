//! How this process waits for a lock of the ring, and what tells it that waiting is in vain.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use millstream_ring::{Parked, Parking};
use millstream_sys::futex::{self, Announced, Life, Thread};
use millstream_sys::{memory, transfer};

use crate::statistics::Counters;

/// Between two looks at whether the owner still lives. The kernel wakes us at once for nearly every death; this is for
/// the owner of two locks, of which the kernel knows one.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks until we no longer believe that the lock will be given back: five seconds, or one after the other end of the
/// pipe has gone. A lock is held for the time of a copy. Who holds it that long never held it at all: the word was
/// scribbled upon, or its owner died and the number has been given to another. Who is stopped is waited for.
const LOOKS: u32 = 100;
const LOOKS_ALONE: u32 = 20;

/// The calling thread, at a pipe.
pub(crate) struct Parker<'a> {
    thread: Thread,
    shadow: BorrowedFd<'a>,
    counters: &'a Counters,
    looks: Cell<u32>,
    looks_alone: Cell<u32>,
}

impl<'a> Parker<'a> {
    #[inline]
    pub(crate) fn at(shadow: BorrowedFd<'a>, counters: &'a Counters) -> Parker<'a> {
        Parker { thread: Thread::current(), shadow, counters, looks: Cell::new(0), looks_alone: Cell::new(0) }
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
    fn restore(&self, word: &std::sync::atomic::AtomicU32, before: Announced) {
        self.thread.restore(word, before);
    }

    fn park(&self, word: &std::sync::atomic::AtomicU32, expected: u32, owner: u32) -> Parked {
        futex::wait(word, expected, LOOK_EVERY);
        if word.load(std::sync::atomic::Ordering::Relaxed) != expected {
            return Parked::LookAgain;
        }
        match futex::life_of(owner) {
            Life::Dead => return Parked::OwnerIsGone,
            Life::Alive if !futex::may_have_mapped(owner, memory::SEALABLE_NAME) => return Parked::OwnerIsGone,
            Life::Alive => self.looks.set(self.looks.get() + 1),
            Life::Stopped => {}
        }
        if transfer::readiness(self.shadow).is_ok_and(|ready| ready.peer_gone) {
            self.looks_alone.set(self.looks_alone.get() + 1);
        }
        let is_hopeless = self.looks.get() > LOOKS || self.looks_alone.get() > LOOKS_ALONE;
        if is_hopeless { Parked::GiveUp } else { Parked::LookAgain }
    }

    fn unpark_one(&self, word: &std::sync::atomic::AtomicU32) {
        futex::wake_one(word);
    }

    #[inline]
    fn can_be_fenced(&self) -> bool {
        self.thread.can_be_fenced()
    }

    fn prepare_to_own(&self) {
        self.thread.be_fenced_if_wished();
    }

    fn wants_for_itself(&self) -> bool {
        self.counters.move_without_waking() && self.thread.wish_to_be_fenced()
    }

    fn fence_everywhere(&self) {
        futex::fence_everywhere();
    }
}

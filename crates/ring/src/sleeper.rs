//! Idle mode: a reader sleeps in the backing pipe itself, in `read(2)`, and not beside it, in `poll(2)`.
//!
//! In the state [`Route::Shadow`] a reader may wait for the stream in the backing pipe as in any pipe. A writer wakes
//! it by writing, and there is no readiness byte to put in, count or take out. As long as the reader sleeps, the backing
//! pipe must not hold readiness bytes again, or the reader would take one for a byte of the stream. So the reader first
//! stores its number, under the lock of the readers. The state changes back to the ring, under both locks, only while no
//! number is stored:
//!
//! ```text
//!    a reader                                    a process that changes back to the ring
//!    ────────                                    ───────────────────────────────────────
//!    lock the readers                            lock both sides
//!    state is not the kernel? do not             a reader sleeps there? do not
//!    word = me                                   bytes in the backing pipe? do not
//!    unlock                                      state = ring
//!    read(2) of the backing pipe, asleep         unlock
//!    word = 0, or me, dozing
//! ```
//!
//! The locks order all of it. One reader at a time can sleep there; others sleep beside the backing pipe, in `poll(2)`.
//! A reader that is killed asleep leaves its number. The stream then stays with the kernel, where everything works,
//! until another process finds that out ([`Ring::forget_waiter`]).
//!
//! A reader *dozes* while it is awake and will next read the backing pipe without checking anything else. This tells a
//! writer that it need not change back to the ring at once. The reader goes back to sleep without a lock, by one
//! exchange of the word. A process that changes back to the ring clears the word first, by another exchange. A reader
//! that goes to sleep in its place replaces the word likewise. A reader that must know that no other takes anything
//! meanwhile clears it. Only one of these exchanges succeeds.
//!
//! A writer that finds a sleeping reader, and knows that all that was put into the backing pipe has been taken, can
//! write there as to any pipe. A write of at most [`PIPE_BUF`](crate::PIPE_BUF) bytes finds room, so the writer does
//! not wait while it holds the lock. For that both sides count. If a reader is killed before it has counted what it
//! took, or another process takes bytes, the counts show less room than there is.

use crate::header::{add, count_one, count_one_roughly};
use crate::lock::Parking;
use crate::ring::{ReadSide, Ring, WriteSide};
use crate::route::{QUIET, Route};
use crate::sync::{AtomicU32, Ordering};

/// Beside the number of the thread: it dozes.
const DOZES: u32 = 1 << 31;

/// Whether the word names a thread that sleeps.
pub(crate) fn is_asleep(word: u32) -> bool {
    word != 0 && word & DOZES == 0
}

/// Limits a number of bytes: far more than fits into a pipe, and far less than the words count.
fn at_most(bytes: usize) -> u32 {
    bytes.min(1 << 30) as u32
}

impl<P: Parking> ReadSide<'_, P> {
    /// Stores that the thread `me` will sleep in the backing pipe. It calls [`Ring::waiter_woke`] when it no longer
    /// does. Fails unless the stream goes through the backing pipe, and if another reader sleeps there.
    pub fn note_waiter(&self, me: u32) -> bool {
        let word = self.ring.waiter_word();
        let seen = word.load(Ordering::Relaxed);
        let may_sleep = self.ring.route() == Route::Shadow
            && !is_asleep(seen)
            // With `Ring::waiter_woke`: this reader sees what the last one has counted. One that dozes may go to sleep
            // at this moment.
            && word.compare_exchange(seen, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if may_sleep {
            count_one(&self.ring.header.bell.0.tally.reader_sleeps);
        }
        may_sleep
    }

    /// The thread that sleeps in the backing pipe, if one does. If none does, none goes to sleep there before the
    /// readers are unlocked: this ends the doze of a reader.
    pub fn waiter_while_locked(&self) -> Option<u32> {
        let word = self.ring.waiter_word();
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen == 0 {
                return None;
            }
            if is_asleep(seen) {
                return Some(seen);
            }
            // Fails if the reader goes to sleep at this moment. The next time round it may have woken up, and doze.
            if word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return None;
            }
        }
    }
}

impl<P: Parking> WriteSide<'_, P> {
    /// Stores why the stream goes through the backing pipe: only because a reader is about to sleep there
    /// ([`Ring::is_quiet`]). A process that exports an end stores another reason. Only with both sides locked, after
    /// [`Bell::silence`](crate::Bell::silence).
    pub fn note_quiet(&self, _: &ReadSide<'_, P>) {
        let words = &self.ring.header.bell.0;
        words.quiet_put.store(0, Ordering::Relaxed);
        words.quiet_taken.store(0, Ordering::Relaxed);
        self.ring.header.state.0.route.store(QUIET, Ordering::Release);
    }

    /// Changes the state back to the ring, unless a reader sleeps in the backing pipe. Only with both sides locked, and
    /// while the backing pipe is empty. Returns whether it did.
    pub fn return_to_ring(&self, _: &ReadSide<'_, P>) -> bool {
        let word = self.ring.waiter_word();
        let seen = word.load(Ordering::Acquire);
        // A reader that dozes may go to sleep at this moment. None begins to doze: only a reader that sleeps can.
        let is_free = seen == 0
            || (!is_asleep(seen) && word.compare_exchange(seen, 0, Ordering::Acquire, Ordering::Relaxed).is_ok());
        if is_free {
            self.ring.set_route(Route::Ring);
        }
        is_free
    }

    /// Whether readers have taken all that was put into the backing pipe in idle mode, as far as is known.
    #[inline]
    pub fn backing_pipe_is_drained(&self) -> bool {
        let words = &self.ring.header.bell.0;
        words.quiet_put.load(Ordering::Relaxed) == words.quiet_taken.load(Ordering::Relaxed)
    }

    /// Called before at most `most` bytes are put into the backing pipe. If the writer is killed before
    /// [`has_put`](Self::has_put), or does not know how many they were, the count stays too high.
    #[inline]
    pub fn will_put(&self, most: usize) {
        add(&self.ring.header.bell.0.quiet_put, at_most(most));
    }

    /// Called after [`will_put`](Self::will_put), with the number of bytes that were put.
    #[inline]
    pub fn has_put(&self, most: usize, bytes: usize) {
        add(&self.ring.header.bell.0.quiet_put, at_most(bytes).wrapping_sub(at_most(most)));
    }
}

impl Ring<'_> {
    /// The thread that sleeps in the backing pipe, if one does.
    #[inline]
    pub fn waiter(&self) -> Option<u32> {
        Some(self.waiter_word().load(Ordering::Acquire)).filter(|&word| is_asleep(word))
    }

    /// Whether a reader dozes.
    #[inline]
    pub fn has_dozer(&self) -> bool {
        self.waiter_word().load(Ordering::Relaxed) & DOZES != 0
    }

    /// Whether the thread `me` dozes.
    #[inline]
    pub fn dozes(&self, me: u32) -> bool {
        self.waiter_word().load(Ordering::Relaxed) == me | DOZES
    }

    /// The calling thread `me` sleeps in the backing pipe again if it dozed until now. Returns whether it did.
    #[inline]
    pub fn dozer_lies_down(&self, me: u32) -> bool {
        // With `return_to_ring`: the stream has gone through the backing pipe since before this thread began to doze,
        // and does so until it wakes up.
        let dozed = self.waiter_word().compare_exchange(me | DOZES, me, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if dozed {
            count_one_roughly(&self.header.bell.0.tally.reader_sleeps);
        }
        dozed
    }

    /// The calling thread `me` no longer sleeps in the backing pipe, and has taken `took` bytes. It may go on to doze.
    #[inline]
    pub fn waiter_woke(&self, me: u32, took: usize, dozes: bool) {
        add(&self.header.bell.0.quiet_taken, took as u32);
        self.waiter_word().store(if dozes { me | DOZES } else { 0 }, Ordering::Release);
    }

    /// A reader that did not sleep there has taken so many bytes from the backing pipe.
    pub fn has_taken(&self, bytes: usize) {
        // If a sleeping reader counts at the same moment, one of the two may be lost.
        self.header.bell.0.quiet_taken.fetch_add(bytes as u32, Ordering::Relaxed);
    }

    /// Clears the word of the thread `id`, which has died in its sleep.
    pub fn forget_waiter(&self, id: u32) {
        let _ = self.waiter_word().compare_exchange(id, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// The thread `me` will not read the backing pipe next, if it dozes. If it sleeps there, and a signal handler calls
    /// this, nothing changes.
    pub fn dozes_no_longer(&self, me: u32) {
        let _ = self.waiter_word().compare_exchange(me | DOZES, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// The word with that number, for a thread that waits until it changes. Nothing wakes a thread that waits there.
    pub fn waiter_word(&self) -> &AtomicU32 {
        &self.header.bell.0.sleeper
    }
}

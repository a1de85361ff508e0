//! A reader that sleeps in the shadow itself, in `read(2)`, and not beside it, in `poll(2)`.
//!
//! While the route leads through the shadow, a reader may wait for the stream there as for any pipe: whoever writes wakes it by
//! writing, and nothing else has to be told, counted or taken out. The shadow must then not become a mirror again, or the
//! reader would take a byte that means nothing for one of the stream. So it says so first, under the lock of the readers, and the
//! route goes back to the ring, under both locks, only while nobody has said so:
//!
//! ```text
//!    a reader                                    whoever goes back to the ring
//!    ────────                                    ─────────────────────────────
//!    lock the readers                            lock both sides
//!    route is not the shadow? do not             somebody sleeps there? do not
//!    sleeper = me                                bytes in the shadow? do not
//!    unlock                                      route = ring
//!    read(2) of the shadow, asleep               unlock
//!    sleeper = 0, or me, dozing
//! ```
//!
//! The locks order all of it. One reader at a time can; others sleep beside the shadow. Who is killed asleep leaves its number,
//! and the pipe stays with the kernel, where everything works, until somebody finds out ([`Ring::forget_sleeper`]).
//!
//! Who *dozes* is awake, and will read the shadow next without looking anywhere else. It tells a writer that it need not go back to
//! the ring at once. It lies down again without a lock, by one exchange of the word. Who goes back to the ring takes the word away
//! first, by another, and so does another reader that lies down in its place, or that has to know that nobody takes anything
//! meanwhile: one of them succeeds.
//!
//! A writer that finds a sleeper, and knows that all that was put into the shadow has been taken, can write there as to any pipe: what
//! is no larger than [`PIPE_BUF`](crate::PIPE_BUF) finds room, so it does not wait while it holds the lock. For that both sides count.
//! Who is killed before it has counted what it took, and bytes that others take, leave a count by which there is less room than
//! there is.

use crate::header::{add, count_one, count_one_roughly};
use crate::lock::Parking;
use crate::ring::{ReadSide, Ring, WriteSide};
use crate::route::{QUIET, Route};
use crate::sync::{AtomicU32, Ordering};

/// Beside the number of the thread.
const DOZES: u32 = 1 << 31;

/// Whether the word names a thread that sleeps.
pub(crate) fn is_asleep(word: u32) -> bool {
    word != 0 && word & DOZES == 0
}

/// Far more than fits into a pipe, and far less than the words count.
fn at_most(bytes: usize) -> u32 {
    bytes.min(1 << 30) as u32
}

impl<P: Parking> ReadSide<'_, P> {
    /// Says that the thread `me` will sleep in the shadow. It calls [`Ring::sleeper_woke`] when it does no longer. Refused while
    /// the stream does not go through the shadow, or somebody else sleeps there.
    pub fn note_sleeper(&self, me: u32) -> bool {
        let word = self.ring.sleeper_word();
        let seen = word.load(Ordering::Relaxed);
        let may_sleep = self.ring.route() == Route::Shadow
            && !is_asleep(seen)
            // With `Ring::sleeper_woke`: what the last one has counted is seen. Who dozes may lie down at this moment.
            && word.compare_exchange(seen, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if may_sleep {
            count_one(&self.ring.header.bell.0.tally.reader_sleeps);
        }
        may_sleep
    }

    /// The thread that sleeps in the shadow, if one does. If none does none lies down there before the readers are unlocked: who
    /// dozed does so no longer.
    pub fn sleeper_while_locked(&self) -> Option<u32> {
        let word = self.ring.sleeper_word();
        loop {
            let seen = word.load(Ordering::Acquire);
            if seen == 0 {
                return None;
            }
            if is_asleep(seen) {
                return Some(seen);
            }
            // Fails if it lies down at this moment; it may have woken up, and doze, when it is looked at next.
            if word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return None;
            }
        }
    }
}

impl<P: Parking> WriteSide<'_, P> {
    /// Says why the stream goes through the shadow: only because a reader is about to sleep there ([`Ring::is_quiet`]). Who gives an
    /// end away says otherwise. Only with both sides locked, after [`Bell::silence`](crate::Bell::silence).
    pub fn note_quiet(&self, _: &ReadSide<'_, P>) {
        let words = &self.ring.header.bell.0;
        words.quiet_put.store(0, Ordering::Relaxed);
        words.quiet_taken.store(0, Ordering::Relaxed);
        self.ring.header.state.0.route.store(QUIET, Ordering::Release);
    }

    /// Sends the stream back to the ring, unless somebody sleeps in the shadow. Only with both sides locked and nothing in there.
    /// Returns whether it did.
    pub fn return_to_ring(&self, _: &ReadSide<'_, P>) -> bool {
        let word = self.ring.sleeper_word();
        let seen = word.load(Ordering::Acquire);
        // Who dozes may lie down at this moment. Nobody begins to doze: that takes a sleeper.
        let is_free = seen == 0
            || (!is_asleep(seen) && word.compare_exchange(seen, 0, Ordering::Acquire, Ordering::Relaxed).is_ok());
        if is_free {
            self.ring.set_route(Route::Ring);
        }
        is_free
    }

    /// Whether all that was put into the shadow of a quiet pipe has been taken, as far as is known.
    #[inline]
    pub fn shadow_is_drained(&self) -> bool {
        let words = &self.ring.header.bell.0;
        words.quiet_put.load(Ordering::Relaxed) == words.quiet_taken.load(Ordering::Relaxed)
    }

    /// Before so many bytes at most are put into the shadow. Who is killed before [`has_put`](Self::has_put), or does not know how many
    /// they were, leaves a count that is too high.
    #[inline]
    pub fn will_put(&self, most: usize) {
        add(&self.ring.header.bell.0.quiet_put, at_most(most));
    }

    /// After [`will_put`](Self::will_put): how many they were.
    #[inline]
    pub fn has_put(&self, most: usize, bytes: usize) {
        add(&self.ring.header.bell.0.quiet_put, at_most(bytes).wrapping_sub(at_most(most)));
    }
}

impl Ring<'_> {
    /// The thread that sleeps in the shadow, if one does.
    #[inline]
    pub fn sleeper(&self) -> Option<u32> {
        Some(self.sleeper_word().load(Ordering::Acquire)).filter(|&word| is_asleep(word))
    }

    /// Whether a reader dozes.
    #[inline]
    pub fn has_dozer(&self) -> bool {
        self.sleeper_word().load(Ordering::Relaxed) & DOZES != 0
    }

    /// Whether the thread `me` does.
    #[inline]
    pub fn dozes(&self, me: u32) -> bool {
        self.sleeper_word().load(Ordering::Relaxed) == me | DOZES
    }

    /// The thread `me`, which calls this, sleeps in the shadow again if it dozed there until now. Returns whether it does.
    #[inline]
    pub fn dozer_lies_down(&self, me: u32) -> bool {
        // With `return_to_ring`: the stream goes through the shadow since before this thread began to doze, and until it wakes up.
        let dozed = self.sleeper_word().compare_exchange(me | DOZES, me, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if dozed {
            count_one_roughly(&self.header.bell.0.tally.reader_sleeps);
        }
        dozed
    }

    /// The thread `me`, which sleeps in the shadow and calls this, does so no longer, and has taken so many bytes; it may go on to
    /// doze.
    #[inline]
    pub fn sleeper_woke(&self, me: u32, took: usize, dozes: bool) {
        add(&self.header.bell.0.quiet_taken, took as u32);
        self.sleeper_word().store(if dozes { me | DOZES } else { 0 }, Ordering::Release);
    }

    /// Somebody who did not sleep there has taken so many bytes from the shadow.
    pub fn has_taken(&self, bytes: usize) {
        // Beside a sleeper either may be forgotten.
        self.header.bell.0.quiet_taken.fetch_add(bytes as u32, Ordering::Relaxed);
    }

    /// The thread `id` has died in its sleep.
    pub fn forget_sleeper(&self, id: u32) {
        let _ = self.sleeper_word().compare_exchange(id, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// The thread `me` will not read the shadow next, if it said so. If it sleeps there, and a signal handler calls this, nothing
    /// changes.
    pub fn dozes_no_longer(&self, me: u32) {
        let _ = self.sleeper_word().compare_exchange(me | DOZES, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Where that number stands, for who waits until it is another. Nobody is woken there.
    pub fn sleeper_word(&self) -> &AtomicU32 {
        &self.header.bell.0.sleeper
    }
}

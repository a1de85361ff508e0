//! The in-place lock: a process works on a stretch of the ring in place, for as long as it likes, without holding a
//! lock. A writer reserves room and commits it; a reader peeks at bytes and consumes them. Such a stretch is a *claim*.
//!
//! A lock is held for the time of a copy, and a thread that finds it held longer may conclude that something is wrong.
//! A process that works in place takes the time that its program takes. So it takes the lock of its side only to store
//! that the side is claimed, and releases it. Others of that side find the claim under the lock, and wait for its end.
//! The other side notices nothing.
//!
//! ```text
//!    the claimant                                    others of its side
//!    ────────────                                    ──────────────────
//!    lock; claim = me; unlock
//!    works in place                                  lock; claim is not 0: unlock, wait
//!    store position
//!    swap claim, 0
//!    others waited? wake them                        lock; claim is 0: go on from the new position
//! ```
//!
//! The claimant stores the position without the lock: while the claim stands no other thread of the side stores one.
//! The swap is edge E11. Like the swap that releases a lock, it is also half of E3.
//!
//! If a thread owns the lock (`biased.rs`), it enters the lock once more to end its claim, and then stores 0 plainly. A
//! swap would wait until all that was filled has reached the other CPU. Others set the bit for "others wait" only with
//! the lock held ([`WriteSide::will_wait`]), and a thread that takes the lock takes it back from its owner first. While
//! there is a claim, no thread becomes the owner of the lock. So an owner that still finds the lock its own knows that
//! no other thread waits.
//!
//! A claim names a process, not a thread, because a program may pass it from thread to thread. Only the callers can
//! tell whether that process is still alive. [`WriteSide::end_claim_of_dead`] is for when it is not. It ends only the
//! claim that the caller has examined: by then the process may have ended that one itself, and made the next.

use core::ops::Range;

use crate::geometry::Geometry;
use crate::header::{Published, Side};
use crate::lock::Parking;
use crate::ring::{ReadSide, Ring, Room, Waiting, WriteSide, split};
use crate::sync::{AtomicU32, Ordering};

const OTHERS_WAIT: u32 = 1 << 31;
const PROCESS: u32 = OTHERS_WAIT - 1;

/// The process that such a word names, if it names one.
pub(crate) fn claimant(word: u32) -> Option<u32> {
    Some(word & PROCESS).filter(|&process| process != 0)
}

/// Identifies one of the claims of a side: by the process, and by a number that is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimId {
    /// The process.
    pub process: u32,
    /// The number, wrapping.
    pub serial: u32,
}

/// A stretch of the ring that one process works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    geometry: Geometry,
    position: u64,
    len: usize,
    id: ClaimId,
}

impl Claim {
    /// Bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The process of the claim, and its number among the claims of its side.
    #[inline]
    pub fn id(&self) -> ClaimId {
        self.id
    }

    /// Where its bytes lie in `ring`, in their order: from the start of the first bank, and always inside of the banks.
    #[inline]
    pub fn places(&self, ring: &Ring<'_>) -> [Range<usize>; 2] {
        let (start, first) = split(self.geometry, self.position, self.len);
        let bank = self.geometry.bank() * ring.bank_bytes();
        [bank + start..bank + start + first, bank..bank + self.len - first]
    }
}

/// The claims of one side.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    side: &'a Side,
    published: &'a Published,
}

impl<'a> Ring<'a> {
    /// The claims of writers: to free room.
    #[inline]
    pub fn claims_of_writers(&self) -> Claims<'a> {
        Claims { side: &self.header.writers.0, published: &self.header.write_pos.0 }
    }

    /// The claims of readers: to waiting bytes.
    #[inline]
    pub fn claims_of_readers(&self) -> Claims<'a> {
        Claims { side: &self.header.readers.0, published: &self.header.read_pos.0 }
    }
}

impl<P: Parking> WriteSide<'_, P> {
    /// Whether a process fills the ring in place: then there is no room for others.
    #[inline]
    pub fn is_claimed(&self) -> bool {
        self.ring.claims_of_writers().is_claimed()
    }

    /// Claims the first `len` bytes of `room`, or all of it, for `process`. Only if there is no claim.
    #[inline]
    pub fn claim(&self, room: Room, len: usize, process: u32) -> Claim {
        let (start, first) = split(room.geometry, room.position, len.min(room.len()));
        let lines = self.ring.header.writers.0.lines_as_noted();
        self.ring.bytes.will_be_filled(room.geometry.bank() * self.ring.bank_bytes() + start, first, lines);
        self.ring.claims_of_writers().begin(room.geometry, room.position, len.min(room.len()), process)
    }

    /// Says that one more thread waits for the end of the claim, at [`Claims::word`]. Returns the value of that word
    /// while there is something to wait for; `None` if there is no claim, or if the word has changed just now.
    pub fn will_wait(&self) -> Option<u32> {
        self.ring.claims_of_writers().will_wait()
    }

    /// Ends a claim whose process is dead or has forgotten it: nothing of it is published. False if it no longer
    /// stands.
    pub fn end_claim_of_dead(&self, id: ClaimId) -> bool {
        self.ring.claims_of_writers().take_from_dead(id)
    }
}

impl<P: Parking> ReadSide<'_, P> {
    /// Whether a process peeks at waiting bytes in place: then others cannot have them.
    #[inline]
    pub fn is_claimed(&self) -> bool {
        self.ring.claims_of_readers().is_claimed()
    }

    /// Claims the first `len` of the bytes that wait, or all, for `process`. Only if there is no claim.
    #[inline]
    pub fn claim(&self, waiting: Waiting, len: usize, process: u32) -> Claim {
        self.ring.claims_of_readers().begin(waiting.geometry, waiting.position, len.min(waiting.len()), process)
    }

    /// As [`WriteSide::will_wait`].
    pub fn will_wait(&self) -> Option<u32> {
        self.ring.claims_of_readers().will_wait()
    }

    /// As [`WriteSide::end_claim_of_dead`].
    pub fn end_claim_of_dead(&self, id: ClaimId) -> bool {
        self.ring.claims_of_readers().take_from_dead(id)
    }
}

impl<'a> Claims<'a> {
    #[inline]
    fn is_claimed(&self) -> bool {
        // E11 with `end`: this thread sees the position at which the claim ended.
        self.side.claim.load(Ordering::Acquire) & PROCESS != 0
    }

    #[inline]
    fn begin(&self, geometry: Geometry, position: u64, len: usize, process: u32) -> Claim {
        let serial = self.side.claims.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.side.claims.store(serial, Ordering::Relaxed);
        // E5 makes it seen. Only a hostile process can have put something else there since it was checked.
        self.side.claim.store(process & PROCESS, Ordering::Relaxed);
        Claim { geometry, position, len, id: ClaimId { process, serial } }
    }

    /// Publishes the first `count` bytes of `claim` and ends it, so that others may go on. Returns whether others wait
    /// for that. Only for the process whose claim it is, and once.
    #[inline]
    pub fn end<P: Parking>(&self, claim: &Claim, count: usize, cpu: u32, parking: &P) -> bool {
        match self.side.lock.enter_own(parking) {
            Some(_own) => {
                self.publish(claim, count, cpu);
                // No other thread has had the lock since the claim was made, so none waits. The next holder sees all
                // this by E5. A waiter sees, by E3, that the lock has an owner.
                self.side.claim.store(0, Ordering::Relaxed);
                false
            }
            None => {
                self.publish(claim, count, cpu);
                // E11 with `is_claimed`, and half of E3; see `fence_after_unlock`.
                self.side.claim.swap(0, Ordering::Release) & OTHERS_WAIT != 0
            }
        }
    }

    #[inline]
    fn publish(&self, claim: &Claim, count: usize, cpu: u32) {
        if count > 0 {
            // E1 with `ReadSide::waiting`, E2 with `WriteSide::room`.
            self.side.publish(self.published, claim.position.wrapping_add(count.min(claim.len) as u64));
            self.side.note_cpu(self.published, cpu);
        }
    }

    /// The claim that stands, if there is one.
    pub fn standing(&self) -> Option<ClaimId> {
        // In this order. The number may then be older than the word, and names no claim that stands. It is never newer:
        // that would be a claim about which the caller knew nothing when it saw the word.
        let serial = self.side.claims.load(Ordering::Acquire);
        claimant(self.side.claim.load(Ordering::Relaxed)).map(|process| ClaimId { process, serial })
    }

    fn will_wait(&self) -> Option<u32> {
        let word = self.side.claim.load(Ordering::Relaxed);
        if word & PROCESS == 0 {
            return None;
        }
        let waited_for = word | OTHERS_WAIT;
        let is_noted = word == waited_for
            || self.side.claim.compare_exchange(word, waited_for, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_noted.then_some(waited_for)
    }

    /// Where those threads wait that [`Claims::end`] reports.
    pub fn word(&self) -> &'a AtomicU32 {
        &self.side.claim
    }

    fn take_from_dead(&self, id: ClaimId) -> bool {
        if self.standing() != Some(id) {
            return false;
        }
        // The dead process may have died between the two stores of `publish`.
        let position = self.published.position.load(Ordering::Relaxed);
        self.side.own_position.store(position, Ordering::Relaxed);
        // E11 with `is_claimed`.
        self.side.claim.swap(0, Ordering::Release);
        true
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests {
    use core::ptr::NonNull;

    use super::*;
    use crate::biased::tests::thread;
    use crate::{Bytes, Header, ResizeError, Whose};

    const BANK: usize = 8192;

    #[test]
    fn ring_with_a_claim_is_neither_resized_nor_freed() {
        let (header, mut memory, me) = (Header::new(), std::vec![0_u8; 2 * BANK], thread(1));
        // SAFETY: the memory outlives the ring, and nothing else uses it meanwhile.
        let ring = Ring::new(&header, unsafe { Bytes::new(NonNull::from(&mut memory[..]).cast(), 2 * BANK) });
        ring.found(Whose::default(), Geometry::of(4096).unwrap());
        let (writers, readers) = (ring.lock_writers(&me).unwrap(), ring.lock_readers(&me).unwrap());
        let claim = writers.claim(writers.room(10).unwrap(), 10, 7);
        assert_eq!((writers.is_claimed(), readers.is_claimed()), (true, false));
        assert_eq!(writers.resize(&readers, BANK), Err(ResizeError::Busy));
        assert_eq!(writers.disown_pages(&readers), Ok(false));
        assert!(!ring.claims_of_writers().end(&claim, 4, 0, &me));
        let claim = readers.claim(readers.waiting(10).unwrap(), 10, 7);
        assert_eq!((claim.len(), writers.is_claimed(), readers.is_claimed()), (4, false, true));
        assert_eq!(writers.resize(&readers, BANK), Err(ResizeError::Busy));
        assert!(!ring.claims_of_readers().end(&claim, 4, 0, &me));
        assert_eq!(writers.disown_pages(&readers), Ok(true));
        assert_eq!(writers.resize(&readers, BANK), Ok(()));
    }

    #[test]
    fn end_claim_of_dead_ends_no_other_claim() {
        let (header, me) = (Header::new(), thread(1));
        // SAFETY: no bytes, and none are touched.
        let ring = Ring::new(&header, unsafe { Bytes::new(NonNull::dangling(), 2 * BANK) });
        ring.found(Whose::default(), Geometry::of(4096).unwrap());
        let writers = ring.lock_writers(&me).unwrap();
        let claims = ring.claims_of_writers();
        assert_eq!(claims.standing(), None);
        let claim = || writers.claim(writers.room(10).unwrap(), 10, 7);
        let first = claim();
        let seen = claims.standing().unwrap();
        assert_eq!(seen, first.id());
        assert!(!writers.end_claim_of_dead(ClaimId { process: 8, ..seen }) && writers.is_claimed());
        // The process was not dead: it ends that claim, and makes another.
        assert!(!claims.end(&first, 0, 0, &me));
        let second = claim();
        assert!(!writers.end_claim_of_dead(seen) && claims.standing() == Some(second.id()));
        assert!(writers.will_wait().is_some());
        assert!(writers.end_claim_of_dead(second.id()) && !writers.is_claimed());
        assert!(writers.will_wait().is_none() && !writers.end_claim_of_dead(second.id()));
    }
}

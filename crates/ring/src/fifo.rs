//! What the ring of a FIFO has beyond that of other pipes. `docs/fifo.md` gives the reasons.
//!
//! The FIFO carries bytes of programs that know nothing of the ring, so it cannot hold the readiness bytes: an
//! anonymous pipe does. Bytes lie in the ring only while readers are active. Readers publish when they last were
//! ([`Ring::attend`]). When they stop, the ring is flushed to the kernel, from where any program can read the bytes.
//!
//! **Foreign bytes** are those that foreign processes have put into the FIFO while bytes lay in the ring. They have a
//! place in the stream: readers read what was in the ring before them first, and what is put there afterwards behind
//! them.
//!
//! A **flush to the kernel** moves bytes from the front of the ring to the FIFO, with both sides locked and the state
//! [`Route::Moving`](crate::Route). What is in the FIFO is then older than what is in the ring. A move has two steps. A
//! process that is killed between them leaves a word that says how far it was. Those bytes count as moved, whether they
//! were or not: as if a reader had been killed with them. No byte is delivered twice.

use crate::error::RingError;
use crate::geometry::Geometry;
use crate::lock::Parking;
use crate::ring::{ReadSide, Ring, Waiting, Whose, WriteSide};
use crate::route::Route;
use crate::sync::Ordering;

impl Ring<'_> {
    /// As [`Ring::found`], for a FIFO whose readiness bytes lie in the pipe with this inode. The state is
    /// [`Route::Shadow`] at first.
    pub fn found_for_fifo(&self, whose: Whose, initial: Geometry, bell_inode: u64) {
        // Before the magic number, E6.
        self.header.identity.0.bell_inode.store(bell_inode, Ordering::Relaxed);
        self.set_route(Route::Shadow);
        self.found(whose, initial);
    }

    /// The inode of the pipe with the readiness bytes of a FIFO's ring.
    pub fn bell_inode(&self) -> u64 {
        self.header.identity.0.bell_inode.load(Ordering::Relaxed)
    }

    /// Publishes that a reader is active at `now`, in milliseconds of a clock that all processes share and that may
    /// wrap.
    #[inline]
    pub fn attend(&self, now: u32) {
        let attended = &self.header.state.0.attended;
        // All participants load this line, so it is not stored to while the clock stands.
        if attended.load(Ordering::Relaxed) != now {
            attended.store(now, Ordering::Relaxed);
        }
    }

    /// Whether a reader was active within `limit` milliseconds of `now`. Clocks of two CPUs may differ a little.
    #[inline]
    pub fn is_attended(&self, now: u32, limit: u32) -> bool {
        now.wrapping_sub(self.header.state.0.attended.load(Ordering::Relaxed)).cast_signed().unsigned_abs() <= limit
    }

    /// Whether the kernel carries this FIFO's stream for good. A thread that holds the lock of the writers sees the
    /// last word on this.
    #[inline]
    pub fn is_kept_to_kernel(&self) -> bool {
        self.header.state.0.kernel_only.load(Ordering::Relaxed) != 0
    }
}

impl<P: Parking> WriteSide<'_, P> {
    /// From now on the kernel carries this FIFO's stream: a process looks at it that sees only the kernel's pipe.
    pub fn keep_to_kernel(&self) {
        // E5: stored under the lock of the writers, and loaded under it.
        self.ring.header.state.0.kernel_only.store(1, Ordering::Relaxed);
    }

    /// Gives the `count` bytes in the FIFO their place: before what is put into the ring from now on. Only with both
    /// sides locked, and while the ring is not empty.
    pub fn admit_foreign_bytes(&self, _: &ReadSide<'_, P>, count: usize) {
        let state = &self.ring.header.state.0;
        // The first place stays: if a process puts bytes into the FIFO and then into the ring, they are read in that
        // order.
        if state.strangers_at.load(Ordering::Relaxed) == 0 {
            let written = self.ring.header.write_pos.0.position.load(Ordering::Relaxed);
            state.strangers_at.store(written, Ordering::Relaxed);
        }
        state.strangers.store(count as u64, Ordering::Relaxed);
    }
}

impl<P: Parking> ReadSide<'_, P> {
    /// How many of the `waiting` bytes come before the foreign bytes, if there are any.
    #[inline]
    pub fn before_foreign_bytes(&self, waiting: Waiting) -> Option<usize> {
        match self.header().state.0.strangers_at.load(Ordering::Relaxed) {
            0 => None,
            // Behind the read position only if a process has died, or is hostile.
            at => Some(usize::try_from(at.wrapping_sub(waiting.position).cast_signed()).unwrap_or(0)),
        }
    }

    /// How many foreign bytes come next.
    pub fn foreign_bytes(&self) -> usize {
        usize::try_from(self.header().state.0.strangers.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// A reader has taken `count` of them out of the FIFO.
    pub fn took_foreign_bytes(&self, count: usize) {
        let strangers = &self.header().state.0.strangers;
        match strangers.load(Ordering::Relaxed).saturating_sub(count as u64) {
            0 => self.end_foreign_bytes(),
            left => strangers.store(left, Ordering::Relaxed),
        }
    }

    /// No foreign bytes are left.
    pub fn end_foreign_bytes(&self) {
        let state = &self.header().state.0;
        state.strangers.store(0, Ordering::Relaxed);
        state.strangers_at.store(0, Ordering::Relaxed);
    }

    /// The first `len` bytes of `waiting` are about to be put into the FIFO. Only with both sides locked.
    pub fn will_give_back(&self, waiting: Waiting, len: usize) {
        let end = waiting.position.wrapping_add(len as u64);
        self.header().state.0.giving_back.store(end, Ordering::Relaxed);
    }

    /// The first `len` bytes of `waiting` were put there, and wait no longer.
    pub fn gave_back(&self, waiting: Waiting, len: usize) {
        self.discard_first(waiting, len);
        self.header().state.0.giving_back.store(0, Ordering::Relaxed);
    }

    /// Finishes the flush of a process that was killed during it. Only with both sides locked.
    ///
    /// # Errors
    /// [`RingError`]: the positions are impossible.
    pub fn finish_giving_back(&self) -> Result<(), RingError> {
        let end = self.header().state.0.giving_back.load(Ordering::Relaxed);
        if end != 0 {
            let waiting = self.waiting(usize::MAX)?;
            // Otherwise they were taken out of the ring, and only the word is left.
            let ahead = usize::try_from(end.wrapping_sub(waiting.position)).unwrap_or(usize::MAX);
            let len = if ahead <= waiting.len() { ahead } else { 0 };
            self.gave_back(waiting, len);
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests {
    use std::vec;

    use super::*;
    use crate::biased::tests::thread;
    use crate::{Bytes, Header};
    use core::ptr::NonNull;

    #[test]
    fn attention_is_recent_also_when_the_clock_wraps() {
        let header = Header::new();
        // SAFETY: no bytes.
        let ring = Ring::new(&header, unsafe { Bytes::new(NonNull::dangling(), 0) });
        ring.attend(u32::MAX - 10);
        assert!(ring.is_attended(u32::MAX, 50) && ring.is_attended(30, 50) && ring.is_attended(u32::MAX - 12, 50));
        assert!(!ring.is_attended(60, 50) && !ring.is_attended(u32::MAX / 2, 50));
    }

    #[test]
    fn foreign_bytes_follow_earlier_writes_and_precede_later_ones() {
        let (header, steady) = (Header::new(), thread(1));
        let mut memory = [0_u8; 2 * 4096];
        // SAFETY: the array, which outlives the ring and is not used otherwise.
        let bytes = unsafe { Bytes::new(NonNull::from(&mut memory).cast(), memory.len()) };
        let ring = Ring::new(&header, bytes);
        ring.found_for_fifo(Whose::default(), Geometry::of(4096).unwrap(), 7);
        let (writers, readers) = (ring.lock_writers(&steady).unwrap(), ring.lock_readers(&steady).unwrap());
        let write = |len: usize| {
            writers.write(writers.room(len).unwrap(), [vec![0; len].as_slice()].into_iter(), 0);
        };
        let before = || {
            let waiting = readers.waiting(usize::MAX).unwrap();
            readers.before_foreign_bytes(waiting)
        };
        write(100);
        assert_eq!(before(), None);
        writers.admit_foreign_bytes(&readers, 7);
        write(50);
        // Further ones get the same place.
        writers.admit_foreign_bytes(&readers, 9);
        assert_eq!((before(), readers.foreign_bytes()), (Some(100), 9));
        readers.discard_first(readers.waiting(usize::MAX).unwrap(), 100);
        assert_eq!(before(), Some(0));
        readers.took_foreign_bytes(4);
        assert_eq!((before(), readers.foreign_bytes()), (Some(0), 5));
        readers.took_foreign_bytes(6);
        assert_eq!((before(), readers.waiting(usize::MAX).unwrap().len()), (None, 50));
    }

    #[test]
    fn flush_of_killed_process_moves_no_byte_twice() {
        let (header, steady) = (Header::new(), thread(1));
        let mut memory = [0_u8; 2 * 4096];
        // SAFETY: the array, which outlives the ring and is not used otherwise.
        let bytes = unsafe { Bytes::new(NonNull::from(&mut memory).cast(), memory.len()) };
        let ring = Ring::new(&header, bytes);
        ring.found_for_fifo(Whose::default(), Geometry::of(4096).unwrap(), 7);
        assert_eq!((ring.route(), ring.bell_inode()), (Route::Shadow, 7));
        let writers = ring.lock_writers(&steady).unwrap();
        let room = writers.room(100).unwrap();
        writers.write(room, [[1; 100].as_slice()].into_iter(), 0);
        let readers = ring.lock_readers(&steady).unwrap();
        let waiting = readers.waiting(usize::MAX).unwrap();
        // Killed before or after the bytes were put there.
        readers.will_give_back(waiting, 30);
        readers.finish_giving_back().unwrap();
        assert_eq!(readers.waiting(usize::MAX).unwrap().len(), 70);
        // Killed between the two stores of `gave_back`.
        let waiting = readers.waiting(usize::MAX).unwrap();
        readers.will_give_back(waiting, 20);
        readers.discard_first(waiting, 20);
        readers.finish_giving_back().unwrap();
        assert_eq!(readers.waiting(usize::MAX).unwrap().len(), 50);
        readers.finish_giving_back().unwrap();
        assert_eq!(readers.waiting(usize::MAX).unwrap().len(), 50);
    }
}

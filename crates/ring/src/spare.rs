//! The spare bank: a whole buffer that one process fills beside the ring, and that then is the ring.
//!
//! A segment has two banks, and the ring lies in one of them; the other is used while the ring is resized. Meanwhile a process
//! can have it for its own, fill it from its start for as long as it likes, and *lend* it: if nothing waits in the ring, that moves
//! over to where the bytes are, by two stores, and nothing is copied. Everybody who reads finds them as if they had been written.
//!
//! ```text
//!    word   serial 32 | bank 1 | process 31          process 0: nobody has it
//!
//!             ring          spare                               ring          spare
//!          ┌──────────┐  ┌──────────┐                        ┌──────────┐  ┌──────────┐
//!          │  empty   │  │ ▓▓▓▓▓▓   │   ── lend(6) ──▶       │ ▓▓▓▓▓▓   │  │  free    │
//!          └──────────┘  └──────────┘                        └──────────┘  └──────────┘
//!             bank 0        bank 1       geometry, position     bank 1        bank 0
//! ```
//!
//! Edge E12: the geometry is stored before the position that makes the bytes known, and a reader that has found a new
//! position looks at the geometry after it. So the readers' lock is not needed. A reader that has bytes left keeps the ring
//! where it is, for a ring in which something waits never moves: so of what a reader knew to wait, it knows the place.
//!
//! Who dies between the two stores has moved an empty ring. Who dies after them leaves a word that names the bank which the
//! ring has moved to: that is nobody's. Any other word of a dead process is for those to settle who find it, as with
//! claims: nobody else can tell whether it lives.

use core::ops::Range;

use crate::Broken;
use crate::geometry::{Extent, Geometry};
use crate::header::Header;
use crate::lock::Parking;
use crate::ring::{Ring, WriteSide};
use crate::sync::Ordering;

const PROCESS: u64 = (1 << 31) - 1;
const BANK: u64 = 1 << 31;

/// Who has the spare bank, as others find it: a process, and which of the times that it has had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareOwner {
    word: u64,
}

impl SpareOwner {
    /// The process. Not asked whether it lives.
    pub fn process(&self) -> u32 {
        (self.word & PROCESS) as u32
    }
}

/// The process that has the spare bank, as this word says beside a ring in that bank.
pub(crate) fn owner(word: u64, ring: Geometry) -> Option<u32> {
    let is_beside = usize::from(word & BANK != 0) != ring.bank();
    Some((word & PROCESS) as u32).filter(|&process| process != 0 && is_beside)
}

/// The spare bank, taken by one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    word: u64,
    extent: Extent,
}

impl Spare {
    /// Whose it is.
    pub fn process(&self) -> u32 {
        (self.word & PROCESS) as u32
    }

    /// What of its bank can be filled: to be made before it is touched, with the writers' lock still held.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Bytes that can be filled.
    pub fn len(&self) -> usize {
        self.extent.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.extent.len == 0
    }

    /// Where its bytes lie: from the start of the first bank, and always inside of the banks.
    pub fn place(&self, ring: &Ring<'_>) -> Range<usize> {
        let start = self.extent.bank * ring.bank_bytes();
        start..start + self.extent.len.min(ring.bank_bytes())
    }
}

/// What came of lending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lent {
    /// The bytes wait to be read, and the bank is the ring's. So many more can be written behind them.
    Whole(usize),
    /// Something waits in the ring, or is offered: perhaps later.
    NotNow,
    /// The bank is not the caller's any more, or no place for a ring of this size.
    Lost,
}

impl Ring<'_> {
    /// Who has the spare bank, if somebody has.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn spare_owner(&self) -> Result<Option<SpareOwner>, Broken> {
        let word = self.header.state.0.spare.load(Ordering::Relaxed);
        Ok(owner(word, self.geometry()?).map(|_| SpareOwner { word }))
    }

    /// Gives the spare bank back, unlent. False if it was not the caller's any more.
    pub fn give_spare_back(&self, spare: &Spare) -> bool {
        // Release: what was done there was done before somebody else has it; with `WriteSide::take_spare`.
        let word = &self.header.state.0.spare;
        word.compare_exchange(spare.word, without_owner(spare.word), Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

fn without_owner(word: u64) -> u64 {
    word & !(PROCESS | BANK)
}

impl<P: Parking> WriteSide<'_, P> {
    /// Takes the first `len` bytes of the spare bank for `process`; `None` if somebody has it, or it does not hold so many or
    /// the ring does not.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn take_spare(&self, len: usize, process: u32) -> Result<Option<Spare>, Broken> {
        let (ring, state) = (self.ring(), self.state());
        let geometry = ring.geometry()?;
        let extent = geometry.extent_beside(len);
        let before = state.spare.load(Ordering::Acquire);
        if owner(before, geometry).is_some() || len > geometry.bytes() || u64::from(process) & !PROCESS != 0 {
            return Ok(None);
        }
        let serial = (before >> 32).wrapping_add(1) << 32;
        let bank = if extent.bank == 0 { 0 } else { BANK };
        let word = serial | bank | u64::from(process);
        // E5 makes it seen to who wants the ring to stay where it is, or not to.
        let is_taken = state.spare.compare_exchange(before, word, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Ok(is_taken.then_some(Spare { word, extent }))
    }

    /// Takes the spare bank from who had it and is dead. Returns whether it was still the same who had it.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn end_spare_of_dead(&self, dead: SpareOwner) -> Result<bool, Broken> {
        let free = || {
            let word = &self.state().spare;
            word.compare_exchange(dead.word, without_owner(dead.word), Ordering::AcqRel, Ordering::Relaxed)
        };
        // Lent meanwhile, it is the ring.
        Ok(self.ring().spare_owner()? == Some(dead) && free().is_ok())
    }

    /// Has the ring move to the spare bank, whose first `len` bytes are the next of the stream, if nothing waits in it. Only
    /// if nobody has claimed the writing side.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn lend(&self, spare: &Spare, len: usize, cpu: u32) -> Result<Lent, Broken> {
        let (ring, state) = (self.ring(), self.state());
        let geometry = ring.geometry()?;
        let is_ours = state.spare.load(Ordering::Relaxed) == spare.word;
        if !is_ours || geometry.bank() == spare.extent.bank || len > spare.len().min(geometry.bytes()) {
            return Ok(Lent::Lost);
        }
        // All that is free, as it is now: E2, so all that waited has been copied out.
        let room = self.room(usize::MAX)?;
        if room.len() < geometry.bytes() {
            return Ok(Lent::NotNow);
        }
        // E12 with `ReadSide::waiting`.
        state.geometry.store(geometry.beside(room.place().1).word(), Ordering::Relaxed);
        self.publish_after(room, len, cpu);
        // Nobody's from the store of the geometry on: this only keeps the word short.
        state.spare.store(without_owner(spare.word), Ordering::Relaxed);
        Ok(Lent::Whole(geometry.bytes() - len))
    }

    fn state(&self) -> &crate::header::State {
        let Header { state, .. } = self.ring().header;
        &state.0
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests {
    use core::ptr::NonNull;
    use std::vec;

    use super::*;
    use crate::biased::tests::somebody;
    use crate::bytes::Lines;
    use crate::{Bytes, Resize, Whose};

    const BANK_BYTES: usize = 8192;

    fn with_ring(test: impl Fn(Ring<'_>, &Header)) {
        let (header, mut memory) = (Header::new(), vec![0_u8; 2 * BANK_BYTES]);
        // SAFETY: the memory outlives the ring and is not looked at meanwhile.
        let ring = Ring::new(&header, unsafe { Bytes::new(NonNull::from(&mut memory[..]).cast(), 2 * BANK_BYTES) });
        ring.found(Whose::default(), Geometry::of(4096).unwrap());
        test(ring, &header);
    }

    #[test]
    fn what_is_lent_is_read_where_it_is_and_the_ring_goes_on_behind_it() {
        with_ring(|ring, _| {
            let me = somebody(1);
            let (writers, readers) = (ring.lock_writers(&me).unwrap(), ring.lock_readers(&me).unwrap());
            let mut seen = [0; 4096];
            let mut read = |wanted: usize| {
                let waiting = readers.waiting(4096).unwrap();
                let count = readers.read(waiting, [&mut seen[..wanted]].into_iter(), 0);
                seen[..count].to_vec()
            };
            for round in 0..50_u8 {
                // Wherever in a page the stream is.
                let before = [round; 77];
                assert_eq!(writers.write(writers.room(77).unwrap(), [&before[..]].into_iter(), 0), 77);
                let spare = writers.take_spare(3000, 7).unwrap().unwrap();
                ring.bytes.write(spare.place(&ring).start, &[round + 100; 3000], Lines::Near);
                assert_eq!(writers.take_spare(1, 7), Ok(None));
                assert_eq!(writers.lend(&spare, 2999, 0), Ok(Lent::NotNow));
                assert_eq!(read(100), before);
                assert_eq!(writers.lend(&spare, 2999, 0), Ok(Lent::Whole(1097)));
                assert_eq!(writers.lend(&spare, 1, 0), Ok(Lent::Lost));
                assert_eq!(writers.write(writers.room(2000).unwrap(), [&[round; 2000][..]].into_iter(), 0), 1097);
                assert_eq!(read(3000), [[round + 100; 2999].to_vec(), vec![round]].concat());
                assert_eq!(read(3000), [round; 1096]);
            }
        });
    }

    #[test]
    fn the_ring_is_not_resized_while_somebody_fills_the_spare_and_is_when_it_is_back() {
        with_ring(|ring, _| {
            let me = somebody(1);
            let (writers, readers) = (ring.lock_writers(&me).unwrap(), ring.lock_readers(&me).unwrap());
            assert_eq!(writers.take_spare(4097, 7), Ok(None), "more than the ring holds");
            let spare = writers.take_spare(4096, 7).unwrap().unwrap();
            let seen = ring.spare_owner().unwrap().unwrap();
            assert_eq!(seen.process(), 7);
            assert_eq!(writers.resize(&readers, BANK_BYTES), Err(Resize::Busy));
            assert_eq!(writers.disown_pages(&readers), Ok(false));
            assert!(ring.give_spare_back(&spare) && !ring.give_spare_back(&spare));
            // It was not dead, and has it once more.
            let again = writers.take_spare(4096, 7).unwrap().unwrap();
            assert_eq!(writers.end_spare_of_dead(seen), Ok(false));
            assert!(ring.give_spare_back(&again));
            assert_eq!(writers.disown_pages(&readers), Ok(true));
            assert_eq!(writers.resize(&readers, BANK_BYTES), Ok(()));
            let other = writers.take_spare(10, 9).unwrap().unwrap();
            assert!(!ring.give_spare_back(&spare), "another's");
            assert_eq!(writers.end_spare_of_dead(ring.spare_owner().unwrap().unwrap()), Ok(true));
            assert_eq!(writers.lend(&other, 1, 0), Ok(Lent::Lost));
        });
    }

    #[test]
    fn who_died_in_the_middle_of_lending_has_nothing_any_more() {
        with_ring(|ring, header| {
            let me = somebody(1);
            let (writers, readers) = (ring.lock_writers(&me).unwrap(), ring.lock_readers(&me).unwrap());
            let spare = writers.take_spare(10, 7).unwrap().unwrap();
            // The ring has moved; nothing is written.
            let moved = ring.geometry().unwrap().beside(0);
            header.state.0.geometry.store(moved.word(), Ordering::Relaxed);
            assert_eq!(ring.spare_owner(), Ok(None));
            assert_eq!(writers.lend(&spare, 10, 0), Ok(Lent::Lost));
            assert!(readers.waiting(1).unwrap().is_empty());
            // It comes back to the bank where that one filled, which is not its again by that.
            assert_eq!(writers.resize(&readers, 4096), Ok(()));
            assert_eq!(ring.spare_owner(), Ok(None));
            assert!(writers.take_spare(10, 8).unwrap().is_some());
        });
    }

    #[test]
    fn whatever_the_word_says_nothing_outside_of_the_banks_is_named() {
        with_ring(|ring, header| {
            let me = somebody(1);
            let writers = ring.lock_writers(&me).unwrap();
            for word in (0..64).flat_map(|bit| [1 << bit, !(1 << bit), u64::MAX << bit, 0]) {
                header.state.0.spare.store(word, Ordering::Relaxed);
                if let Some(spare) = writers.take_spare(4096, 7).unwrap() {
                    assert!(spare.place(&ring).end <= 2 * BANK_BYTES && spare.extent().bank == 1);
                    assert_eq!((spare.process(), ring.spare_owner().unwrap().unwrap().process()), (7, 7));
                }
            }
        });
    }
}

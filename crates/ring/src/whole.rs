//! Record boundaries: where the writes in the ring of a FIFO end, so that a flush to the kernel keeps a small write in
//! one piece.
//!
//! There is a bit for each byte of the ring. It is set where the last byte of a write lies. The bits lie in the bank
//! that the ring does not use; the ring of a FIFO keeps its size, so that bank is free. Writers store the bits under
//! their lock. A flush loads them with both sides locked.

use crate::bytes::Lines;
use crate::geometry::Extent;
use crate::lock::Parking;
use crate::ring::{PIPE_BUF, ReadSide, Room, Waiting, WriteSide, split};

/// Bits that lie in one byte.
const BITS: usize = 8;

/// The bits are stored a word at a time.
const WORD_BYTES: usize = size_of::<u64>();
const WORD_BITS: usize = BITS * WORD_BYTES;

/// Bytes that the bits take of a bank, however large the ring in the other bank is.
pub(crate) fn bytes_of_notes(bank_bytes: usize) -> usize {
    bank_bytes / BITS
}

impl Room {
    /// Where the record boundaries are noted.
    #[inline]
    pub fn notes(&self) -> Extent {
        self.geometry.extent_beside(self.geometry.bytes() / BITS)
    }
}

impl Waiting {
    /// As [`Room::notes`].
    pub fn notes(&self) -> Extent {
        self.geometry.extent_beside(self.geometry.bytes() / BITS)
    }
}

impl<P: Parking> WriteSide<'_, P> {
    /// Notes that the next `len` bytes of `room` are one write, or a piece of a write larger than [`PIPE_BUF`], after
    /// which others may come. The caller notes this before it copies them there. `len`: 1 to all of the room.
    #[inline]
    pub fn note_end(&self, room: Room, len: usize) {
        let (start, first) = split(room.geometry, room.position, len);
        if first < len {
            self.note(room, start, first, 0);
            self.note(room, 0, len - first, 1);
        } else {
            self.note(room, start, len, 1);
        }
    }

    /// Notes that no write ends in the `len` bytes from `start` on. If `last` is 1 and not 0, one ends with the last of
    /// them.
    #[inline]
    fn note(&self, room: Room, start: usize, len: usize, last: u64) {
        let (notes, end) = (self.notes_of(room), start + len - 1);
        let (first_word, last_word) = (start / WORD_BITS, end / WORD_BITS);
        // The bits before the first and behind the last belong to other writes.
        let mut kept = !(u64::MAX << (start % WORD_BITS));
        for word in first_word..last_word {
            self.keep(notes + word * WORD_BYTES, kept, 0);
            kept = 0;
        }
        kept |= !(u64::MAX >> (WORD_BITS - 1 - end % WORD_BITS));
        self.keep(notes + last_word * WORD_BYTES, kept, last << (end % WORD_BITS));
    }

    /// Keeps the bits `kept` of the word at `offset`, and sets those of `more`.
    #[inline]
    fn keep(&self, offset: usize, kept: u64, more: u64) {
        let before = if kept == 0 { 0 } else { self.ring.bytes.word(offset) & kept };
        self.ring.bytes.set_word(offset, before | more);
    }

    fn notes_of(&self, room: Room) -> usize {
        room.notes().bank * self.ring.bank_bytes()
    }
}

impl<P: Parking> ReadSide<'_, P> {
    /// How many of the first bytes of `waiting` may be put into the FIFO at once. At most [`PIPE_BUF`], so that no
    /// other write comes in between, and up to the end of a write, unless that is larger. Only with both sides locked.
    pub fn whole_writes(&self, waiting: Waiting) -> usize {
        if waiting.len() <= PIPE_BUF {
            return waiting.len();
        }
        let notes = waiting.geometry.extent_beside(0).bank * self.ring.bank_bytes();
        let ends_at = |index: usize| {
            let (offset, _) = split(waiting.geometry, waiting.position.wrapping_add(index as u64), 1);
            let mut byte = [0];
            self.ring.bytes.read(notes + offset / BITS, &mut byte, Lines::Near);
            byte[0] >> (offset % BITS) & 1 != 0
        };
        // No write ends there: only a larger one is cut.
        (0..PIPE_BUF).rev().find(|&index| ends_at(index)).map_or(PIPE_BUF, |index| index + 1)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests {
    use core::ptr::NonNull;
    use std::{vec, vec::Vec};

    use crate::biased::tests::thread;
    use crate::{Bytes, Geometry, Header, Ring, Whose};

    /// Writes and flushes writes of these `sizes`, many times around the ring. Returns the pieces that would go to the
    /// FIFO.
    fn pieces_of(sizes: &[usize]) -> Vec<usize> {
        let (header, steady) = (Header::new(), thread(1));
        let mut memory = vec![0xff_u8; 2 * 16_384];
        // SAFETY: the vector, which outlives the ring and is not used otherwise.
        let bytes = unsafe { Bytes::new(NonNull::from(&mut memory[..]).cast(), memory.len()) };
        let ring = Ring::new(&header, bytes);
        ring.found_for_fifo(Whose::default(), Geometry::of(16_384).unwrap(), 7);
        let (writers, readers) = (ring.lock_writers(&steady).unwrap(), ring.lock_readers(&steady).unwrap());
        let mut pieces = Vec::new();
        let mut sizes = sizes.iter().copied().peekable();
        while sizes.peek().is_some() {
            while let Some(&size) = sizes.peek() {
                let room = writers.room(size).unwrap();
                if room.len() < size {
                    break;
                }
                writers.note_end(room, size);
                writers.write(room, [vec![1; size].as_slice()].into_iter(), 0);
                sizes.next();
            }
            loop {
                let waiting = readers.waiting(usize::MAX).unwrap();
                let len = readers.whole_writes(waiting);
                if len == 0 {
                    break;
                }
                pieces.push(len);
                readers.discard_first(waiting, len);
            }
        }
        pieces
    }

    #[test]
    fn small_writes_are_flushed_whole_and_large_ones_in_pages() {
        for size in [1, 7, 8, 9, 64, 100, 1000, 4095, 4096] {
            let pieces = pieces_of(&vec![size; 3000]);
            assert_eq!(pieces.iter().sum::<usize>(), 3000 * size);
            assert!(pieces.iter().all(|&piece| piece % size == 0 && piece <= 4096), "{size}: {pieces:?}");
            let fullest = 4096 / size * size;
            assert!(
                pieces.iter().filter(|&&piece| piece < fullest).count() * 3 <= pieces.len() + 3,
                "{size}: {pieces:?}"
            );
        }
        assert_eq!(pieces_of(&[10_000, 10]), [4096, 4096, 1818]);
        assert_eq!(pieces_of(&[4000, 4096, 200, 100]), [4000, 4096, 300]);
    }

    #[test]
    fn note_changes_only_the_bits_of_its_own_bytes() {
        let header = Header::new();
        let mut memory = vec![0_u8; 2 * 4096];
        // SAFETY: the vector, which outlives the ring and is not used otherwise while that is.
        let bytes = unsafe { Bytes::new(NonNull::from(&mut memory[..]).cast(), memory.len()) };
        let ring = Ring::new(&header, bytes);
        ring.found_for_fifo(Whose::default(), Geometry::of(4096).unwrap(), 7);
        let steady = thread(1);
        let (writers, readers) = (ring.lock_writers(&steady).unwrap(), ring.lock_readers(&steady).unwrap());
        let mut expected = [false; 4096];
        let mut position = 0;
        // Every alignment to a word, and around the end.
        for len in (1..200).chain([512, 1000, 4095, 4096]).cycle().take(1000) {
            writers.note_end(writers.room(len).unwrap(), len);
            writers.write(writers.room(len).unwrap(), [vec![0; len].as_slice()].into_iter(), 0);
            readers.discard(readers.waiting(usize::MAX).unwrap());
            (0..len).for_each(|index| expected[(position + index) % 4096] = index == len - 1);
            position += len;
            let noted: Vec<bool> =
                (0..4096).map(|at| ring.bytes.word(4096 + at / 64 * 8) >> (at % 64) & 1 != 0).collect();
            assert_eq!(noted, expected, "{len} bytes up to {position}");
        }
    }
}

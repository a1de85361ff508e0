//! Where the writes in the ring of a FIFO end, so that a small one is given back to the kernel in one piece.
//!
//! A bit for each byte of the ring, in the bank that the ring does not use: set where the last byte of a write lies. The
//! ring of a FIFO keeps its size, so that bank is free. The bits are written under the lock of the writers and read with
//! both sides locked.

use crate::bytes::Lines;
use crate::geometry::Extent;
use crate::lock::Parking;
use crate::ring::{PIPE_BUF, ReadSide, Room, Waiting, WriteSide, split};

/// Bits that lie in one byte.
const BITS: usize = 8;

static NOTHING: [u8; 512] = [0; 512];

impl Room {
    /// Where it is noted how writes end.
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
    /// The next `len` bytes that are put into `room` are one write, or a piece of a larger one than [`PIPE_BUF`], after
    /// which others may come. To be said before they are put there. `len`: 1 to all of the room.
    #[inline]
    pub fn note_end(&self, room: Room, len: usize) {
        let (start, first) = split(room.geometry, room.position, len);
        self.clear(room, start, first);
        self.clear(room, 0, len - first);
        let last = if first < len { len - first - 1 } else { start + len - 1 };
        self.change(room, last / BITS, |bits| bits | 1 << (last % BITS));
    }

    fn clear(&self, room: Room, start: usize, len: usize) {
        let end = start + len;
        let (first, past) = (start / BITS, end / BITS);
        let (from_start, before_end) = (u8::MAX << (start % BITS), !(u8::MAX << (end % BITS)));
        if first == past {
            if len > 0 {
                self.change(room, first, |bits| bits & !(from_start & before_end));
            }
            return;
        }
        self.change(room, first, |bits| bits & !from_start);
        let mut at = first + 1;
        while at < past {
            let piece = &NOTHING[..NOTHING.len().min(past - at)];
            self.ring.bytes.write(self.notes_of(room) + at, piece, Lines::Near);
            at += piece.len();
        }
        if before_end != 0 {
            self.change(room, past, |bits| bits & !before_end);
        }
    }

    fn change(&self, room: Room, at: usize, change: impl Fn(u8) -> u8) {
        let (offset, mut byte) = (self.notes_of(room) + at, [0]);
        self.ring.bytes.read(offset, &mut byte, Lines::Near);
        self.ring.bytes.write(offset, &[change(byte[0])], Lines::Near);
    }

    fn notes_of(&self, room: Room) -> usize {
        room.notes().bank * self.ring.bank_bytes()
    }
}

impl<P: Parking> ReadSide<'_, P> {
    /// How many of the first bytes of `waiting` may be put into the FIFO at once: at most [`PIPE_BUF`], so that nothing
    /// comes in between them, and up to the end of a write, unless that is larger. Only with both sides locked.
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
        // None ends there: what is cut is larger.
        (0..PIPE_BUF).rev().find(|&index| ends_at(index)).map_or(PIPE_BUF, |index| index + 1)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests {
    use core::ptr::NonNull;
    use std::{vec, vec::Vec};

    use crate::biased::tests::somebody;
    use crate::{Bytes, Geometry, Header, Ring, Whose};

    /// Writes and gives back whatever `sizes` say, many times around the ring; returns the pieces that would go to the FIFO.
    fn pieces_of(sizes: &[usize]) -> Vec<usize> {
        let (header, steady) = (Header::new(), somebody(1));
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
    fn small_writes_go_whole_and_large_ones_in_pages() {
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
}

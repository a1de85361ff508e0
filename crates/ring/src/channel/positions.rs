//! The positions of a channel: a ring for one writing and one reading process, without locks.
//!
//! Each position is a word that its own side moves by compare-and-exchange, after the bytes were copied. A side that
//! sets the highest bit of both words has frozen the stream, at once and whatever the other side is just doing: a copy
//! in progress then fails to be counted (edge E17). So no side waits for a process that is stopped or dead in the
//! middle of a copy.

use super::checks::{Check, fence_of_exchange};
use super::words::{Channel, Position, RING_BYTES};
use crate::ring::PIPE_BUF;
use crate::sync::Ordering::{Acquire, Relaxed, SeqCst};

/// Set in both positions when no more bytes go through the ring.
const FROZEN: u64 = 1 << 63;
/// A long copy is published in pieces of this size, so that the other side can begin.
const PIECE: usize = 32 << 10;

/// A part of the ring: where it begins, in bytes from the ring's beginning, and how long it is.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Bytes from the beginning of the ring.
    pub at: usize,
    /// Bytes.
    pub len: usize,
}

/// What came of an attempt to move bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Moved {
    /// So many were moved.
    Bytes(usize),
    /// There is no room, or nothing to read.
    Nothing,
    /// The ring carries nothing any more.
    Frozen,
    /// The copy failed, as the program's memory is not there. Nothing was counted.
    Absent,
}

/// What a side finds when it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It has to wait.
    Nothing,
    /// It can go on; also if the stream is frozen.
    Something,
    /// So much that yielding the CPU was right, however long it took, if the other side had it.
    Much,
}

impl Position {
    /// Where its side runs. Written only when that changes: the other side reads it.
    fn note(&self, cpu: u32) {
        if self.cpu.load(Relaxed) != cpu + 1 {
            self.cpu.store(cpu + 1, Relaxed);
        }
    }
}

impl Channel {
    fn capacity(&self) -> usize {
        // Whatever a hostile peer writes here: the mask stays inside the mapping.
        let bytes = self.agreement.0.bytes.load(Relaxed) as usize;
        if bytes.is_power_of_two() && bytes <= RING_BYTES { bytes } else { PIPE_BUF }
    }

    /// Has `copy` fill as much of the ring as there is room for of `len` bytes, at most a piece; all or nothing of at
    /// most [`PIPE_BUF`]. A `copy` that returns `false` has failed.
    #[inline]
    pub fn put(&self, len: usize, copy: impl FnOnce([Span; 2]) -> bool) -> Moved {
        let at = self.written.0.bytes.load(Relaxed);
        if at & FROZEN != 0 {
            return Moved::Frozen;
        }
        let room = self.room_at(at);
        if room == 0 || (len <= PIPE_BUF && room < len) {
            return Moved::Nothing;
        }
        let len = len.min(room).min(PIECE);
        if !copy(self.spans(at, len)) {
            return Moved::Absent;
        }
        match self.written.0.bytes.compare_exchange(at, at + len as u64, SeqCst, Relaxed) {
            Ok(_) => {
                fence_of_exchange(Check::FenceAfterPublish);
                Moved::Bytes(len)
            }
            Err(_) => Moved::Frozen,
        }
    }

    /// Has `copy` take at most `len` bytes. A `copy` that returns `false` has failed.
    #[inline]
    pub fn get(&self, len: usize, copy: impl FnOnce([Span; 2]) -> bool) -> Moved {
        let at = self.read.0.bytes.load(Relaxed);
        if at & FROZEN != 0 {
            return Moved::Frozen;
        }
        let waiting = self.waiting_at(at);
        if waiting == 0 {
            return Moved::Nothing;
        }
        let len = len.min(waiting).min(PIECE);
        if !copy(self.spans(at, len)) {
            return Moved::Absent;
        }
        match self.read.0.bytes.compare_exchange(at, at + len as u64, SeqCst, Relaxed) {
            Ok(_) => {
                fence_of_exchange(Check::FenceAfterConsume);
                Moved::Bytes(len)
            }
            Err(_) => Moved::Frozen,
        }
    }

    /// Bytes that were put in.
    pub fn carried(&self) -> u64 {
        self.written.0.bytes.load(Relaxed) & !FROZEN
    }

    /// What a write of `len` bytes would find.
    pub fn room_for(&self, len: usize) -> Found {
        let at = self.written.0.bytes.load(SeqCst);
        self.found(at, self.room_at(at), if len <= PIPE_BUF { len } else { 1 })
    }

    /// What a read would find.
    pub fn bytes_waiting(&self) -> Found {
        let at = self.read.0.bytes.load(SeqCst);
        self.found(at, self.waiting_at(at), 1)
    }

    /// Whether a read would find bytes; `None` if the ring carries nothing any more.
    pub fn has_bytes(&self) -> Option<bool> {
        let at = self.read.0.bytes.load(SeqCst);
        (at & FROZEN == 0).then(|| self.waiting_at(at) > 0)
    }

    /// Whether there is room for a write that is not mixed with others.
    pub fn has_room(&self) -> bool {
        self.room_for(PIPE_BUF) != Found::Nothing
    }

    fn found(&self, position: u64, bytes: usize, wanted: usize) -> Found {
        match bytes {
            _ if position & FROZEN != 0 => Found::Something,
            _ if bytes < wanted => Found::Nothing,
            _ if bytes >= self.capacity() / 2 => Found::Much,
            _ => Found::Something,
        }
    }

    fn room_at(&self, written: u64) -> usize {
        let read = self.read.0.bytes.load(SeqCst) & !FROZEN;
        self.capacity().saturating_sub(written.wrapping_sub(read) as usize)
    }

    /// Impossible positions count as no bytes. The reader then waits in the kernel, which ends the wait when the writer
    /// is gone.
    fn waiting_at(&self, read: u64) -> usize {
        let written = self.written.0.bytes.load(SeqCst) & !FROZEN;
        let waiting = written.wrapping_sub(read) as usize;
        if waiting <= self.capacity() { waiting } else { 0 }
    }

    /// From now on no byte goes through the ring.
    pub(super) fn freeze(&self) {
        self.written.0.bytes.fetch_or(FROZEN, SeqCst);
        self.read.0.bytes.fetch_or(FROZEN, SeqCst);
    }

    /// Whether no byte goes through the ring any more.
    pub fn is_frozen(&self) -> bool {
        self.read.0.bytes.load(SeqCst) & FROZEN != 0
    }

    /// What a frozen ring holds, without the first `without` bytes of it.
    pub(super) fn content(&self, without: usize) -> [Span; 2] {
        let read = self.read.0.bytes.load(Acquire) & !FROZEN;
        let without = without.min(self.waiting_at(read));
        self.spans(read + without as u64, self.waiting_at(read) - without)
    }

    fn spans(&self, position: u64, len: usize) -> [Span; 2] {
        // Loaded once: a hostile peer changes it between two loads.
        let capacity = self.capacity();
        let start = position as usize & (capacity - 1);
        let first = len.min(capacity - start);
        [Span { at: start, len: first }, Span { at: 0, len: (len - first).min(start) }]
    }

    /// The writer runs on that CPU.
    pub fn note_writers_cpu(&self, cpu: u32) {
        self.written.0.note(cpu);
    }

    /// The reader runs on that CPU.
    pub fn note_readers_cpu(&self, cpu: u32) {
        self.read.0.note(cpu);
    }

    /// Whether the writer has last run on that CPU.
    pub fn writer_is_on(&self, cpu: u32) -> bool {
        self.written.0.cpu.load(Relaxed) == cpu + 1
    }

    /// Whether the reader has last run on that CPU.
    pub fn reader_is_on(&self, cpu: u32) -> bool {
        self.read.0.cpu.load(Relaxed) == cpu + 1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const WORDS: [u64; 8] = [0, 1, 4095, 4096, RING_BYTES as u64, RING_BYTES as u64 + 1, FROZEN - 1, u64::MAX];

    #[test]
    fn spans_stay_inside_the_ring_whatever_a_peer_writes() {
        let is_inside = |spans: [Span; 2]| {
            assert!(spans.iter().all(|span| span.at + span.len <= RING_BYTES), "{spans:?}");
            true
        };
        let channel = Channel::default();
        for (written, read) in WORDS.iter().flat_map(|written| WORDS.iter().map(move |read| (*written, *read))) {
            for bytes in WORDS {
                channel.written.0.bytes.store(written, Relaxed);
                channel.read.0.bytes.store(read, Relaxed);
                channel.agreement.0.bytes.store(bytes as u32, Relaxed);
                channel.put(RING_BYTES, is_inside);
                channel.get(RING_BYTES, is_inside);
                channel.freeze();
                is_inside(channel.content(bytes as usize));
            }
        }
    }

    #[test]
    fn small_write_is_put_whole_or_not_at_all() {
        let channel = Channel::default();
        channel.agreement.0.bytes.store(8192, Relaxed);
        assert_eq!(channel.put(8000, |_| true), Moved::Bytes(8000));
        assert_eq!(channel.put(193, |_| panic!("there is no room")), Moved::Nothing);
        assert_eq!(channel.put(PIPE_BUF + 1, |_| true), Moved::Bytes(192));
        assert_eq!(channel.get(9000, |_| false), Moved::Absent);
        assert_eq!(channel.get(9000, |_| true), Moved::Bytes(8192));
    }
}

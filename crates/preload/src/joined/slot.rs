//! One pipe in shared memory: a ring for one writing and one reading process, without locks.
//!
//! Each position is a word that its own side moves by compare-and-exchange, after the bytes were copied. A side that
//! sets the highest bit of both words has frozen the stream, at once and whatever the other side is just doing: a copy in progress
//! then fails to be counted. So no side waits for a process that is stopped or dead in the middle of a copy.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use millstream_sys::joint::{HEADER_BYTES, LABEL_BYTES, RING_BYTES};
pub(super) use millstream_sys::pipe::PIPE_BUF;

use super::faults::copy;
use super::wait::Found;

/// Set in both positions when no more bytes go through the ring.
const FROZEN: u64 = 1 << 63;
/// A long copy is made known in pieces of this size, so that the other side can begin.
const PIECE: usize = 32 << 10;
/// The largest ring.
pub(super) const RING_LIMIT: usize = RING_BYTES;

/// Where the stream is carried: [`Slot::carrier`].
pub(super) mod carrier {
    /// The kernel, until both sides agree.
    pub(in crate::joined) const KERNEL: u32 = 0;
    /// The ring.
    pub(in crate::joined) const RING: u32 = 1;
    /// The writer, or the reader, is putting what the ring holds into the backing pipe.
    pub(in crate::joined) const WRITER_MOVES: u32 = 2;
    pub(in crate::joined) const READER_MOVES: u32 = 3;
    /// The backing pipe, for ever.
    pub(in crate::joined) const SHADOW: u32 = 4;
}

/// What the reader's `read(2)` of the backing pipe will bring: [`Slot::sleep`].
pub(super) mod sleep {
    /// It does not sleep.
    pub(in crate::joined) const AWAKE: u32 = 0;
    /// It sleeps, or is about to; no wake token was sent.
    pub(in crate::joined) const ASLEEP: u32 = 1;
    /// One byte that means nothing but "wake up", a token, is in the backing pipe, or has been taken out of it.
    pub(in crate::joined) const RUNG: u32 = 2;
    /// Bytes of the stream.
    pub(in crate::joined) const STREAM: u32 = 3;
    /// A token is on its way.
    pub(in crate::joined) const RINGING: u32 = 4;

    pub(in crate::joined) fn is_rung(state: u32) -> bool {
        state == RUNG || state == RINGING
    }
}

/// How the two meet: [`Slot::meeting`].
pub(super) mod meeting {
    pub(in crate::joined) const NONE: u32 = 0;
    /// The reader has found the backing pipe empty and waits.
    pub(in crate::joined) const READER_WAITS: u32 = 1;
    /// The writer has agreed.
    pub(in crate::joined) const AGREED: u32 = 2;
}

/// In [`Slot::space`]: the writer waits for room. The bits are the kernel's for robust futexes.
pub(super) const WRITER_WAITS: u32 = 1 << 31;
/// In [`Slot::space`]: the reader is gone. Set by the kernel when its thread ends, or by itself when it closes its end.
pub(super) const READER_GONE: u32 = 1 << 30;

#[repr(C, align(128))]
pub(super) struct Line<T>(pub(super) T);

/// What the memory of a pipe begins with. Zeros are a valid beginning.
#[repr(C)]
pub(super) struct Slot {
    /// Not ours to touch.
    label: Line<[AtomicU32; LABEL_BYTES / 4]>,
    pub(super) agreement: Line<Agreement>,
    written: Line<Position>,
    read: Line<Position>,
    /// [`sleep`].
    pub(super) sleep: Line<AtomicU32>,
    /// The reader's thread, [`WRITER_WAITS`], [`READER_GONE`]; the writer's futex.
    pub(super) space: Line<AtomicU32>,
}

#[repr(C)]
pub(super) struct Agreement {
    /// [`carrier`]; also a futex.
    pub(super) carrier: AtomicU32,
    /// [`meeting`]; also a futex.
    pub(super) meeting: AtomicU32,
    /// The writer waits for the reader to meet it.
    pub(super) writer_waits: AtomicU32,
    /// [`Taken`]: the process that reads and wants to attach. Only that process takes itself out.
    pub(super) reader: AtomicU64,
    /// The writer has proved that no other process shares its end, or the reader's since it came for the time that stands here; 0: it has
    /// not.
    pub(super) writer_ready: AtomicU32,
    /// The reader has proved that no other process shares its end, since the time that stands here; 0: it has not.
    pub(super) reader_ready: AtomicU32,
    /// While the content moves: the backing pipe holds nothing else.
    pub(super) is_settled: AtomicU32,
    /// Bytes of the content that the reader got straight from the backing pipe while it was being moved.
    pub(super) taken_early: AtomicU32,
    /// Bytes that the ring may hold: a power of two, never more than the backing pipe can take.
    pub(super) bytes: AtomicU32,
}

/// The reader that has come to a slot, and how many have come so far. One process may come, detach, become another program and come again,
/// and what was proved of it before is worth nothing then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    /// 0: none.
    pub(super) process: u32,
    pub(super) time: u32,
}

impl Taken {
    pub(super) fn of(word: u64) -> Taken {
        Taken { process: word as u32, time: (word >> 32) as u32 }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.process) | u64::from(self.time) << 32
    }

    /// `process` comes after it.
    pub(super) fn next(self, process: u32) -> Taken {
        Taken { process, time: self.time.wrapping_add(1).max(1) }
    }
}

#[repr(C)]
struct Position {
    bytes: AtomicU64,
    cpu: AtomicU32,
}

impl Position {
    /// Where its side runs. Written only when that changes: the other side reads it.
    fn note(&self, cpu: u32) {
        if self.cpu.load(Relaxed) != cpu + 1 {
            self.cpu.store(cpu + 1, Relaxed);
        }
    }
}

const _: () = assert!(size_of::<Slot>() <= HEADER_BYTES);

/// What came of an attempt to move bytes.
pub(super) enum Moved {
    Bytes(usize),
    /// There is no room, or nothing to read.
    Nothing,
    /// The ring carries nothing any more.
    Frozen,
    /// The program's memory is not there. Nothing was counted.
    Absent,
}

impl Slot {
    fn capacity(&self) -> usize {
        // Whatever a hostile peer writes here: the mask stays inside the mapping.
        let bytes = self.agreement.0.bytes.load(Relaxed) as usize;
        if bytes.is_power_of_two() && bytes <= RING_BYTES { bytes } else { PIPE_BUF }
    }

    /// Copies in as much of `len` bytes as there is room for, at most a piece; all or nothing of at most `PIPE_BUF`.
    pub(super) fn put(&self, source: *const u8, len: usize) -> Moved {
        let at = self.written.0.bytes.load(Relaxed);
        if at & FROZEN != 0 {
            return Moved::Frozen;
        }
        let room = self.room_at(at);
        if room == 0 || (len <= PIPE_BUF && room < len) {
            return Moved::Nothing;
        }
        let len = len.min(room).min(PIECE);
        let [(first, first_len), (rest, rest_len)] = self.stretches(at, len);
        // SAFETY: the stretches are inside this slot's ring, which no reference covers.
        if !unsafe { copy(source, first, first_len) && copy(source.wrapping_add(first_len), rest, rest_len) } {
            return Moved::Absent;
        }
        match self.written.0.bytes.compare_exchange(at, at + len as u64, SeqCst, Relaxed) {
            Ok(_) => Moved::Bytes(len),
            Err(_) => Moved::Frozen,
        }
    }

    /// Copies out at most `len` bytes.
    pub(super) fn get(&self, target: *mut u8, len: usize) -> Moved {
        let at = self.read.0.bytes.load(Relaxed);
        if at & FROZEN != 0 {
            return Moved::Frozen;
        }
        let waiting = self.waiting_at(at);
        if waiting == 0 {
            return Moved::Nothing;
        }
        let len = len.min(waiting).min(PIECE);
        let [(first, first_len), (rest, rest_len)] = self.stretches(at, len);
        // SAFETY: the stretches are inside this slot's ring; the target is what the program gave for the purpose.
        if !unsafe { copy(first, target, first_len) && copy(rest, target.wrapping_add(first_len), rest_len) } {
            return Moved::Absent;
        }
        match self.read.0.bytes.compare_exchange(at, at + len as u64, SeqCst, Relaxed) {
            Ok(_) => Moved::Bytes(len),
            Err(_) => Moved::Frozen,
        }
    }

    /// Bytes that were put in.
    pub(super) fn carried(&self) -> u64 {
        self.written.0.bytes.load(Relaxed) & !FROZEN
    }

    /// What a write of `len` bytes would find.
    pub(super) fn room_for(&self, len: usize) -> Found {
        let at = self.written.0.bytes.load(SeqCst);
        self.found(at, self.room_at(at), if len <= PIPE_BUF { len } else { 1 })
    }

    /// What a read would find.
    pub(super) fn bytes_waiting(&self) -> Found {
        let at = self.read.0.bytes.load(SeqCst);
        self.found(at, self.waiting_at(at), 1)
    }

    /// Whether a read would find bytes; `None` if the ring carries nothing any more.
    pub(super) fn has_bytes(&self) -> Option<bool> {
        let at = self.read.0.bytes.load(SeqCst);
        (at & FROZEN == 0).then(|| self.waiting_at(at) > 0)
    }

    /// Whether there is room for a write that is not mixed with others.
    pub(super) fn has_room(&self) -> bool {
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

    /// Impossible positions count as no bytes. The reader then waits in the kernel, which ends the wait when the writer is gone.
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

    pub(super) fn is_frozen(&self) -> bool {
        self.read.0.bytes.load(SeqCst) & FROZEN != 0
    }

    /// What a frozen ring holds, without the first `without` bytes of it.
    pub(super) fn content(&self, without: usize) -> [(*const u8, usize); 2] {
        let read = self.read.0.bytes.load(Acquire) & !FROZEN;
        let without = without.min(self.waiting_at(read));
        let pieces = self.stretches(read + without as u64, self.waiting_at(read) - without);
        pieces.map(|(base, len)| (base.cast_const(), len))
    }

    fn stretches(&self, position: u64, len: usize) -> [(*mut u8, usize); 2] {
        let ring = self.ring();
        // Loaded once: a hostile peer changes it between two loads.
        let capacity = self.capacity();
        let start = position as usize & (capacity - 1);
        let first = len.min(capacity - start);
        [(ring.wrapping_add(start), first), (ring, (len - first).min(start))]
    }

    pub(super) fn ring(&self) -> *mut u8 {
        core::ptr::from_ref(self).cast::<u8>().cast_mut().wrapping_add(HEADER_BYTES)
    }

    pub(super) fn note_writers_cpu(&self, cpu: u32) {
        self.written.0.note(cpu);
    }

    pub(super) fn note_readers_cpu(&self, cpu: u32) {
        self.read.0.note(cpu);
    }

    pub(super) fn writer_is_on(&self, cpu: u32) -> bool {
        self.written.0.cpu.load(Relaxed) == cpu + 1
    }

    pub(super) fn reader_is_on(&self, cpu: u32) -> bool {
        self.read.0.cpu.load(Relaxed) == cpu + 1
    }
}

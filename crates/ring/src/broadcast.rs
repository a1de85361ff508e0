//! One writer, several readers, one copy of the bytes: what they do to shared words.
//!
//! The segment has a header and one bank, whose size is the capacity. There is one write position. Each reader has a
//! place, with a read position of its own. The writer has room up to the capacity beyond the lowest read position of
//! the readers that it counts. Only the writer knows which those are; no shared word says it. So a process that writes
//! into the header can garble or end streams, but cannot make another touch other memory. Offsets are masked by the
//! size of the mapping, and no shared word says that either.
//!
//! ```text
//!              ┌─ read position of place 1      ┌─ of place 0          ┌─ write position
//!  ────────────┴────────────────────────────────┴──────────────────────┴───────────────────▶ bytes of the stream
//!              └────────────── at most the capacity ───────────────────┘
//! ```
//!
//! **Waiting.** A reader sleeps only when it has read everything, and the writer only for one reader that has not. Both
//! use edge E14, once in each direction. A waiter stores its word, fences, and loads the position. A side that changes
//! a position fences, and loads the word. The waiter's word changes by swaps only, so one change wakes once.
//!
//! **Lossy.** The writer loads no read position. It stores how far it is going to write before it touches a byte, and a
//! reader loads that after it has copied (E15). What the reader copied is intact only if the writer had not come round
//! to it. Otherwise the reader skips to the write position, and reports how many bytes it never had.

use core::fmt;

use crate::bytes::{Bytes, Lines};
use crate::error::{ForeignError, RingError};
use crate::header::Line;
use crate::lock::{Guard, Lock, Parking};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, fence_after_unlock};

/// Readers that one writer can have at a time.
#[cfg(not(loom))]
pub const READERS_MAX: usize = 64;
/// In a model each word multiplies the orders to try.
#[cfg(loom)]
pub const READERS_MAX: usize = 2;

/// Bytes before the bank of a broadcast: whole pages.
pub const BROADCAST_HEADER_BYTES: usize = 5 * 4096;

/// The first eight bytes of the segment of a broadcast.
const BROADCAST_MAGIC: u64 = u64::from_le_bytes(*b"mscast1\n");

/// A long copy is published to the readers in pieces of this size, as in a pipe's ring.
const PIECE: usize = 32 << 10;

/// The first pages of the segment. As in [`Header`](crate::Header), each word is loaded once, checked, and used from
/// the copy.
#[repr(C)]
#[derive(Debug)]
pub struct BroadcastHeader {
    identity: Line<Identity>,
    state: Line<State>,
    write: Line<Progress>,
    places: [Place; READERS_MAX],
}

/// Written once, before any other process sees the segment.
#[repr(C)]
#[derive(Debug)]
struct Identity {
    magic: AtomicU64,
    capacity: AtomicU64,
    pid_namespace: AtomicU64,
    is_lossy: AtomicU32,
}

/// Words that hardly ever change.
#[repr(C)]
#[derive(Debug)]
struct State {
    /// Ends closed so far, wrapping: when it changes, an end asks the kernel which are left.
    closes: AtomicU32,
    /// Readers added so far: a copy of the writer that does not know all of them must not write.
    joins: AtomicU32,
}

/// What one end publishes to the others, and its lock, for processes that share the end since a fork.
#[repr(C)]
#[derive(Debug)]
struct Progress {
    position: AtomicU64,
    /// The writer's, if lossy: up to where it may be writing at this moment.
    reserved: AtomicU64,
    cpu: AtomicU32,
    lock: Lock,
}

/// What one reader and the writer share.
#[repr(C)]
#[derive(Debug)]
struct Place {
    read: Line<Progress>,
    waits: Line<Waits>,
}

/// On another line than the positions: both sides load these after each transfer, and seldom store them.
#[repr(C)]
#[derive(Debug)]
struct Waits {
    /// The position that this reader has to reach before the writer, which sleeps or is about to, is woken; 0: it waits
    /// for none.
    wanted: AtomicU64,
    /// The inode of the reader's backing pipe, by which a process that was given the pipe finds its place.
    inode: AtomicU64,
    /// Not 0: the reader sleeps or is about to.
    is_waiting: AtomicU32,
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<BroadcastHeader>() <= BROADCAST_HEADER_BYTES);
    assert!(offset_of!(BroadcastHeader, state) == 128 && offset_of!(BroadcastHeader, write) == 256);
    assert!(offset_of!(BroadcastHeader, places) == 384 && size_of::<Place>() == 256);
};

impl Progress {
    fn new() -> Line<Progress> {
        Line(Progress {
            position: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            cpu: AtomicU32::new(0),
            lock: Lock::new(),
        })
    }

    fn cpu(&self) -> Option<u32> {
        self.cpu.load(Ordering::Relaxed).checked_sub(1)
    }

    fn note_cpu(&self, cpu: u32) {
        let cpu = cpu.wrapping_add(1);
        // A model shows nothing about it.
        if cfg!(not(loom)) && self.cpu.load(Ordering::Relaxed) != cpu {
            self.cpu.store(cpu, Ordering::Relaxed);
        }
    }
}

impl BroadcastHeader {
    /// A header of zeros. Only for tests and models: a segment is made of zeros already.
    pub fn new() -> BroadcastHeader {
        let waits = || Waits { wanted: AtomicU64::new(0), inode: AtomicU64::new(0), is_waiting: AtomicU32::new(0) };
        BroadcastHeader {
            identity: Line(Identity {
                magic: AtomicU64::new(0),
                capacity: AtomicU64::new(0),
                pid_namespace: AtomicU64::new(0),
                is_lossy: AtomicU32::new(0),
            }),
            state: Line(State { closes: AtomicU32::new(0), joins: AtomicU32::new(0) }),
            write: Progress::new(),
            places: core::array::from_fn(|_| Place { read: Progress::new(), waits: Line(waits()) }),
        }
    }
}

impl Default for BroadcastHeader {
    fn default() -> BroadcastHeader {
        BroadcastHeader::new()
    }
}

/// A segment of a broadcast, seen by one process.
#[derive(Clone, Copy, Debug)]
pub struct Broadcast<'a> {
    header: &'a BroadcastHeader,
    bytes: Bytes<'a>,
    is_lossy: bool,
}

/// The outcome of one attempt to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes were copied.
    Bytes(usize),
    /// The reader has read everything.
    Nothing,
    /// The writer had come round: so many bytes were never read. The next byte is the first that is written from now
    /// on.
    Lost(u64),
}

impl<'a> Broadcast<'a> {
    /// The broadcast of a header and its bank, of a power of two bytes.
    ///
    /// # Panics
    /// If it is none.
    pub fn new(header: &'a BroadcastHeader, bytes: Bytes<'a>, is_lossy: bool) -> Broadcast<'a> {
        assert!(bytes.len().is_power_of_two());
        Broadcast { header, bytes, is_lossy }
    }

    /// Stores what the segment is, before any other process sees it.
    pub fn found(&self, pid_namespace: u64) {
        let identity = &self.header.identity.0;
        identity.capacity.store(self.bytes.len() as u64, Ordering::Relaxed);
        identity.pid_namespace.store(pid_namespace, Ordering::Relaxed);
        identity.is_lossy.store(u32::from(self.is_lossy), Ordering::Relaxed);
        // E6 with `check`: a process that sees the magic number sees the rest.
        identity.magic.store(BROADCAST_MAGIC, Ordering::Release);
    }

    /// The same broadcast as its header says, if it is one and the numbers of its threads mean something here.
    ///
    /// # Errors
    /// What differs.
    pub fn check(self, pid_namespace: u64) -> Result<Broadcast<'a>, ForeignError> {
        let identity = &self.header.identity.0;
        // E6 with `found`.
        if identity.magic.load(Ordering::Acquire) != BROADCAST_MAGIC {
            return Err(ForeignError::Magic);
        }
        if identity.capacity.load(Ordering::Relaxed) != self.bytes.len() as u64 {
            return Err(ForeignError::Size);
        }
        if identity.pid_namespace.load(Ordering::Relaxed) != pid_namespace {
            return Err(ForeignError::Pipe);
        }
        Ok(Broadcast { is_lossy: identity.is_lossy.load(Ordering::Relaxed) != 0, ..self })
    }

    /// How many bytes the slowest reader can be behind.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a slow reader loses bytes, instead of blocking the writer.
    #[inline]
    pub fn is_lossy(&self) -> bool {
        self.is_lossy
    }

    /// The place of the reader with this backing pipe.
    pub fn place_of(&self, inode: u64) -> Option<usize> {
        self.header.places.iter().position(|place| place.waits.0.inode.load(Ordering::Acquire) == inode)
    }

    /// Ends closed so far.
    #[inline]
    pub fn closes(&self) -> u32 {
        self.header.state.0.closes.load(Ordering::Relaxed)
    }

    /// Counts an end that was closed. The kernel must know it before.
    pub fn note_close(&self) {
        self.header.state.0.closes.fetch_add(1, Ordering::Release);
    }

    /// Readers added so far.
    #[inline]
    pub fn joins(&self) -> u32 {
        self.header.state.0.joins.load(Ordering::Relaxed)
    }

    /// The CPU that the writer last ran on.
    pub fn writer_cpu(&self) -> Option<u32> {
        self.header.write.0.cpu()
    }

    /// The CPU that this reader last ran on.
    pub fn reader_cpu(&self, place: usize) -> Option<u32> {
        self.header.places[place].read.0.cpu()
    }

    /// Locks the writing end.
    ///
    /// # Errors
    /// [`RingError`]: the lock cannot be taken.
    #[inline]
    pub fn lock_writer<P: Parking>(&'a self, parking: &'a P) -> Result<BroadcastWriter<'a, P>, RingError> {
        Ok(BroadcastWriter { shared: self, _guard: self.header.write.0.lock.acquire(parking)? })
    }

    /// Locks one reading end.
    ///
    /// # Errors
    /// [`RingError`]: the lock cannot be taken.
    #[inline]
    pub fn lock_reader<P: Parking>(
        &'a self,
        place: usize,
        parking: &'a P,
    ) -> Result<BroadcastReader<'a, P>, RingError> {
        let place = &self.header.places[place];
        Ok(BroadcastReader { shared: self, place, _guard: place.read.0.lock.acquire(parking)? })
    }

    /// Bytes that wait for a reader; more than the capacity if it has lost some, or the words are broken.
    #[inline]
    pub fn waiting(&self, place: usize) -> u64 {
        // E1 with `BroadcastWriter::publish`.
        let end = self.header.write.0.position.load(Ordering::Acquire);
        end.wrapping_sub(self.header.places[place].read.0.position.load(Ordering::Relaxed))
    }

    /// Whether a reader has reached `position`.
    #[inline]
    pub fn has_reached(&self, place: usize, position: u64) -> bool {
        // E2 with `BroadcastReader::read`.
        let read = self.header.places[place].read.0.position.load(Ordering::Acquire);
        position.wrapping_sub(read).cast_signed() <= 0
    }

    /// Stores that the reader is going to sleep. It must check [`waiting`](Self::waiting) once more before it does.
    pub fn reader_will_sleep(&self, place: usize) {
        self.header.places[place].waits.0.is_waiting.swap(1, Ordering::Relaxed);
        // E14 with `take_waiters`.
        fence(Ordering::SeqCst);
    }

    /// The reader does not sleep, or no longer does.
    pub fn reader_woke(&self, place: usize) {
        self.header.places[place].waits.0.is_waiting.swap(0, Ordering::Relaxed);
    }

    /// After the writer has written and released its lock: calls `wake` with each of these places whose reader waits.
    #[inline]
    pub fn take_waiters(&self, places: impl Iterator<Item = usize>, mut wake: impl FnMut(usize)) {
        // E14 with `reader_will_sleep`.
        fence_after_unlock();
        for place in places {
            let is_waiting = &self.header.places[place].waits.0.is_waiting;
            if is_waiting.load(Ordering::Relaxed) != 0 && is_waiting.swap(0, Ordering::Relaxed) != 0 {
                wake(place);
            }
        }
    }

    /// Stores that the writer is going to sleep until a reader has reached `position`, which is not 0. It must check
    /// [`has_reached`](Self::has_reached) once more before it does.
    pub fn writer_will_sleep(&self, place: usize, position: u64) {
        self.header.places[place].waits.0.wanted.swap(position, Ordering::Relaxed);
        // E14 with `take_wish`.
        fence(Ordering::SeqCst);
    }

    /// The writer does not sleep, or no longer does.
    pub fn writer_woke(&self, place: usize) {
        self.header.places[place].waits.0.wanted.swap(0, Ordering::Relaxed);
    }

    /// After a reader has read and released its lock: whether it has to wake the writer.
    #[inline]
    pub fn take_wish(&self, place: usize) -> bool {
        // E14 with `writer_will_sleep`.
        fence_after_unlock();
        let wanted = &self.header.places[place].waits.0.wanted;
        match wanted.load(Ordering::Relaxed) {
            0 => false,
            position => self.has_reached(place, position) && wanted.swap(0, Ordering::Relaxed) != 0,
        }
    }

    #[inline]
    fn offset(&self, position: u64) -> usize {
        // The mask makes the truncation harmless, and keeps every position inside the bank.
        position as usize & (self.bytes.len() - 1)
    }

    /// Which CPU has the lines that a thread on `cpu` is about to touch, if the other end last ran on `other`.
    fn lines(cpu: u32, other: Option<u32>) -> Lines {
        if other == Some(cpu) { Lines::Near } else { Lines::Away }
    }
}

/// The writing end, locked.
pub struct BroadcastWriter<'a, P: Parking> {
    shared: &'a Broadcast<'a>,
    _guard: Guard<'a, P>,
}

impl<P: Parking> fmt::Debug for BroadcastWriter<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastWriter").finish_non_exhaustive()
    }
}

impl<P: Parking> BroadcastWriter<'_, P> {
    /// Bytes written so far.
    #[inline]
    pub fn position(&self) -> u64 {
        self.shared.header.write.0.position.load(Ordering::Relaxed)
    }

    /// How far a reader has read, if the writer is at `position`. The writer may overwrite bytes below that, if this
    /// reader alone matters.
    ///
    /// # Errors
    /// [`RingError`]: no reader can be there. Its words are worth nothing; those of other readers may be.
    #[inline]
    pub fn read_position(&self, place: usize, position: u64) -> Result<u64, RingError> {
        // E2 with `BroadcastReader::read`.
        let read = self.shared.header.places[place].read.0.position.load(Ordering::Acquire);
        let is_possible = position.wrapping_sub(read) <= self.shared.capacity() as u64;
        if is_possible { Ok(read) } else { Err(RingError) }
    }

    /// Gives a free place to a new reader, for which the next byte is the first.
    pub fn add_reader(&self, place: usize, inode: u64) {
        let Place { read, waits } = &self.shared.header.places[place];
        read.0.position.store(self.position(), Ordering::Relaxed);
        waits.0.is_waiting.store(0, Ordering::Relaxed);
        waits.0.wanted.store(0, Ordering::Relaxed);
        waits.0.inode.store(inode, Ordering::Release);
        let joins = &self.shared.header.state.0.joins;
        joins.store(joins.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Copies `room` bytes of `sources` into the bank, where so many are free, and publishes them. `reader_cpu` is
    /// where some reader last ran. Returns how many there were.
    pub fn write<'b>(
        &self,
        sources: impl Iterator<Item = &'b [u8]>,
        room: usize,
        cpu: u32,
        reader_cpu: Option<u32>,
    ) -> usize {
        let Broadcast { header, bytes, is_lossy } = self.shared;
        let (begin, lines) = (self.position(), Broadcast::lines(cpu, reader_cpu));
        if *is_lossy {
            self.reserve(begin, room);
        }
        let mut done = 0;
        for source in sources {
            let mut rest = &source[..source.len().min(room - done)];
            while !rest.is_empty() {
                let offset = self.shared.offset(begin.wrapping_add(done as u64));
                let len = rest.len().min(bytes.len() - offset).min(PIECE);
                bytes.write(offset, &rest[..len], lines);
                (done, rest) = (done + len, &rest[len..]);
                if !is_lossy {
                    self.publish(begin.wrapping_add(done as u64));
                }
            }
        }
        if *is_lossy {
            // All at once: after a loss a reader goes on at the beginning of a write.
            self.publish(begin.wrapping_add(done as u64));
        }
        header.write.0.note_cpu(cpu);
        done
    }

    /// Publishes up to where bytes are about to be overwritten.
    pub fn reserve(&self, begin: u64, len: usize) {
        let reserved = &self.shared.header.write.0.reserved;
        // A writer that was killed while it copied may have touched more than this one will.
        let before = reserved.load(Ordering::Relaxed).wrapping_sub(begin);
        let is_of_the_dead = before <= self.shared.capacity() as u64;
        let len = if is_of_the_dead { before.max(len as u64) } else { len as u64 };
        reserved.store(begin.wrapping_add(len), Ordering::Relaxed);
        // E15 with `BroadcastReader::is_intact`: a reader that sees one of the bytes sees this.
        fence(Ordering::Release);
    }

    /// Publishes everything below `position`.
    #[inline]
    pub fn publish(&self, position: u64) {
        // E1 with `Broadcast::waiting` and `BroadcastReader::read`: the bytes are in place.
        self.shared.header.write.0.position.store(position, Ordering::Release);
    }

    /// For tests and models: the writer dies now. Its lock is as the kernel leaves it.
    pub fn abandon(self) {
        self.shared.header.write.0.lock.abandon();
        core::mem::forget(self);
    }
}

/// One reading end, locked.
pub struct BroadcastReader<'a, P: Parking> {
    shared: &'a Broadcast<'a>,
    place: &'a Place,
    _guard: Guard<'a, P>,
}

impl<P: Parking> fmt::Debug for BroadcastReader<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastReader").finish_non_exhaustive()
    }
}

impl<P: Parking> BroadcastReader<'_, P> {
    /// Bytes that wait; more than the capacity if some of them are lost.
    ///
    /// # Errors
    /// [`RingError`]: the number is impossible.
    #[inline]
    pub fn waiting(&self) -> Result<u64, RingError> {
        // E1 with `BroadcastWriter::publish`.
        let end = self.shared.header.write.0.position.load(Ordering::Acquire);
        let waiting = end.wrapping_sub(self.place.read.0.position.load(Ordering::Relaxed));
        let is_possible =
            waiting <= self.shared.capacity() as u64 || (self.shared.is_lossy && waiting.cast_signed() > 0);
        if is_possible { Ok(waiting) } else { Err(RingError) }
    }

    /// Copies what waits to `targets`. Discards the copy if the writer came round to it meanwhile.
    ///
    /// # Errors
    /// [`RingError`]: the words are impossible.
    pub fn read<'b>(&self, targets: impl Iterator<Item = &'b mut [u8]>, cpu: u32) -> Result<Received, RingError> {
        let Broadcast { header, bytes, is_lossy } = self.shared;
        let waiting = self.waiting()?;
        if waiting == 0 {
            return Ok(Received::Nothing);
        }
        if waiting > bytes.len() as u64 {
            return Ok(self.skip());
        }
        let begin = self.place.read.0.position.load(Ordering::Relaxed);
        let (mut done, lines) = (0, Broadcast::lines(cpu, header.write.0.cpu()));
        for target in targets {
            let mut rest = target;
            while !rest.is_empty() && done < waiting as usize {
                let offset = self.shared.offset(begin.wrapping_add(done as u64));
                let len = rest.len().min(bytes.len() - offset).min(waiting as usize - done).min(PIECE);
                let (now, later) = rest.split_at_mut(len);
                bytes.read(offset, now, lines);
                (done, rest) = (done + len, later);
                if !is_lossy {
                    self.consume(begin.wrapping_add(done as u64));
                }
            }
        }
        if *is_lossy {
            if !self.is_intact(begin) {
                return Ok(self.skip());
            }
            self.consume(begin.wrapping_add(done as u64));
        }
        self.place.read.0.note_cpu(cpu);
        Ok(Received::Bytes(done))
    }

    /// Publishes that this reader has read everything below `position`.
    #[inline]
    pub fn consume(&self, position: u64) {
        // E2 with `BroadcastWriter::read_position`: the bytes have been copied out.
        self.place.read.0.position.store(position, Ordering::Release);
    }

    /// Whether the writer had not yet come round to `begin`, nor beyond it, when the bytes there were copied.
    pub fn is_intact(&self, begin: u64) -> bool {
        // E15 with `BroadcastWriter::reserve`.
        fence(Ordering::Acquire);
        let reserved = self.shared.header.write.0.reserved.load(Ordering::Relaxed);
        reserved.wrapping_sub(begin) <= self.shared.capacity() as u64
    }

    /// Skips to the write position.
    pub fn skip(&self) -> Received {
        let end = self.shared.header.write.0.position.load(Ordering::Acquire);
        let read = &self.place.read.0.position;
        let lost = end.wrapping_sub(read.load(Ordering::Relaxed));
        read.store(end, Ordering::Release);
        Received::Lost(lost)
    }

    /// The read position.
    pub fn position(&self) -> u64 {
        self.place.read.0.position.load(Ordering::Relaxed)
    }

    /// For tests and models: the reader dies now. Its lock is as the kernel leaves it.
    pub fn abandon(self) {
        self.place.read.0.lock.abandon();
        core::mem::forget(self);
    }
}

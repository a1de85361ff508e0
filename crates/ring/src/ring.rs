//! The ring: what each side may do while it holds its lock.

use crate::bytes::{Bytes, Lines};
use crate::error::{ForeignError, ResizeError, RingError};
use crate::geometry::{Extent, Geometry};
use crate::header::{HEADER_BYTES, Header, MAGIC, VERSION};
use crate::level::Level;
use crate::lock::{Guard, Parking};
use crate::route::{QUIET, Route};
use crate::sync::{Ordering, fence_after_unlock};

/// Largest write that is not mixed with others, and the room that a writer must find to be called ready (`pipe(7)`).
#[cfg(not(loom))]
pub const PIPE_BUF: usize = 4096;
/// In a model the smallest ring holds two bytes, so that "room for some" and "room for this" differ.
#[cfg(loom)]
pub const PIPE_BUF: usize = 2;

/// A long copy is published to the other side in pieces of this size, so that it can begin on the first while the
/// second is being copied. Half of a 64 KiB first-level cache.
const PIECE: usize = 32 << 10;

/// The low-water mark: a deferring writer is woken when this part of the ring is free. That is eight pages of 512 KiB.
/// One wake-up for so many takes less than a hundredth of the time of a reader that computes 38 us on each page
/// (docs/pipe.md). In a model it is all of the two bytes.
const REFILLS: usize = if cfg!(loom) { 1 } else { 16 };

/// A segment, as one process has mapped it.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    pub(crate) header: &'a Header,
    pub(crate) bytes: Bytes<'a>,
}

/// Which pipe a segment belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Device of the backing pipe.
    pub device: u64,
    /// Inode of the backing pipe.
    pub inode: u64,
    /// The PID namespace in which the numbers of threads mean something.
    pub pid_namespace: u64,
}

impl<'a> Ring<'a> {
    /// The ring of a header and its banks, which are of equal size.
    pub fn new(header: &'a Header, bytes: Bytes<'a>) -> Ring<'a> {
        Ring { header, bytes }
    }

    /// Stores which pipe the segment belongs to and how large its ring is at first. The first process of a pipe calls
    /// this; a second call changes nothing.
    pub fn found(&self, whose: Whose, initial: Geometry) {
        let identity = &self.header.identity.0;
        identity.shadow_device.store(whose.device, Ordering::Relaxed);
        identity.shadow_inode.store(whose.inode, Ordering::Relaxed);
        identity.pid_namespace.store(whose.pid_namespace, Ordering::Relaxed);
        identity.bank_bytes.store(self.bank_bytes() as u32, Ordering::Relaxed);
        identity.version.store(VERSION, Ordering::Relaxed);
        let geometry = &self.header.state.0.geometry;
        let _ = geometry.compare_exchange(0, initial.word(), Ordering::Relaxed, Ordering::Relaxed);
        // E6 with `check`: a process that sees the magic number sees the rest.
        identity.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether the segment is one of ours, has this layout, and belongs to this pipe.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, whose: Whose) -> Result<(), ForeignError> {
        let identity = &self.header.identity.0;
        // E6 with `found`.
        if identity.magic.load(Ordering::Acquire) != MAGIC {
            return Err(ForeignError::Magic);
        }
        match identity.version.load(Ordering::Relaxed) {
            VERSION => {}
            other => return Err(ForeignError::Version(other)),
        }
        if identity.bank_bytes.load(Ordering::Relaxed) as usize != self.bank_bytes() || self.geometry().is_err() {
            return Err(ForeignError::Size);
        }
        let found = Whose {
            device: identity.shadow_device.load(Ordering::Relaxed),
            inode: identity.shadow_inode.load(Ordering::Relaxed),
            pid_namespace: identity.pid_namespace.load(Ordering::Relaxed),
        };
        if found == whose { Ok(()) } else { Err(ForeignError::Pipe) }
    }

    /// Takes the lock of the writing side.
    ///
    /// # Errors
    /// [`RingError`]: the lock cannot be taken.
    #[inline]
    pub fn lock_writers<P: Parking>(&'a self, parking: &'a P) -> Result<WriteSide<'a, P>, RingError> {
        Ok(WriteSide { ring: self, guard: self.header.writers.0.lock(&self.header.write_pos.0, parking)? })
    }

    /// Takes the lock of the reading side.
    ///
    /// # Errors
    /// [`RingError`]: the lock cannot be taken.
    #[inline]
    pub fn lock_readers<P: Parking>(&'a self, parking: &'a P) -> Result<ReadSide<'a, P>, RingError> {
        Ok(ReadSide { ring: self, guard: self.header.readers.0.lock(&self.header.read_pos.0, parking)? })
    }

    /// Takes the lock of the reading side if no thread uses it at this moment. Never waits.
    pub fn try_lock_readers<P: Parking>(&'a self, parking: &'a P) -> Option<ReadSide<'a, P>> {
        Some(ReadSide { ring: self, guard: self.header.readers.0.lock.try_acquire(parking)? })
    }

    /// Takes the locks of both sides, if no thread uses either at this moment. Never waits.
    pub fn try_lock_both<P: Parking>(&'a self, parking: &'a P) -> Option<(WriteSide<'a, P>, ReadSide<'a, P>)> {
        let writers = WriteSide { ring: self, guard: self.header.writers.0.lock.try_acquire(parking)? };
        Some((writers, self.try_lock_readers(parking)?))
    }

    /// Whether a reader that wants so many bytes has to load the writers' position, which takes its cache line away
    /// from them. A rough answer, only to save time.
    #[inline]
    pub fn reader_has_to_look(&self, wanted: usize) -> bool {
        let seen = self.header.readers.0.peer_position.load(Ordering::Relaxed);
        let read = self.header.read_pos.0.position.load(Ordering::Relaxed);
        seen.wrapping_sub(read) < wanted as u64
    }

    /// Bytes waiting at some instant during the call.
    ///
    /// # Errors
    /// [`RingError`]: the positions are impossible.
    #[inline]
    pub fn readable(&self) -> Result<usize, RingError> {
        let read_pos = &self.header.read_pos.0.position;
        let mut read = read_pos.load(Ordering::Acquire);
        // The first attempt mostly succeeds. If it fails so often, a hostile process changes the position.
        for _ in 0..1000 {
            let written = self.header.write_pos.0.position.load(Ordering::Acquire);
            let still = read_pos.load(Ordering::Acquire);
            if still == read {
                let waiting = usize::try_from(written.wrapping_sub(read)).ok();
                return waiting.filter(|&waiting| waiting <= self.bank_bytes()).ok_or(RingError);
            }
            read = still;
        }
        Err(RingError)
    }

    /// Bytes that the ring holds when full.
    ///
    /// # Errors
    /// [`RingError`]: the header names an impossible size.
    pub fn capacity(&self) -> Result<usize, RingError> {
        Ok(self.geometry()?.bytes())
    }

    /// How full the ring is, in the terms of `poll(2)`.
    ///
    /// # Errors
    /// [`RingError`]: the positions are impossible.
    pub fn level(&self) -> Result<Level, RingError> {
        // Readers can read what is offered, and no writer can write.
        if self.is_offered() {
            return Ok(Level::Full);
        }
        let waiting = self.readable()?;
        let free = self.capacity()?.saturating_sub(waiting);
        Ok(match waiting {
            0 => Level::Empty,
            _ if free < PIPE_BUF => Level::Full,
            _ => Level::Partial,
        })
    }

    /// The state of the pipe: where new bytes go.
    #[inline]
    pub fn route(&self) -> Route {
        // E7 with `Ring::set_route`: a process that sees the new state sees the ring as it was left.
        Route::from_word(self.header.state.0.route.load(Ordering::Acquire))
    }

    /// Ends closed so far.
    #[inline]
    pub fn closes(&self) -> u32 {
        self.header.state.0.closes.load(Ordering::Relaxed)
    }

    /// Counts an end that was closed.
    pub fn note_close(&self) {
        self.header.state.0.closes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an end that is about to be exported.
    pub fn note_given(&self) {
        self.header.state.0.given.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an exported end that was attached again and closed.
    pub fn note_returned(&self) {
        self.header.state.0.returned.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether as many ends have come back as were exported.
    pub fn all_have_returned(&self) -> bool {
        let state = &self.header.state.0;
        state.given.load(Ordering::Relaxed) == state.returned.load(Ordering::Relaxed)
    }

    /// Whether the pipe is in idle mode: the stream goes through the backing pipe only because a reader sleeps there,
    /// or slept.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.header.state.0.route.load(Ordering::Relaxed) == QUIET
    }

    /// The CPU that the writing side last ran on, if any did.
    #[inline]
    pub fn writers_cpu(&self) -> Option<u32> {
        self.header.write_pos.0.cpu.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The CPU that the reading side last ran on, if any did.
    #[inline]
    pub fn readers_cpu(&self) -> Option<u32> {
        self.header.read_pos.0.cpu.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn set_route(&self, route: Route) {
        // E7 with `Ring::route`.
        self.header.state.0.route.store(route.word(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn geometry(&self) -> Result<Geometry, RingError> {
        let word = self.header.state.0.geometry.load(Ordering::Relaxed);
        Geometry::from_word(word, self.bank_bytes()).ok_or(RingError)
    }

    /// Bytes of one bank: the largest ring that fits.
    pub fn bank_bytes(&self) -> usize {
        self.bytes.len() / 2
    }

    /// From the start of the segment to a bank.
    pub fn bank_offset(&self, bank: usize) -> usize {
        HEADER_BYTES + bank * self.bank_bytes()
    }

    fn put(&self, (geometry, position): Place, source: &[u8], lines: Lines) {
        let (start, first) = split(geometry, position, source.len());
        let bank = geometry.bank() * self.bank_bytes();
        self.bytes.write(bank + start, &source[..first], lines);
        self.bytes.write(bank, &source[first..], lines);
    }

    fn get(&self, (geometry, position): Place, target: &mut [u8], lines: Lines) {
        let (start, first) = split(geometry, position, target.len());
        let bank = geometry.bank() * self.bank_bytes();
        let (head, tail) = target.split_at_mut(first);
        self.bytes.read(bank + start, head, lines);
        self.bytes.read(bank, tail, lines);
    }
}

/// A position in a ring of this layout.
pub(crate) type Place = (Geometry, u64);

/// Moves between the ring and another ring or the kernel; see `splice.rs`.
impl<'a> Ring<'a> {
    #[cfg(not(loom))]
    pub(crate) fn stretches(&self, (geometry, position): Place, len: usize) -> [crate::bytes::Stretch; 2] {
        let (start, first) = split(geometry, position, len);
        let bank = geometry.bank() * self.bank_bytes();
        [(self.bytes.at(bank + start, first), first), (self.bytes.at(bank, len - first), len - first)]
    }

    /// Copies what lies in one piece in both rings, `done` bytes after the two places and no further than `len`.
    /// Returns how much that was.
    pub(crate) fn copy_stretch(&self, from: Place, other: &Ring<'_>, to: Place, done: usize, len: usize) -> usize {
        let (source, until_end) = split(from.0, from.1.wrapping_add(done as u64), len - done);
        let (target, len) = split(to.0, to.1.wrapping_add(done as u64), until_end);
        let (source, target) = (from.0.bank() * self.bank_bytes() + source, to.0.bank() * other.bank_bytes() + target);
        self.bytes.copy(source, &other.bytes, target, len);
        len
    }
}

/// Where `len` bytes from `position` on begin in the ring, and how many of them lie before its end.
#[inline]
pub(crate) fn split(geometry: Geometry, position: u64, len: usize) -> (usize, usize) {
    let start = geometry.offset(position);
    (start, len.min(geometry.bytes() - start))
}

/// The pages that moving `len` bytes from `position` on can touch.
#[inline]
fn touched(geometry: Geometry, position: u64, len: usize) -> Extent {
    let (start, first) = split(geometry, position, len);
    geometry.extent(if first < len { geometry.bytes() } else { start + len })
}

/// The writing side, locked.
#[derive(Debug)]
pub struct WriteSide<'a, P: Parking> {
    /// By reference: copying the struct causes a store-forwarding stall. If the caller has just built it on its stack,
    /// the copy loads two of its words at once. The processor does not find such a pair in its store buffer, and waits
    /// until all earlier stores are in the cache: those of the last transfer.
    pub(crate) ring: &'a Ring<'a>,
    guard: Guard<'a, P>,
}

/// Room in the ring, for the holder of the lock.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub(crate) geometry: Geometry,
    pub(crate) position: u64,
    free: usize,
}

impl Room {
    /// Free bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.free
    }

    /// Whether the ring is full.
    pub fn is_empty(&self) -> bool {
        self.free == 0
    }

    pub(crate) fn place(&self) -> Place {
        (self.geometry, self.position)
    }

    /// The pages that a write of `len` bytes can touch.
    #[inline]
    pub fn touches(&self, len: usize) -> Extent {
        touched(self.geometry, self.position, len)
    }
}

impl<'a, P: Parking> WriteSide<'a, P> {
    pub(crate) fn ring(&self) -> Ring<'a> {
        *self.ring
    }

    /// The room for `wanted` bytes: at least that much if there is, otherwise all there is. Behind an offer there is
    /// none.
    ///
    /// # Errors
    /// [`RingError`]: the positions are impossible.
    #[inline]
    pub fn room(&self, wanted: usize) -> Result<Room, RingError> {
        let geometry = self.ring.geometry()?;
        let side = &self.ring.header.writers.0;
        let position = side.position(&self.ring.header.write_pos.0, self.guard.is_own());
        let seen = &side.peer_position;
        let free_after = |read: u64| {
            let waiting = usize::try_from(position.wrapping_sub(read)).ok();
            waiting.and_then(|waiting| geometry.bytes().checked_sub(waiting))
        };
        if self.ring.is_offered() {
            return Ok(Room { geometry, position, free: 0 });
        }
        match free_after(seen.load(Ordering::Relaxed)) {
            Some(free) if free >= wanted => Ok(Room { geometry, position, free }),
            // Too little when the side last loaded the position, or it did so before the ring was resized.
            _ => {
                // E2 with `ReadSide::consume`: a reader has copied these bytes out, and this side may overwrite them.
                let read = side.look_at(&self.ring.header.read_pos.0);
                let free = free_after(read).ok_or(RingError)?;
                side.check_own_position(&self.ring.header.write_pos.0, self.guard.is_own())?;
                Ok(Room { geometry, position, free })
            }
        }
    }

    /// Copies `sources`, at most `room.len()` bytes of them, and makes them readable. Up to [`PIPE_BUF`] bytes become
    /// readable at once. Returns how many.
    #[inline]
    pub fn write<'s>(&self, room: Room, sources: impl Iterator<Item = &'s [u8]>, cpu: u32) -> usize {
        let (mut done, mut published) = (0, 0);
        let lines = self.ring.header.writers.0.lines(cpu);
        for source in sources {
            let source = &source[..source.len().min(room.free - done)];
            for piece in source.chunks(PIECE) {
                self.ring.put((room.geometry, room.position.wrapping_add(done as u64)), piece, lines);
                done += piece.len();
                if done - published >= PIECE {
                    self.publish(room.position.wrapping_add(done as u64));
                    published = done;
                }
            }
        }
        self.publish(room.position.wrapping_add(done as u64));
        self.ring.header.writers.0.note_cpu(&self.ring.header.write_pos.0, cpu);
        done
    }

    pub(crate) fn publish_after(&self, room: Room, len: usize, cpu: u32) {
        self.publish(room.position.wrapping_add(len as u64));
        self.note_cpu(cpu);
    }

    /// Publishes on which CPU the thread runs: for a writer that goes on without having written anything to the ring.
    pub fn note_cpu(&self, cpu: u32) {
        self.ring.header.writers.0.note_cpu(&self.ring.header.write_pos.0, cpu);
    }

    /// For tests and models: the writer dies now. Its lock is as the kernel leaves it.
    pub fn abandon(self) {
        self.ring.header.writers.0.lock.abandon(self.guard.owner());
        core::mem::forget(self);
    }

    #[inline]
    fn publish(&self, position: u64) {
        // E1 with `ReadSide::waiting`: the bytes are in place. Release is enough: the fence of E3 orders what has to
        // come after it.
        self.ring.header.writers.0.publish(&self.ring.header.write_pos.0, position);
    }

    /// Changes the state. Only with both sides locked, and away from the ring only by [`Bell::silence`](crate::Bell).
    pub fn set_route(&self, _: &ReadSide<'_, P>, route: Route) {
        self.ring.set_route(route);
    }

    /// Where the ring would lie after [`WriteSide::resize`] to `bytes`; `None` if there is no place for so many.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn extent_of(&self, bytes: usize) -> Result<Option<Extent>, RingError> {
        let next = self.ring.geometry()?.in_other_bank(bytes);
        Ok(next.filter(|next| next.bytes() <= self.ring.bank_bytes()).map(|next| next.extent(bytes)))
    }

    /// Makes the ring larger or smaller. Only with both sides locked.
    ///
    /// # Errors
    /// [`ResizeError`].
    pub fn resize(&self, readers: &ReadSide<'_, P>, bytes: usize) -> Result<(), ResizeError> {
        let (from, mut piece) = (self.ring.geometry()?, [0; 4096]);
        let to =
            from.in_other_bank(bytes).filter(|to| to.bytes() <= self.ring.bank_bytes()).ok_or(ResizeError::TooLarge)?;
        let waiting = readers.waiting(usize::MAX)?;
        if waiting.len > bytes || self.is_claimed() || readers.is_claimed() {
            return Err(ResizeError::Busy);
        }
        let mut done = 0;
        while done < waiting.len {
            let len = piece.len().min(waiting.len - done);
            let position = waiting.position.wrapping_add(done as u64);
            self.ring.get((from, position), &mut piece[..len], Lines::Near);
            self.ring.put((to, position), &piece[..len], Lines::Near);
            done += len;
        }
        // E5: the next holder of either lock sees it. The caller holds both.
        self.ring.header.state.0.geometry.store(to.word(), Ordering::Relaxed);
        Ok(())
    }
}

impl<P: Parking> WriteSide<'_, P> {
    /// Says that the pages of an empty ring are gone, so that every process has them made again before it touches them.
    /// The caller frees them afterwards; if it dies in between, no harm is done. Only with both sides locked. Returns
    /// false, and changes nothing, if bytes wait or a process works in place.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn disown_pages(&self, readers: &ReadSide<'_, P>) -> Result<bool, RingError> {
        let (geometry, waiting) = (self.ring.geometry()?, readers.waiting(usize::MAX)?);
        if !waiting.is_empty() || self.is_claimed() || readers.is_claimed() {
            return Ok(false);
        }
        let word = geometry.without_pages(waiting.position).word();
        // E5: the next holder of either lock sees it. The caller holds both.
        self.ring.header.state.0.geometry.store(word, Ordering::Relaxed);
        Ok(true)
    }
}

/// The reading side, locked.
#[derive(Debug)]
pub struct ReadSide<'a, P: Parking> {
    /// As [`WriteSide`]'s.
    pub(crate) ring: &'a Ring<'a>,
    guard: Guard<'a, P>,
}

/// Bytes in the ring, for the holder of the lock.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub(crate) geometry: Geometry,
    pub(crate) position: u64,
    len: usize,
}

impl Waiting {
    /// Waiting bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none wait.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn place(&self) -> Place {
        (self.geometry, self.position)
    }

    /// The first `len` of them, or all if there are fewer.
    #[must_use]
    pub fn first(self, len: usize) -> Waiting {
        Waiting { len: self.len.min(len), ..self }
    }

    /// The pages that a read of `len` bytes can touch.
    #[inline]
    pub fn touches(&self, len: usize) -> Extent {
        touched(self.geometry, self.position, len)
    }
}

impl<P: Parking> ReadSide<'_, P> {
    /// The waiting bytes: at least `wanted` if that many wait, otherwise all.
    ///
    /// # Errors
    /// [`RingError`]: the positions are impossible.
    #[inline]
    pub fn waiting(&self, wanted: usize) -> Result<Waiting, RingError> {
        let geometry = self.ring.geometry()?;
        let side = &self.ring.header.readers.0;
        let position = side.position(&self.ring.header.read_pos.0, self.guard.is_own());
        let seen = &side.peer_position;
        let waiting_before = |written: u64| {
            let waiting = usize::try_from(written.wrapping_sub(position)).ok();
            waiting.filter(|&waiting| waiting <= geometry.bytes())
        };
        match waiting_before(seen.load(Ordering::Relaxed)) {
            Some(len) if len >= wanted => Ok(Waiting { geometry, position, len }),
            _ => {
                // E1 with `WriteSide::publish`.
                let written = side.look_at(&self.ring.header.write_pos.0);
                let len = waiting_before(written).ok_or(RingError)?;
                side.check_own_position(&self.ring.header.read_pos.0, self.guard.is_own())?;
                Ok(Waiting { geometry, position, len })
            }
        }
    }

    /// Copies the first bytes of `waiting` to `targets` and frees their place. Returns how many.
    #[inline]
    pub fn read<'t>(&self, waiting: Waiting, targets: impl Iterator<Item = &'t mut [u8]>, cpu: u32) -> usize {
        let mut done = 0;
        let lines = self.ring.header.readers.0.lines(cpu);
        for target in targets {
            let len = target.len().min(waiting.len - done);
            for piece in target[..len].chunks_mut(PIECE) {
                self.ring.get((waiting.geometry, waiting.position.wrapping_add(done as u64)), piece, lines);
                done += piece.len();
                self.consume(waiting.position.wrapping_add(done as u64));
            }
        }
        self.ring.header.readers.0.note_cpu(&self.ring.header.read_pos.0, cpu);
        done
    }

    /// Copies waiting bytes from `skipped` on to `target`, and does not consume them. Returns how many.
    pub fn peek(&self, waiting: Waiting, skipped: usize, target: &mut [u8]) -> usize {
        let len = target.len().min(waiting.len.saturating_sub(skipped));
        let place = (waiting.geometry, waiting.position.wrapping_add(skipped as u64));
        self.ring.get(place, &mut target[..len], Lines::Near);
        len
    }

    /// Publishes on which CPU the thread runs: for a reader that goes on without having read anything from the ring.
    pub fn note_cpu(&self, cpu: u32) {
        self.ring.header.readers.0.note_cpu(&self.ring.header.read_pos.0, cpu);
    }

    /// Frees the place of the first `len` bytes that wait.
    pub(crate) fn discard_first(&self, waiting: Waiting, len: usize) {
        self.consume(waiting.position.wrapping_add(len.min(waiting.len) as u64));
    }

    /// The words that are shared.
    pub(crate) fn header(&self) -> &Header {
        self.ring.header
    }

    /// Frees the place of everything that waits.
    pub fn discard(&self, waiting: Waiting) {
        self.consume(waiting.position.wrapping_add(waiting.len as u64));
    }

    pub(crate) fn ring(&self) -> &Ring<'_> {
        self.ring
    }

    pub(crate) fn consume_after(&self, waiting: Waiting, len: usize, cpu: u32) {
        self.consume(waiting.position.wrapping_add(len as u64));
        self.ring.header.readers.0.note_cpu(&self.ring.header.read_pos.0, cpu);
    }

    #[inline]
    fn consume(&self, position: u64) {
        // E2 with `WriteSide::room`: the copy out is complete.
        self.ring.header.readers.0.publish(&self.ring.header.read_pos.0, position);
    }
}

impl Ring<'_> {
    /// After publishing and releasing the lock: whether a reader sleeps, or may be about to, or a process polls the
    /// read end.
    #[inline]
    pub fn readers_wait(&self) -> bool {
        // E3 with `Bell::reader_will_sleep`. Here: position stored, fence, count loaded. There: count stored, fence,
        // position loaded. At least one of the two sees the other. Release and Acquire cannot give this.
        fence_after_unlock();
        self.header.state.0.readers_waiting.load(Ordering::Relaxed) != 0
    }

    /// Whether a reader waits. A rough answer that orders nothing, only to save time.
    #[inline]
    pub fn readers_wait_roughly(&self) -> bool {
        self.header.state.0.readers_waiting.load(Ordering::Relaxed) != 0
    }

    /// After consuming and releasing the lock: whether a writer is to be woken now. One that sleeps, or may be about
    /// to, or a process that polls the write end; a deferring writer only at its low-water mark.
    #[inline]
    pub fn writers_wait(&self) -> bool {
        // E3 with `Bell::writer_will_sleep` and `Bell::writer_will_defer`.
        fence_after_unlock();
        let state = &self.header.state.0;
        state.writers_waiting.load(Ordering::Relaxed) != 0
            || (state.writers_deferring.load(Ordering::Relaxed) != 0 && self.has_refill())
    }

    /// The low-water mark: free bytes at which a deferring writer is woken.
    pub fn refill(&self) -> usize {
        self.capacity().unwrap_or(0) / REFILLS
    }

    /// Whether that much is free. Also true if the ring is broken: the woken writer then finds that out.
    pub fn has_refill(&self) -> bool {
        match (self.capacity(), self.readable()) {
            (Ok(capacity), Ok(waiting)) => capacity.saturating_sub(waiting) >= capacity / REFILLS,
            _ => true,
        }
    }
}

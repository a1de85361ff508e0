//! Readiness bytes: how readers and writers that sleep in `poll(2)` on the backing pipe learn that the ring has
//! changed.
//!
//! The backing pipe is narrowed to two pages. The number of pages that hold bytes shows how full the ring is:
//!
//! ```text
//! ring      empty      partial      full (less than PIPE_BUF free)
//! pipe      [ | ]      [x| ]        [x|x]
//! poll      OUT        IN, OUT      IN
//! ```
//!
//! The bytes `x` mean nothing. The kernel wakes waiters and reports hang-ups and errors, as for every pipe. While no
//! thread waits this costs nothing. A side that changes the ring corrects the readiness bytes only if a waiter is
//! counted. A waiter corrects them before it sleeps. Only writers can add bytes and only readers can take them. Each
//! corrects its own direction, under one lock, so two corrections never cross.
//!
//! There is one exception, the byte that wakes a reader ([`Bell::raise_before_unlocking`]). The writer counts it under
//! that lock, and puts it in after releasing that lock, under the writers' lock. The byte may come late, and then wakes
//! a reader that finds nothing.
//!
//! A waiter counts itself, fences, corrects the readiness bytes, checks the ring again, and sleeps. A side that changes
//! the ring stores the position, fences, loads the count of waiters, and corrects the readiness bytes. This is edge E3.

use crate::biased::BiasedLock;
use crate::error::RingError;
use crate::header::{BellWords, Header, Tally, count_one, count_one_roughly};
use crate::level::Level;
use crate::lock::{Guard, Parking};
use crate::ring::{Ring, WriteSide};
use crate::route::Route;
use crate::sync::{AtomicU32, Ordering, fence};

/// A page of the backing pipe. Of two such pages, a write of this many bytes takes one for itself.
const PAGE: u32 = 4096;

/// What a kernel pipe of an unprivileged user can hold, unless the administrator has raised the limit.
const LARGEST_PIPE: u32 = 1 << 20;

const WATCHED_FOR_IN: u32 = 1;
const WATCHED_FOR_OUT: u32 = 2;

/// The backing pipe: the kernel pipe whose two pages hold the readiness bytes.
pub trait Shadow {
    /// Narrows the pipe to two pages.
    fn narrow(&self);
    /// Puts `bytes` meaningless bytes in, and returns how many went in. Never sleeps.
    fn put(&self, bytes: u32) -> u32;
    /// Takes at most `bytes` out, and returns how many came. Never sleeps.
    fn take(&self, bytes: u32) -> u32;
    /// Bytes in the pipe.
    fn bytes(&self) -> u32;
    /// The time, by a clock that all processes share that use the pipe.
    fn now(&self) -> u64;
}

/// The readiness bytes of a ring, and its counts of waiters.
#[derive(Clone, Copy, Debug)]
pub struct Bell<'a> {
    ring: Ring<'a>,
}

impl<'a> Ring<'a> {
    /// The readiness bytes of this ring.
    #[inline]
    pub fn bell(&self) -> Bell<'a> {
        Bell { ring: *self }
    }
}

impl<'a> Bell<'a> {
    /// A reader that found the ring empty is about to sleep. It must check the ring again after this, and must call
    /// [`Bell::reader_woke`] in any case.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn reader_will_sleep(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        count_one(&self.counters().reader_sleeps);
        self.count_reader(parking);
        self.lower(parking, shadow).map(drop)
    }

    /// The reader does not sleep, or no longer does.
    pub fn reader_woke(&self) {
        self.ring.header.state.0.readers_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A writer that found too little room is about to sleep. Otherwise as [`Bell::reader_will_sleep`].
    ///
    /// # Errors
    /// [`RingError`].
    pub fn writer_will_sleep(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        count_one(&self.counters().writer_sleeps);
        self.count_writer(parking);
        self.raise(parking, shadow).map(drop)
    }

    /// The writer does not sleep, or no longer does.
    pub fn writer_woke(&self) {
        self.ring.header.state.0.writers_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// As [`Bell::writer_will_sleep`], for a writer that is to be woken at the low-water mark ([`Ring::refill`]) and
    /// not for less room. It checks the ring again for that much, and calls [`Bell::writer_deferred`].
    ///
    /// # Errors
    /// [`RingError`].
    pub fn writer_will_defer(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        count_one(&self.counters().writer_sleeps);
        let Header { state, readers, .. } = self.ring.header;
        count(&state.0.writers_deferring, &readers.0.lock, parking);
        self.raise(parking, shadow).map(drop)
    }

    /// The writer does not sleep, or no longer does.
    pub fn writer_deferred(&self) {
        self.ring.header.state.0.writers_deferring.fetch_sub(1, Ordering::Relaxed);
    }

    /// The time of the last wake-up, by [`Shadow::now`]: a woken thread measures by it how long a wake-up takes. A peer
    /// may store any number here, so only the length of a wait may depend on it.
    pub fn rung_at(&self) -> u64 {
        self.ring.header.bell.0.rung_at.load(Ordering::Relaxed)
    }

    /// A writer is about to write into the backing pipe, where a reader sleeps ([`Ring::waiter`]). The write wakes
    /// that reader without a readiness byte.
    pub fn is_rung_by_writing(&self, shadow: &impl Shadow) {
        self.note_time(shadow);
        count_one_roughly(&self.counters().reader_wakes);
    }

    /// Called before the system call that wakes, because the waiter may run before that call returns. Not in models, as
    /// `count_one`.
    fn note_time(&self, shadow: &impl Shadow) {
        if cfg!(not(loom)) {
            self.ring.header.bell.0.rung_at.store(shadow.now(), Ordering::Relaxed);
        }
    }

    fn counters(&self) -> &'a Tally {
        &self.ring.header.bell.0.tally
    }

    fn count_reader(&self, parking: &impl Parking) {
        let Header { state, writers, .. } = self.ring.header;
        count(&state.0.readers_waiting, &writers.0.lock, parking);
    }

    fn count_writer(&self, parking: &impl Parking) {
        let Header { state, readers, .. } = self.ring.header;
        count(&state.0.writers_waiting, &readers.0.lock, parking);
    }

    /// For a process that can write: makes as many pages hold bytes as the ring is full. Returns whether the kernel
    /// took bytes, which wakes threads that wait for some.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn raise(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<bool, RingError> {
        self.lock(parking, shadow)?.map_or(Ok(false), |mirror| self.raise_locked(&mirror, shadow))
    }

    /// As [`Bell::raise`], for a writer that has just written and still holds the writers' lock. The kernel often runs
    /// the woken thread at once, on the CPU of the waking one. If the waking thread still held the lock of the
    /// readiness bytes, the woken one could not go back to sleep. So this releases that lock first. The writers' lock
    /// keeps the pipe in its state until the byte is in the backing pipe. Otherwise a reader could take the byte for
    /// one of the stream.
    ///
    /// When the byte comes the ring may be empty again, and the count 0. A reader that it wakes for nothing takes it
    /// out ([`Bell::expel`]).
    ///
    /// # Errors
    /// [`RingError`].
    pub fn raise_before_unlocking(
        &self,
        _writers: &WriteSide<'_, impl Parking>,
        parking: &impl Parking,
        shadow: &impl Shadow,
    ) -> Result<bool, RingError> {
        let Some(mirror) = self.lock(parking, shadow)? else { return Ok(false) };
        let (level, before) = (self.ring.level()?, mirror.bytes());
        // A process that polls from outside would see the late byte, and would not take it out.
        if level != Level::Partial || before > 0 || self.is_watched_for_bytes() {
            return self.raise_locked(&mirror, shadow);
        }
        mirror.set_bytes(1);
        drop(mirror);
        self.note_time(shadow);
        let is_put = shadow.put(1) > 0;
        if is_put {
            count_one(&self.counters().reader_wakes);
        } else if let Some(mirror) = self.lock(parking, shadow)? {
            mirror.set_bytes(mirror.bytes().saturating_sub(1));
        }
        Ok(is_put)
    }

    fn raise_locked<P: Parking>(&self, mirror: &Mirror<'_, P>, shadow: &impl Shadow) -> Result<bool, RingError> {
        let before = mirror.bytes();
        let level = self.ring.level()?;
        let first = match (level, before) {
            (Level::Empty, _) => 0,
            (_, 0) => 1,
            // A process that polls for edges is to see one for every write.
            (Level::Partial, 1..PAGE) if self.is_watched_for_bytes() => 1,
            _ => 0,
        };
        let mut put = 0;
        if first > 0 {
            self.note_time(shadow);
            put = shadow.put(first);
        }
        if level == Level::Full && (1..=PAGE).contains(&(before + put)) {
            shadow.narrow();
            put += shadow.put(PAGE);
        }
        if put > 0 {
            mirror.set_bytes(before + put);
            count_one(&self.counters().reader_wakes);
        }
        Ok(put > 0)
    }

    /// Asks the kernel how many bytes there are. For a thread that was woken and found nothing: a process may have died
    /// after it counted a byte, and before it put the byte in.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn recount(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        if let Some(mirror) = self.lock(parking, shadow)? {
            mirror.recount(shadow);
        }
        Ok(())
    }

    /// For a process that can read: makes no more pages hold bytes than the ring is full. Returns whether it took
    /// bytes, which wakes threads that wait for room.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn lower(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<bool, RingError> {
        let Some(mirror) = self.lock(parking, shadow)? else { return Ok(false) };
        let bytes = mirror.bytes();
        match self.ring.level()? {
            // Takes all bytes, so that a wrong count is right again afterwards.
            Level::Empty if bytes > 0 => {
                self.note_time(shadow);
                shadow.take(2 * PAGE);
                mirror.set_bytes(0);
                count_one(&self.counters().writer_wakes);
                Ok(true)
            }
            Level::Partial if bytes > PAGE => {
                self.note_time(shadow);
                let taken = shadow.take(bytes - PAGE);
                // Fewer than were counted: another process writes into these words, or takes bytes that are not its
                // own.
                let left = if taken == bytes - PAGE { PAGE } else { shadow.bytes().min(2 * PAGE) };
                mirror.set_bytes(left);
                count_one(&self.counters().writer_wakes);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Takes every byte out and changes the state of the pipe. Only with both sides locked. The state changes under the
    /// lock of the readiness bytes, so that no process can put a readiness byte into the stream.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn silence(&self, parking: &impl Parking, shadow: &impl Shadow, route: Route) -> Result<(), RingError> {
        if let Some(mirror) = self.lock(parking, shadow)? {
            mirror.clear(shadow);
            self.ring.set_route(route);
        }
        Ok(())
    }

    /// Takes every readiness byte of an empty ring out, also bytes that were not counted: a process wrote into the
    /// backing pipe what belongs into the ring.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn expel(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        if let Some(mirror) = self.lock(parking, shadow)?
            && self.ring.level()? == Level::Empty
        {
            mirror.clear(shadow);
        }
        Ok(())
    }

    /// From now on a process outside polls the read end: the readiness bytes follow the ring at once, until the pipe is
    /// gone. Returns whether this is new.
    pub fn watch_for_bytes(&self, parking: &impl Parking) -> bool {
        // Counted first: if this process dies between the two, the count stays too high, which costs time only.
        self.count_reader(parking);
        let Header { state, readers, .. } = self.ring.header;
        self.watch(WATCHED_FOR_IN, &state.0.readers_waiting, &readers.0.lock, parking)
    }

    /// From now on a process outside polls the write end. Returns whether this is new.
    pub fn watch_for_room(&self, parking: &impl Parking) -> bool {
        self.count_writer(parking);
        let Header { state, writers, .. } = self.ring.header;
        self.watch(WATCHED_FOR_OUT, &state.0.writers_waiting, &writers.0.lock, parking)
    }

    /// `own` is the lock of the polled side, whose holders check what this notes.
    fn watch(&self, direction: u32, waiting: &AtomicU32, own: &BiasedLock, parking: &impl Parking) -> bool {
        let is_new = self.ring.header.state.0.watched.fetch_or(direction, Ordering::Relaxed) & direction == 0;
        if !is_new {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
        // E3 with `Bell::is_watched_for_bytes` and `Bell::is_watched_for_room`.
        fence(Ordering::SeqCst);
        own.fence_for_owner(parking);
        is_new
    }

    /// Whether a reader that empties the ring has to correct the readiness bytes at once.
    #[inline]
    pub fn is_watched_for_bytes(&self) -> bool {
        self.is_watched(WATCHED_FOR_IN)
    }

    /// Whether a writer that fills the ring has to correct the readiness bytes at once.
    #[inline]
    pub fn is_watched_for_room(&self) -> bool {
        self.is_watched(WATCHED_FOR_OUT)
    }

    #[inline]
    fn is_watched(&self, direction: u32) -> bool {
        self.ring.header.state.0.watched.load(Ordering::Relaxed) & direction != 0
    }

    /// The readiness bytes, locked; `None` while the backing pipe carries the stream itself and must not be touched.
    fn lock<P: Parking>(&self, parking: &'a P, shadow: &impl Shadow) -> Result<Option<Mirror<'a, P>>, RingError> {
        let words = &self.ring.header.bell.0;
        let guard = words.lock.acquire(parking)?;
        if self.ring.route() != Route::Ring {
            return Ok(None);
        }
        let owner_died = guard.owner_died();
        let mirror = Mirror { words, _guard: guard };
        if owner_died {
            // The owner died between moving bytes and counting them.
            mirror.recount(shadow);
        }
        Ok(Some(mirror))
    }
}

/// Counts one waiter for a change that the holders of `changers` make.
fn count(waiting: &AtomicU32, changers: &BiasedLock, parking: &impl Parking) {
    waiting.fetch_add(1, Ordering::Relaxed);
    // E3 with `Ring::readers_wait` and `Ring::writers_wait`.
    fence(Ordering::SeqCst);
    changers.fence_for_owner(parking);
}

struct Mirror<'a, P: Parking> {
    words: &'a BellWords,
    _guard: Guard<'a, P>,
}

impl<P: Parking> Mirror<'_, P> {
    fn bytes(&self) -> u32 {
        self.words.bytes.load(Ordering::Relaxed).min(2 * PAGE)
    }

    /// Takes everything out. The limit is more than the largest pipe holds, so a process that keeps adding bytes cannot
    /// keep this going for ever.
    fn clear(&self, shadow: &impl Shadow) {
        (0..LARGEST_PIPE / (2 * PAGE)).take_while(|_| shadow.take(2 * PAGE) > 0).for_each(drop);
        self.set_bytes(0);
    }

    fn recount(&self, shadow: &impl Shadow) {
        self.set_bytes(shadow.bytes().min(2 * PAGE));
    }

    fn set_bytes(&self, bytes: u32) {
        self.words.bytes.store(bytes, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::Bytes;
    use crate::biased::tests::thread;

    #[test]
    fn new_poller_fences_owners_of_both_sides() {
        let (header, steady, watcher) = (Header::new(), thread(1), thread(2));
        // SAFETY: no bytes.
        let ring = Ring::new(&header, unsafe { Bytes::new(core::ptr::NonNull::dangling(), 0) });
        let fences_of = |watch: &dyn Fn() -> bool| {
            let before = watcher.fences.get();
            assert!(watch());
            watcher.fences.get() - before
        };
        while !header.readers.0.lock(&header.read_pos.0, &steady).unwrap().is_own() {}
        assert_eq!(fences_of(&|| ring.bell().watch_for_bytes(&watcher)), 1, "the readers are made to check");
        while !header.writers.0.lock(&header.write_pos.0, &steady).unwrap().is_own() {}
        assert_eq!(fences_of(&|| ring.bell().watch_for_room(&watcher)), 2);
    }
}

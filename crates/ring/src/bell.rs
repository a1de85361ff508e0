//! The bell: how those who sleep in `poll(2)` on the shadow learn that the ring has changed.
//!
//! The shadow, a kernel pipe narrowed to two pages, mirrors how full the ring is by how many of its pages are taken:
//!
//! ```text
//! ring      empty      partial      full (less than PIPE_BUF free)
//! shadow    [ | ]      [x| ]        [x|x]
//! poll      OUT        IN, OUT      IN
//! ```
//!
//! The bytes `x` mean nothing. The kernel wakes sleepers and reports hang-ups and errors, as for every pipe. Nobody pays
//! for it while nobody sleeps: the mirror is brought up to date only for those who wait, by whoever changes the ring, and
//! by a sleeper before it sleeps. Only writers can add bytes and only readers can take them; each corrects its own
//! direction, under one lock, so that two corrections never cross.
//!
//! Whoever waits does: count itself, fence, correct the mirror, look at the ring again, sleep. Whoever changes the ring
//! does: store the position, fence, look at the count, correct the mirror. This is edge E3.

use crate::Broken;
use crate::lock::{Guard, Parking};
use crate::ring::Ring;
use crate::route::Route;
use crate::sync::{AtomicU32, Ordering, fence};

/// A page of the shadow: two of them make a write of this many bytes take a slot of its own.
const PAGE: u32 = 4096;

const WATCHED_FOR_IN: u32 = 1;
const WATCHED_FOR_OUT: u32 = 2;

/// How full the ring is, as `poll(2)` would put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Nothing to read.
    Empty,
    /// Something to read, and room for a write of `PIPE_BUF`.
    Partial,
    /// Less room than that.
    Full,
}

/// The kernel pipe whose two pages are the mirror.
pub trait Shadow {
    /// Puts `bytes` meaningless bytes in; returns how many went in. Never sleeps.
    fn put(&self, bytes: u32) -> u32;
    /// Takes at most `bytes` out; returns how many came. Never sleeps.
    fn take(&self, bytes: u32) -> u32;
    /// Bytes in the pipe.
    fn bytes(&self) -> u32;
}

/// The bell of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Bell<'a> {
    ring: Ring<'a>,
}

impl<'a> Ring<'a> {
    /// The bell of this ring.
    #[inline]
    pub fn bell(&self) -> Bell<'a> {
        Bell { ring: *self }
    }
}

impl<'a> Bell<'a> {
    /// A reader that found the ring empty is about to sleep. It must look at the ring again after this, and call
    /// [`Bell::reader_woke`] in any case.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn reader_will_sleep(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), Broken> {
        self.count(&self.ring.header.state.0.readers_waiting);
        self.lower(parking, shadow).map(drop)
    }

    /// It does not sleep, or no longer.
    pub fn reader_woke(&self) {
        self.ring.header.state.0.readers_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A writer that found too little room is about to sleep; otherwise as [`Bell::reader_will_sleep`].
    ///
    /// # Errors
    /// [`Broken`].
    pub fn writer_will_sleep(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), Broken> {
        self.count(&self.ring.header.state.0.writers_waiting);
        self.raise(parking, shadow).map(drop)
    }

    /// It does not sleep, or no longer.
    pub fn writer_woke(&self) {
        self.ring.header.state.0.writers_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn count(&self, waiting: &AtomicU32) {
        waiting.fetch_add(1, Ordering::Relaxed);
        // E3 with `Ring::readers_wait` and `Ring::writers_wait`.
        fence(Ordering::SeqCst);
    }

    /// For those who can write: as many pages taken as the ring is full. Returns whether that woke anybody who waits
    /// for bytes.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn raise(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<bool, Broken> {
        let _guard = self.lock(parking, shadow)?;
        if !self.is_mirror() {
            return Ok(false);
        }
        let words = &self.ring.header.bell.0;
        let before = words.bytes.load(Ordering::Relaxed);
        let missing = match (self.ring.level()?, before) {
            (Level::Empty, _) => 0,
            (_, 0) => 1,
            (Level::Full, 1..=PAGE) => PAGE,
            (Level::Partial, 1..PAGE) if self.is_watched(WATCHED_FOR_IN) => 1,
            _ => 0,
        };
        let mut bytes = before;
        if missing > 0 {
            bytes += shadow.put(missing);
            words.bytes.store(bytes, Ordering::Relaxed);
        }
        if missing == 1 && before == 0 && self.ring.level()? == Level::Full {
            words.bytes.store(bytes + shadow.put(PAGE), Ordering::Relaxed);
        }
        Ok(missing > 0)
    }

    /// For those who can read: no more pages taken than the ring is full. Returns whether that woke anybody who waits
    /// for room.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn lower(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<bool, Broken> {
        let _guard = self.lock(parking, shadow)?;
        if !self.is_mirror() {
            return Ok(false);
        }
        let words = &self.ring.header.bell.0;
        let bytes = words.bytes.load(Ordering::Relaxed);
        let surplus = match self.ring.level()? {
            Level::Empty => bytes,
            Level::Partial => bytes.saturating_sub(PAGE),
            Level::Full => 0,
        };
        if surplus > 0 {
            let taken = shadow.take(surplus);
            // Fewer than were counted: somebody writes what he likes here, or takes what is not his.
            let left = if taken == surplus { bytes - taken } else { shadow.bytes().min(2 * PAGE) };
            words.bytes.store(left, Ordering::Relaxed);
        }
        Ok(surplus > 0)
    }

    /// Takes every byte out: the shadow is to carry the stream itself from now on. Only while both sides are locked and
    /// the route is [`Route::Emptying`], so that whoever comes to the bell after this leaves the shadow alone.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn silence(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), Broken> {
        let _guard = self.lock(parking, shadow)?;
        while shadow.take(2 * PAGE) > 0 {}
        self.ring.header.bell.0.bytes.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Takes every byte out of the mirror of an empty ring, also those that nobody has counted: a process wrote into
    /// the shadow what belongs into the ring.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn expel(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), Broken> {
        let _guard = self.lock(parking, shadow)?;
        if self.is_mirror() && self.ring.level()? == Level::Empty {
            while shadow.take(2 * PAGE) > 0 {}
            self.ring.header.bell.0.bytes.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// From now on somebody outside polls the read end: the mirror follows the ring at once, for as long as it lives.
    /// Returns whether this is new.
    pub fn watch_for_bytes(&self) -> bool {
        self.watch(WATCHED_FOR_IN, &self.ring.header.state.0.readers_waiting)
    }

    /// From now on somebody outside polls the write end. Returns whether this is new.
    pub fn watch_for_room(&self) -> bool {
        self.watch(WATCHED_FOR_OUT, &self.ring.header.state.0.writers_waiting)
    }

    fn watch(&self, direction: u32, waiting: &AtomicU32) -> bool {
        let is_new = self.ring.header.state.0.watched.fetch_or(direction, Ordering::Relaxed) & direction == 0;
        if is_new {
            self.count(waiting);
        }
        is_new
    }

    /// Whether a reader that empties the ring has to say so at once.
    #[inline]
    pub fn is_watched_for_bytes(&self) -> bool {
        self.is_watched(WATCHED_FOR_IN)
    }

    /// Whether a writer that fills the ring has to say so at once.
    #[inline]
    pub fn is_watched_for_room(&self) -> bool {
        self.is_watched(WATCHED_FOR_OUT)
    }

    #[inline]
    fn is_watched(&self, direction: u32) -> bool {
        self.ring.header.state.0.watched.load(Ordering::Relaxed) & direction != 0
    }

    fn lock<P: Parking>(&self, parking: &'a P, shadow: &impl Shadow) -> Result<Guard<'a, P>, Broken> {
        let words = &self.ring.header.bell.0;
        let guard = words.lock.acquire(parking)?;
        if guard.owner_died() {
            // It died between moving bytes and counting them. The stream's own bytes are never counted.
            let bytes = if self.is_mirror() { shadow.bytes().min(2 * PAGE) } else { 0 };
            words.bytes.store(bytes, Ordering::Relaxed);
        }
        Ok(guard)
    }

    /// Whether the bytes in the shadow are the bell's. Asked under its lock: the route leaves the ring before
    /// [`Bell::silence`] takes that lock, so who still sees the ring has come before, and what he does is undone.
    fn is_mirror(&self) -> bool {
        self.ring.route() == Route::Ring
    }
}

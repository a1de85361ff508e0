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
//! direction, under one lock, so that two corrections never cross. One byte is counted under that lock and put in after it,
//! under the writers': the one that wakes a reader ([`Bell::raise_before_unlocking`]). It may be late, and then wakes in vain.
//!
//! Whoever waits does: count itself, fence, correct the mirror, look at the ring again, sleep. Whoever changes the ring
//! does: store the position, fence, look at the count, correct the mirror. This is edge E3.

use crate::biased::BiasedLock;
use crate::error::RingError;
use crate::header::{BellWords, Header, Tally, count_one, count_one_roughly};
use crate::level::Level;
use crate::lock::{Guard, Parking};
use crate::ring::{Ring, WriteSide};
use crate::route::Route;
use crate::sync::{AtomicU32, Ordering, fence};

/// A page of the shadow: two of them make a write of this many bytes take a slot of its own.
const PAGE: u32 = 4096;

/// What a kernel pipe of an unprivileged user can hold unless the administrator says otherwise.
const LARGEST_PIPE: u32 = 1 << 20;

const WATCHED_FOR_IN: u32 = 1;
const WATCHED_FOR_OUT: u32 = 2;

/// The kernel pipe whose two pages are the mirror.
pub trait Shadow {
    /// Sees to it that two pages are all there is room for.
    fn narrow(&self);
    /// Puts `bytes` meaningless bytes in; returns how many went in. Never sleeps.
    fn put(&self, bytes: u32) -> u32;
    /// Takes at most `bytes` out; returns how many came. Never sleeps.
    fn take(&self, bytes: u32) -> u32;
    /// Bytes in the pipe.
    fn bytes(&self) -> u32;
    /// The time, by a clock that all processes at the pipe share.
    fn now(&self) -> u64;
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
    /// [`RingError`].
    pub fn reader_will_sleep(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        count_one(&self.tally().reader_sleeps);
        self.count_reader(parking);
        self.lower(parking, shadow).map(drop)
    }

    /// It does not sleep, or no longer.
    pub fn reader_woke(&self) {
        self.ring.header.state.0.readers_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A writer that found too little room is about to sleep; otherwise as [`Bell::reader_will_sleep`].
    ///
    /// # Errors
    /// [`RingError`].
    pub fn writer_will_sleep(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        count_one(&self.tally().writer_sleeps);
        self.count_writer(parking);
        self.raise(parking, shadow).map(drop)
    }

    /// It does not sleep, or no longer.
    pub fn writer_woke(&self) {
        self.ring.header.state.0.writers_waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// As [`Bell::writer_will_sleep`], by one that is to be woken for [`Ring::refill`] and not for less: it looks at the ring again
    /// for that, and calls [`Bell::writer_deferred`].
    ///
    /// # Errors
    /// [`RingError`].
    pub fn writer_will_defer(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        count_one(&self.tally().writer_sleeps);
        let Header { state, readers, .. } = self.ring.header;
        count(&state.0.writers_deferring, &readers.0.lock, parking);
        self.raise(parking, shadow).map(drop)
    }

    /// It does not sleep, or no longer.
    pub fn writer_deferred(&self) {
        self.ring.header.state.0.writers_deferring.fetch_sub(1, Ordering::Relaxed);
    }

    /// When the bell was last rung, by [`Shadow::now`]: for whoever was woken and wants to know how long that takes. Any
    /// number; nothing may depend on it but how long somebody waits.
    pub fn rung_at(&self) -> u64 {
        self.ring.header.bell.0.rung_at.load(Ordering::Relaxed)
    }

    /// Somebody is about to write into the shadow, where a reader sleeps ([`Ring::sleeper`]): no bell, but it wakes as one.
    pub fn is_rung_by_writing(&self, shadow: &impl Shadow) {
        self.note_time(shadow);
        count_one_roughly(&self.tally().reader_wakes);
    }

    /// Before the system call that wakes: a sleeper may run before that returns. Not in models, as `count_one`.
    fn note_time(&self, shadow: &impl Shadow) {
        if cfg!(not(loom)) {
            self.ring.header.bell.0.rung_at.store(shadow.now(), Ordering::Relaxed);
        }
    }

    fn tally(&self) -> &'a Tally {
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

    /// For those who can write: as many pages taken as the ring is full. Returns whether the kernel took bytes, which
    /// wakes whoever waits for some.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn raise(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<bool, RingError> {
        self.lock(parking, shadow)?.map_or(Ok(false), |mirror| self.raise_locked(&mirror, shadow))
    }

    /// As [`Bell::raise`], by who has just written and still holds the writers' lock. The kernel often runs whoever is
    /// woken at once, in the place of who wakes; if that held the bell, the woken could not go to sleep again. So the
    /// bell is given back first. Without the writers' lock the stream might then go another way before the byte is in
    /// the shadow, and the byte be taken for one of the stream.
    ///
    /// The byte may come when the ring is empty again, and not be counted. A reader that it wakes in vain takes it out
    /// ([`Bell::expel`]).
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
        // Who watches from outside would find the late byte, and not take it out.
        if level != Level::Partial || before > 0 || self.is_watched_for_bytes() {
            return self.raise_locked(&mirror, shadow);
        }
        mirror.set_bytes(1);
        drop(mirror);
        self.note_time(shadow);
        let is_put = shadow.put(1) > 0;
        if is_put {
            count_one(&self.tally().reader_wakes);
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
            // Whoever watches for edges is to see one for every write.
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
            count_one(&self.tally().reader_wakes);
        }
        Ok(put > 0)
    }

    /// Asks the kernel how many bytes there are. For who was woken in vain: a process may have died after it had counted a
    /// byte, and before it put it in.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn recount(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<(), RingError> {
        if let Some(mirror) = self.lock(parking, shadow)? {
            mirror.recount(shadow);
        }
        Ok(())
    }

    /// For those who can read: no more pages taken than the ring is full. Returns whether bytes were taken, which wakes
    /// whoever waits for room.
    ///
    /// # Errors
    /// [`RingError`].
    pub fn lower(&self, parking: &impl Parking, shadow: &impl Shadow) -> Result<bool, RingError> {
        let Some(mirror) = self.lock(parking, shadow)? else { return Ok(false) };
        let bytes = mirror.bytes();
        match self.ring.level()? {
            // All of it, so that a wrong count is right again afterwards.
            Level::Empty if bytes > 0 => {
                self.note_time(shadow);
                shadow.take(2 * PAGE);
                mirror.set_bytes(0);
                count_one(&self.tally().writer_wakes);
                Ok(true)
            }
            Level::Partial if bytes > PAGE => {
                self.note_time(shadow);
                let taken = shadow.take(bytes - PAGE);
                // Fewer than were counted: somebody writes what he likes here, or takes what is not his.
                let left = if taken == bytes - PAGE { PAGE } else { shadow.bytes().min(2 * PAGE) };
                mirror.set_bytes(left);
                count_one(&self.tally().writer_wakes);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Takes every byte out and sends the stream another way. Only while both sides are locked. The route changes while
    /// the bell is locked, so that nobody can put a byte of the mirror into the stream.
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

    /// Takes every byte out of the mirror of an empty ring, also those that nobody has counted: a process wrote into
    /// the shadow what belongs into the ring.
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

    /// From now on somebody outside polls the read end: the mirror follows the ring at once, for as long as it lives.
    /// Returns whether this is new.
    pub fn watch_for_bytes(&self, parking: &impl Parking) -> bool {
        // Counted first: somebody who dies between the two leaves a count too many, which costs time and nothing else.
        self.count_reader(parking);
        let Header { state, readers, .. } = self.ring.header;
        self.watch(WATCHED_FOR_IN, &state.0.readers_waiting, &readers.0.lock, parking)
    }

    /// From now on somebody outside polls the write end. Returns whether this is new.
    pub fn watch_for_room(&self, parking: &impl Parking) -> bool {
        self.count_writer(parking);
        let Header { state, writers, .. } = self.ring.header;
        self.watch(WATCHED_FOR_OUT, &state.0.writers_waiting, &writers.0.lock, parking)
    }

    /// `own` is the lock of the side that is watched, whose holders look at what is noted here.
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

    /// The mirror, locked; `None` while the shadow carries the stream itself and must not be touched.
    fn lock<P: Parking>(&self, parking: &'a P, shadow: &impl Shadow) -> Result<Option<Mirror<'a, P>>, RingError> {
        let words = &self.ring.header.bell.0;
        let guard = words.lock.acquire(parking)?;
        if self.ring.route() != Route::Ring {
            return Ok(None);
        }
        let owner_died = guard.owner_died();
        let mirror = Mirror { words, _guard: guard };
        if owner_died {
            // It died between moving bytes and counting them.
            mirror.recount(shadow);
        }
        Ok(Some(mirror))
    }
}

/// Counts one that waits for what the holders of `changers` do.
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

    /// Takes everything out: more than the largest pipe holds, but not for as long as somebody puts more in.
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
    use crate::biased::tests::somebody;

    #[test]
    fn who_begins_to_watch_has_the_owners_of_both_sides_fenced() {
        let (header, steady, watcher) = (Header::new(), somebody(1), somebody(2));
        // SAFETY: no bytes.
        let ring = Ring::new(&header, unsafe { Bytes::new(core::ptr::NonNull::dangling(), 0) });
        let fences_of = |watch: &dyn Fn() -> bool| {
            let before = watcher.fences.get();
            assert!(watch());
            watcher.fences.get() - before
        };
        while !header.readers.0.lock(&header.read_pos.0, &steady).unwrap().is_own() {}
        assert_eq!(fences_of(&|| ring.bell().watch_for_bytes(&watcher)), 1, "the readers are told to look");
        while !header.writers.0.lock(&header.write_pos.0, &steady).unwrap().is_own() {}
        assert_eq!(fences_of(&|| ring.bell().watch_for_room(&watcher)), 2);
    }
}

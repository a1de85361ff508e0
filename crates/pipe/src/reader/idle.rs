//! Idle mode: the reader sleeps in `read(2)` of the backing pipe, and the stream goes through there meanwhile.
//!
//! A byte for a reader that sleeps beside the ring takes three calls. The write also notifies, a `poll(2)` with a
//! time limit returns, and a read takes the wake token out. A reader that sleeps in the backing pipe gets what is
//! written there by the one call that it slept in. That is what the kernel's own pipe takes, and nothing can be lost
//! between a ring and its wake token. The [policy](crate::policy) says when; [`sleeper`](millstream_ring) has the
//! agreement with the writers.
//!
//! ```text
//!                 a reader finds its pipe idle, and the ring empty
//!      Shared ─────────────────────────────────────────────────────▶  Kernel
//!        ▲         a writer finds no reader asleep there,               │
//!        └───────── and nothing in it ──────────────────────────────────┘
//! ```
//!
//! Every other process sees a pipe whose stream the kernel carries, as if an end had been exported. So all operations
//! on a pipe go on working. The capacity stays what it was. The backing pipe has that of a new pipe of the kernel,
//! which is all that an idle one needs. A writer that finds it full makes it as large as the ring; the kernel may
//! refuse its user the pages.

use std::io::{self, IoSliceMut};
use std::time::Duration;

use millstream_ring::{Ring, Route};
use millstream_sys::{Errno, clock, futex, pipe, transfer};

use super::Reader;
use super::waiting::Looked;
use crate::buffers::filled_by_one_call;
use crate::error::broken;
use crate::segment::Segment;
use crate::waits::Waits;

/// Pages of memory that an idle pipe may keep: its reader does not wake up to give more back.
const PAGES_KEPT: usize = 2;

/// Much longer than a wake-up takes.
const SLEEPER_WAKES_IN: Duration = Duration::from_millis(5);

impl Reader {
    /// Reads what comes, asleep in the backing pipe, if it is time for idle mode: nothing waits in the ring, and a
    /// spin does not pay. `None`: it is not time.
    pub(super) fn read_asleep(
        &self,
        segment: &Segment,
        buffers: &mut [IoSliceMut<'_>],
        waits: &Waits<'_>,
    ) -> io::Result<Option<usize>> {
        let me = self.end.parker().thread();
        let is_first_sleep = waits.bell.is_none() && !waits.has_slept();
        if !is_first_sleep || !self.end.was_blocking()? || !self.lies_down(segment)? {
            return Ok(None);
        }
        let ring = segment.ring();
        let peer_is_elsewhere = !self.end.patience.shares_cpu(ring.writers_cpu());
        let slept_at = if peer_is_elsewhere { clock::ticks() } else { 0 };
        let outcome = match buffers {
            [buffer] => transfer::read_one(self.end.fd(), buffer),
            several => transfer::read(self.end.fd(), &mut filled_by_one_call(several)),
        };
        let took = *outcome.as_ref().unwrap_or(&0);
        self.end.counters.moved_asleep(took);
        self.end.patience.found(took);
        let dozes = self.end.patience.sleeps_next(ring.writers_cpu(), self.end.counters.reads());
        // Not a child that a signal handler has forked meanwhile: its parent may sleep on.
        if self.end.parker().thread() == me {
            ring.waiter_woke(me, took, dozes);
        }
        if peer_is_elsewhere {
            self.end.patience.woke(slept_at, ring.bell().rung_at(), ring.writers_cpu());
        }
        match outcome {
            Ok(count) => Ok(Some(count)),
            Err(error) => {
                if error == Errno::AGAIN {
                    self.end.is_blocking()?;
                }
                Err(error.into())
            }
        }
    }

    /// At the beginning of a read of a pipe in idle mode, before anything else was tried: waits for bytes and takes
    /// them, if both sides share a CPU. What is in the backing pipe already is taken a moment later than it could be.
    /// There is seldom anything: it is written to while a reader sleeps there. `None`: the pipe is not idle any more.
    #[inline]
    pub(super) fn read_if_quiet(
        &self,
        segment: &Segment,
        buffers: &mut [IoSliceMut<'_>],
        waits: &Waits<'_>,
    ) -> io::Result<Option<usize>> {
        let ring = segment.ring();
        if ring.route() != Route::Shadow {
            return Ok(None);
        }
        if ring.dozes(self.end.parker().thread()) {
            return self.read_asleep(segment, buffers, waits);
        }
        if !self.end.patience.shares_cpu(ring.writers_cpu()) {
            return Ok(None);
        }
        match self.look_for_bytes(ring, waits)? {
            Looked::InVain => self.read_asleep(segment, buffers, waits),
            Looked::Knows(_) | Looked::FoundAnotherWorld => Ok(None),
        }
    }

    /// Says that this thread sleeps in the backing pipe, where the stream goes from here on, if it did not already.
    fn lies_down(&self, segment: &Segment) -> io::Result<bool> {
        let (ring, parker) = (segment.ring(), self.end.parker());
        match ring.route() {
            Route::Ring if self.end.patience.finds_it_quiet(self.end.counters.bytes(), false) => {
                self.becomes_quiet(segment).map_err(io::Error::from)
            }
            Route::Shadow if ring.all_have_returned() => {
                if !self.end.patience.finds_it_quiet(self.end.counters.bytes(), true) {
                    // A stream: the next writer is to find that this reader has gone, and return to the ring.
                    ring.dozes_no_longer(parker.thread());
                    return Ok(false);
                }
                if ring.dozer_lies_down(parker.thread()) {
                    return Ok(true);
                }
                let readers = ring.lock_readers(&parker).map_err(broken)?;
                let is_alone = !readers.is_claimed() && ring.readable() == Ok(0) && ring.all_have_returned();
                Ok(is_alone && readers.note_waiter(parker.thread()))
            }
            _ => Ok(false),
        }
    }

    /// Sends the stream of an empty ring through the backing pipe, and notes that this thread sleeps there. The backing
    /// pipe gets the ring's capacity, but at most that of a new pipe. Leaves the pipe as it is if anything is under way
    /// there, or another process uses it at this moment.
    fn becomes_quiet(&self, segment: &Segment) -> Result<bool, Errno> {
        let (ring, parker, mirror) = (segment.ring(), self.end.parker(), self.end.readiness_bytes());
        if segment.pages_made() > PAGES_KEPT && segment.give_pages_back(&parker) {
            self.end.counters.gave_pages_back();
        }
        let Some((writers, readers)) = ring.try_lock_both(&parker) else { return Ok(false) };
        let is_watched = || ring.bell().is_watched_for_bytes() || ring.bell().is_watched_for_room();
        let is_in_use = || writers.is_claimed() || readers.is_claimed();
        let has_nothing = || ring.readable() == Ok(0) && !ring.is_offered();
        if ring.route() != Route::Ring || is_watched() || is_in_use() || !has_nothing() {
            return Ok(false);
        }
        let wished = ring.capacity().map_or(0, |capacity| capacity.min(pipe::DEFAULT_CAPACITY));
        if pipe::capacity(self.end.fd()) != Ok(wished) {
            // Two pages of readiness bytes would keep the backing pipe from becoming one page.
            let lowered = ring.bell().lower(&parker, &mirror);
            if lowered.is_err() || pipe::set_capacity(self.end.fd(), wished) != Ok(wished) {
                return Ok(false);
            }
        }
        let silenced = ring.bell().silence(&parker, &mirror, Route::Shadow);
        if silenced.is_err() {
            return Ok(false);
        }
        writers.note_quiet(&readers);
        Ok(readers.note_waiter(parker.thread()))
    }

    /// Gives a reader that sleeps in the backing pipe, and may be stopped there, the time to wake up.
    ///
    /// # Errors
    /// `EINTR`: a signal handler ran.
    pub(super) fn wait_for_idle_reader(&self, ring: &Ring<'_>) -> Result<(), Errno> {
        if let Some(id) = ring.waiter()
            && futex::wait_or_be_interrupted(ring.waiter_word(), id, SLEEPER_WAKES_IN)
        {
            return Err(Errno::INTR);
        }
        Ok(())
    }
}

//! How a writer waits for room.

use std::io;
use std::time::Duration;

use millstream_ring::{PIPE_BUF, Ring, Route};
use millstream_sys::{Errno, clock, transfer};

use super::Writer;
use super::room::{free, has_room, needed};
use super::stop::Stop;
use crate::claim;
use crate::direct::clearing::clear_dead_offer;
use crate::end::size::enlarge_idle_backing_pipe;
use crate::error::broken;
use crate::policy::{Effort, FIRST_NAP, Look, is_worth, longer};
use crate::segment::Segment;
use crate::waits::Waits;

/// When a sleeping writer is woken.
#[derive(Clone, Copy, Debug)]
enum Woken {
    ForRoom,
    ForRefill,
}

impl Writer {
    /// Until no other writer fills the ring in place.
    pub(crate) fn wait_for_others(&self, segment: &Segment) -> Result<(), Stop> {
        let may_wait = self.end.is_blocking()?;
        let was_interrupted = claim::wait(&self.end, segment.ring(), transfer::Access::Write, may_wait)?;
        if was_interrupted {
            return Err(Stop::Interrupted);
        }
        // Nothing in the ring tells that a reader was killed asleep, and the process that has claimed the side need
        // not write.
        self.ask_for_readers_now(segment.ring())
    }

    pub(super) fn wait(
        &self,
        segment: &Segment,
        (done, total): (usize, usize),
        nap: &mut Duration,
    ) -> Result<(), Stop> {
        let (ring, needed) = (segment.ring(), needed(total));
        if self.makes_room(ring)? {
            return Ok(());
        }
        // A writer whose sleep ended by a timeout without room sleeps on.
        if *nap == FIRST_NAP && ring.route() == Route::Ring && self.end.was_blocking()? {
            let closes = ring.closes();
            let is_over = || has_room(ring, needed) || ring.closes() != closes || ring.route() != Route::Ring;
            let mut effort = Effort::default();
            let is_much = |ticks| is_worth(free(ring), ticks);
            let look = self.end.patience.look_for_much(ring.readers_cpu(), is_over, is_much, &mut effort);
            self.end.counters.waited(effort);
            match look {
                Look::Found if has_room(ring, needed) => return Ok(()),
                // The next attempt asks the kernel whether a reader is left.
                Look::KeepLooking if self.end.is_blocking()? => return Ok(()),
                Look::Found | Look::KeepLooking | Look::AskKernel => {}
            }
        }
        match self.end.is_blocking()? {
            true if self.may_defer(ring, total - done) => self.sleep_long(ring, nap),
            true => self.sleep(ring, needed, nap),
            false => self.must_not_sleep(ring, needed),
        }
    }

    /// The backing pipe in which the reader sleeps must not be full before the ring would be.
    fn makes_room(&self, ring: &Ring<'_>) -> io::Result<bool> {
        if !ring.is_quiet() {
            return Ok(false);
        }
        let parker = self.end.parker();
        let _writers = ring.lock_writers(&parker).map_err(broken)?;
        Ok(enlarge_idle_backing_pipe(self.end.fd(), ring))
    }

    fn must_not_sleep(&self, ring: &Ring<'_>, needed: usize) -> Result<(), Stop> {
        // A writer may have died between filling or resizing the ring and notifying. We do not sleep, which would
        // notify on its behalf.
        if ring.readers_wait() || ring.bell().is_watched_for_room() {
            self.raise_bell(ring, true)?;
        }
        let ready = transfer::readiness(self.end.fd())?;
        match ring.route() {
            _ if ready.peer_gone => Err(Stop::NoReader),
            Route::Ring if has_room(ring, needed) => Ok(()),
            Route::Ring if clear_dead_offer(&self.end, ring)? => Ok(()),
            _ => Err(Errno::AGAIN.into()),
        }
    }

    /// Whether a write with so many bytes left may sleep until the low-water mark: until the ring can take a part of
    /// them.
    fn may_defer(&self, ring: &Ring<'_>, rest: usize) -> bool {
        let refill = ring.refill();
        ring.route() == Route::Ring && refill > PIPE_BUF && rest >= refill
    }

    /// As [`sleep`](Self::sleep), for a long write: until the low-water mark, if that will be reached soon.
    fn sleep_long(&self, ring: &Ring<'_>, nap: &mut Duration) -> Result<(), Stop> {
        let slept_at = clock::ticks();
        let outcome = match self.end.patience.waits_for_low_water() {
            Some(timer) => {
                let must_sleep = || ring.route() == Route::Ring && !ring.is_offered() && !ring.has_refill();
                self.sleep_until_woken(ring, Woken::ForRefill, must_sleep, timer).map(drop)
            }
            None => self.sleep(ring, 1, nap),
        };
        self.end.patience.room_came(clock::ticks().wrapping_sub(slept_at), free(ring), ring.refill());
        outcome
    }

    fn sleep(&self, ring: &Ring<'_>, needed: usize, nap: &mut Duration) -> Result<(), Stop> {
        let route = ring.route();
        let must_sleep = || ring.route() == route && (route != Route::Ring || !has_room(ring, needed));
        if self.sleep_while(ring, must_sleep, *nap)? {
            if must_sleep() && route == Route::Ring {
                ring.bell().recount(&self.end.parker(), &self.end.readiness_bytes()).map_err(broken)?;
            }
            // No other process needs to tell of a dead process's offer, so the timeout behind one does not grow.
            *nap = if ring.is_offered() && !clear_dead_offer(&self.end, ring)? { FIRST_NAP } else { longer(*nap) };
        }
        Ok(())
    }

    /// Sleeps until the backing pipe has room or the timeout is over, unless `must_sleep` says no after the waiter is
    /// counted. Returns whether it slept.
    pub(crate) fn sleep_while(
        &self,
        ring: &Ring<'_>,
        must_sleep: impl Fn() -> bool,
        nap: Duration,
    ) -> Result<bool, Stop> {
        self.sleep_until_woken(ring, Woken::ForRoom, must_sleep, nap)
    }

    fn sleep_until_woken(
        &self,
        ring: &Ring<'_>,
        woken: Woken,
        must_sleep: impl Fn() -> bool,
        nap: Duration,
    ) -> Result<bool, Stop> {
        let (bell, parker, mirror) = (ring.bell(), self.end.parker(), self.end.readiness_bytes());
        let counted = match woken {
            Woken::ForRoom => bell.writer_will_sleep(&parker, &mirror),
            Woken::ForRefill => bell.writer_will_defer(&parker, &mirror),
        };
        let is_awake = || match woken {
            Woken::ForRoom => bell.writer_woke(),
            Woken::ForRefill => bell.writer_deferred(),
        };
        if mirror.has_lost_readers() {
            is_awake();
            return Err(Stop::Error(Errno::PIPE.into()));
        }
        let slept = match counted {
            Ok(()) if must_sleep() => {
                self.end.counters.slept();
                let slept_at = clock::ticks();
                let slept = transfer::sleep_until_writable(self.end.fd(), nap);
                self.end.patience.woke(slept_at, bell.rung_at(), ring.readers_cpu());
                Some(slept)
            }
            _ => None,
        };
        is_awake();
        counted.map_err(broken)?;
        match slept {
            None => Ok(false),
            Some(Ok(ready)) if ready.peer_gone => Err(Stop::NoReader),
            Some(Ok(_)) => Ok(true),
            Some(Err(Errno::INTR)) => Err(Stop::Interrupted),
            Some(Err(error)) => Err(error.into()),
        }
    }

    pub(crate) fn wait_for_room(
        &self,
        segment: Option<&Segment>,
        wanted: usize,
        waits: &mut Waits<'_>,
    ) -> Result<(), Stop> {
        match segment {
            Some(segment) => self.wait(segment, (0, wanted.min(PIPE_BUF)), &mut waits.nap),
            None if self.end.is_blocking()? => {
                let slept = transfer::sleep_until_writable(self.end.fd(), waits.nap);
                waits.slept(false);
                match slept {
                    Ok(ready) if ready.peer_gone => Err(Stop::NoReader),
                    Ok(_) => Ok(()),
                    Err(Errno::INTR) => Err(Stop::Interrupted),
                    Err(error) => Err(error.into()),
                }
            }
            None => Err(Errno::AGAIN.into()),
        }
    }
}

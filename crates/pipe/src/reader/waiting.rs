//! How a reader waits for bytes.

use std::io;

use millstream_ring::{Ring, Route};
use millstream_sys::futex::{self, Life};
use millstream_sys::{Errno, clock, memory, signals, transfer};

use super::Reader;
use crate::claim;
use crate::error::broken;
use crate::handover;
use crate::policy::{Effort, Look, is_worth};
use crate::segment::Segment;
use crate::waits::Waits;

/// What waiting came to.
pub(super) enum Outcome {
    TryAgain,
    EndOfStream,
}

/// What a spin, before the reader would sleep, came to.
pub(super) enum Looked {
    Knows(Outcome),
    InVain,
    /// No bytes, but an end was closed, or the route has changed.
    FoundAnotherWorld,
}

impl Reader {
    pub(super) fn wait(&self, segment: &Segment, waits: &mut Waits<'_>) -> io::Result<Outcome> {
        match self.look_for_bytes(segment.ring(), waits)? {
            Looked::Knows(outcome) => Ok(outcome),
            Looked::InVain | Looked::FoundAnotherWorld => self.sleep_if_it_may(segment, waits),
        }
    }

    /// Waits without sleeping, as long as that pays.
    pub(super) fn look_for_bytes(&self, ring: &Ring<'_>, waits: &Waits<'_>) -> io::Result<Looked> {
        let route = ring.route();
        // Bytes in the backing pipe are not seen; but a writer returns to the ring if no reader sleeps in the backing
        // pipe.
        let may_see = route == Route::Ring || (route == Route::Shadow && ring.all_have_returned());
        if waits.has_slept() || !may_see || !self.end.was_blocking()? {
            return Ok(Looked::InVain);
        }
        let closes = ring.closes();
        let is_over = || has_bytes(ring) || ring.closes() != closes || ring.route() != route;
        let mut effort = Effort::default();
        let is_much = |ticks| is_worth(ring.readable().unwrap_or(0), ticks);
        let (peer_cpu, reads) = (ring.writers_cpu(), self.end.counters.reads());
        let look = self.end.patience.look_for_bytes(peer_cpu, reads, is_over, is_much, &mut effort);
        let is_found = look == Look::Found && has_bytes(ring);
        if is_found {
            self.end.patience.found(ring.readable().unwrap_or(0));
            self.end.let_gather(ring, &mut effort);
        }
        self.end.counters.waited(effort);
        Ok(match look {
            _ if is_found => Looked::Knows(Outcome::TryAgain),
            Look::KeepLooking if self.end.is_blocking()? => {
                Looked::Knows(self.ask_kernel(ring)?.unwrap_or(Outcome::TryAgain))
            }
            Look::AskKernel => Looked::InVain,
            Look::Found | Look::KeepLooking => Looked::FoundAnotherWorld,
        })
    }

    /// For a flowing stream: before the first look at bytes that have come since the last ones were read.
    #[cold]
    pub(super) fn gather_if_it_may_wait(&self, ring: &Ring<'_>) -> io::Result<()> {
        let mut effort = Effort::default();
        if self.end.was_blocking()? {
            self.end.let_gather(ring, &mut effort);
        }
        if effort.gathered > 0 {
            self.end.counters.waited(effort);
        }
        Ok(())
    }

    pub(super) fn sleep_if_it_may(&self, segment: &Segment, waits: &mut Waits<'_>) -> io::Result<Outcome> {
        if self.end.is_blocking()? { self.sleep(segment, waits) } else { self.must_not_sleep(segment.ring()) }
    }

    fn must_not_sleep(&self, ring: &Ring<'_>) -> io::Result<Outcome> {
        if let Some(outcome) = self.ask_kernel(ring)? {
            return Ok(outcome);
        }
        // A reader may have died between emptying the ring and notifying. We do not sleep, which would notify on its
        // behalf.
        if ring.writers_wait() || ring.bell().is_watched_for_bytes() {
            self.lower_bell(ring);
        }
        Err(Errno::AGAIN.into())
    }

    /// Whether the kernel knows a reason not to wait: bytes, or the end of the stream.
    fn ask_kernel(&self, ring: &Ring<'_>) -> io::Result<Option<Outcome>> {
        let route = ring.route();
        let ready = transfer::readiness(self.end.fd())?;
        // The kernel first, the ring second: a writer that died had written before. Then the route: what has left the
        // ring meanwhile has gone to the backing pipe.
        if has_bytes(ring) || ring.route() != route || (route != Route::Ring && ready.readable) {
            return Ok(Some(Outcome::TryAgain));
        }
        Ok(ready.peer_gone.then_some(Outcome::EndOfStream))
    }

    fn sleep(&self, segment: &Segment, waits: &mut Waits<'_>) -> io::Result<Outcome> {
        let ring = segment.ring();
        let (bell, parker, mirror) = (ring.bell(), self.end.parker(), self.end.readiness_bytes());
        let route = ring.route();
        if waits.false_wakes > 0 && route == Route::Ring {
            // A wake token that came too late, or a byte of a process that should not have written into the backing
            // pipe.
            handover::clear_strange_bytes(&self.end, ring)?;
        }
        let counted = bell.reader_will_sleep(&parker, &mirror);
        let slept = match counted {
            Ok(()) if !has_bytes(ring) && ring.route() == route => {
                self.end.counters.slept();
                let slept_at = clock::ticks();
                let slept = transfer::sleep_until_readable_unless(self.end.fd(), None, waits.bell, waits.nap);
                self.end.patience.woke(slept_at, bell.rung_at(), ring.writers_cpu());
                Some(slept)
            }
            _ => None,
        };
        bell.reader_woke();
        counted.map_err(broken)?;
        match slept {
            None => Ok(Outcome::TryAgain),
            Some(Ok(ready)) => {
                // In this order, as in `ask_kernel`.
                let (has_bytes, same_route) = (has_bytes(ring), ring.route() == route);
                waits.slept(!has_bytes && ready.readable && route == Route::Ring);
                self.end.patience.found(ring.readable().unwrap_or(0));
                if ready.is_nothing() {
                    self.is_another_reader(ring.waiter(), ring);
                }
                if ready.is_nothing() && segment.give_pages_back(&parker) {
                    self.end.counters.gave_pages_back();
                }
                let is_over = ready.peer_gone && !ready.readable && !has_bytes && same_route;
                Ok(if is_over { Outcome::EndOfStream } else { Outcome::TryAgain })
            }
            Some(Err(Errno::INTR)) if signals::handlers_ask_for_restart() => Ok(Outcome::TryAgain),
            Some(Err(error)) => Err(error.into()),
        }
    }

    pub(super) fn wait_for_bytes(&self, segment: Option<&Segment>, waits: &mut Waits<'_>) -> io::Result<Outcome> {
        match segment {
            Some(segment) => {
                self.decline_offer(segment.ring())?;
                self.wait(segment, waits)
            }
            None if self.end.is_blocking()? => {
                let ready = transfer::sleep_until_readable(self.end.fd(), waits.nap)?;
                waits.slept(false);
                let is_over = ready.peer_gone && !ready.readable;
                Ok(if is_over { Outcome::EndOfStream } else { Outcome::TryAgain })
            }
            None => Err(Errno::AGAIN.into()),
        }
    }

    /// Until no other reader peeks at what waits.
    pub(super) fn wait_for_others(&self, segment: &Segment) -> io::Result<()> {
        let was_interrupted = claim::wait(&self.end, segment.ring(), transfer::Access::Read, self.end.is_blocking()?)?;
        if was_interrupted && !signals::handlers_ask_for_restart() { Err(Errno::INTR.into()) } else { Ok(()) }
    }

    /// Whether another thread sleeps in the backing pipe. A thread that was killed there is forgotten, and so is one
    /// whose number belongs to another program by now. Looks into `/proc`.
    pub(super) fn is_another_reader(&self, sleeper: Option<u32>, ring: &Ring<'_>) -> bool {
        let me = self.end.parker().thread();
        // A signal handler finds its own thread, which takes nothing meanwhile.
        let Some(id) = sleeper.filter(|&id| id != me) else { return false };
        let is_there = futex::life_of(id) != Life::Dead && futex::may_have_mapped(id, memory::SEALABLE_NAME);
        if !is_there {
            ring.forget_waiter(id);
        }
        is_there
    }
}

/// Also true if the ring is broken: the next attempt says so.
#[inline]
fn has_bytes(ring: &Ring<'_>) -> bool {
    // An offer counts only where a reader looks at offers: anywhere else it was forged.
    ring.readable() != Ok(0) || (ring.is_offered() && ring.route() == Route::Ring)
}

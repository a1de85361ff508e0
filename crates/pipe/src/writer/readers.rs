//! What a writer knows of its readers: whether one is left, and which of them wait for bytes.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use millstream_ring::{PIPE_BUF, Ring, Route, WriteSide};
use millstream_sys::{Errno, clock, signals, transfer};

use super::Writer;
use super::stop::Stop;
use crate::mirror::Mirror;
use crate::parking::Parker;
use crate::policy::ASK_EVERY;

impl Writer {
    /// Asks the kernel now and then. A waiting reader gets a wake token, and the kernel takes that only while there
    /// is a reader: in that case the answer is false, and [`Writer::raise_bell`] finds out.
    #[inline]
    pub(crate) fn see_that_a_reader_is_left(&self, ring: &Ring<'_>) -> Result<bool, Stop> {
        if ring.route() == Route::Shadow {
            // There the kernel itself reports it to a writer that finds the stream there still when it has the lock.
            return Ok(false);
        }
        let (now, closes) = (clock::ticks(), ring.closes());
        let is_recent = now.wrapping_sub(self.readers_seen_at.load(Relaxed)) < ASK_EVERY;
        if closes == self.closes_seen.load(Relaxed) {
            if is_recent {
                return Ok(true);
            }
            if ring.route() == Route::Ring && ring.readers_wait_roughly() {
                return Ok(false);
            }
        }
        self.ask_for_readers(now, closes).map(|()| true)
    }

    pub(crate) fn ask_for_readers_now(&self, ring: &Ring<'_>) -> Result<(), Stop> {
        self.ask_for_readers(clock::ticks(), ring.closes())
    }

    #[cold]
    fn ask_for_readers(&self, now: u64, closes: u32) -> Result<(), Stop> {
        if transfer::readiness(self.end.fd())?.peer_gone {
            return Err(Stop::NoReader);
        }
        self.readers_seen_at.store(now, Relaxed);
        self.closes_seen.store(closes, Relaxed);
        Ok(())
    }

    /// The bytes have been written: the next call finds an error that occurs here, except that there was no reader to
    /// write for.
    #[cold]
    pub(crate) fn raise_bell(&self, ring: &Ring<'_>, was_seen: bool) -> Result<(), Stop> {
        let mirror = self.end.readiness_bytes();
        let has_put = ring.bell().raise(&self.end.parker(), &mirror) == Ok(true);
        self.has_rung(ring, &mirror, has_put, was_seen)
    }

    /// As [`raise_bell`](Self::raise_bell), for readers that slept before this write.
    #[cold]
    pub(super) fn call_readers(
        &self,
        ring: &Ring<'_>,
        writers: &WriteSide<'_, Parker<'_>>,
        was_seen: bool,
    ) -> Result<(), Stop> {
        let mirror = self.end.readiness_bytes();
        let has_put = ring.bell().raise_before_unlocking(writers, &self.end.parker(), &mirror) == Ok(true);
        self.has_rung(ring, &mirror, has_put, was_seen)
    }

    fn has_rung(&self, ring: &Ring<'_>, mirror: &Mirror<'_>, has_put: bool, was_seen: bool) -> Result<(), Stop> {
        if mirror.has_lost_readers() {
            return Err(Stop::Error(Errno::PIPE.into()));
        }
        if has_put {
            self.end.counters.woke_peer();
            self.readers_seen_at.store(clock::ticks(), Relaxed);
        } else if !was_seen {
            self.ask_for_readers(clock::ticks(), ring.closes())?;
        }
        Ok(())
    }

    /// Where no reader was to be notified.
    #[inline]
    pub(crate) fn see_unless_seen(&self, ring: &Ring<'_>, was_seen: bool) -> Result<(), Stop> {
        if was_seen { Ok(()) } else { self.ask_for_readers(clock::ticks(), ring.closes()) }
    }

    /// After bytes were committed and the lock was released. The bytes have been written: the next attempt finds that
    /// there was no reader for them.
    #[inline]
    pub(crate) fn tell_readers(&self, ring: &Ring<'_>, room_left: usize, was_seen: bool) -> Result<(), Stop> {
        if ring.readers_wait() || (room_left < PIPE_BUF && ring.bell().is_watched_for_room()) {
            self.raise_bell(ring, was_seen)
        } else {
            self.see_unless_seen(ring, was_seen)
        }
    }

    /// The error of a write that ends. The next write asks for readers again, also if this one has something to return.
    pub(super) fn error_of(&self, stop: Stop) -> io::Error {
        self.readers_seen_at.store(0, Relaxed);
        stop.report()
    }

    /// The error of a call that has to end; none if it goes on by itself after a signal.
    pub(crate) fn give_up(&self, stop: Stop) -> Option<io::Error> {
        let goes_on = matches!(stop, Stop::Interrupted) && signals::handlers_ask_for_restart();
        (!goes_on).then(|| self.error_of(stop))
    }
}

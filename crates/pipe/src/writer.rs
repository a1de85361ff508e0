//! The write end.

use std::io::{self, IoSlice, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use millstream_ring::{PIPE_BUF, Ring, Route, WriteSide};
use millstream_sys::{Errno, clock, cpu, signals, transfer};

use crate::claim::{self, Trust};
use crate::direct::{self, Offered};
use crate::end::{End, broken, enlarge_idle_backing_pipe};
use crate::fifo;
use crate::handover;
use crate::mirror::Mirror;
use crate::parking::Parker;
use crate::policy::{Effort, FIRST_NAP, Look, is_worth, longer};
use crate::segment::Segment;
use crate::statistics::Statistics;

mod copy_from;
mod reservation;
mod shadow;

pub use reservation::Reservation;
use reservation::Reserved;
pub(crate) use shadow::RETURN_EVERY;

/// Between two questions to the kernel whether a reader is left, in TSC cycles. It is 10 to 20 microseconds, less
/// than it takes to learn of another process's death in any other way. A reader that closes tells us itself.
pub(crate) const ASK_EVERY: u64 = 40_000;

/// The write end of a pipe.
///
/// Several handles ([`Writer::try_clone`]), threads (`&Writer` is [`Write`]) and processes (fork) may write.
///
/// # Writing
/// A write of up to [`PIPE_BUF`] bytes is atomic: no other write is mixed with it, and if there is no
/// room for all of it, it sleeps. A larger one may be mixed with others; it sleeps until all of it is written, or, if
/// the end is non-blocking, writes what there is room for. A write of nothing returns 0.
///
/// Errors: [`BrokenPipe`](io::ErrorKind::BrokenPipe) if no reader is left, and the thread is sent SIGPIPE (which Rust
/// programs ignore unless told otherwise); [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room and the end
/// is non-blocking; [`Interrupted`](io::ErrorKind::Interrupted) if a signal handler without `SA_RESTART` ran while it
/// slept; [`Other`](io::ErrorKind::Other) if another process has broken the shared memory; `ENOMEM` or `ENOSPC` if
/// there is no memory for it. If part was written already its count is returned instead, and the error next time.
///
/// Costs one copy, and no system call unless it has to wait or to wake a reader. Besides, it makes a short call at
/// most every 10 microseconds to check whether a reader is left.
///
/// References: `write(2)`, `pipe(7)`.
#[derive(Debug)]
pub struct Writer {
    pub(crate) end: End,
    readers_seen_at: AtomicU64,
    closes_seen: AtomicU32,
    return_tried_at: AtomicU64,
    /// Since a reader was last found asleep in the backing pipe.
    written_to_dozer: AtomicUsize,
    trust: Trust,
    reserved: Reserved,
    /// For what is reserved if the other processes are not trusted.
    private: Vec<u8>,
}

/// What one attempt came to.
enum Attempt<'b> {
    Moved(usize),
    NoRoom,
    /// No room, and so a reader may take it from here.
    Offered(Offered<'b>, bool),
    /// Another writer fills the ring in place.
    Claimed,
}

/// When a sleeping writer is woken.
#[derive(Clone, Copy, Debug)]
enum Woken {
    ForRoom,
    ForRefill,
}

/// Why a write ends early.
pub(crate) enum Stop {
    /// Found by us: the kernel has not sent SIGPIPE.
    NoReader,
    /// A signal handler ran.
    Interrupted,
    Error(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Error(error)
    }
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Stop {
        Stop::Error(error.into())
    }
}

impl Writer {
    pub(crate) fn new(end: End) -> Writer {
        Writer {
            end,
            readers_seen_at: AtomicU64::new(0),
            closes_seen: AtomicU32::new(0),
            return_tried_at: AtomicU64::new(0),
            written_to_dozer: AtomicUsize::new(0),
            trust: Trust::No,
            reserved: Reserved::Nothing,
            private: Vec::new(),
        }
    }

    /// Another handle to the same open end, as [`Reader::try_clone`](crate::Reader::try_clone).
    ///
    /// # Errors
    /// Too many open files (`EMFILE`).
    pub fn try_clone(&self) -> io::Result<Writer> {
        Ok(Writer::new(self.end.try_clone()?).trusting(self.trust.clone()))
    }

    /// As [`Reader::set_nonblocking`](crate::Reader::set_nonblocking), for writing.
    ///
    /// # Errors
    /// None in practice.
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.end.set_nonblocking(yes)
    }

    /// As [`Reader::capacity`](crate::Reader::capacity).
    ///
    /// # Errors
    /// As there.
    pub fn capacity(&self) -> io::Result<usize> {
        self.end.capacity()
    }

    /// As [`Reader::set_capacity`](crate::Reader::set_capacity).
    ///
    /// # Errors
    /// As there.
    pub fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
        self.end.set_capacity(bytes)
    }

    /// Bytes that wait to be read (`FIONREAD`).
    ///
    /// # Errors
    /// As for [`Reader::bytes_readable`](crate::Reader::bytes_readable).
    pub fn bytes_readable(&self) -> io::Result<usize> {
        self.end.bytes_readable()
    }

    /// As [`Reader::has_ring`](crate::Reader::has_ring).
    pub fn has_ring(&self) -> bool {
        self.end.has_ring()
    }

    /// What this handle has done so far.
    pub fn statistics(&self) -> Statistics {
        self.end.statistics()
    }

    /// As [`Reader::readiness`](crate::Reader::readiness): ready for writing when [`PIPE_BUF`] bytes
    /// are free, in error when no reader is left.
    ///
    /// # Errors
    /// As there.
    pub fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(segment) = self.end.segment()? {
            handover::show_readiness(&self.end, segment, transfer::Access::Write)?;
        }
        self.end.keep_to_kernel()?;
        Ok(self.end.fd())
    }

    /// Closes this end and reports bytes that were lost. The last end of this library at a FIFO moves what is left in
    /// shared memory into the FIFO. It waits up to 0.2 s at a time for room.
    ///
    /// # Errors
    /// A sentence with the number of bytes that found no room and are lost. A pipe, and a FIFO without readers, give
    /// no error.
    pub fn close(self) -> io::Result<()> {
        self.end.close()
    }

    /// As [`Reader::into_fd`](crate::Reader::into_fd).
    ///
    /// # Errors
    /// Too many open files; `/proc` is not mounted. The end is closed then.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        handover::give_away(self.end, transfer::Access::Write)
    }

    /// As [`Reader::attach`](crate::Reader::attach), for the write end.
    ///
    /// # Errors
    /// As there; `EBADF` if it is not the write end.
    pub fn attach(fd: OwnedFd) -> io::Result<Writer> {
        handover::attach(fd, transfer::Access::Write).map(Writer::new)
    }

    fn write_all_of(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let total = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
        if total == 0 {
            return Ok(0);
        }
        let Some(segment) = self.end.segment()? else { return self.write_to_kernel(buffers) };
        let (mut done, mut nap, mut is_interrupted) = (0, FIRST_NAP, false);
        while done < total {
            let outcome = match self.attempt(segment, buffers, (done, total), !is_interrupted) {
                Ok(Attempt::Moved(count)) => {
                    done += count;
                    continue;
                }
                Ok(_) if is_interrupted => Err(Stop::Interrupted),
                Ok(Attempt::NoRoom) => match self.wait(segment, (done, total), &mut nap) {
                    // As in the kernel: a signal ends a write that finds no room, but not one that has not looked for
                    // room yet.
                    Err(Stop::Interrupted) if may_go_on(segment.ring(), needed(total)) => {
                        is_interrupted = true;
                        continue;
                    }
                    outcome => outcome,
                },
                Ok(Attempt::Offered(offered, was_seen)) => {
                    let (count, outcome) = self.see_through(segment.ring(), &offered, was_seen);
                    done += count;
                    outcome
                }
                Ok(Attempt::Claimed) => self.wait_for_others(segment),
                Err(stop) => Err(stop),
            };
            let error = match outcome {
                Ok(()) => continue,
                // All of it was taken: a reader that has gone since has nothing to do with this write.
                Err(_) if done == total => {
                    self.readers_seen_at.store(0, Relaxed);
                    return Ok(done);
                }
                // As in the kernel: a call goes on by itself only if it has moved nothing.
                Err(Stop::Interrupted) if done == 0 && signals::handlers_ask_for_restart() => {
                    is_interrupted = false;
                    continue;
                }
                Err(stop) => self.error_of(stop),
            };
            // The bytes have been written: the error can wait, and will be there next time.
            return if done > 0 { Ok(done) } else { Err(error) };
        }
        Ok(done)
    }

    fn error_of(&self, stop: Stop) -> io::Error {
        // Whatever was seen a moment ago: the next write asks again, also if this one has something to return.
        self.readers_seen_at.store(0, Relaxed);
        match stop {
            Stop::Interrupted => Errno::INTR.into(),
            Stop::NoReader => {
                signals::send_sigpipe_to_this_thread();
                Errno::PIPE.into()
            }
            Stop::Error(error) => error,
        }
    }

    #[inline]
    fn attempt<'b>(
        &self,
        segment: &Segment,
        buffers: &'b [IoSlice<'_>],
        (done, total): (usize, usize),
        may_offer: bool,
    ) -> Result<Attempt<'b>, Stop> {
        let (ring, parker) = (segment.ring(), self.end.parker());
        let was_seen = self.see_that_a_reader_is_left(ring)?;
        let writers = ring.lock_writers(&parker).map_err(broken)?;
        if writers.is_claimed() {
            return Ok(Attempt::Claimed);
        }
        match ring.route() {
            Route::Ring => {}
            Route::Shadow if self.wakes_the_ring(ring, &writers, &parker, total - done)? => {
                return Ok(Attempt::Moved(0));
            }
            Route::Shadow if self.should_try_to_return(ring) => {
                drop(writers);
                // Before anything of this write is in the backing pipe: if this very thread is also the reader, no
                // other takes it out meanwhile. This only saves time: what keeps the pipe with the kernel is no
                // reason to fail.
                let _ = handover::return_to_ring(&self.end, segment);
                return Ok(Attempt::Moved(0));
            }
            Route::Shadow => return self.attempt_backing_pipe(ring, &writers, buffers, (done, total)),
            Route::Moving => {
                drop(writers);
                handover::finish_moving(&self.end, segment)?;
                return Ok(Attempt::Moved(0));
            }
        }
        let room = writers.room(total - done).map_err(broken)?;
        if room.len() < needed(total) {
            if may_offer
                && let Some(rest) = unwritten(buffers, done).next()
                && direct::pays(&self.end.pipe.direct, ring, rest.len())
                && let Some(offered) = direct::open(&self.end, ring, &writers, rest)
            {
                return Ok(Attempt::Offered(offered, was_seen));
            }
            drop(writers);
            return self.see_unless_seen(ring, was_seen).map(|()| Attempt::NoRoom);
        }
        segment.populate(room.touches(room.len().min(total - done)))?;
        let count = writers.write(room, unwritten(buffers, done), cpu::current());
        self.end.counters.moved(count);
        let called = ring.readers_wait_roughly().then(|| self.call_readers(ring, &writers, was_seen));
        drop(writers);
        let called = called.unwrap_or_else(|| {
            let fills = room.len() - count < PIPE_BUF && ring.bell().is_watched_for_room();
            if ring.readers_wait() || fills {
                self.raise_bell(ring, was_seen)
            } else {
                self.see_unless_seen(ring, was_seen)
            }
        });
        // Bytes that were read had a reader. If it has gone since, the next write finds that.
        let was_read = || ring.readable().is_ok_and(|left| left < count);
        called.or_else(|stop| if was_read() { Ok(()) } else { Err(stop) })?;
        Ok(Attempt::Moved(count))
    }

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
    fn call_readers(&self, ring: &Ring<'_>, writers: &WriteSide<'_, Parker<'_>>, was_seen: bool) -> Result<(), Stop> {
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

    fn wait(&self, segment: &Segment, (done, total): (usize, usize), nap: &mut Duration) -> Result<(), Stop> {
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
            Route::Ring if self.clears_dead_offer(ring)? => Ok(()),
            _ => Err(Errno::AGAIN.into()),
        }
    }

    /// Whether the offer of a dead process was in the way.
    fn clears_dead_offer(&self, ring: &Ring<'_>) -> io::Result<bool> {
        let is_cleared = ring.is_offered() && direct::drop_if_dead(ring).map_err(broken)?;
        if is_cleared {
            direct::tell_that_nothing_is_offered(&self.end, ring);
        }
        Ok(is_cleared)
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
            *nap = if ring.is_offered() && !self.clears_dead_offer(ring)? { FIRST_NAP } else { longer(*nap) };
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

    fn write_to_kernel(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let _alone = match self.end.link() {
            Ok(link) => return fifo::writing::write(&self.end, link, buffers),
            Err(alone) => alone,
        };
        let count = transfer::write(self.end.fd(), buffers)?;
        self.end.counters.moved_through_kernel(count);
        Ok(count)
    }
}

/// Free bytes without which a write of `total` cannot begin or go on.
pub(crate) fn needed(total: usize) -> usize {
    if total <= PIPE_BUF { total } else { 1 }
}

/// What one call of the kernel takes of what is left of `buffers` after `done` bytes of `total`. `gathered` is filled
/// where they have to be put together.
pub(crate) fn gathered_for_one_call<'b>(
    buffers: &'b [IoSlice<'_>],
    done: usize,
    total: usize,
    gathered: &'b mut Vec<u8>,
) -> Vec<IoSlice<'b>> {
    let mut left: Vec<&[u8]> = unwritten(buffers, done).collect();
    if total <= PIPE_BUF && left.len() > transfer::BUFFERS_MAX {
        // Too many for one call, which alone is atomic.
        *gathered = left.concat();
        left = vec![gathered];
    }
    left.truncate(transfer::BUFFERS_MAX);
    left.into_iter().map(IoSlice::new).collect()
}

/// What is left of `buffers` after `done` bytes.
pub(crate) fn unwritten<'b>(buffers: &'b [IoSlice<'_>], done: usize) -> impl Iterator<Item = &'b [u8]> {
    let left = buffers.iter().scan(done, |done, buffer| {
        let skipped = (*done).min(buffer.len());
        *done -= skipped;
        Some(&buffer[skipped..])
    });
    left.filter(|buffer| !buffer.is_empty())
}

/// Also true if the ring is broken: the next attempt says so.
#[inline]
pub(crate) fn free(ring: &Ring<'_>) -> usize {
    let (capacity, waiting) = (ring.capacity().unwrap_or(0), ring.readable().unwrap_or(0));
    capacity.saturating_sub(waiting)
}

pub(crate) fn has_room(ring: &Ring<'_>, needed: usize) -> bool {
    if ring.is_offered() {
        return false;
    }
    match (ring.capacity(), ring.readable()) {
        (Ok(capacity), Ok(waiting)) => capacity.saturating_sub(waiting) >= needed,
        _ => true,
    }
}

/// Whether a writer that was woken by a signal finds room in the ring.
fn may_go_on(ring: &Ring<'_>, needed: usize) -> bool {
    ring.route() == Route::Ring && has_room(ring, needed)
}

impl Write for &Writer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_all_of(&[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_all_of(buffers)
    }

    /// Does nothing: what is written can be read at once.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

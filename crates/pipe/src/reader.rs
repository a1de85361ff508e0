//! The read end.

use std::io::{self, IoSliceMut, Read};
use std::os::fd::{BorrowedFd, OwnedFd};

use millstream_ring::{Ring, Route};
use millstream_sys::{Errno, clock, cpu, ready, signals, transfer};

use crate::claim::{self, Trust};
use crate::direct;
use crate::end::{End, broken};
use crate::error::PipeErrorKind;
use crate::fifo;
use crate::handover;
use crate::policy::{Effort, Look, is_worth};
use crate::segment::Segment;
use crate::statistics::Statistics;

mod ahead;
mod asleep;
mod borrowed;
mod copy_to;
mod relay;
mod waits;

use ahead::Ahead;
pub use borrowed::Borrowed;
use borrowed::InPlace;
pub(crate) use copy_to::Step;
pub(crate) use waits::Waits;

/// The read end of a pipe.
///
/// Several handles ([`Reader::try_clone`]), threads (`&Reader` is [`Read`]) and processes (fork) may read; each byte
/// goes to one of them.
///
/// # Reading
/// A read returns what waits, up to the size of the buffer. It sleeps while the pipe is empty and a writer is left. It
/// returns 0 when no writer is left and nothing waits, and from then on every time; also for an empty buffer. A writer
/// that was killed counts as closed: what it had written is delivered first.
///
/// Errors: [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing waits and the end is non-blocking;
/// [`Interrupted`](io::ErrorKind::Interrupted) if a signal handler without `SA_RESTART` ran while it slept;
/// [`Other`](io::ErrorKind::Other) if another process has broken the shared memory. No error has consumed a byte.
///
/// Costs one copy, and no system call unless it has to wait or to wake a writer.
///
/// References: `read(2)`, `pipe(7)`.
#[derive(Debug)]
pub struct Reader {
    pub(crate) end: End,
    trust: Trust,
    in_place: Option<InPlace>,
    ahead: Ahead,
}

/// What one attempt came to.
enum Attempt {
    Moved(usize),
    Nothing,
    EndOfStream,
    /// Another process or handle peeks at what waits.
    Claimed,
}

/// What waiting came to.
enum Outcome {
    TryAgain,
    EndOfStream,
}

/// What a spin, before the reader would sleep, came to.
enum Looked {
    Knows(Outcome),
    InVain,
    /// No bytes, but an end was closed, or the route has changed.
    FoundAnotherWorld,
}

impl Reader {
    pub(crate) fn new(end: End) -> Reader {
        Reader { end, trust: Trust::No, in_place: None, ahead: Ahead::default() }
    }

    /// Another handle to the same open end, as `dup(2)` makes it: it shares the non-blocking flag, and the end is
    /// closed when all of them are.
    ///
    /// # Errors
    /// Too many open files (`EMFILE`).
    pub fn try_clone(&self) -> io::Result<Reader> {
        Ok(Reader::new(self.end.try_clone()?).trusting(self.trust.clone()))
    }

    /// Whether reading an empty pipe returns [`WouldBlock`](io::ErrorKind::WouldBlock) instead of sleeping. Holds for
    /// every clone and every process that has inherited this end.
    ///
    /// # Errors
    /// None in practice.
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.end.set_nonblocking(yes)
    }

    /// Bytes that the pipe holds when full: a power of two, at least 4096.
    ///
    /// # Errors
    /// The shared memory cannot be mapped, or was broken by another process.
    pub fn capacity(&self) -> io::Result<usize> {
        self.end.capacity()
    }

    /// Makes the pipe larger or smaller while it is in use; returns its new capacity, which is `bytes` rounded up to a
    /// power of two of at least 4096. Bytes that wait are kept.
    ///
    /// # Errors
    /// As for `F_SETPIPE_SZ` in `fcntl(2)`: `EBUSY` if more bytes wait than it would hold; `EPERM` if it grows beyond
    /// `/proc/sys/fs/pipe-max-size` without `CAP_SYS_RESOURCE`; `EINVAL` above 2 GiB. Also `EPERM`, for every user,
    /// above the larger of two capacities: the setting `capacity_max` ([`settings`](crate::settings), 1 MiB by
    /// default) and the capacity that the pipe was made with. It has no addresses for more. `EPERM` too above the
    /// system's limit for that setting. Too many open files, if a process sleeps at the pipe or polls it and has to
    /// be notified. The capacity is what it was before.
    pub fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
        self.end.set_capacity(bytes)
    }

    /// Bytes that wait to be read (`FIONREAD`).
    ///
    /// # Errors
    /// The shared memory cannot be mapped, or was broken by another process.
    pub fn bytes_readable(&self) -> io::Result<usize> {
        Ok(self.ahead.len() + self.end.bytes_readable()?)
    }

    /// Whether there is shared memory for bytes to go through. Otherwise the kernel alone carries this end. That is
    /// so for a pipe made without [`cloexec`](crate::Builder::cloexec), and for one pipe too many for the settings.
    /// It is so for an end that came from another process and of which no memory was found, and for a FIFO that
    /// shares no ring, or none yet.
    ///
    /// ```
    /// assert!(millstream_pipe::pipe()?.0.has_ring());
    /// assert!(!millstream_pipe::Builder::new().cloexec(false).create()?.0.has_ring());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn has_ring(&self) -> bool {
        self.end.has_ring()
    }

    /// What this handle has done so far.
    pub fn statistics(&self) -> Statistics {
        self.end.statistics()
    }

    /// A descriptor for `poll(2)`, `select(2)`, `epoll(7)` and whatever is built on them: ready exactly when a kernel
    /// pipe's read end would be. For polling only: reading from it would take bytes that mean nothing.
    ///
    /// From the first call on, every change between empty and not empty costs the process that makes it a system
    /// call.
    ///
    /// # Errors
    /// The shared memory cannot be mapped; too many open files; `/proc` is not mounted.
    pub fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(segment) = self.end.segment()? {
            handover::show_readiness(&self.end, segment, transfer::Access::Read)?;
        }
        self.end.keep_to_kernel()?;
        Ok(self.end.fd())
    }

    /// Exports the end, to a program that need not know millstream: a plain descriptor of a kernel pipe. The bytes
    /// that wait have been put there first. It is closed on exec unless it is made standard input or the like:
    ///
    /// ```
    /// use std::io::Write;
    /// use std::process::{Command, Stdio};
    ///
    /// let (reader, mut writer) = millstream_pipe::pipe()?;
    /// writer.write_all(b"one\ntwo\n")?;
    /// let counter = Command::new("wc").arg("-l").stdin(reader.into_fd()?).stdout(Stdio::piped()).spawn()?;
    /// writer.write_all(b"three\n")?;
    /// drop(writer);
    /// assert_eq!(counter.wait_with_output()?.stdout, b"3\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// While such a descriptor is open anywhere the kernel carries the bytes. A program that does know millstream
    /// returns to the ring with [`Reader::attach`].
    ///
    /// # Errors
    /// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) with a [`PipeError`](crate::PipeError): more bytes wait than
    /// the kernel allows this user in a pipe (`ENOBUFS`); read some first.
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) with one: bytes were read ahead for this handle
    /// ([`Reader::buffered`]). Too many open files; `/proc` is not mounted. The end is closed then.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        self.see_that_nothing_is_ahead()?;
        handover::give_away(self.end, transfer::Access::Read)
    }

    /// Takes the read end of any pipe or FIFO: inherited, or received over a Unix socket. The ring carries the bytes
    /// again under three conditions. The end comes from [`Reader::into_fd`] of a process of the same user. That
    /// process still has the other end. No other copy of the descriptor is left. Otherwise the kernel carries them,
    /// and everything works the same.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) with a [`PipeError`](crate::PipeError): no pipe or FIFO
    /// (`EINVAL`), or not its read end (`EBADF`).
    pub fn attach(fd: OwnedFd) -> io::Result<Reader> {
        handover::attach(fd, transfer::Access::Read).map(Reader::new)
    }

    /// Reads as ever, unless it would have to wait and `bell` is readable: then it returns `None`, and nothing was
    /// read. For a program that waits for bytes and for something else, without the cost of
    /// [`readiness`](Self::readiness). Only a reader that sleeps, or is about to, checks `bell`.
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::fd::AsFd;
    ///
    /// let (reader, mut writer) = millstream_pipe::pipe()?;
    /// let (bell, mut notifier) = std::io::pipe()?;
    /// notifier.write_all(b"!")?;
    /// assert_eq!(reader.read_or(&mut [0; 8], bell.as_fd())?, None);
    /// writer.write_all(b"mill")?;
    /// assert_eq!(reader.read_or(&mut [0; 8], bell.as_fd())?, Some(4));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_or(&self, buffer: &mut [u8], bell: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        match self.read_some(&mut [IoSliceMut::new(buffer)], Some(bell)) {
            Err(error) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// With a `bell`, `ECANCELED` says that it is readable.
    fn read_some(&self, buffers: &mut [IoSliceMut<'_>], bell: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let wanted = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
        if wanted == 0 {
            return Ok(0);
        }
        if let Some(count) = self.ahead.take(buffers) {
            return Ok(count);
        }
        let Some(segment) = self.end.segment()? else { return self.read_from_kernel(buffers, bell) };
        let mut waits = Waits::beside(bell);
        if let Some(count) = self.read_if_quiet(segment, buffers, &waits)? {
            return Ok(count);
        }
        if self.end.patience.has_seen_gathering_pay() && segment.ring().reader_has_to_look(wanted) {
            self.gather_if_it_may_wait(segment.ring())?;
        }
        loop {
            match self.attempt(segment, buffers, wanted)? {
                Attempt::Moved(count) => return Ok(count),
                Attempt::EndOfStream => return Ok(0),
                Attempt::Nothing => {}
                Attempt::Claimed => {
                    self.wait_for_others(segment)?;
                    continue;
                }
            }
            let outcome = match self.look_for_bytes(segment.ring(), &waits)? {
                Looked::Knows(outcome) => outcome,
                Looked::InVain => match self.read_asleep(segment, buffers, &waits)? {
                    Some(count) => return Ok(count),
                    None => self.sleep_if_it_may(segment, &mut waits)?,
                },
                Looked::FoundAnotherWorld => self.sleep_if_it_may(segment, &mut waits)?,
            };
            if let Outcome::EndOfStream = outcome {
                return Ok(0);
            }
        }
    }

    #[inline]
    fn attempt(&self, segment: &Segment, buffers: &mut [IoSliceMut<'_>], wanted: usize) -> io::Result<Attempt> {
        let (ring, parker) = (segment.ring(), self.end.parker());
        let readers = ring.lock_readers(&parker).map_err(broken)?;
        if readers.is_claimed() {
            return Ok(Attempt::Claimed);
        }
        let waiting = readers.waiting(wanted).map_err(broken)?;
        match ring.route() {
            Route::Moving => {
                drop(readers);
                handover::finish_moving(&self.end, segment)?;
                return Ok(Attempt::Nothing);
            }
            Route::Ring if waiting.is_empty() => {
                if !ring.is_offered() {
                    return Ok(Attempt::Nothing);
                }
                readers.note_cpu(cpu::current());
                drop(readers);
                return self.attempt_directly(ring, buffers, wanted);
            }
            Route::Shadow if waiting.is_empty() => return self.attempt_backing_pipe(ring, buffers),
            Route::Ring | Route::Shadow => {}
        }
        segment.populate(waiting.touches(wanted.min(waiting.len())))?;
        let count = readers.read(waiting, buffers.iter_mut().map(|buffer| &mut **buffer), cpu::current());
        self.end.counters.moved(count);
        drop(readers);
        let emptied = count == waiting.len();
        if ring.writers_wait() || (emptied && ring.bell().is_watched_for_bytes()) {
            self.lower_bell(ring);
        }
        Ok(Attempt::Moved(count))
    }

    #[cold]
    fn attempt_directly(&self, ring: &Ring<'_>, buffers: &mut [IoSliceMut<'_>], wanted: usize) -> io::Result<Attempt> {
        let (count, is_over) = direct::take(&self.end, ring, buffers, wanted)?;
        if is_over && (ring.writers_wait() || ring.bell().is_watched_for_bytes()) {
            self.lower_bell(ring);
        }
        Ok(if count > 0 { Attempt::Moved(count) } else { Attempt::Nothing })
    }

    /// Makes an offered transfer come through the ring: for a caller that cannot copy from the memory of a writer.
    pub(crate) fn decline_offer(&self, ring: &Ring<'_>) -> io::Result<()> {
        if ring.is_offered()
            && let Some(offer) = ring.next_offer().map_err(broken)?
            && ring.return_offer(&offer)
        {
            self.tell_writers(ring, true);
        }
        Ok(())
    }

    /// With the readers locked: no other participant takes bytes from the backing pipe now.
    fn attempt_backing_pipe(&self, ring: &Ring<'_>, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Attempt> {
        match transfer::read_now(self.end.fd(), &mut filled_by_one_call(buffers)) {
            Ok(0) => Ok(Attempt::EndOfStream),
            Ok(count) => {
                ring.has_taken(count);
                self.end.counters.moved_through_kernel(count);
                Ok(Attempt::Moved(count))
            }
            Err(Errno::AGAIN) => Ok(Attempt::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    fn see_that_nothing_is_ahead(&self) -> io::Result<()> {
        if self.ahead.len() > 0 { Err(PipeErrorKind::BytesReadAhead.into()) } else { Ok(()) }
    }

    /// Until no other reader peeks at what waits.
    fn wait_for_others(&self, segment: &Segment) -> io::Result<()> {
        let was_interrupted = claim::wait(&self.end, segment.ring(), transfer::Access::Read, self.end.is_blocking()?)?;
        if was_interrupted && !signals::handlers_ask_for_restart() { Err(Errno::INTR.into()) } else { Ok(()) }
    }

    /// The bytes have been read: the next call finds an error that occurs here.
    #[cold]
    fn lower_bell(&self, ring: &Ring<'_>) {
        if ring.bell().lower(&self.end.parker(), &self.end.readiness_bytes()) == Ok(true) {
            self.end.counters.woke_peer();
        }
    }

    fn wait(&self, segment: &Segment, waits: &mut Waits<'_>) -> io::Result<Outcome> {
        match self.look_for_bytes(segment.ring(), waits)? {
            Looked::Knows(outcome) => Ok(outcome),
            Looked::InVain | Looked::FoundAnotherWorld => self.sleep_if_it_may(segment, waits),
        }
    }

    /// Waits without sleeping, as long as that pays.
    fn look_for_bytes(&self, ring: &Ring<'_>, waits: &Waits<'_>) -> io::Result<Looked> {
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
            let_gather(&self.end, ring, &mut effort);
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
    fn gather_if_it_may_wait(&self, ring: &Ring<'_>) -> io::Result<()> {
        let mut effort = Effort::default();
        if self.end.was_blocking()? {
            let_gather(&self.end, ring, &mut effort);
        }
        if effort.gathered > 0 {
            self.end.counters.waited(effort);
        }
        Ok(())
    }

    fn sleep_if_it_may(&self, segment: &Segment, waits: &mut Waits<'_>) -> io::Result<Outcome> {
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

    fn read_from_kernel(&self, buffers: &mut [IoSliceMut<'_>], bell: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let _alone = match self.end.link() {
            Ok(link) => return fifo::reading::read(&self.end, link, buffers, bell),
            Err(alone) => alone,
        };
        if let Some(bell) = bell
            && self.end.is_blocking()?
            && ready::either_readable(self.end.fd(), bell)? == [false, true]
        {
            return Err(Errno::CANCELED.into());
        }
        let count = transfer::read(self.end.fd(), &mut filled_by_one_call(buffers))?;
        self.end.counters.moved_through_kernel(count);
        Ok(count)
    }
}

/// As many buffers as the kernel takes at once, without those that are empty.
pub(crate) fn filled_by_one_call<'b>(buffers: &'b mut [IoSliceMut<'_>]) -> Vec<IoSliceMut<'b>> {
    let filled = buffers.iter_mut().filter(|buffer| !buffer.is_empty()).take(transfer::BUFFERS_MAX);
    filled.map(|buffer| IoSliceMut::new(buffer)).collect()
}

/// After a look that found bytes.
pub(crate) fn let_gather(end: &End, ring: &Ring<'_>, effort: &mut Effort) {
    let (waiting, half) = (|| ring.readable().unwrap_or(0), ring.capacity().unwrap_or(0) / 2);
    end.patience.let_gather(ring.writers_cpu(), waiting, half, effort);
}

/// Also true if the ring is broken: the next attempt says so.
#[inline]
pub(crate) fn has_bytes(ring: &Ring<'_>) -> bool {
    // An offer counts only where a reader looks at offers: anywhere else it was forged.
    ring.readable() != Ok(0) || (ring.is_offered() && ring.route() == Route::Ring)
}

impl Read for &Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_some(&mut [IoSliceMut::new(buffer)], None)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_some(buffers, None)
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

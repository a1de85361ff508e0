//! The reading end of a broadcast.

use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use millstream_ring::{Received, Shadow};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, cpu, pipe, signals};

use super::lost::LostError;
use super::segment::Segment;
use crate::error::{PipeErrorKind, broken};
use crate::mirror::{self, Mirror};
use crate::parking::Parker;
use crate::place::{self, Place};
use crate::policy::{Effort, FIRST_NAP, Look, Patience, WaitPolicy, is_worth, longer};
use crate::settings;
use crate::statistics::{Counters, Statistics};

/// The reading end of a broadcast: sees every byte from the moment on at which it was made.
///
/// A read returns what waits, up to the size of the buffer. It sleeps while nothing waits and the writer is left, and
/// returns 0 when the writer is gone, was killed for example, and everything was read. Dropping the reader frees its place.
///
/// Errors: [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing waits and the end is non-blocking;
/// [`Interrupted`](io::ErrorKind::Interrupted) if a signal handler without `SA_RESTART` ran while it slept; an error with
/// [`LostError`] if this reader of a lossy broadcast was too slow; [`Other`](io::ErrorKind::Other) if another process has broken
/// the shared memory.
#[derive(Debug)]
pub struct Reader {
    /// Taken only when the end is closed.
    fd: Option<OwnedFd>,
    segment: Arc<Segment>,
    place: usize,
    counters: Counters,
    patience: Patience,
    is_nonblocking: AtomicBool,
    /// Whether a process polls the backing pipe by itself.
    is_watched: AtomicBool,
    /// Whether bytes may lie in the backing pipe. To be emptied before this end sleeps.
    has_token: AtomicBool,
}

/// What waiting came to.
enum Outcome {
    TryAgain,
    EndOfStream,
}

impl Reader {
    pub(super) fn new(fd: OwnedFd, segment: Arc<Segment>, place: usize, wait: WaitPolicy) -> Reader {
        Reader {
            fd: Some(fd),
            segment,
            place,
            counters: Counters::default(),
            patience: Patience::new(wait),
            is_nonblocking: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            has_token: AtomicBool::new(false),
        }
    }

    /// Whether reading returns [`WouldBlock`](io::ErrorKind::WouldBlock) instead of sleeping.
    pub fn set_nonblocking(&self, yes: bool) {
        self.is_nonblocking.store(yes, Relaxed);
    }

    /// Whether it does.
    pub fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Relaxed)
    }

    /// Bytes that this reader can be behind.
    pub fn capacity(&self) -> usize {
        self.segment.shared().capacity()
    }

    /// Whether this reader loses bytes when it is too slow, instead of holding up the writer.
    pub fn is_lossy(&self) -> bool {
        self.segment.shared().is_lossy()
    }

    /// Bytes that wait to be read, if none of them is lost.
    pub fn bytes_readable(&self) -> usize {
        let waiting = usize::try_from(self.segment.shared().waiting(self.place)).unwrap_or(usize::MAX);
        waiting.min(self.capacity())
    }

    /// What this end has done so far.
    pub fn statistics(&self) -> Statistics {
        self.counters.snapshot()
    }

    /// A descriptor for `poll(2)`, `select(2)` and `epoll(7)`: ready when there is something to read, or the stream is at its
    /// end, or this reader has lost bytes. It may be ready once in vain, so the end should be non-blocking. Only to be
    /// watched: reading from it would take bytes that mean nothing.
    ///
    /// # Errors
    /// Too many open files; `/proc` is not mounted.
    pub fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
        if !self.is_watched.swap(true, Relaxed) {
            let outcome = self.say_that_it_sleeps().and_then(|()| self.keep_token());
            outcome.inspect_err(|_| self.is_watched.store(false, Relaxed))?;
        }
        Ok(self.fd())
    }

    /// Gives the end away: a descriptor for a program that makes a reader of it by [`Reader::attach`], while the writer or
    /// this process lives. To any other program its bytes mean nothing. It is closed on exec unless it is made standard input
    /// or the like.
    ///
    /// # Errors
    /// Too many open files; `/proc` is not mounted. The end is closed then.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        let given = transfer::reopened(self.fd(), Access::Read, self.is_nonblocking())?;
        let at = place::place_of(&self.segment.file, self.segment.found_at);
        place::mark_with_place(&given, Access::Read, at)?;
        Ok(given)
    }

    /// Takes a reader that another process, of the same user, has given away by [`Reader::into_fd`].
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) with a [`PipeError`](crate::PipeError): no reader of a broadcast, or not of one that this
    /// process could share. Too many open files.
    pub fn attach(fd: OwnedFd) -> io::Result<Reader> {
        let identity = pipe::identity(&fd).ok_or(PipeErrorKind::NotAPipe)?;
        if !transfer::is_open_for(&fd, Access::Read)? {
            return Err(PipeErrorKind::NotReadable.into());
        }
        let (segment, place) = find_segment(&fd, identity.inode).ok_or(PipeErrorKind::NotABroadcast)?;
        let is_nonblocking = transfer::is_nonblocking(&fd)?;
        let own = transfer::reopened(&fd, Access::Read, false)?;
        drop(fd);
        let reader = Reader::new(own, Arc::new(segment), place, settings::wait());
        reader.set_nonblocking(is_nonblocking);
        // What has come meanwhile may have left something there.
        reader.has_token.store(true, Relaxed);
        Ok(reader)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("an end has its descriptor until it is closed").as_fd()
    }

    fn parker(&self) -> Parker<'_> {
        Parker::at(self.fd(), &self.counters)
    }

    fn has_bytes(&self) -> bool {
        self.segment.shared().waiting(self.place) != 0
    }

    fn read_some(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Ok(0);
        }
        let mut nap = FIRST_NAP;
        loop {
            match self.attempt(buffers)? {
                Received::Bytes(count) => return Ok(count),
                Received::Lost(bytes) => return Err(LostError { bytes }.into()),
                Received::Nothing => {}
            }
            let outcome = if self.is_nonblocking() {
                self.must_not_sleep()?
            } else if nap == FIRST_NAP && self.look() {
                Outcome::TryAgain
            } else {
                self.sleep(&mut nap)?
            };
            if let Outcome::EndOfStream = outcome {
                return Ok(0);
            }
        }
    }

    #[inline]
    fn attempt(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Received> {
        let (shared, parker) = (self.segment.shared(), self.parker());
        let reader = shared.lock_reader(self.place, &parker).map_err(broken)?;
        let waiting = reader.waiting().map_err(broken)?;
        self.segment.populate(reader.position().saturating_add(waiting))?;
        let targets = buffers.iter_mut().map(|buffer| &mut **buffer);
        let received = reader.read(targets, cpu::current()).map_err(broken)?;
        if let Received::Bytes(count) = received {
            self.counters.moved(count);
        }
        drop(reader);
        if received != Received::Nothing && shared.take_wish(self.place) {
            self.wake_writer();
        }
        if self.is_watched.load(Relaxed) && !self.has_token.load(Relaxed) && self.has_bytes() {
            self.keep_token()?;
        }
        Ok(received)
    }

    /// Takes a page out of the backing pipe, in which the writer waits until there is room for one.
    #[cold]
    fn wake_writer(&self) {
        Mirror::of(self.fd()).take(mirror::BYTES as u32 / 2);
        // What the writer has put there is left in part.
        self.has_token.store(!self.is_watched.load(Relaxed), Relaxed);
        self.counters.woke_peer();
    }

    /// Waits without sleeping, as long as that pays. Returns whether there is something to look at.
    fn look(&self) -> bool {
        let shared = self.segment.shared();
        let closes = shared.closes();
        let mut effort = Effort::default();
        let look = self.patience.look_for_bytes(
            shared.writer_cpu(),
            self.counters.reads(),
            || self.has_bytes() || shared.closes() != closes,
            |ticks| is_worth(self.bytes_readable(), ticks),
            &mut effort,
        );
        self.counters.waited(effort);
        match look {
            Look::Found if self.has_bytes() => {
                self.patience.found(self.bytes_readable());
                true
            }
            Look::KeepLooking => !transfer::readiness(self.fd()).is_ok_and(|ready| ready.peer_gone),
            Look::Found | Look::AskKernel => false,
        }
    }

    /// Empties the backing pipe and says that the writer is to put something there. The caller has to look at the ring after
    /// that.
    fn say_that_it_sleeps(&self) -> io::Result<()> {
        if self.has_token.swap(false, Relaxed) || self.is_watched.load(Relaxed) {
            // More than it holds, in as many calls as it takes.
            while Mirror::of(self.fd()).take(mirror::BYTES as u32) as usize == mirror::BYTES {}
        }
        self.segment.shared().reader_will_sleep(self.place);
        Ok(())
    }

    /// Where a process polls the backing pipe and something waits: puts a byte there if there is none. A writer that has not
    /// seen this end wait has put none.
    #[cold]
    fn keep_token(&self) -> io::Result<()> {
        if self.has_bytes() && transfer::bytes_waiting(self.fd())? == 0 {
            let own = transfer::reopened(self.fd(), Access::Both, true)?;
            Mirror::of(own.as_fd()).put(1);
        }
        self.has_token.store(self.has_bytes(), Relaxed);
        Ok(())
    }

    fn must_not_sleep(&self) -> io::Result<Outcome> {
        // The kernel first, the ring second: a writer that died had written before.
        let ready = transfer::readiness(self.fd())?;
        if self.has_bytes() {
            return Ok(Outcome::TryAgain);
        }
        if ready.peer_gone {
            return Ok(Outcome::EndOfStream);
        }
        if self.is_watched.load(Relaxed) {
            self.say_that_it_sleeps()?;
            if self.has_bytes() {
                return Ok(Outcome::TryAgain);
            }
        } else if ready.readable {
            self.has_token.store(true, Relaxed);
        }
        Err(Errno::AGAIN.into())
    }

    fn sleep(&self, nap: &mut Duration) -> io::Result<Outcome> {
        let shared = self.segment.shared();
        self.say_that_it_sleeps()?;
        let slept = (!self.has_bytes()).then(|| {
            self.counters.slept();
            transfer::sleep_until_readable(self.fd(), *nap)
        });
        // A process that polls by itself sleeps on.
        if !self.is_watched.load(Relaxed) {
            shared.reader_woke(self.place);
        }
        let Some(slept) = slept else { return Ok(Outcome::TryAgain) };
        match slept {
            Ok(ready) => {
                *nap = longer(*nap);
                // A byte that came after the last one was taken, or that the writer meant for itself.
                if ready.readable {
                    self.has_token.store(true, Relaxed);
                }
                // In this order, as in `must_not_sleep`.
                let is_over = ready.peer_gone && !self.has_bytes();
                Ok(if is_over { Outcome::EndOfStream } else { Outcome::TryAgain })
            }
            Err(Errno::INTR) if signals::handlers_ask_for_restart() => Ok(Outcome::TryAgain),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for &Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_some(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_some(buffers)
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

impl Drop for Reader {
    fn drop(&mut self) {
        // First closed, then told: the writer asks the kernel.
        drop(self.fd.take());
        self.segment.shared().note_close();
    }
}

/// Whether this is the end of a backing pipe that was given away, which must not be read as a pipe.
pub(crate) fn is_reader(fd: &OwnedFd, inode: u64) -> bool {
    find_segment(fd, inode).is_some()
}

/// The segment that some mark leads to, if it is a broadcast's, this user's, and has a place for the pipe.
fn find_segment(fd: &OwnedFd, inode: u64) -> Option<(Segment, usize)> {
    if !pipe::is_anonymous(fd).ok()? {
        return None;
    }
    let marked = Place::marked_on(fd, Access::Read)?;
    let segment = Segment::of_peer(marked.open_memory()?, (marked.process, marked.descriptor))?;
    let place = segment.shared().place_of(inode)?;
    Some((segment, place))
}

//! The writing end of a broadcast.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use millstream_ring::{PIPE_BUF, READERS_MAX, RingError, Shadow};
use millstream_sys::{Errno, clock, cpu, fork, pipe, signals, transfer};

use super::reader::Reader;
use super::segment::Segment;
use crate::buffers::unwritten;
use crate::error::broken;
use crate::mirror::{self, Mirror};
use crate::parking::Parker;
use crate::policy::{ASK_EVERY, Effort, FIRST_NAP, Look, Patience, WaitPolicy, is_worth, longer};
use crate::statistics::{Counters, Statistics};
use crate::writer::room::needed;
use crate::writer::stop::Stop;

/// A long write sleeps until this part of the capacity is free, and not for each byte that is.
const REFILLS: usize = 16;

/// The writing end of a broadcast.
///
/// A write copies the bytes once, and returns when all of them are in shared memory; it sleeps until the slowest reader has
/// made room. If the end is non-blocking, a write of more than [`PIPE_BUF`] bytes writes what there is room
/// for, a smaller one all or nothing. A lossy writer never waits.
///
/// Errors: [`BrokenPipe`](io::ErrorKind::BrokenPipe) if no reader is left, and the thread is sent SIGPIPE (which Rust programs
/// ignore unless told otherwise); [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room and the end is non-blocking;
/// [`Interrupted`](io::ErrorKind::Interrupted) if a signal handler without `SA_RESTART` ran while it slept; `ENOMEM` or
/// `ENOSPC` if there is no memory; `ESTALE` in a process whose copy of the writer, from before a fork, does not know a reader
/// that the other copy has added. If part was written already its count is returned instead, and the error next time.
#[derive(Debug)]
pub struct Writer {
    segment: Arc<Segment>,
    /// By place.
    peers: Vec<Option<Peer>>,
    /// Readers added, as far as this copy of the writer knows.
    joins: u32,
    is_nonblocking: bool,
    counters: Counters,
    patience: Patience,
    asked_at: u64,
    closes_seen: u32,
}

/// A reader, as the writer sees it.
#[derive(Debug)]
struct Peer {
    /// The write end of its backing pipe.
    fd: OwnedFd,
    /// Its position when last seen.
    read: u64,
}

/// What one attempt came to.
enum Attempt {
    Moved(usize),
    /// No room until the reader in that place has come so far.
    NoRoom {
        place: usize,
        position: u64,
    },
}

impl Writer {
    pub(super) fn new(segment: Segment, wait: WaitPolicy) -> Writer {
        Writer {
            segment: Arc::new(segment),
            peers: (0..READERS_MAX).map(|_| None).collect(),
            joins: 0,
            is_nonblocking: false,
            counters: Counters::default(),
            patience: Patience::new(wait),
            asked_at: 0,
            closes_seen: 0,
        }
    }

    /// One more reader, which sees what is written from now on. It takes the place of one that has gone, or a free one.
    ///
    /// # Errors
    /// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded): there are 64. `ESTALE`: as for a write. Too many open files.
    pub fn add_reader(&mut self) -> io::Result<Reader> {
        self.forget_readers_that_are_gone()?;
        let Some(place) = self.peers.iter().position(Option::is_none) else {
            let says = format!("the broadcast has {READERS_MAX} readers, which is the most; close one first");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, says));
        };
        let (read_end, write_end) = backing_pipe()?;
        let inode = pipe::identity(&read_end).ok_or(Errno::BADF)?.inode;
        let segment = self.segment.clone();
        let parker = Parker::at(segment.file.as_fd(), &self.counters);
        let locked = segment.shared().lock_writer(&parker).map_err(broken)?;
        check_joins(&segment, self.joins)?;
        locked.add_reader(place, inode);
        let read = locked.position();
        drop(locked);
        self.joins = segment.shared().joins();
        self.peers[place] = Some(Peer { fd: write_end, read });
        Ok(Reader::new(read_end, segment, place, self.patience.policy()))
    }

    /// Readers that are left.
    ///
    /// # Errors
    /// None in practice.
    pub fn readers(&mut self) -> io::Result<usize> {
        self.forget_readers_that_are_gone()?;
        Ok(self.peers.iter().flatten().count())
    }

    /// Whether writing returns [`WouldBlock`](io::ErrorKind::WouldBlock) instead of sleeping.
    pub fn set_nonblocking(&mut self, yes: bool) {
        self.is_nonblocking = yes;
    }

    /// Whether it does.
    pub fn is_nonblocking(&self) -> bool {
        self.is_nonblocking
    }

    /// Bytes that the slowest reader can be behind.
    pub fn capacity(&self) -> usize {
        self.segment.shared().capacity()
    }

    /// Whether slow readers lose bytes, instead of holding up the writer.
    pub fn is_lossy(&self) -> bool {
        self.segment.shared().is_lossy()
    }

    /// What this end has done so far.
    pub fn statistics(&self) -> Statistics {
        self.counters.snapshot()
    }

    fn write_some(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let total = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
        let (mut done, mut nap, mut is_interrupted) = (0, FIRST_NAP, false);
        while done < total {
            let outcome = match self.attempt(buffers, (done, total)) {
                Ok(Attempt::Moved(count)) => {
                    done += count;
                    continue;
                }
                Ok(Attempt::NoRoom { .. }) if is_interrupted => Err(Stop::Interrupted),
                Ok(Attempt::NoRoom { place, position }) => match self.wait(place, position, &mut nap) {
                    // As in the kernel: a signal ends a write that finds no room, not one that has not looked.
                    Err(Stop::Interrupted) => {
                        is_interrupted = true;
                        continue;
                    }
                    outcome => outcome,
                },
                Err(stop) => Err(stop),
            };
            let error = match outcome {
                Ok(()) => continue,
                Err(Stop::Interrupted) if done == 0 && signals::handlers_ask_for_restart() => {
                    is_interrupted = false;
                    continue;
                }
                Err(stop) => stop,
            };
            // What has been written cannot be taken back: the error can wait, for it will be there next time.
            return if done > 0 { Ok(done) } else { Err(error.report()) };
        }
        Ok(done)
    }

    fn attempt(&mut self, buffers: &[IoSlice<'_>], (done, total): (usize, usize)) -> Result<Attempt, Stop> {
        self.see_that_readers_are_left()?;
        let Writer { segment, peers, counters, joins, .. } = self;
        let (shared, left) = (segment.shared(), total - done);
        let parker = Parker::at(segment.file.as_fd(), counters);
        let locked = shared.lock_writer(&parker).map_err(broken)?;
        check_joins(segment, *joins)?;
        let position = locked.position();
        let (room, slowest) = if shared.is_lossy() {
            // Half, so that a reader that keeps up has the other half to read meanwhile.
            (shared.capacity() / 2, 0)
        } else {
            let read_position = |place| locked.read_position(place, position);
            let slowest = slowest(peers, position, left, shared.capacity(), read_position);
            let (read, slowest) = slowest.ok_or(Stop::NoReader)?;
            (shared.capacity() - position.wrapping_sub(read) as usize, slowest)
        };
        if !shared.is_lossy() && room < needed(total) {
            let wished = if total <= PIPE_BUF { total } else { left.min(shared.capacity() / REFILLS) };
            let position = position.wrapping_add(wished as u64).wrapping_sub(shared.capacity() as u64).max(1);
            return Ok(Attempt::NoRoom { place: slowest, position });
        }
        let room = room.min(left);
        segment.populate(position.saturating_add(room as u64))?;
        let count = locked.write(unwritten(buffers, done), room, cpu::current(), shared.reader_cpu(slowest));
        counters.moved(count);
        drop(locked);
        self.wake_readers();
        Ok(Attempt::Moved(count))
    }

    /// Those that sleep. What has been written has been written: a reader that has gone is found by the next write.
    fn wake_readers(&self) {
        let places = self.peers.iter().enumerate().filter(|(_, peer)| peer.is_some()).map(|(place, _)| place);
        self.segment.shared().take_waiters(places, |place| {
            let peer = self.peers[place].as_ref().expect("one of those that are left");
            // One that has gone meanwhile must not end the writer, which has others.
            signals::without_sigpipe(|| Mirror::of(peer.fd.as_fd()).put(1));
            self.counters.woke_peer();
        });
    }

    /// Asks the kernel now and then.
    #[inline]
    fn see_that_readers_are_left(&mut self) -> Result<(), Stop> {
        let (now, closes) = (clock::ticks(), self.segment.shared().closes());
        let is_recent = now.wrapping_sub(self.asked_at) < ASK_EVERY && closes == self.closes_seen;
        if !is_recent {
            (self.asked_at, self.closes_seen) = (now, closes);
            self.forget_readers_that_are_gone()?;
            if self.peers.iter().all(Option::is_none) {
                return Err(Stop::NoReader);
            }
        }
        Ok(())
    }

    #[cold]
    fn forget_readers_that_are_gone(&mut self) -> Result<(), Errno> {
        let ends: Vec<BorrowedFd<'_>> = self.peers.iter().flatten().map(|peer| peer.fd.as_fd()).collect();
        if ends.is_empty() {
            return Ok(());
        }
        // A write end is never readable; what is said of it is that no reader is left.
        let mut gone = loop {
            match fork::wait_readable(&ends, Duration::ZERO) {
                Err(Errno::INTR) => {}
                outcome => break outcome?.into_iter(),
            }
        };
        for peer in self.peers.iter_mut().filter(|peer| peer.is_some()) {
            if gone.next() == Some(true) {
                *peer = None;
            }
        }
        Ok(())
    }

    /// Until a reader has come so far, or has gone.
    fn wait(&mut self, place: usize, position: u64, nap: &mut Duration) -> Result<(), Stop> {
        // Whatever comes of it the next attempt is to know which readers are left.
        self.asked_at = 0;
        if self.is_nonblocking {
            return self.must_not_sleep();
        }
        if *nap == FIRST_NAP && self.look(place, position) {
            return Ok(());
        }
        self.sleep(place, position, nap)
    }

    fn must_not_sleep(&mut self) -> Result<(), Stop> {
        let before = self.peers.iter().flatten().count();
        self.forget_readers_that_are_gone()?;
        match self.peers.iter().flatten().count() {
            0 => Err(Stop::NoReader),
            now if now < before => Ok(()),
            _ => Err(Errno::AGAIN.into()),
        }
    }

    /// Waits without sleeping, as long as that pays. Returns whether it is worth to try again.
    fn look(&self, place: usize, position: u64) -> bool {
        let shared = self.segment.shared();
        let closes = shared.closes();
        let free = || shared.capacity() - usize::try_from(shared.waiting(place)).unwrap_or(0).min(shared.capacity());
        let mut effort = Effort::default();
        let look = self.patience.look_for_much(
            shared.reader_cpu(place),
            || shared.has_reached(place, position) || shared.closes() != closes,
            |ticks| is_worth(free(), ticks),
            &mut effort,
        );
        self.counters.waited(effort);
        match look {
            Look::Found | Look::KeepLooking => true,
            Look::AskKernel => false,
        }
    }

    fn sleep(&mut self, place: usize, position: u64, nap: &mut Duration) -> Result<(), Stop> {
        let shared = self.segment.shared();
        let Some(peer) = &self.peers[place] else { return Ok(()) };
        // Before the wish is stored: a reader that sees it takes out a page of what is there.
        if fill(peer.fd.as_fd()) {
            self.peers[place] = None;
            return Ok(());
        }
        shared.writer_will_sleep(place, position);
        let slept = (!shared.has_reached(place, position)).then(|| {
            self.counters.slept();
            transfer::sleep_until_writable(&peer.fd, *nap)
        });
        shared.writer_woke(place);
        match slept {
            None => Ok(()),
            Some(Ok(ready)) => {
                *nap = longer(*nap);
                if ready.peer_gone {
                    self.peers[place] = None;
                }
                Ok(())
            }
            Some(Err(Errno::INTR)) => Err(Stop::Interrupted),
            Some(Err(error)) => Err(error.into()),
        }
    }
}

/// A backing pipe of two pages, read end first.
fn backing_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (reader, writer) = pipe::create()?;
    if pipe::capacity(&writer)? != mirror::BYTES {
        pipe::set_capacity(&writer, mirror::BYTES)?;
    }
    Ok((reader, writer))
}

/// A reader that another copy of this writer has added would be overwritten, and not be woken.
fn check_joins(segment: &Segment, joins: u32) -> Result<(), Errno> {
    if segment.shared().joins() == joins { Ok(()) } else { Err(Errno::STALE) }
}

/// The lowest read position, and its reader; `None` if none is left. The readers' words are looked at only where what was last
/// seen leaves no room for `left` bytes; a reader whose words are not possible is cut off.
fn slowest(
    peers: &mut [Option<Peer>],
    position: u64,
    left: usize,
    capacity: usize,
    read_position: impl Fn(usize) -> Result<u64, RingError>,
) -> Option<(u64, usize)> {
    let behind = |peer: &Peer| position.wrapping_sub(peer.read);
    let furthest = |peers: &[Option<Peer>]| {
        let left = peers.iter().enumerate().filter_map(|(place, peer)| Some((peer.as_ref()?, place)));
        left.max_by_key(|(peer, _)| behind(peer)).map(|(peer, place)| (peer.read, place))
    };
    let (read, place) = furthest(peers)?;
    let has_room = position.wrapping_sub(read).checked_add(left as u64).is_some_and(|sum| sum <= capacity as u64);
    if has_room {
        return Some((read, place));
    }
    for (place, slot) in peers.iter_mut().enumerate() {
        if let Some(peer) = slot {
            match read_position(place) {
                Ok(read) => peer.read = read,
                Err(RingError) => *slot = None,
            }
        }
    }
    furthest(peers)
}

/// Fills a backing pipe, so that there is no room before its reader makes some. Returns whether that has gone.
fn fill(pipe: BorrowedFd<'_>) -> bool {
    let mirror = Mirror::of(pipe);
    signals::without_sigpipe(|| while mirror.put(mirror::BYTES as u32 / 2) > 0 {});
    mirror.has_lost_readers()
}

impl Write for Writer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_some(&[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_some(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // First closed, then told: readers ask the kernel.
        self.peers.clear();
        self.segment.shared().note_close();
    }
}

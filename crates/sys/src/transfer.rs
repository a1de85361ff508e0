//! Transfers through a kernel pipe that never sleep, and sleeps until bytes can be moved.
#![allow(unsafe_code)]

use core::time::Duration;
use std::io::{IoSlice, IoSliceMut};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::ReadWriteFlags;

use crate::Errno;

/// What `poll(2)` says of one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Bytes wait (`POLLIN`).
    pub readable: bool,
    /// There is room for a page (`POLLOUT`).
    pub writable: bool,
    /// The other end is closed (`POLLHUP` for a reader, `POLLERR` for a writer).
    pub peer_gone: bool,
}

impl Readiness {
    /// Whether there is no event: after a sleep, it reached its timeout.
    pub fn is_nothing(self) -> bool {
        self == Readiness::default()
    }

    fn of(events: PollFlags) -> Readiness {
        Readiness {
            readable: events.contains(PollFlags::IN),
            writable: events.contains(PollFlags::OUT),
            peer_gone: events.intersects(PollFlags::HUP | PollFlags::ERR),
        }
    }
}

/// What `end` is ready for now.
///
/// # Errors
/// `EBADF`: not open. `ENOMEM`.
pub fn readiness(end: impl AsFd) -> Result<Readiness, Errno> {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A pending signal interrupts the call, though it does not wait.
    rustix::io::retry_on_intr(|| polled(&end, PollFlags::IN | PollFlags::OUT, Some(&at_once)))
}

/// Sleeps until there are bytes to read, no writer is left, or `limit` has passed.
///
/// # Errors
/// `EINTR`: a signal handler ran.
pub fn sleep_until_readable(end: impl AsFd, limit: Duration) -> Result<Readiness, Errno> {
    polled(end, PollFlags::IN, Timespec::try_from(limit).ok().as_ref())
}

/// Sleeps until there is room for a page, no reader is left, or `limit` has passed.
///
/// # Errors
/// `EINTR`: a signal handler ran.
pub fn sleep_until_writable(end: impl AsFd, limit: Duration) -> Result<Readiness, Errno> {
    polled(end, PollFlags::OUT, Timespec::try_from(limit).ok().as_ref())
}

/// Sleeps until there are bytes to read at `end`, no writer is left there, `bell` can be read, or `limit` has passed.
/// The result describes `end`.
///
/// # Errors
/// `EINTR`: a signal handler ran.
pub fn sleep_until_readable_or_rung(end: impl AsFd, bell: impl AsFd, limit: Duration) -> Result<Readiness, Errno> {
    polled_both((&end, PollFlags::IN), (&bell, PollFlags::IN), limit)
}

/// As [`sleep_until_readable`], or with a `bell` as [`sleep_until_readable_or_rung`]. But it fails if `other` can be
/// read and there is no event at `end` or `bell`.
///
/// # Errors
/// `ECANCELED`: `other` can be read. `EINTR`: a signal handler ran.
pub fn sleep_until_readable_unless(
    end: impl AsFd,
    bell: Option<BorrowedFd<'_>>,
    other: Option<BorrowedFd<'_>>,
    limit: Duration,
) -> Result<Readiness, Errno> {
    let Some(other) = other else {
        return match bell {
            Some(bell) => sleep_until_readable_or_rung(end, bell, limit),
            None => sleep_until_readable(end, limit),
        };
    };
    let end = end.as_fd();
    // Polling `end` twice is harmless.
    let mut polled = [end, bell.unwrap_or(end), other].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    poll(&mut polled, Timespec::try_from(limit).ok().as_ref())?;
    match polled.map(|fd| fd.revents()) {
        [events, ..] if events.contains(PollFlags::NVAL) => Err(Errno::BADF),
        [events, bell, other] if events.is_empty() && bell.is_empty() && !other.is_empty() => Err(Errno::CANCELED),
        [events, ..] => Ok(Readiness::of(events)),
    }
}

/// Sleeps until no reader is left at `end`, there is room in `bell`, or `limit` has passed. The result describes `end`.
///
/// # Errors
/// `EINTR`: a signal handler ran.
pub fn sleep_until_lonely_or_rung(end: impl AsFd, bell: impl AsFd, limit: Duration) -> Result<Readiness, Errno> {
    polled_both((&end, PollFlags::empty()), (&bell, PollFlags::OUT), limit)
}

fn polled_both(
    (end, events): (&impl AsFd, PollFlags),
    (bell, rings): (&impl AsFd, PollFlags),
    limit: Duration,
) -> Result<Readiness, Errno> {
    let mut polled = [PollFd::new(end, events), PollFd::new(bell, rings)];
    poll(&mut polled, Timespec::try_from(limit).ok().as_ref())?;
    match polled[0].revents() {
        events if events.contains(PollFlags::NVAL) => Err(Errno::BADF),
        events => Ok(Readiness::of(events)),
    }
}

fn polled(end: impl AsFd, events: PollFlags, limit: Option<&Timespec>) -> Result<Readiness, Errno> {
    let mut polled = [PollFd::new(&end, events)];
    poll(&mut polled, limit)?;
    match polled[0].revents() {
        events if events.contains(PollFlags::NVAL) => Err(Errno::BADF),
        events => Ok(Readiness::of(events)),
    }
}

/// Reads the bytes that wait; 0 if none wait and no writer is left.
///
/// # Errors
/// `EAGAIN`: nothing waits.
pub fn read_now(end: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    match rustix::io::preadv2(&end, buffers, CURRENT_POSITION, ReadWriteFlags::NOWAIT) {
        // A non-blocking open file description of our own: another reader may take the bytes before this call does.
        Err(Errno::OPNOTSUPP) => rustix::io::readv(reopened(end, Access::Read, true)?, buffers),
        outcome => outcome,
    }
}

/// Writes what there is room for: all or nothing up to `PIPE_BUF` bytes.
///
/// # Errors
/// `EAGAIN`: there is no room. `EPIPE`: no reader is left; the kernel sent the thread SIGPIPE too.
pub fn write_now(end: impl AsFd, buffers: &[IoSlice<'_>]) -> Result<usize, Errno> {
    match rustix::io::pwritev2(&end, buffers, CURRENT_POSITION, ReadWriteFlags::NOWAIT) {
        Err(Errno::OPNOTSUPP) => match reopened(&end, Access::Write, true) {
            Ok(own) => rustix::io::writev(own, buffers),
            // Without a reader it cannot be opened. Writing to `end` returns `EPIPE` and sends SIGPIPE.
            Err(Errno::NXIO) => rustix::io::writev(end, buffers),
            Err(error) => Err(error),
        },
        outcome => outcome,
    }
}

/// `readv(2)`.
///
/// # Errors
/// Those of `read(2)`.
pub fn read(end: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    rustix::io::readv(end, buffers)
}

/// `read(2)`.
///
/// # Errors
/// Those of `read(2)`.
pub fn read_one(end: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::io::read(end, buffer)
}

/// `write(2)`.
///
/// # Errors
/// Those of `write(2)`.
pub fn write_one(end: impl AsFd, buffer: &[u8]) -> Result<usize, Errno> {
    rustix::io::write(end, buffer)
}

/// `writev(2)`.
///
/// # Errors
/// Those of `write(2)`.
pub fn write(end: impl AsFd, buffers: &[IoSlice<'_>]) -> Result<usize, Errno> {
    rustix::io::writev(end, buffers)
}

/// Buffers that one call can take (`IOV_MAX`, `readv(2)`).
pub const BUFFERS_MAX: usize = 1024;

/// Asks `preadv2(2)` to read as `read(2)` does: a pipe has no positions.
const CURRENT_POSITION: u64 = u64::MAX;

/// Bytes that wait in the pipe (`FIONREAD`).
///
/// # Errors
/// `EBADF`: not open.
pub fn bytes_waiting(end: impl AsFd) -> Result<usize, Errno> {
    rustix::io::ioctl_fionread(end).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// How the same pipe is opened once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The read end.
    Read,
    /// The write end.
    Write,
    /// Both: while it is open neither end sees the other gone.
    Both,
}

impl Access {
    pub(crate) fn flags(self) -> OFlags {
        match self {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::WRONLY,
            Access::Both => OFlags::RDWR,
        }
    }
}

/// Opens the pipe behind `end` once more: an open file description of its own, closed on exec, with its own flags.
///
/// # Errors
/// `ENOENT`: `/proc` is not mounted. `EACCES`: the pipe belongs to another user. `EMFILE`, `ENFILE`.
pub fn reopened(end: impl AsFd, access: Access, nonblocking: bool) -> Result<OwnedFd, Errno> {
    use std::os::fd::AsRawFd;
    let mut flags = OFlags::CLOEXEC | if nonblocking { OFlags::NONBLOCK } else { OFlags::empty() };
    flags |= access.flags();
    rustix::fs::open(std::format!("/proc/self/fd/{}", end.as_fd().as_raw_fd()), flags, Mode::empty())
}

/// Whether `end` is open for `access`, or for more.
///
/// # Errors
/// `EBADF`: not open.
pub fn is_open_for(end: impl AsFd, access: Access) -> Result<bool, Errno> {
    let mode = rustix::fs::fcntl_getfl(end)? & OFlags::RWMODE;
    Ok(match access {
        Access::Read => mode == OFlags::RDONLY || mode == OFlags::RDWR,
        Access::Write => mode == OFlags::WRONLY || mode == OFlags::RDWR,
        Access::Both => mode == OFlags::RDWR,
    })
}

/// Whether the process may open the pipe behind `end` for both sides. Opens nothing.
pub fn may_open_both(end: impl AsFd) -> bool {
    use std::os::fd::AsRawFd;
    let path = std::format!("/proc/self/fd/{}", end.as_fd().as_raw_fd());
    let wanted = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    rustix::fs::accessat(rustix::fs::CWD, path, wanted, rustix::fs::AtFlags::EACCESS).is_ok()
}

/// Whether reads and writes through `end` return `EAGAIN` instead of blocking.
///
/// # Errors
/// `EBADF`: not open.
pub fn is_nonblocking(end: impl AsFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fcntl_getfl(end)?.contains(OFlags::NONBLOCK))
}

/// Sets or clears that, for every descriptor of the same open file description.
///
/// # Errors
/// `EBADF`: not open.
pub fn set_nonblocking(end: impl AsFd, yes: bool) -> Result<(), Errno> {
    let mut flags = rustix::fs::fcntl_getfl(&end)?;
    flags.set(OFlags::NONBLOCK, yes);
    rustix::fs::fcntl_setfl(end, flags)
}

/// A byte of the pipe that one open file description has locked, as long as that is open in any process.
///
/// Every holder of the pipe can see such a lock. The kernel drops it with the last descriptor of the open file
/// description: no process has to be alive to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

/// Puts a mark on `end`: a position below 2^63.
///
/// # Errors
/// `EAGAIN`: another writing description has the same mark. `ENOLCK`.
pub fn mark(end: impl AsFd, Mark(position): Mark) -> Result<(), Errno> {
    let writable = crate::pipe::is_writable(&end)?;
    let kind = if writable { libc::F_WRLCK } else { libc::F_RDLCK };
    lock(end, libc::F_OFD_SETLK, kind, position, 1).map(drop)
}

/// Removes a mark of `end`.
///
/// # Errors
/// `EBADF`: not open.
pub fn unmark(end: impl AsFd, Mark(position): Mark) -> Result<(), Errno> {
    lock(end, libc::F_OFD_SETLK, libc::F_UNLCK, position, 1).map(drop)
}

/// Puts a mark on any file that is open for reading and writing. Several descriptions may have the same.
///
/// # Errors
/// `EBADF`: not open for reading. `ENOLCK`.
pub fn mark_together(file: impl AsFd, Mark(position): Mark) -> Result<(), Errno> {
    lock(file, libc::F_OFD_SETLK, libc::F_RDLCK, position, 1).map(drop)
}

/// Whether another open file description of the file has that mark.
///
/// # Errors
/// `EBADF`: not open.
pub fn is_marked(file: impl AsFd, Mark(position): Mark) -> Result<bool, Errno> {
    lock(file, libc::F_OFD_GETLK, libc::F_WRLCK, position, 1).map(|found| is_locked(&found))
}

/// Some mark on the pipe that is not on `end` itself.
///
/// # Errors
/// `EBADF`: not open.
pub fn any_mark(end: impl AsFd) -> Result<Option<Mark>, Errno> {
    let found = lock(end, libc::F_OFD_GETLK, libc::F_WRLCK, 0, 0)?;
    Ok(is_locked(&found).then(|| Mark(u64::try_from(found.l_start).unwrap_or(0))))
}

/// Some mark below `end_of_range` that is not on `end` itself.
///
/// # Errors
/// `EBADF`: not open. `EINVAL`: not above 0.
pub fn any_mark_below(end: impl AsFd, Mark(end_of_range): Mark) -> Result<Option<Mark>, Errno> {
    let found = lock(end, libc::F_OFD_GETLK, libc::F_WRLCK, 0, end_of_range.cast_signed())?;
    Ok(is_locked(&found).then(|| Mark(u64::try_from(found.l_start).unwrap_or(0))))
}

/// At most `limit` marks on the pipe that are not on `end` itself.
///
/// # Errors
/// `EBADF`: not open.
pub fn marks(end: impl AsFd, limit: usize) -> Result<std::vec::Vec<Mark>, Errno> {
    marks_from(end, Mark(0), None, limit)
}

/// At most `limit` marks from `first` on, below `end_of_range` if that is given, that are not on `end` itself.
///
/// # Errors
/// `EBADF`: not open.
pub fn marks_from(
    end: impl AsFd,
    Mark(first): Mark,
    end_of_range: Option<Mark>,
    limit: usize,
) -> Result<std::vec::Vec<Mark>, Errno> {
    let mut found = std::vec::Vec::new();
    // Ranges still to be searched: the kernel names any one of the marks in a range. Length 0 is all the rest.
    let len = end_of_range.map_or(0, |Mark(position)| position.saturating_sub(first));
    let mut ranges = std::vec![(first, len.cast_signed())];
    while let Some((start, len)) = ranges.pop()
        && found.len() < limit
    {
        let lock = lock(&end, libc::F_OFD_GETLK, libc::F_WRLCK, start, len)?;
        if !is_locked(&lock) {
            continue;
        }
        let at = u64::try_from(lock.l_start).unwrap_or(0).max(start);
        // The lock of another program may have any length.
        let past = match lock.l_len {
            0 => None,
            _ => u64::try_from(lock.l_start + lock.l_len).ok(),
        };
        found.push(Mark(at));
        let end_of_range = start + len.unsigned_abs();
        if let Some(past) = past
            && (len == 0 || past < end_of_range)
        {
            ranges.push((past, if len == 0 { 0 } else { (end_of_range - past).cast_signed() }));
        }
        if at > start {
            ranges.push((start, (at - start).cast_signed()));
        }
    }
    Ok(found)
}

/// Locks the pipe exclusively for the open file description of `end` (`flock(2)`), if no other one has locked it.
///
/// # Errors
/// `EAGAIN`: another one has locked it.
pub fn try_lock_whole(end: impl AsFd) -> Result<(), Errno> {
    rustix::fs::flock(end, rustix::fs::FlockOperation::NonBlockingLockExclusive)
}

/// Locks the pipe for the open file description of `end`, shared with any number of others, if none has locked it
/// exclusively. An exclusive lock of `end` becomes shared. Conversely, `end` loses a shared lock when
/// [`try_lock_whole`] refuses.
///
/// # Errors
/// `EAGAIN`: another one has locked it exclusively.
pub fn try_share_whole(end: impl AsFd) -> Result<(), Errno> {
    rustix::fs::flock(end, rustix::fs::FlockOperation::NonBlockingLockShared)
}

/// Removes that lock.
///
/// # Errors
/// `EBADF`: not open.
pub fn unlock_whole(end: impl AsFd) -> Result<(), Errno> {
    rustix::fs::flock(end, rustix::fs::FlockOperation::Unlock)
}

/// One of the calls on byte ranges of a file: what the kernel answers.
pub(crate) fn lock(end: impl AsFd, command: i32, kind: i32, start: u64, len: i64) -> Result<libc::flock, Errno> {
    use std::os::fd::AsRawFd;
    // SAFETY: a structure of integers, for which zero is valid.
    let mut lock: libc::flock = unsafe { core::mem::zeroed() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = i64::try_from(start).map_err(|_| Errno::INVAL)?;
    lock.l_len = len;
    // SAFETY: the kernel reads and writes one `flock`.
    let result = unsafe { libc::fcntl(end.as_fd().as_raw_fd(), command, &raw mut lock) };
    match result {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(lock),
    }
}

/// Whether the kernel found a conflicting lock.
pub(crate) fn is_locked(found: &libc::flock) -> bool {
    i32::from(found.l_type) != libc::F_UNLCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe;

    #[test]
    fn transfer_on_empty_or_full_pipe_does_not_sleep() {
        let (reader, writer) = pipe::create().unwrap();
        let mut bytes = [0; 10];
        assert_eq!(read_now(&reader, &mut [IoSliceMut::new(&mut bytes)]), Err(Errno::AGAIN));
        assert_eq!(write_now(&writer, &[IoSlice::new(&[1; 65_536])]), Ok(65_536));
        assert_eq!(write_now(&writer, &[IoSlice::new(&[1])]), Err(Errno::AGAIN));
        assert_eq!(bytes_waiting(&writer), Ok(65_536));
    }

    #[test]
    fn reopened_pipe_without_nowait_does_not_sleep() {
        let (reader, writer) = pipe::create().unwrap();
        let (reader, writer) =
            (reopened(&reader, Access::Read, false).unwrap(), reopened(&writer, Access::Write, false).unwrap());
        let mut bytes = [0; 10];
        assert_eq!(read_now(&reader, &mut [IoSliceMut::new(&mut bytes)]), Err(Errno::AGAIN));
        assert_eq!(write_now(&writer, &[IoSlice::new(&[1; 70_000])]), Ok(65_536));
        assert_eq!(write_now(&writer, &[IoSlice::new(&[1; 5000])]), Err(Errno::AGAIN));
        assert_eq!(read_now(&reader, &mut [IoSliceMut::new(&mut bytes)]), Ok(10));
    }

    #[test]
    fn mark_is_seen_by_others_and_ends_with_its_description() {
        let _guard = crate::children::none();
        let (reader, writer) = pipe::create().unwrap();
        for (end, access) in [(&reader, Access::Read), (&writer, Access::Write)] {
            let marked = reopened(end, access, false).unwrap();
            mark(&marked, Mark(123_456_789_012_345)).unwrap();
            assert_eq!(any_mark(&reader), Ok(Some(Mark(123_456_789_012_345))));
            assert_eq!(any_mark(&writer), Ok(Some(Mark(123_456_789_012_345))));
            assert_eq!(any_mark(&marked), Ok(None), "its own");
            let copy = marked.try_clone().unwrap();
            drop(marked);
            assert!(any_mark(&reader).unwrap().is_some(), "a descriptor of it is still open");
            drop(copy);
            assert_eq!(any_mark(&reader), Ok(None));
            let marked = reopened(end, access, false).unwrap();
            mark(&marked, Mark(5)).unwrap();
            unmark(&marked, Mark(5)).unwrap();
            assert_eq!(any_mark(&reader), Ok(None));
        }
    }

    #[test]
    fn every_mark_is_found_whatever_lies_between() {
        let _guard = crate::children::none();
        let (reader, writer) = pipe::create().unwrap();
        let places = [0, 1, 2, 77, 1 << 40, (1 << 62) + 5, (1 << 63) - 2];
        let marked: std::vec::Vec<_> = places.iter().map(|_| reopened(&writer, Access::Write, true).unwrap()).collect();
        for (end, &place) in marked.iter().zip(&places).rev() {
            mark(end, Mark(place)).unwrap();
        }
        let mut found: std::vec::Vec<_> = marks(&reader, 100).unwrap().iter().map(|mark| mark.0).collect();
        found.sort_unstable();
        assert_eq!(found, places);
        assert_eq!(marks(&reader, 3).unwrap().len(), 3);
        assert_eq!(any_mark_below(&reader, Mark(2)).map(|mark| mark.is_some()), Ok(true));
        assert_eq!(any_mark_below(&marked[0], Mark(1)), Ok(None));
        assert_eq!(marks(&marked[3], 100).unwrap().len(), places.len() - 1, "its own it does not see");
        drop(marked);
        assert!(marks(&reader, 100).unwrap().is_empty());
    }

    #[test]
    fn pipe_is_locked_by_one_description() {
        let (reader, writer) = pipe::create().unwrap();
        try_lock_whole(&reader).unwrap();
        assert_eq!(try_lock_whole(&writer), Err(Errno::AGAIN));
        unlock_whole(&reader).unwrap();
        try_lock_whole(&writer).unwrap();
    }

    #[test]
    fn readiness_tells_data_room_and_lost_peer_apart() {
        let _guard = crate::children::none();
        let (reader, writer) = pipe::create().unwrap();
        assert_eq!(readiness(&writer), Ok(Readiness { writable: true, ..Readiness::default() }));
        assert_eq!(readiness(&reader), Ok(Readiness::default()));
        rustix::io::write(&writer, b"x").unwrap();
        drop(writer);
        assert_eq!(readiness(&reader), Ok(Readiness { readable: true, peer_gone: true, writable: false }));
    }
}

//! Descriptors that other processes share: what they refer to, and transfers between them and memory that is no slice.
//!
//! Nothing here changes such a descriptor: its flags belong to the other processes too.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::pipe::SpliceFlags;

use crate::Errno;
use crate::process::last_errno;
use crate::transfer::Access;

/// What a descriptor refers to, as far as this decides how long a call on it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, a block device, or memory that looks like a device (`/dev/null`, `/dev/zero`): a call waits for a
    /// disk at most, never for another process.
    File,
    /// A socket.
    Socket,
    /// A pipe or FIFO.
    Pipe,
    /// A terminal, but not the master of a pseudo-terminal, which cannot be opened once more.
    Terminal,
    /// Anything else.
    Other,
}

/// The major number of `/dev/null` and its relatives (`admin-guide/devices.txt` of the kernel).
const MEMORY_DEVICES: u32 = 1;

/// What `fd` refers to.
///
/// # Errors
/// `EBADF`: not open.
pub fn kind(fd: impl AsFd) -> Result<Kind, Errno> {
    let status = rustix::fs::fstat(&fd)?;
    Ok(match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile | FileType::BlockDevice => Kind::File,
        FileType::Socket => Kind::Socket,
        FileType::Fifo => Kind::Pipe,
        FileType::CharacterDevice if rustix::fs::major(status.st_rdev) == MEMORY_DEVICES => Kind::File,
        FileType::CharacterDevice if is_terminal(fd.as_fd()) => Kind::Terminal,
        _ => Kind::Other,
    })
}

fn is_terminal(fd: BorrowedFd<'_>) -> bool {
    let mut number: libc::c_int = 0;
    // SAFETY: the first call takes a number; the second writes one integer, and only for a master.
    unsafe { libc::isatty(fd.as_raw_fd()) == 1 && libc::ioctl(fd.as_raw_fd(), libc::TIOCGPTN, &raw mut number) != 0 }
}

/// Opens the file behind `fd` once more, with a non-blocking open file description of its own.
///
/// # Errors
/// `ENOENT`: `/proc` is not mounted. `EACCES`: it belongs to another user. `EMFILE`, `ENFILE`.
pub fn reopened_nonblocking(fd: impl AsFd, access: Access) -> Result<OwnedFd, Errno> {
    let mode = match access {
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::WRONLY,
        Access::Both => OFlags::RDWR,
    };
    let path = std::format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    rustix::fs::open(path, mode | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
}

/// Memory in at most two ranges: where each begins, and its length. Other processes may change it at any time.
pub type Memory = [(NonNull<u8>, usize); 2];

/// How a call that moves bytes is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `readv(2)`, `writev(2)`: sleeps if the description is blocking.
    Plain,
    /// `preadv2(2)`, `pwritev2(2)` with `RWF_NOWAIT` at the current position: never sleeps.
    NoWait,
    /// `recvmsg(2)`, `sendmsg(2)` with `MSG_DONTWAIT` and without SIGPIPE: never sleeps.
    Message,
}

/// Writes what `memory` holds to `fd`; returns how many bytes it took.
///
/// # Errors
/// Those of the call. `EOPNOTSUPP`: `fd` knows no [`Call::NoWait`].
///
/// # Safety
/// The memory is mapped for reading.
pub unsafe fn write_from(fd: impl AsFd, memory: Memory, call: Call) -> Result<usize, Errno> {
    let (fd, parts) = (fd.as_fd().as_raw_fd(), parts(memory));
    let (start, count) = (parts.as_ptr(), parts.len() as libc::c_int);
    // SAFETY: two parts, which live for the call; the kernel reads what they name, by the caller's promise.
    let written = unsafe {
        match call {
            Call::Plain => libc::writev(fd, start, count),
            Call::NoWait => libc::pwritev2(fd, start, count, CURRENT_POSITION, libc::RWF_NOWAIT),
            Call::Message => libc::sendmsg(fd, &message(&parts), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL),
        }
    };
    usize::try_from(written).map_err(|_| last_errno())
}

/// Reads from `fd` into `memory`; returns how many bytes came: 0 at the end.
///
/// # Errors
/// Those of the call. `EOPNOTSUPP`: `fd` knows no [`Call::NoWait`].
///
/// # Safety
/// The memory is mapped for writing, and no reference to it exists.
pub unsafe fn read_to(fd: impl AsFd, memory: Memory, call: Call) -> Result<usize, Errno> {
    let (fd, parts) = (fd.as_fd().as_raw_fd(), parts(memory));
    let (start, count) = (parts.as_ptr(), parts.len() as libc::c_int);
    // SAFETY: two parts, which live for the call; the kernel writes to what they name, by the caller's promise.
    let read = unsafe {
        match call {
            Call::Plain => libc::readv(fd, start, count),
            Call::NoWait => libc::preadv2(fd, start, count, CURRENT_POSITION, libc::RWF_NOWAIT),
            Call::Message => libc::recvmsg(fd, &mut message(&parts), libc::MSG_DONTWAIT),
        }
    };
    usize::try_from(read).map_err(|_| last_errno())
}

/// Asks `preadv2(2)` to go on where the last call ended, as `read(2)` does.
const CURRENT_POSITION: libc::off_t = -1;

fn parts(memory: Memory) -> [libc::iovec; 2] {
    memory.map(|(start, len)| libc::iovec { iov_base: start.as_ptr().cast(), iov_len: len })
}

fn message(parts: &[libc::iovec; 2]) -> libc::msghdr {
    // SAFETY: integers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len() as _;
    message
}

/// `splice(2)` between a pipe and any file, at the current position of that. Never waits for the pipe; waits for the
/// other file if that is blocking and not ready.
///
/// # Errors
/// `EAGAIN`: the pipe is empty, or full, or the other side is not ready. `EINVAL`: the other side cannot be spliced with:
/// a file open for appending, for example. Those of `read(2)` and `write(2)`.
pub fn splice_now(from: impl AsFd, to: impl AsFd, len: usize) -> Result<usize, Errno> {
    rustix::pipe::splice(from, None, to, None, len, SpliceFlags::NONBLOCK)
}

/// `tee(2)` without ever waiting.
///
/// # Errors
/// `EAGAIN`: the one pipe is empty or the other one full. `EINVAL`: not two pipes.
pub fn tee_now(from: impl AsFd, to: impl AsFd, len: usize) -> Result<usize, Errno> {
    rustix::pipe::tee(from, to, len, SpliceFlags::NONBLOCK)
}

/// Reads from the position of a file, and does not move the position.
///
/// # Errors
/// Those of `pread(2)`.
pub fn peek(file: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let position = rustix::fs::tell(&file)?;
    rustix::io::pread(file, buffer, position)
}

/// Moves the position of a file forward.
///
/// # Errors
/// Those of `lseek(2)`.
pub fn skip(file: impl AsFd, len: usize) -> Result<(), Errno> {
    let len = i64::try_from(len).map_err(|_| Errno::OVERFLOW)?;
    rustix::fs::seek(file, rustix::fs::SeekFrom::Current(len)).map(drop)
}

/// Bytes that a socket takes without waiting once `poll(2)` reports it writable: a quarter of its buffer. TCP has a
/// third of the buffer free then (`sk_stream_min_wspace` of the kernel), a Unix socket three quarters
/// (`unix_writable`).
///
/// # Errors
/// `ENOTSOCK`.
pub fn sendable_without_waiting(socket: impl AsFd) -> Result<usize, Errno> {
    Ok((rustix::net::sockopt::socket_send_buffer_size(socket)? / 4).max(1))
}

/// Whether a call for `access` would find `fd` ready: something to read or room to write, an end or an error.
///
/// # Errors
/// `ENOMEM`.
pub fn is_ready(fd: impl AsFd, access: Access) -> Result<bool, Errno> {
    rustix::io::retry_on_intr(|| sleep_until_ready(&fd, access, None, Some(Duration::ZERO))).map(|woken| woken.is_ready)
}

/// Why [`sleep_until_ready`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// The descriptor is ready.
    pub is_ready: bool,
    /// The watched pipe has lost its peer.
    pub peer_gone: bool,
}

/// Sleeps until `fd` is ready for `access`, the pipe end `watched` has lost its peer, or `limit` has passed.
///
/// # Errors
/// `EINTR`: a signal handler ran. `EBADF`: not open.
pub fn sleep_until_ready(
    fd: impl AsFd,
    access: Access,
    watched: Option<BorrowedFd<'_>>,
    limit: Option<Duration>,
) -> Result<Woken, Errno> {
    let events = match access {
        Access::Read => PollFlags::IN,
        Access::Write => PollFlags::OUT,
        Access::Both => PollFlags::IN | PollFlags::OUT,
    };
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let (fd, nothing) = (fd.as_fd(), PollFlags::empty());
    // Hang-ups and errors are always reported.
    let mut polled = [PollFd::from_borrowed_fd(fd, events), PollFd::from_borrowed_fd(watched.unwrap_or(fd), nothing)];
    let count = if watched.is_some() { 2 } else { 1 };
    poll(&mut polled[..count], limit.as_ref())?;
    let (ready, gone) = (polled[0].revents(), polled[1].revents());
    if (ready | gone).contains(PollFlags::NVAL) {
        return Err(Errno::BADF);
    }
    Ok(Woken { is_ready: !ready.is_empty(), peer_gone: watched.is_some() && !gone.is_empty() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    fn stretches(bytes: &mut [u8], first: usize) -> Memory {
        let (head, tail) = bytes.split_at_mut(first);
        [(NonNull::from(&mut *head).cast(), head.len()), (NonNull::from(&mut *tail).cast(), tail.len())]
    }

    #[test]
    fn kinds_of_descriptors_are_told_apart() {
        let (reader, _writer) = crate::pipe::create().unwrap();
        let (socket, _peer) = UnixStream::pair().unwrap();
        let master = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
        rustix::pty::unlockpt(&master).unwrap();
        let slave = rustix::pty::ptsname(&master, std::vec::Vec::new()).unwrap();
        let slave = rustix::fs::open(slave.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let open = |path| std::fs::File::open(path).unwrap();
        assert_eq!(kind(open("/proc/self/exe")), Ok(Kind::File));
        assert_eq!(kind(open("/dev/null")), Ok(Kind::File));
        assert_eq!(kind(reader), Ok(Kind::Pipe));
        assert_eq!(kind(socket), Ok(Kind::Socket));
        assert_eq!(kind(slave), Ok(Kind::Terminal));
        assert_eq!(kind(master), Ok(Kind::Other));
        assert_eq!(
            kind(rustix::event::epoll::create(rustix::event::epoll::CreateFlags::empty()).unwrap()),
            Ok(Kind::Other)
        );
    }

    #[test]
    fn two_stretches_are_one_stream_by_every_call() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let mut bytes = *b"hello";
        // SAFETY: two parts of an array that nothing else uses during the call.
        assert_eq!(unsafe { write_from(&left, stretches(&mut bytes, 2), Call::Message) }, Ok(5));
        let mut text = [0; 5];
        right.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        // SAFETY: as above.
        assert_eq!(unsafe { read_to(&left, stretches(&mut bytes, 2), Call::Message) }, Err(Errno::AGAIN));
        let (reader, writer) = crate::pipe::create().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { write_from(&writer, stretches(&mut bytes, 1), Call::NoWait) }, Ok(5));
        bytes = [0; 5];
        // SAFETY: as above.
        assert_eq!(unsafe { read_to(&reader, stretches(&mut bytes, 4), Call::NoWait) }, Ok(5));
        assert_eq!(&bytes, b"hello");
        // SAFETY: as above.
        assert_eq!(unsafe { read_to(&reader, stretches(&mut bytes, 4), Call::NoWait) }, Err(Errno::AGAIN));
    }

    #[test]
    fn peek_leaves_position_and_skip_moves_it() {
        let mut file = crate::memory::anonymous_file().unwrap();
        file.write_all(b"abcdef").unwrap();
        file.rewind().unwrap();
        let mut buffer = [0; 3];
        assert_eq!(peek(&file, &mut buffer), Ok(3));
        assert_eq!(peek(&file, &mut buffer), Ok(3));
        assert_eq!(&buffer, b"abc");
        skip(&file, 4).unwrap();
        assert_eq!(peek(&file, &mut buffer), Ok(2));
        assert_eq!(&buffer[..2], b"ef");
    }

    #[test]
    fn waiter_learns_that_watched_pipe_lost_its_peer() {
        let _guard = crate::children::none();
        let (quiet, _other) = UnixStream::pair().unwrap();
        let (reader, writer) = crate::pipe::create().unwrap();
        let look = || sleep_until_ready(&quiet, Access::Read, Some(writer.as_fd()), Some(Duration::ZERO));
        assert_eq!(look(), Ok(Woken { is_ready: false, peer_gone: false }));
        drop(reader);
        assert_eq!(look(), Ok(Woken { is_ready: false, peer_gone: true }));
        assert_eq!(is_ready(&quiet, Access::Write), Ok(true));
    }
}

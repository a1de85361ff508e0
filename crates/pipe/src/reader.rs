//! The read end.

mod ahead;
pub(crate) mod borrowed;
mod copy_to;
mod idle;
mod read;
mod relay;
mod waiting;
mod writers;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use millstream_ring::Claim;
use millstream_sys::transfer;

use self::ahead::Ahead;
use crate::claim::Trust;
use crate::end::End;
use crate::error::PipeErrorKind;
use crate::handover;
use crate::statistics::Statistics;

/// The read end of a pipe.
///
/// Several handles ([`Reader::try_clone`]), threads (`&Reader` is [`Read`](io::Read)) and processes (fork) may read;
/// each byte goes to one of them.
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

/// Bytes that this end looks at in the ring.
#[derive(Debug)]
struct InPlace {
    claim: Claim,
    /// Whether nothing else waited.
    is_all: bool,
}

impl Reader {
    pub(crate) fn new(end: End) -> Reader {
        Reader { end, trust: Trust::No, in_place: None, ahead: Ahead::default() }
    }

    pub(crate) fn trusting(mut self, trust: Trust) -> Reader {
        self.trust = trust;
        self
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
        handover::show_readiness(&self.end, transfer::Access::Read)?;
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

    fn see_that_nothing_is_ahead(&self) -> io::Result<()> {
        if self.ahead.len() > 0 { Err(PipeErrorKind::BytesReadAhead.into()) } else { Ok(()) }
    }
}

//! The write end.

mod backing_pipe;
mod copy_from;
mod readers;
pub(crate) mod reservation;
pub(crate) mod room;
pub(crate) mod stop;
mod waiting;
mod write;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use millstream_ring::Claim;
use millstream_sys::transfer;

use crate::claim::Trust;
use crate::end::End;
use crate::handover;
use crate::statistics::Statistics;

/// The write end of a pipe.
///
/// Several handles ([`Writer::try_clone`]), threads (`&Writer` is [`Write`](io::Write)) and processes (fork) may write.
///
/// # Writing
/// A write of up to [`PIPE_BUF`](crate::PIPE_BUF) bytes is atomic: no other write is mixed with it, and if there is no
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

/// What a writer has reserved. Kept there, and not in the [`Reservation`](crate::Reservation), so that finding it moves
/// nothing.
#[derive(Debug, Default)]
enum Reserved {
    #[default]
    Nothing,
    InRing {
        claim: Claim,
        /// Free bytes behind it.
        room_behind: usize,
        /// Whether it is certain that there was a reader a moment ago.
        was_seen: bool,
    },
    /// So many bytes of memory of this process.
    Private(usize),
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

    pub(crate) fn trusting(mut self, trust: Trust) -> Writer {
        self.trust = trust;
        self
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

    /// As [`Reader::readiness`](crate::Reader::readiness): ready for writing when [`PIPE_BUF`](crate::PIPE_BUF) bytes
    /// are free, in error when no reader is left.
    ///
    /// # Errors
    /// As there.
    pub fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
        handover::show_readiness(&self.end, transfer::Access::Write)?;
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
}

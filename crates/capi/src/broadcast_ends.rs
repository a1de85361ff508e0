//! The ends of a broadcast, as handles lead to them.

use std::ffi::c_int;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, TryLockError};

use millstream_pipe::Statistics;
use millstream_pipe::broadcast::{LostError, Reader, Writer};

use crate::errors::Errno;

/// A reading end.
#[derive(Debug)]
pub(crate) struct BroadcastReader {
    end: Reader,
    lost: AtomicU64,
}

impl BroadcastReader {
    pub(crate) fn new(end: Reader) -> BroadcastReader {
        BroadcastReader { end, lost: AtomicU64::new(0) }
    }

    /// Bytes that this reader has lost so far, as far as its reads have reported.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    pub(crate) fn read(&self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        (&self.end).read_vectored(buffers).map_err(|error| {
            if let Some(LostError { bytes }) = LostError::of(&error) {
                self.lost.fetch_add(bytes, Relaxed);
            }
            error.into()
        })
    }

    pub(crate) fn into_fd(self) -> io::Result<OwnedFd> {
        self.end.into_fd()
    }

    pub(crate) fn fileno(&self) -> io::Result<c_int> {
        Ok(self.end.readiness()?.as_raw_fd())
    }

    pub(crate) fn set_nonblocking(&self, yes: bool) {
        self.end.set_nonblocking(yes);
    }

    pub(crate) fn capacity(&self) -> usize {
        self.end.capacity()
    }

    pub(crate) fn bytes_readable(&self) -> usize {
        self.end.bytes_readable()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.end.statistics()
    }
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct BroadcastWriter(Mutex<Writer>);

impl BroadcastWriter {
    pub(crate) fn new(end: Writer) -> BroadcastWriter {
        BroadcastWriter(Mutex::new(end))
    }

    /// For one call. Never waits: another thread in a call may sleep there, and is gone after a fork.
    pub(crate) fn alone(&self) -> Result<MutexGuard<'_, Writer>, Errno> {
        match self.0.try_lock() {
            Ok(writer) => Ok(writer),
            Err(TryLockError::Poisoned(writer)) => Ok(writer.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Errno(libc::EBUSY)),
        }
    }

    pub(crate) fn write(&self, buffers: &[IoSlice<'_>]) -> Result<usize, Errno> {
        Ok(self.alone()?.write_vectored(buffers)?)
    }
}

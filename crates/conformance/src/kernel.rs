//! The reference: `pipe2(2)`.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::{BetweenProcesses, End, Implementation, Polled, ReadEnd, WriteEnd};

/// The kernel's pipe.
#[derive(Debug)]
pub enum Kernel {}

/// The read end of a kernel pipe.
#[derive(Debug)]
pub struct Reader(pub OwnedFd);

/// The write end of a kernel pipe.
#[derive(Debug)]
pub struct Writer(pub OwnedFd);

impl Implementation for Kernel {
    type Reader = Reader;
    type Writer = Writer;

    fn pipe() -> io::Result<(Reader, Writer)> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        Ok((Reader(reader), Writer(writer)))
    }
}

impl BetweenProcesses for Kernel {}

/// Bytes that a pipe of an unprivileged user may hold; root's may hold more.
///
/// # Panics
/// When `/proc` is not mounted.
pub fn capacity_max() -> usize {
    std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap().trim().parse().unwrap()
}

macro_rules! common {
    ($end:ident) => {
        impl End for $end {
            fn try_clone(&self) -> io::Result<Self> {
                Ok($end(self.0.try_clone()?))
            }

            fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
                Ok(rustix::io::ioctl_fionbio(&self.0, yes)?)
            }

            fn capacity(&self) -> io::Result<usize> {
                Ok(rustix::pipe::fcntl_getpipe_size(&self.0)?)
            }

            fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
                // Not through rustix, which answers for the kernel when the number is above `i32::MAX`.
                // SAFETY: no memory is involved.
                let granted = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) };
                usize::try_from(granted).map_err(|_| io::Error::last_os_error())
            }

            fn bytes_readable(&self) -> io::Result<usize> {
                Ok(rustix::io::ioctl_fionread(&self.0)? as usize)
            }
        }

        impl Polled for $end {
            fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
                Ok(self.0.as_fd())
            }

            fn into_descriptor(self) -> io::Result<OwnedFd> {
                Ok(self.0)
            }

            fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
                Ok($end(descriptor))
            }
        }
    };
}

common!(Reader);
common!(Writer);

impl ReadEnd for Reader {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buffer)?)
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::readv(&self.0, buffers)?)
    }
}

impl WriteEnd for Writer {
    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.0, buffer)?)
    }

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(&self.0, buffers)?)
    }
}

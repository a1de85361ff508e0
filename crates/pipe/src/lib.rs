//! SKELETON of the API. Behaviour for now: the kernel's pipe.
#![allow(missing_docs, clippy::missing_errors_doc)]
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io::{self, Read, Write};

/// How an end waits when it cannot go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    #[default]
    Adaptive,
    Spin,
    Block,
}

/// Counted by one end (and its clones in this process).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub bytes: u64,
    pub bytes_through_kernel: u64,
    pub calls: u64,
    pub spins: u64,
    pub yields: u64,
    pub sleeps: u64,
    pub wakes: u64,
}

/// Options for a new pipe.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    capacity: Option<usize>,
    nonblocking: bool,
    wait: WaitPolicy,
}

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }
    pub fn capacity(mut self, bytes: usize) -> Builder {
        self.capacity = Some(bytes);
        self
    }
    pub fn nonblocking(mut self, yes: bool) -> Builder {
        self.nonblocking = yes;
        self
    }
    pub fn wait(mut self, policy: WaitPolicy) -> Builder {
        self.wait = policy;
        self
    }
    pub fn create(&self) -> io::Result<(Reader, Writer)> {
        let _ = self.wait;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (reader, writer) = (Reader { fd: reader }, Writer { fd: writer });
        if let Some(bytes) = self.capacity {
            reader.set_capacity(bytes)?;
        }
        reader.set_nonblocking(self.nonblocking)?;
        writer.set_nonblocking(self.nonblocking)?;
        Ok((reader, writer))
    }
}

pub fn pipe() -> io::Result<(Reader, Writer)> {
    Builder::new().create()
}

#[derive(Debug)]
pub struct Reader {
    fd: OwnedFd,
}

#[derive(Debug)]
pub struct Writer {
    fd: OwnedFd,
}

macro_rules! common {
    ($end:ident) => {
        impl $end {
            /// Another handle to the same open end (like dup).
            pub fn try_clone(&self) -> io::Result<$end> {
                Ok($end { fd: self.fd.try_clone()? })
            }
            pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
                let mut flags = rustix::fs::fcntl_getfl(&self.fd)?;
                flags.set(rustix::fs::OFlags::NONBLOCK, yes);
                Ok(rustix::fs::fcntl_setfl(&self.fd, flags)?)
            }
            pub fn capacity(&self) -> io::Result<usize> {
                Ok(rustix::pipe::fcntl_getpipe_size(&self.fd)?)
            }
            /// As F_SETPIPE_SZ: returns what was granted.
            pub fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
                Ok(rustix::pipe::fcntl_setpipe_size(&self.fd, bytes)?)
            }
            /// FIONREAD.
            pub fn bytes_readable(&self) -> io::Result<usize> {
                Ok(rustix::io::ioctl_fionread(&self.fd)? as usize)
            }
            pub fn statistics(&self) -> Statistics {
                Statistics::default()
            }
            /// A descriptor to be polled only (poll, select, epoll): ready exactly when a kernel pipe's end would be.
            pub fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
                Ok(self.fd.as_fd())
            }
            /// Gives the end to a program that may not know millstream: from now on a plain kernel pipe end, with every
            /// byte that waits.
            pub fn into_fd(self) -> io::Result<OwnedFd> {
                Ok(self.fd)
            }
            /// Takes an end that came by inheritance or over a Unix socket, whoever sent it.
            pub fn attach(fd: OwnedFd) -> io::Result<$end> {
                Ok($end { fd })
            }
        }
    };
}
common!(Reader);
common!(Writer);

impl Read for &Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.fd, buffer)?)
    }
    fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::readv(&self.fd, buffers)?)
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
    fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

impl Write for &Writer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.fd, buffer)?)
    }
    fn write_vectored(&mut self, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(&self.fd, buffers)?)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }
    fn write_vectored(&mut self, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! The pipe contract as tests: what `pipe(7)`, `read(2)`, `write(2)`, `poll(2)` and `fcntl(2)` promise, one test for
//! each promise, generic over the implementation.
//!
//! Three implementations stand trial, so that a failing test tells at once whether the test or the pipe is wrong:
//!
//! - [`kernel::Kernel`] is `pipe2(2)`. It is the reference; a test that it fails is a wrong test.
//! - [`ours::Ours`] is `millstream_pipe`, and [`ours::Direct`] the same with direct transfer wherever it is possible.
//! - [`c::C`] is the same by way of the functions of `libmillstream`.
//! - [`in_place::InPlace`] is the same without a copy, by reserving and borrowing.
//! - [`model::Model`] is a pipe in 150 lines, for threads only. It says what the contract means without any cleverness,
//!   and the random tests compare with it.
//!
//! ```
//! use millstream_conformance::{Implementation, ReadEnd, WriteEnd, model::Model};
//!
//! let (reader, writer) = Model::pipe()?;
//! assert_eq!(writer.write(b"grain")?, 5);
//! drop(writer);
//! let mut buffer = [0; 10];
//! assert_eq!((reader.read(&mut buffer)?, reader.read(&mut buffer)?), (5, 0));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # How a test is written
//!
//! Each paragraph of the contract is a module of functions `fn sentence<I: Implementation>()`, and [`contract!`] lists
//! them and makes a `#[test]` of each, for each implementation. What needs more than one process, a signal or a
//! descriptor to poll asks for [`BetweenProcesses`], which the model is not: those tests do not exist for it, so
//! nothing is skipped at run time but `io_uring`, where a system forbids it: `make test` counts those and says so.
//!
//! Every test runs alone in a process of its own ([`isolated`]): others that run at the same time cannot inherit its
//! ends and keep them open, it may do to its signals what it likes, and if it hangs it is ended, with a word on what
//! each of its threads was waiting for. So no test asserts that something happens soon, only that it happens.
//!
//! What is true of the kernel's pipe but not of a ring of bytes, or the other way round, is not tested here: a kernel
//! pipe is made of pages, and a page that was partly read takes no new bytes. Tests that need an exact fill level
//! therefore fill by whole pages.

use std::io::{self, IoSlice, IoSliceMut};

use rustix::fd::{BorrowedFd, OwnedFd};

pub mod c;
pub mod fifo;
pub mod in_place;
pub mod isolated;
pub mod kernel;
mod left;
pub mod model;
pub mod opening;
pub mod ours;
pub mod paths;
pub mod pattern;
pub mod process;
pub mod ready;
pub mod seed;
pub mod soak;
pub mod socket;
pub mod storm;
pub mod task;
pub mod trace;
pub mod uring;

pub mod blocking;
pub mod bytes;
pub mod control;
pub mod death;
pub mod descriptors;
pub mod end_of_stream;
pub mod ends_travel;
pub mod readiness;
pub mod refusals;

mod suite;

/// Also the size of a page, and of the smallest pipe.
pub use millstream_pipe::PIPE_BUF;

/// Something that makes pipes.
pub trait Implementation: 'static {
    /// The end that bytes come out of.
    type Reader: ReadEnd;
    /// The end that bytes go into.
    type Writer: WriteEnd;

    /// Whether a writer that sleeps in the middle of a write puts more into the pipe as soon as there is room. One whose
    /// memory is read from directly does not: that goes on when the pipe is empty.
    const REFILLS: bool = true;

    /// A new pipe of the default size whose ends block.
    ///
    /// # Errors
    /// Those of `pipe2(2)`.
    fn pipe() -> io::Result<(Self::Reader, Self::Writer)>;
}

/// An implementation whose ends go on working in the child of a `fork`, are interrupted by signals and can be polled.
pub trait BetweenProcesses: Implementation<Reader: Polled, Writer: Polled> {}

/// What both ends can do. Dropping an end closes it.
pub trait End: Sized + Send + Sync + 'static {
    /// Another handle to the same open end, as `dup(2)` makes it.
    ///
    /// # Errors
    /// Those of `dup(2)`.
    fn try_clone(&self) -> io::Result<Self>;

    /// Whether calls on this end and its clones sleep (`O_NONBLOCK`).
    ///
    /// # Errors
    /// Those of `fcntl(2)`.
    fn set_nonblocking(&self, yes: bool) -> io::Result<()>;

    /// Bytes that the pipe can hold (`F_GETPIPE_SZ`).
    ///
    /// # Errors
    /// Those of `fcntl(2)`.
    fn capacity(&self) -> io::Result<usize>;

    /// Sets how many bytes the pipe can hold (`F_SETPIPE_SZ`); returns what was granted.
    ///
    /// # Errors
    /// `EBUSY`, `EPERM`, `EINVAL` as `fcntl(2)` has them.
    fn set_capacity(&self, bytes: usize) -> io::Result<usize>;

    /// Bytes that wait in the pipe (`FIONREAD`).
    ///
    /// # Errors
    /// Those of `ioctl(2)`.
    fn bytes_readable(&self) -> io::Result<usize>;
}

/// The end that bytes come out of.
pub trait ReadEnd: End {
    /// `read(2)`.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// `readv(2)`.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`.
    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// [`read`](ReadEnd::read) by one of [`paths::READ_PATHS`], where there is more than one.
    ///
    /// # Errors
    /// Those of `read`.
    fn read_by(&self, _path: usize, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer)
    }
}

/// The end that bytes go into.
pub trait WriteEnd: End {
    /// `write(2)`.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, `EPIPE`.
    fn write(&self, buffer: &[u8]) -> io::Result<usize>;

    /// `writev(2)`.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, `EPIPE`.
    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize>;

    /// [`write`](WriteEnd::write) by one of [`paths::WRITE_PATHS`], where there is more than one.
    ///
    /// # Errors
    /// Those of `write`.
    fn write_by(&self, _path: usize, bytes: &[u8]) -> io::Result<usize> {
        self.write(bytes)
    }
}

/// An end with a descriptor to poll.
pub trait Polled: End {
    /// A descriptor that is polled only, never read: ready exactly when the end is.
    ///
    /// # Errors
    /// When there is no descriptor to be had.
    fn readiness(&self) -> io::Result<BorrowedFd<'_>>;

    /// This end as a descriptor that any program can use, and send, and duplicate.
    ///
    /// # Errors
    /// More bytes wait than a pipe of the kernel may hold; no descriptor is left.
    fn into_descriptor(self) -> io::Result<OwnedFd>;

    /// An end again, of a descriptor that came from wherever.
    ///
    /// # Errors
    /// It is not this end of a pipe.
    fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self>;
}

/// The error of something that must have failed, as the kernel's number: its own, or that of the words that millstream
/// has for it.
///
/// # Panics
/// When it did not fail, or with an error that the kernel does not know.
#[track_caller]
pub fn error_of<T: std::fmt::Debug>(result: io::Result<T>) -> rustix::io::Errno {
    let error = result.expect_err("this must be refused");
    let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<millstream_pipe::PipeError>());
    let number = error.raw_os_error().or(refusal.map(millstream_pipe::PipeError::raw_os_error));
    rustix::io::Errno::from_raw_os_error(number.unwrap_or_else(|| panic!("not an error of the kernel: {error:?}")))
}

//! Errors that need words.

use std::fmt;
use std::io::{self, ErrorKind};

use millstream_ring::RingError;
use millstream_sys::Errno;

/// Why an end was not exported or not attached, if the kernel's number alone would not tell what to do about it.
///
/// The [`io::Error`] of such a call wraps it, and has no number of its own then:
///
/// ```
/// use millstream_pipe::{PipeError, PipeErrorKind, Reader, pipe};
///
/// let (_reader, writer) = pipe()?;
/// let error = Reader::attach(writer.into_fd()?).unwrap_err();
/// let error = error.get_ref().and_then(|inner| inner.downcast_ref::<PipeError>()).unwrap();
/// assert_eq!(error.kind(), PipeErrorKind::NotReadable);
/// assert_eq!(error.raw_os_error(), 9, "EBADF");
/// println!("{error}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeError {
    kind: PipeErrorKind,
}

/// What a [`PipeError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PipeErrorKind {
    /// The descriptor is no pipe or FIFO (`EINVAL`).
    NotAPipe,
    /// The path leads to something that is no FIFO (`EINVAL`).
    NotAFifo,
    /// A FIFO was to be opened neither for reading nor for writing (`EINVAL`).
    NoAccessMode,
    /// A reader was to be made of a write end (`EBADF`).
    NotReadable,
    /// A writer was to be made of a read end (`EBADF`).
    NotWritable,
    /// More bytes wait than the kernel's pipe could hold (`ENOBUFS`).
    TooManyBytesWait,
    /// Bytes were read ahead for this end and not consumed (`EBUSY`).
    BytesReadAhead,
    /// The number of the process or of a descriptor is too large (`EOVERFLOW`).
    NumberTooLarge,
    /// The pipe has no shared memory that this process could use (`EINVAL`).
    NoSharedMemory,
    /// Too many ends are plain descriptors already (`ENOLCK`).
    TooManyExported,
    /// An end of a pipe was to be made of a reader of a broadcast (`EINVAL`).
    IsABroadcast,
    /// The descriptor is no reader of a broadcast that this process could share (`EINVAL`).
    NotABroadcast,
}

impl PipeErrorKind {
    fn errno(self) -> Errno {
        match self {
            PipeErrorKind::NotAPipe
            | PipeErrorKind::NotAFifo
            | PipeErrorKind::NoAccessMode
            | PipeErrorKind::NoSharedMemory
            | PipeErrorKind::IsABroadcast
            | PipeErrorKind::NotABroadcast => Errno::INVAL,
            PipeErrorKind::NotReadable | PipeErrorKind::NotWritable => Errno::BADF,
            PipeErrorKind::TooManyBytesWait => Errno::NOBUFS,
            PipeErrorKind::BytesReadAhead => Errno::BUSY,
            PipeErrorKind::NumberTooLarge => Errno::OVERFLOW,
            PipeErrorKind::TooManyExported => Errno::NOLCK,
        }
    }

    fn says(self) -> &'static str {
        match self {
            PipeErrorKind::NotAPipe => "the descriptor is no pipe or FIFO",
            PipeErrorKind::NotAFifo => "what is there is no FIFO",
            PipeErrorKind::NoAccessMode => "a FIFO is opened for reading, for writing, or for both; ask for one",
            PipeErrorKind::NotReadable => {
                "the descriptor is not open for reading: it is the pipe's write end; attach that as one, or take the other"
            }
            PipeErrorKind::NotWritable => {
                "the descriptor is not open for writing: it is the pipe's read end; attach that as one, or take the other"
            }
            PipeErrorKind::TooManyBytesWait => {
                "more bytes wait than the kernel lets this user have in a pipe; read some before the end is given away, \
                 or have /proc/sys/fs/pipe-max-size or pipe-user-pages-soft raised"
            }
            PipeErrorKind::BytesReadAhead => {
                "bytes of the stream were read ahead for this end and not consumed; read what it has buffered before it \
                 is given away or copied from"
            }
            PipeErrorKind::NumberTooLarge => {
                "an end cannot be given away while its process has a number above 4194303 or the pipe's memory has a \
                 descriptor above 1048575; make the pipe before other files are opened"
            }
            PipeErrorKind::NoSharedMemory => {
                "the pipe has no shared memory that this process could use: it is a plain one, or was not used yet, or \
                 its processes live in another PID namespace or run another version of millstream"
            }
            PipeErrorKind::TooManyExported => {
                "524288 write ends of this pipe have been given away and are still open; close some"
            }
            PipeErrorKind::IsABroadcast => {
                "the descriptor is a reader of a broadcast, and no pipe; attach it as one (broadcast::Reader::attach)"
            }
            PipeErrorKind::NotABroadcast => {
                "the descriptor is no reader of a broadcast that this process could share: it was not given away as one, or \
                 its writer is gone, or its processes have another user or PID namespace; attach a pipe's end as a Reader"
            }
        }
    }
}

impl PipeError {
    /// What it is about.
    pub fn kind(&self) -> PipeErrorKind {
        self.kind
    }

    /// The number that `read(2)` and its relatives have for it, as [`io::Error::raw_os_error`].
    pub fn raw_os_error(&self) -> i32 {
        self.kind.errno().raw_os_error()
    }
}

impl fmt::Display for PipeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (os error {})", self.kind.says(), self.raw_os_error())
    }
}

impl std::error::Error for PipeError {}

impl From<PipeErrorKind> for PipeError {
    fn from(kind: PipeErrorKind) -> PipeError {
        PipeError { kind }
    }
}

impl From<PipeErrorKind> for io::Error {
    fn from(kind: PipeErrorKind) -> io::Error {
        PipeError::from(kind).into()
    }
}

impl From<PipeError> for io::Error {
    fn from(error: PipeError) -> io::Error {
        let kind = match error.kind.errno() {
            Errno::INVAL | Errno::BADF => ErrorKind::InvalidInput,
            Errno::BUSY => ErrorKind::ResourceBusy,
            Errno::NOBUFS | Errno::NOLCK => ErrorKind::QuotaExceeded,
            _ => ErrorKind::Unsupported,
        };
        io::Error::new(kind, error)
    }
}

/// The stream cannot go on. The error names no culprit.
#[cold]
pub(crate) fn broken(_: RingError) -> io::Error {
    io::Error::other(RingError)
}

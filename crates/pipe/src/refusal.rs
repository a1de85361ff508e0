//! Errors that need words.

use std::fmt;
use std::io::{self, ErrorKind};

use millstream_sys::Errno;

/// Why an end was not given away or not taken, where the kernel's number alone would not tell what to do about it.
///
/// The [`io::Error`] of such a call wraps it, and has no number of its own then:
///
/// ```
/// use millstream_pipe::{Reader, Refusal, pipe};
///
/// let (_reader, writer) = pipe()?;
/// let error = Reader::attach(writer.into_fd()?).unwrap_err();
/// let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()).unwrap();
/// assert_eq!(refusal.raw_os_error(), 9, "EBADF");
/// println!("{error}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    errno: Errno,
    says: &'static str,
}

impl Refusal {
    /// The number that `read(2)` and its relatives have for it, as [`io::Error::raw_os_error`].
    pub fn raw_os_error(&self) -> i32 {
        self.errno.raw_os_error()
    }

    pub(crate) const NO_PIPE: Refusal = Refusal { errno: Errno::INVAL, says: "the descriptor is no pipe or FIFO" };

    pub(crate) const NO_FIFO: Refusal = Refusal { errno: Errno::INVAL, says: "what is there is no FIFO" };

    pub(crate) const NO_SIDE: Refusal =
        Refusal { errno: Errno::INVAL, says: "a FIFO is opened for reading, for writing, or for both; ask for one" };

    pub(crate) const NOT_FOR_READING: Refusal = Refusal {
        errno: Errno::BADF,
        says: "the descriptor is not open for reading: it is the pipe's write end; attach that as one, or take the other",
    };

    pub(crate) const NOT_FOR_WRITING: Refusal = Refusal {
        errno: Errno::BADF,
        says: "the descriptor is not open for writing: it is the pipe's read end; attach that as one, or take the other",
    };

    pub(crate) const TOO_MUCH_WAITS: Refusal = Refusal {
        errno: Errno::NOBUFS,
        says: "more bytes wait than the kernel lets this user have in a pipe; read some before the end is given away, \
               or have /proc/sys/fs/pipe-max-size or pipe-user-pages-soft raised",
    };

    pub(crate) const BYTES_ARE_AHEAD: Refusal = Refusal {
        errno: Errno::BUSY,
        says: "bytes of the stream were read ahead for this end and not consumed; read what it has buffered before it is \
               given away or copied from",
    };

    pub(crate) const NUMBERS_TOO_LARGE: Refusal = Refusal {
        errno: Errno::OVERFLOW,
        says: "an end cannot be given away while its process has a number above 4194303 or the pipe's memory has a \
               descriptor above 1048575; make the pipe before other files are opened",
    };

    pub(crate) const NO_SEGMENT: Refusal = Refusal {
        errno: Errno::INVAL,
        says: "the pipe has no shared memory that this process could use: it is a plain one, or was not used yet, or its \
               processes live in another PID namespace or run another version of millstream",
    };

    pub(crate) const IS_BROADCAST: Refusal = Refusal {
        errno: Errno::INVAL,
        says: "the descriptor is a reader of a broadcast, and no pipe; attach it as one (broadcast::Reader::attach)",
    };

    pub(crate) const NO_BROADCAST: Refusal = Refusal {
        errno: Errno::INVAL,
        says: "the descriptor is no reader of a broadcast that this process could share: it was not given away as one, or \
               its writer is gone, or its processes have another user or PID namespace; attach a pipe's end as a Reader",
    };

    pub(crate) const TOO_MANY_GIVEN: Refusal = Refusal {
        errno: Errno::NOLCK,
        says: "524288 write ends of this pipe have been given away and are still open; close some",
    };
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (os error {})", self.says, self.raw_os_error())
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        let kind = match refusal.errno {
            Errno::INVAL | Errno::BADF => ErrorKind::InvalidInput,
            Errno::BUSY => ErrorKind::ResourceBusy,
            Errno::NOBUFS | Errno::NOLCK => ErrorKind::QuotaExceeded,
            _ => ErrorKind::Unsupported,
        };
        io::Error::new(kind, refusal)
    }
}

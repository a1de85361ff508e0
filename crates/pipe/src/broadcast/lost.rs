//! What a reader that was too slow has lost.

use std::{fmt, io};

use millstream_sys::Errno;

/// A lossy reader fell behind by more than the capacity: so many bytes of the stream it will never read. The next byte
/// that it reads is the first of a later write, if no write is larger than half of the capacity.
///
/// It is wrapped in the [`io::Error`] of the read that found it, whose number for C and Python is `ENOBUFS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostError {
    /// How many.
    pub bytes: u64,
}

impl LostError {
    /// What was lost, if that is what the error of a read says.
    pub fn of(error: &io::Error) -> Option<LostError> {
        error.get_ref()?.downcast_ref::<LostError>().copied()
    }

    /// That of the [`io::Error`] which wraps it: `Other`, as long as the standard library has none for it.
    pub fn kind(&self) -> io::ErrorKind {
        io::ErrorKind::Other
    }

    /// `ENOBUFS`, as a netlink socket has it for a receiver that was too slow.
    pub fn raw_os_error(&self) -> i32 {
        Errno::NOBUFS.raw_os_error()
    }
}

impl fmt::Display for LostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this reader was too slow and has lost {} bytes; read on for what comes after them, read faster, or make \
             the capacity larger (os error {})",
            self.bytes,
            self.raw_os_error()
        )
    }
}

impl std::error::Error for LostError {}

impl From<LostError> for io::Error {
    fn from(lost: LostError) -> io::Error {
        io::Error::new(lost.kind(), lost)
    }
}

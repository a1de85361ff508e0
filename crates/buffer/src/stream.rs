//! A stream that the buffer reads or writes, and its error.

use std::fmt;
use std::fs::File;
use std::io;
use std::time::Duration;

use millstream_sys::{Errno, transfer};

/// Something that is read or written, and its name in messages.
#[derive(Debug)]
pub struct Stream {
    /// The file.
    pub file: File,
    /// Its name.
    pub name: String,
}

/// What went wrong with a stream. All that could be done besides was done.
#[derive(Debug)]
pub struct StreamError {
    /// The name of the stream.
    pub name: String,
    /// Whether it is the input.
    pub is_input: bool,
    /// What the system said.
    pub error: io::Error,
}

impl StreamError {
    /// Of which kind the system's error is.
    pub fn kind(&self) -> io::ErrorKind {
        self.error.kind()
    }

    /// The system's number for it, if it has one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.error.raw_os_error()
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_input { "read" } else { "write to" };
        write!(f, "cannot {verb} {}: {}", self.name, self.error)
    }
}

impl std::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// However long it takes.
const FOR_EVER: Duration = Duration::from_secs(u64::MAX / 4);

/// Returns when `input` has something to read or has ended, or after a signal.
pub(crate) fn wait_until_readable(input: &File) -> io::Result<()> {
    unless_interrupted(transfer::sleep_until_readable(input, FOR_EVER))
}

/// Returns when `output` takes bytes or has lost its reader, or after a signal.
pub(crate) fn wait_until_writable(output: &File) -> io::Result<()> {
    unless_interrupted(transfer::sleep_until_writable(output, FOR_EVER))
}

fn unless_interrupted<T>(waited: Result<T, Errno>) -> io::Result<()> {
    match waited {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

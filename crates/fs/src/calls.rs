//! Calls of the kernel for the file behind a view, with errors as programs get them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::io::{Errno, Result};

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno(&error)),
        }
    }
    Ok(filled)
}

pub(crate) fn len_of(file: &File) -> Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_size as u64)
}

/// What the kernel said, for a program.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

//! The end of writing to a file: what was refused late is an error too.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;

/// Puts a file on disk, and closes a copy of its descriptor, which some file systems wait for to say what they could not keep
/// (`close(2)`: NFS, quotas, FUSE).
///
/// # Errors
/// Those of `fsync(2)` and `close(2)`. `EMFILE`.
pub fn confirm(file: &File) -> io::Result<()> {
    let synced = match file.sync_all() {
        // It is none that could be put on disk.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        synced => synced,
    };
    synced.and(close_copy(file))
}

/// Closes a copy of a file's descriptor: what the file system says late, it says then.
///
/// # Errors
/// Those of `close(2)`. `EMFILE`.
pub fn close_copy(file: &File) -> io::Result<()> {
    let copy = file.try_clone()?.into_raw_fd();
    // SAFETY: the copy that was made above, which nothing else knows.
    let closed = match unsafe { libc::close(copy) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // Interrupted or not, it is closed.
    closed.or_else(|error| if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) })
}

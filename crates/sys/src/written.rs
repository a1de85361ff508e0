//! The end of writing to a file, with errors that the file system reports late.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;

/// Writes a file to disk, and closes a copy of its descriptor: some file systems report lost writes only then
/// (`close(2)`: NFS, quotas, FUSE).
///
/// # Errors
/// Those of `fsync(2)` and `close(2)`. `EMFILE`.
pub fn confirm(file: &File) -> io::Result<()> {
    let synced = match file.sync_all() {
        // The file cannot be synced.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        synced => synced,
    };
    synced.and(close_copy(file))
}

/// Closes a copy of a file's descriptor, for errors that the file system reports only then.
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
    // The descriptor is closed even if a signal interrupted the call.
    closed.or_else(|error| if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) })
}

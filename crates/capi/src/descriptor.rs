//! A descriptor that a program passes in.

use std::ffi::c_int;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::errors::{Errno, INVALID, NO_END};

/// The descriptor, which is the program's as long as it cannot be an end of the wanted kind: `unwanted` is the access mode of
/// one that is not.
pub(crate) fn to_take_over(fd: c_int, has_room: bool, unwanted: c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: all integers; fstat fills the structure or fails.
    let (flags, mode) = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fcntl(fd, libc::F_GETFL), (libc::fstat(fd, &raw mut status) == 0).then_some(status.st_mode))
    };
    match mode {
        _ if !has_room => Err(INVALID),
        None => Err(NO_END),
        Some(mode) if mode & libc::S_IFMT != libc::S_IFIFO => Err(INVALID),
        Some(_) if flags < 0 || flags & libc::O_PATH != 0 || flags & libc::O_ACCMODE == unwanted => Err(NO_END),
        // SAFETY: open, and by the caller's promise nothing else uses it.
        Some(_) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

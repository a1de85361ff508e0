//! Files that exist in memory only.

use std::fs::File;

use crate::Errno;

/// An empty file without a name; other processes of this user reach it as `/proc/PID/fd/FD` while it is open here.
///
/// # Errors
/// `EMFILE`, `ENFILE`: too many open files. `ENOMEM`.
pub fn anonymous_file() -> Result<File, Errno> {
    rustix::fs::memfd_create("millstream", rustix::fs::MemfdFlags::CLOEXEC).map(File::from)
}

//! Pipes that have a name.

use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::Errno;

/// Makes a FIFO that only this user may open.
///
/// # Errors
/// `EEXIST`: the name is taken. `EACCES`, `EPERM`, `EROFS`: no FIFO may be made there. `ENOENT`, `ENOSPC`.
pub fn make(path: &Path) -> Result<(), Errno> {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
}

/// Opens both ends of a FIFO, read end first, without waiting for anybody; both block from then on and are closed on
/// exec.
///
/// # Errors
/// `ENOENT`, `EACCES`: as for any file. `EMFILE`, `ENFILE`: too many open files.
///
/// # References
/// `fifo(7)`
pub fn open_both(path: &Path) -> Result<(OwnedFd, OwnedFd), Errno> {
    // A reader that waited for a writer would wait for ever: the writer is this thread.
    let reader = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let writer = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    crate::transfer::set_nonblocking(&reader, false)?;
    Ok((reader, writer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_fifo_block_and_belong_together() {
        let path = std::env::temp_dir().join(std::format!("millstream-fifo-{}", std::process::id()));
        make(&path).unwrap();
        assert_eq!(make(&path), Err(Errno::EXIST));
        let (reader, writer) = open_both(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(crate::pipe::identity(&reader), crate::pipe::identity(&writer));
        assert_eq!(crate::transfer::is_nonblocking(&reader), Ok(false));
        assert_eq!(crate::transfer::is_nonblocking(&writer), Ok(false));
        assert_eq!(crate::pipe::is_anonymous(&reader), Ok(false));
    }
}

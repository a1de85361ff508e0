//! FIFOs.

use std::path::Path;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::Errno;
use crate::transfer::Access;

/// Makes a FIFO at `path` with the permissions of `mode` (0 to 0o7777), less what the process's umask forbids.
///
/// # Errors
/// Those of `mkfifo(3)`: `EEXIST` if anything is there, `EACCES`, `ENOENT`, `ENOTDIR`, `ENOSPC`, `EROFS`, `ELOOP`.
pub fn make(path: &Path, mode: u32) -> Result<(), Errno> {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(mode & 0o7777), 0)
}

/// Opens the FIFO at `path`. Without `nonblocking`, the call for one end waits until the other end is open;
/// [`Access::Both`] never waits.
///
/// # Errors
/// Those of `open(2)`: `ENXIO` for [`Access::Write`] with `nonblocking` if no process has it open for reading; `EINTR`
/// if a signal handler without `SA_RESTART` ran while it waited; `EINVAL` if it is no FIFO. Another file is not opened,
/// because opening a device can have effects.
pub fn open(path: &Path, access: Access, nonblocking: bool, cloexec: bool) -> Result<OwnedFd, Errno> {
    let is_fifo = |status: rustix::fs::Stat| FileType::from_raw_mode(status.st_mode) == FileType::Fifo;
    if !is_fifo(rustix::fs::stat(path)?) {
        return Err(Errno::INVAL);
    }
    let mut flags = OFlags::NOCTTY | access.flags();
    flags.set(OFlags::NONBLOCK, nonblocking);
    flags.set(OFlags::CLOEXEC, cloexec);
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    // Another file may have taken its place meanwhile.
    if is_fifo(rustix::fs::fstat(&opened)?) { Ok(opened) } else { Err(Errno::INVAL) }
}

/// Makes a FIFO at `path` and opens it, read end first; both ends block and are closed on exec. The name stays and may
/// be removed at once.
///
/// # Errors
/// Those of `mkfifo(3)` and `open(2)`: `EEXIST`, `EACCES`, `ENOENT`, `ENOSPC`, `EROFS`, `EMFILE`.
pub fn create(path: &Path) -> Result<(OwnedFd, OwnedFd), Errno> {
    make(path, 0o600)?;
    // An end that blocks would wait for the other to be opened.
    let reader = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let writer = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::fcntl_setfl(&reader, OFlags::empty())?;
    Ok((reader, writer))
}

/// Opens both ends of the anonymous pipe that another process has open as `descriptor`. Never blocks.
///
/// # Errors
/// `ENOENT`: no such process or descriptor, or `/proc` is not mounted. `EACCES`, `EPERM`: another user's. `EINVAL`: no
/// pipe, or not the one with this inode.
pub fn open_unnamed_of_process(process: u32, descriptor: u32, inode: u64) -> Result<OwnedFd, Errno> {
    // Opening a device or a FIFO can have effects. The pinned file is checked and then opened, so the other process
    // cannot exchange it by changing its descriptor.
    let found = crate::open_files::pin(process, descriptor)?;
    let stat = rustix::fs::fstat(&found)?;
    let is_pipe = FileType::from_raw_mode(stat.st_mode) == FileType::Fifo && crate::pipe::is_anonymous(&found)?;
    if !is_pipe || stat.st_ino != inode {
        return Err(Errno::INVAL);
    }
    let path = std::format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_carries_bytes_when_its_name_is_gone() {
        let path = std::env::temp_dir().join(std::format!("millstream-fifo-{}", std::process::id()));
        let (reader, writer) = create(&path).unwrap();
        assert_eq!(create(&path).err(), Some(Errno::EXIST));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(rustix::io::write(&writer, b"mill"), Ok(4));
        let mut bytes = [0; 10];
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(4));
        assert!(!rustix::fs::fcntl_getfl(&reader).unwrap().contains(OFlags::NONBLOCK));
        drop(writer);
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(0), "the end");
    }
}

//! Kernel pipes and their size.

use rustix::fd::AsFd;

use crate::Errno;

/// Bytes that a new kernel pipe holds: 16 pages of 4096 (`pipe(7)`, since Linux 2.6.11).
pub const DEFAULT_CAPACITY: usize = 65_536;

/// Largest write that is never interleaved with another (`pipe(7)`), as the kernel's headers have it.
pub const PIPE_BUF: usize = linux_raw_sys::general::PIPE_BUF as usize;

/// A new pipe, read end first; both ends are closed on exec.
///
/// # Errors
/// `EMFILE`, `ENFILE`: too many open files, or (`ENFILE`) the hard limit on pipe memory of this user is reached.
pub fn create() -> Result<(rustix::fd::OwnedFd, rustix::fd::OwnedFd), Errno> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
}

/// Makes a pipe as a shell does, by `pipe(2)` of the C library: a pipe for other programs. [`create`] and the standard
/// library make one for this program.
///
/// # Errors
/// As [`create`].
#[cfg(feature = "std")]
#[allow(unsafe_code)]
pub fn create_for_others() -> std::io::Result<(std::os::fd::OwnedFd, std::os::fd::OwnedFd)> {
    use rustix::io::{FdFlags, fcntl_setfd};
    use std::os::fd::{FromRawFd, OwnedFd};
    let mut ends = [-1; 2];
    // SAFETY: room for two numbers.
    if unsafe { libc::pipe(ends.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: both have just been opened, and no other value owns them.
    let [reader, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    fcntl_setfd(&reader, FdFlags::CLOEXEC)?;
    fcntl_setfd(&writer, FdFlags::CLOEXEC)?;
    Ok((reader, writer))
}

/// Bytes that the pipe behind `end` can hold.
///
/// # Errors
/// `EBADF`: not open, or not a pipe or FIFO.
pub fn capacity(end: impl AsFd) -> Result<usize, Errno> {
    rustix::pipe::fcntl_getpipe_size(end)
}

/// Sets how many bytes the pipe behind `end` can hold and returns what the kernel granted: at least `bytes`, rounded up
/// to a power of two of pages.
///
/// # Errors
/// `EPERM`: above `/proc/sys/fs/pipe-max-size`, or the user's quota of pipe memory (`pipe-user-pages-soft`) is used up.
/// `EBUSY`: more than `bytes` are waiting in the pipe. `EINVAL`: above 2 GiB. `ENOMEM`.
pub fn set_capacity(end: impl AsFd, bytes: usize) -> Result<usize, Errno> {
    // rustix answers EPERM for what does not fit an `int`, where the kernel says EINVAL.
    if bytes > 1 << 31 { Err(Errno::INVAL) } else { rustix::pipe::fcntl_setpipe_size(end, bytes) }
}

/// Asks for `bytes`, then for half of it, and so on, while the kernel answers that it is too much for this user
/// (`EPERM`) and half is still more than the default. The pipe works in any case, with the size that was granted or
/// that it had.
pub fn request_capacity(end: impl AsFd, mut bytes: usize) {
    while set_capacity(&end, bytes) == Err(Errno::PERM) && bytes / 2 > DEFAULT_CAPACITY {
        bytes /= 2;
    }
}

/// Whether the pipe behind `end` still has the size that the kernel gave it. False for anything else.
pub fn is_untouched(end: impl AsFd) -> bool {
    capacity(end) == Ok(DEFAULT_CAPACITY)
}

/// Which pipe an open descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The file system that pipes live on. Every anonymous pipe has the same; a FIFO has that of its directory.
    pub device: u64,
    /// The kernel's number for this pipe: unique until 2^32 more pipes, sockets and the like have been made.
    pub inode: u64,
}

/// Which pipe or FIFO `end` belongs to, or `None` when it is something else or not open.
#[inline(never)] // has many callers
pub fn identity(end: impl AsFd) -> Option<Identity> {
    let stat = rustix::fs::fstat(end).ok()?;
    let is_pipe = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Fifo;
    is_pipe.then_some(Identity { device: stat.st_dev, inode: stat.st_ino })
}

/// Whether `end` can be written to, which for an anonymous pipe tells its ends apart.
///
/// # Errors
/// `EBADF`: not open.
pub fn is_writable(end: impl AsFd) -> Result<bool, Errno> {
    let flags = rustix::fs::fcntl_getfl(end)?;
    Ok(flags.intersects(rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::RDWR))
}

/// Whether `end` belongs to an anonymous pipe, made by `pipe(2)`.
///
/// # Errors
/// `EBADF`: not open.
pub fn is_anonymous(end: impl AsFd) -> Result<bool, Errno> {
    // `PIPEFS_MAGIC` of linux/magic.h.
    Ok(rustix::fs::fstatfs(end)?.f_type == 0x5049_5045)
}

/// Lets a descriptor stay open when its process executes another program.
///
/// # Errors
/// `EBADF`: not open.
pub fn survive_exec(end: impl AsFd) -> Result<(), Errno> {
    rustix::io::fcntl_setfd(end, rustix::io::FdFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pipe_has_the_documented_size() {
        let (reader, writer) = create().unwrap();
        assert_eq!(capacity(&reader), Ok(DEFAULT_CAPACITY));
        assert_eq!(capacity(&writer), Ok(DEFAULT_CAPACITY));
    }

    #[test]
    fn both_ends_share_one_identity_and_two_pipes_do_not() {
        let (reader, writer) = create().unwrap();
        let (other, _keep) = create().unwrap();
        assert_eq!(identity(&reader), identity(&writer));
        assert_ne!(identity(&reader), identity(&other));
        assert_eq!(identity(&reader).unwrap().device, identity(&other).unwrap().device);
    }

    #[test]
    fn a_file_is_no_pipe() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(identity(&file), None);
        assert_eq!(capacity(&file), Err(Errno::BADF));
    }

    #[test]
    fn the_writable_end_is_the_second() {
        let (reader, writer) = create().unwrap();
        assert_eq!(is_writable(&reader), Ok(false));
        assert_eq!(is_writable(&writer), Ok(true));
    }

    #[test]
    fn shrinking_below_the_content_is_refused_and_loses_nothing() {
        let (reader, writer) = create().unwrap();
        assert_eq!(rustix::io::write(&writer, &[7; 20_000]), Ok(20_000));
        assert_eq!(set_capacity(&reader, 4096), Err(Errno::BUSY));
        let mut bytes = [0; 30_000];
        assert_eq!(rustix::io::read(&reader, &mut bytes), Ok(20_000));
        assert!(bytes[..20_000].iter().all(|&byte| byte == 7));
    }
}

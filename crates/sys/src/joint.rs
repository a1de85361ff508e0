//! The memory of one attached pipe: a sealed memfd with a header and a ring.
//!
//! The writer makes it when its pipe has carried enough to be worth it. It keeps the file open until the reader has
//! opened it as `/proc/PID/fd/FD`. Then both have it mapped, and no process has it open. The kernel frees the memory
//! with the last process that maps it. Pages exist once they are used.
//!
//! ```text
//! 0                          HEADER_BYTES                    FILE_BYTES
//! ┌──────────────────────────┬───────────────────────────────┐
//! │ magic, token, inode │ .. │ ring                          │
//! └──────────────────────────┴───────────────────────────────┘
//! ```
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::{Errno, descriptor_path};

/// What its mappings are called in `/proc/PID/maps`.
pub const NAME: &str = "memfd:millstream-joined";
/// The largest ring.
pub const RING_BYTES: usize = 512 << 10;
/// The header, before the ring.
pub const HEADER_BYTES: usize = 4096;
/// The beginning of the header, which holds the label.
pub const LABEL_BYTES: usize = 64;

const FILE_BYTES: usize = HEADER_BYTES + RING_BYTES;
/// `msjoint` and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"msjoint1");
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// The lowest number of our descriptors, so that they take none that a program counts on. The kernel has room for 64
/// from the start. To make room for more in a process with threads, it waits until every CPU has been idle or has
/// switched to another task: some ten milliseconds.
pub const NUMBERS_FROM: RawFd = 54;
const _: () = assert!(NUMBERS_FROM < 64);

/// The run and the pipe that the memory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The run's.
    pub token: u64,
    /// The pipe's.
    pub inode: u64,
}

#[repr(C)]
struct Label {
    magic: AtomicU64,
    token: AtomicU64,
    inode: AtomicU64,
}

const _: () = assert!(size_of::<Label>() <= LABEL_BYTES);

/// Makes the memory of a pipe: all zeros behind the label. The mapping stays until [`unmap`], and no forked child has it.
///
/// # Errors
/// `EMFILE`, `ENFILE`: too many open files. `ENOMEM`. `EFBIG`: above the process's limit on file sizes. `ENOSYS`: no
/// `memfd_create` (Linux before 3.17).
pub fn create(owner: Owner) -> Result<(OwnedFd, NonNull<u8>), Errno> {
    // Beyond the limit the kernel would send a signal.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < FILE_BYTES as u64) {
        return Err(Errno::FBIG);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(c"millstream-joined", flags)?;
    rustix::fs::ftruncate(&file, FILE_BYTES as u64)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    let memory = map(&file)?;
    let label = label(memory);
    label.token.store(owner.token, Relaxed);
    label.inode.store(owner.inode, Relaxed);
    label.magic.store(MAGIC, Relaxed);
    let elsewhere = rustix::io::fcntl_dupfd_cloexec(&file, NUMBERS_FROM);
    Ok((elsewhere.unwrap_or(file), memory))
}

/// Maps the memory that process `pid` has open as `fd`. `None` if there is none, if this process may not open it, if it
/// has another owner or user, or if it is another kind of file.
pub fn open(pid: u32, fd: u32, owner: Owner) -> Option<NonNull<u8>> {
    let mut room = [0; descriptor_path::ROOM];
    let path = descriptor_path::write(Some(pid), fd, &mut room);
    // By now the number may refer to any file; opening a FIFO or a device can have effects. `O_PATH` holds on to the
    // file, so the file that is checked is the one that is opened, whatever the other process does with its number.
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&found).ok()?;
    let is_regular = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
    // Root may open a file of another user, and must not trust its content.
    let is_own_users = stat.st_uid == rustix::process::geteuid().as_raw();
    if !is_regular || !is_own_users || stat.st_size as usize != FILE_BYTES {
        return None;
    }
    let path = descriptor_path::write(None, found.as_raw_fd().unsigned_abs(), &mut room);
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).ok()?;
    if !rustix::fs::fcntl_get_seals(&file).ok()?.contains(SEALS) {
        return None;
    }
    let memory = map(&file).ok()?;
    let label = label(memory);
    let is_it = label.magic.load(Relaxed) == MAGIC
        && label.token.load(Relaxed) == owner.token
        && label.inode.load(Relaxed) == owner.inode;
    if !is_it {
        // SAFETY: the mapping that was made here; nothing refers to it.
        unsafe { unmap(memory) };
    }
    is_it.then_some(memory)
}

/// Unmaps the memory in this process. The pages are freed once no process maps them.
///
/// # Safety
/// `memory` is from [`create`] or [`open`], and nothing refers to it any more.
pub unsafe fn unmap(memory: NonNull<u8>) {
    // SAFETY: the whole mapping, as the caller promises.
    let _ = unsafe { rustix::mm::munmap(memory.as_ptr().cast(), FILE_BYTES) };
}

/// From now on forked children inherit the mapping.
///
/// # Safety
/// `memory` is from [`create`] or [`open`], and still mapped.
pub unsafe fn inherit(memory: NonNull<u8>) {
    // SAFETY: the whole mapping, as the caller promises; its content is not touched.
    let _ = unsafe { rustix::mm::madvise(memory.as_ptr().cast(), FILE_BYTES, rustix::mm::Advice::LinuxDoFork) };
}

/// The descriptor of [`create`] as a number that stays open, and the inode by which [`close`] knows it again.
///
/// # Errors
/// Those of `fstat(2)`.
pub fn keep_open(file: OwnedFd) -> Result<(RawFd, u64), Errno> {
    use rustix::fd::IntoRawFd;
    let inode = rustix::fs::fstat(&file)?.st_ino;
    Ok((file.into_raw_fd(), inode))
}

/// Closes the descriptor of [`keep_open`], if it still refers to that file: a program that closes all descriptors may
/// have opened another one under its number. Does not touch the memory: a forked child has the descriptor, but not the
/// memory.
///
/// # Safety
/// `fd` and `inode` are from [`keep_open`], and nothing else owns what `fd` names if it is that file still.
pub unsafe fn close(fd: RawFd, inode: u64) {
    // SAFETY: only asked about.
    let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    if is_file(borrowed, inode) {
        // SAFETY: by the caller's promise.
        unsafe { rustix::io::close(fd) };
    }
}

fn is_file(fd: impl AsFd, inode: u64) -> bool {
    let fd = fd.as_fd();
    let is_it = |stat: rustix::fs::Stat| stat.st_size as usize == FILE_BYTES && stat.st_ino == inode;
    rustix::fs::fstat(fd).is_ok_and(is_it) && rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SEALS))
}

fn label(memory: NonNull<u8>) -> &'static Label {
    // SAFETY: page-aligned, large enough (asserted above), not unmapped while it is used, of a file that is sealed against
    // shrinking; every field is an atomic integer.
    unsafe { memory.cast::<Label>().as_ref() }
}

fn map(file: &OwnedFd) -> Result<NonNull<u8>, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choosing touches no memory that Rust knows.
    let address = unsafe { rustix::mm::mmap(ptr::null_mut(), FILE_BYTES, access, MapFlags::SHARED, file, 0) }?;
    let memory = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
    // A child could read bytes that pass later.
    // SAFETY: the mapping that was made here; its content is not touched.
    if let Err(error) = unsafe { rustix::mm::madvise(address, FILE_BYTES, rustix::mm::Advice::LinuxDontFork) } {
        // SAFETY: nothing refers to it.
        unsafe { unmap(memory) };
        return Err(error);
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd};

    /// Each test has its own: another test may get a descriptor number that one has closed, for a file like its own.
    const OWNERS: [Owner; 3] =
        [Owner { token: 7, inode: 99 }, Owner { token: 17, inode: 99 }, Owner { token: 27, inode: 99 }];

    fn here(file: &OwnedFd) -> (u32, u32) {
        (std::process::id(), file.as_raw_fd().unsigned_abs())
    }

    #[test]
    fn two_mappings_are_one_memory() {
        let (file, one) = create(OWNERS[0]).unwrap();
        assert!(file.as_raw_fd() >= NUMBERS_FROM);
        let (pid, fd) = here(&file);
        let other = open(pid, fd, OWNERS[0]).unwrap();
        // SAFETY: the last bytes of both mappings.
        unsafe {
            one.add(FILE_BYTES - 1).write(5);
            assert_eq!(other.add(FILE_BYTES - 1).read(), 5);
        }
        assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
    }

    #[test]
    fn another_run_another_pipe_or_another_file_is_refused() {
        let (file, _) = create(OWNERS[1]).unwrap();
        let (pid, fd) = here(&file);
        assert!(open(pid, fd, Owner { token: 8, ..OWNERS[1] }).is_none());
        assert!(open(pid, fd, Owner { inode: 100, ..OWNERS[1] }).is_none());
        let other = crate::memory::sealable_file().unwrap();
        crate::memory::seal_at(&other, FILE_BYTES as u64).unwrap();
        assert!(open(pid, here(&other).1, OWNERS[1]).is_none());
        drop(file);
        assert!(open(pid, fd, OWNERS[1]).is_none());
    }

    /// Takes root, as which the memory of every user can be opened.
    #[test]
    fn memory_of_another_user_is_refused() {
        let owner = Owner { token: 47, inode: 99 };
        let (file, _) = create(owner).unwrap();
        let (pid, fd) = here(&file);
        rustix::fs::fchown(&file, Some(rustix::fs::Uid::from_raw(1)), None).unwrap();
        assert!(open(pid, fd, owner).is_none());
        rustix::fs::fchown(&file, Some(rustix::process::geteuid()), None).unwrap();
        assert!(open(pid, fd, owner).is_some());
    }

    #[test]
    fn only_its_own_descriptor_is_closed() {
        let (file, _) = create(OWNERS[2]).unwrap();
        let (other, _) = create(Owner { inode: 100, ..OWNERS[2] }).unwrap();
        let (fd, inode) = keep_open(file).unwrap();
        // SAFETY: the descriptor that has this inode, and one that has another.
        unsafe {
            close(other.as_raw_fd(), inode);
            assert!(rustix::io::fcntl_getfd(&other).is_ok(), "another file");
            close(fd, inode);
            // Another test may have the number by now, but not the file.
            let now = core::mem::ManuallyDrop::new(OwnedFd::from_raw_fd(fd));
            assert!(!is_file(&*now, inode));
        }
    }

    #[test]
    fn unmapped_memory_and_memory_of_a_parent_are_not_there() {
        let (file, memory) = create(Owner { token: 37, inode: 99 }).unwrap();
        let address = memory.as_ptr().cast::<core::ffi::c_void>();
        let is_mapped = || {
            // SAFETY: asks for a page, and touches nothing.
            unsafe { rustix::mm::madvise(address, 4096, rustix::mm::Advice::Normal) }.is_ok()
        };
        assert!(is_mapped());
        // SAFETY: the child makes system calls only.
        let child = unsafe { crate::raw::any(linux_raw_sys::general::__NR_fork, [0; 6]) };
        if child == 0 {
            crate::raw::exit(i32::from(is_mapped()));
        }
        let pid = rustix::process::Pid::from_raw(child as i32).unwrap();
        let (_, status) = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0), "the child has it");
        // SAFETY: nothing refers to it.
        unsafe { unmap(memory) };
        assert!(!is_mapped());
        drop(file);
    }
}

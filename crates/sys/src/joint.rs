//! The memory of one joined pipe: a sealed file without a name, of a header and a ring.
//!
//! The writer makes it when its pipe has carried enough to be worth it, and keeps it open until the reader has it, which finds it
//! as `/proc/PID/fd/FD`; then both have it mapped and nobody has it open. It is gone with the last process that maps it. Pages
//! exist once they are used.
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

use rustix::fd::{AsFd, OwnedFd, RawFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::{Errno, descriptor_path};

/// What its mappings are called in `/proc/PID/maps`.
pub const NAME: &str = "memfd:millstream-joined";
/// The largest ring.
pub const RING_BYTES: usize = 512 << 10;
/// Before the ring.
pub const HEADER_BYTES: usize = 4096;
/// Of these at the beginning, for the label.
pub const LABEL_BYTES: usize = 64;

const FILE_BYTES: usize = HEADER_BYTES + RING_BYTES;
/// `msjoint` and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"msjoint1");
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// Where the descriptor goes while it is open, so that it does not take a number that the program will count on; the second is for
/// programs that may not have the first.
const NUMBERS: [RawFd; 2] = [240, 60];

/// Whose memory it is.
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

/// Makes the memory of a pipe: all zeros behind the label. The mapping stays until the process ends or execs.
///
/// # Errors
/// `EMFILE`, `ENFILE`: too many open files. `ENOMEM`. `EFBIG`: above the process's limit on file sizes. `ENOSYS`: no `memfd_create`
/// (Linux before 3.17).
pub fn create(owner: Owner) -> Result<(OwnedFd, NonNull<u8>), Errno> {
    // The kernel would send a signal.
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
    let elsewhere = NUMBERS.iter().find_map(|&least| rustix::io::fcntl_dupfd_cloexec(&file, least).ok());
    Ok((elsewhere.unwrap_or(file), memory))
}

/// Maps the memory that process `pid` has open as `fd`. `None` when it is not there, not ours to open, of another owner, or
/// something else.
pub fn open(pid: u32, fd: u32, owner: Owner) -> Option<NonNull<u8>> {
    let mut room = [0; descriptor_path::ROOM];
    let path = descriptor_path::write(Some(pid), fd, &mut room);
    // By now the number may stand for anything; a FIFO or a device is not even opened.
    let stat = rustix::fs::stat(path).ok()?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return None;
    }
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).ok()?;
    let is_sealed = rustix::fs::fcntl_get_seals(&file).ok()?.contains(SEALS);
    if !is_sealed || rustix::fs::fstat(&file).ok()?.st_size as usize != FILE_BYTES {
        return None;
    }
    let memory = map(&file).ok()?;
    let label = label(memory);
    let is_it = label.magic.load(Relaxed) == MAGIC
        && label.token.load(Relaxed) == owner.token
        && label.inode.load(Relaxed) == owner.inode;
    if !is_it {
        // SAFETY: the mapping that was made here, of which nobody has heard.
        let _ = unsafe { rustix::mm::munmap(memory.as_ptr().cast(), FILE_BYTES) };
    }
    is_it.then_some(memory)
}

/// Closes the descriptor of [`create`], if it still is that: a program that closes all descriptors may have opened another file
/// in its place.
///
/// # Safety
/// `fd` is the number of the descriptor that came with `memory`, and nobody owns what it names if it is that file still.
pub unsafe fn close(fd: RawFd, memory: NonNull<u8>) {
    // SAFETY: only asked about.
    let borrowed = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
    let Ok(now) = rustix::fs::fstat(borrowed) else { return };
    if now.st_size as usize == FILE_BYTES && is_behind(borrowed, memory) {
        // SAFETY: by the caller's promise.
        unsafe { rustix::io::close(fd) };
    }
}

/// Whether `fd` is the file that is mapped at `memory`: a word that is written to the one is in the other.
fn is_behind(fd: impl AsFd, memory: NonNull<u8>) -> bool {
    let fd = fd.as_fd();
    let is_sealed = rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SEALS));
    let label = label(memory);
    let mut bytes = [0; size_of::<Label>()];
    let expected = [&label.magic, &label.token, &label.inode].map(|word| word.load(Relaxed).to_ne_bytes());
    is_sealed && rustix::io::pread(fd, &mut bytes, 0) == Ok(bytes.len()) && bytes[..] == *expected.as_flattened()
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
    NonNull::new(address.cast()).ok_or(Errno::NOMEM)
}

/// The number of a descriptor that stays open.
pub fn number_of(file: OwnedFd) -> RawFd {
    use rustix::fd::IntoRawFd;
    file.into_raw_fd()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd};

    /// Each test has its own: a number that one of them has closed may be another's in the next moment, of a file like its own.
    const OWNERS: [Owner; 3] =
        [Owner { token: 7, inode: 99 }, Owner { token: 17, inode: 99 }, Owner { token: 27, inode: 99 }];

    fn here(file: &OwnedFd) -> (u32, u32) {
        (std::process::id(), file.as_raw_fd().unsigned_abs())
    }

    #[test]
    fn two_mappings_are_one_memory() {
        let (file, one) = create(OWNERS[0]).unwrap();
        assert!(file.as_raw_fd() >= 60);
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

    #[test]
    fn only_its_own_descriptor_is_closed() {
        let (file, memory) = create(OWNERS[2]).unwrap();
        let (other, _) = create(Owner { inode: 100, ..OWNERS[2] }).unwrap();
        let (fd, other_fd) = (number_of(file), other.as_raw_fd());
        // SAFETY: the descriptor that came with the memory, and one that did not.
        unsafe {
            close(other_fd, memory);
            assert!(rustix::io::fcntl_getfd(&other).is_ok(), "another file");
            close(fd, memory);
            // Somebody else may have the number by now, but not the file.
            let now = core::mem::ManuallyDrop::new(OwnedFd::from_raw_fd(fd));
            assert!(!is_behind(&*now, memory));
        }
    }
}

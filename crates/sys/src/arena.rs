//! The arena of a run: one sealed memory file in which every pipe of the run that can be joined has a slot.
//!
//! The supervising process holds it; programs open it through `/proc/PID/fd/FD` when one of their pipes has carried
//! enough to be worth it, map the directory and one slot, and close it again. It has no name and is gone with the last
//! process that maps it. Pages exist once they are used.
//!
//! ```text
//! 0                4096             4096 + SLOT_BYTES
//! ┌────────────────┬────────────────┬────────────────┬─ ─ ─
//! │ directory      │ slot 0         │ slot 1         │
//! │ magic, token,  │ header │ ring  │ header │ ring  │  SLOTS of them
//! │ a key per slot │                │                │
//! └────────────────┴────────────────┴────────────────┴─ ─ ─
//! ```
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::Errno;
use crate::settings::LedgerAddress;

/// How many pipes of a run can be joined at a time. Further ones stay with the kernel.
pub const SLOTS: usize = 256;
/// The largest ring.
pub const RING_BYTES: usize = 512 << 10;
/// Before the ring of each slot.
pub const HEADER_BYTES: usize = 4096;
/// A slot as a whole.
pub const SLOT_BYTES: usize = HEADER_BYTES + RING_BYTES;

const DIRECTORY_BYTES: usize = 4096;
const FILE_BYTES: usize = DIRECTORY_BYTES + SLOTS * SLOT_BYTES;
/// `msarena` and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"msarena1");
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The first page of the file.
#[repr(C)]
pub struct Directory {
    magic: AtomicU64,
    token: AtomicU64,
    /// The inode of the pipe that a slot belongs to; 0: nobody's yet. Changed only under [`Arena::try_lock`].
    pub keys: [AtomicU64; SLOTS],
}

const _: () = assert!(size_of::<Directory>() <= DIRECTORY_BYTES);

/// The open file.
#[derive(Debug)]
pub struct Arena {
    file: OwnedFd,
}

impl Drop for Arena {
    fn drop(&mut self) {
        // A mapping keeps the open file, and with it the lock.
        let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
    }
}

/// Makes the arena of a run, marked with `token`. It lives as long as the descriptor or a mapping does.
///
/// # Errors
/// `EMFILE`, `ENFILE`: too many open files. `ENOMEM`. `ENOSYS`: no `memfd_create` (Linux before 3.17).
#[cfg(feature = "std")]
pub fn create(token: u64) -> Result<OwnedFd, Errno> {
    use rustix::fs::MemfdFlags;

    let file = rustix::fs::memfd_create("millstream-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, FILE_BYTES as u64)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    let arena = Arena { file };
    let directory = arena.directory()?;
    directory.token.store(token, Relaxed);
    directory.magic.store(MAGIC, Relaxed);
    rustix::io::fcntl_dupfd_cloexec(&arena.file, 0)
}

/// Opens the arena that the supervisor holds. `None` when it is not there, not ours to open, or something else.
pub fn open(address: LedgerAddress<'_>) -> Option<(Arena, &'static Directory)> {
    // In another namespace the path may lead to anything; a FIFO or a device is not even opened.
    let mut room = [0; 64];
    let path = address.c_path(&mut room)?;
    let stat = rustix::fs::stat(path).ok()?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return None;
    }
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).ok()?;
    let is_sealed = rustix::fs::fcntl_get_seals(&file).ok()?.contains(SEALS);
    if !is_sealed || rustix::fs::fstat(&file).ok()?.st_size as usize != FILE_BYTES {
        return None;
    }
    let arena = Arena { file };
    let directory = arena.directory().ok()?;
    let is_ours = directory.magic.load(Relaxed) == MAGIC && directory.token.load(Relaxed) == address.token;
    is_ours.then_some((arena, directory))
}

impl Arena {
    /// Keeps others from changing the directory, until this `Arena` is dropped. The kernel gives the lock back if the
    /// process dies.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: somebody else has it. `ENOLCK`.
    pub fn try_lock(&self) -> Result<(), Errno> {
        rustix::fs::flock(&self.file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
    }

    /// Maps one slot; the mapping stays until the process ends or execs.
    ///
    /// # Errors
    /// `ENOMEM`. `EINVAL`: there is no such slot.
    pub fn map_slot(&self, slot: usize) -> Result<NonNull<u8>, Errno> {
        if slot >= SLOTS {
            return Err(Errno::INVAL);
        }
        self.map(DIRECTORY_BYTES + slot * SLOT_BYTES, SLOT_BYTES)
    }

    fn directory(&self) -> Result<&'static Directory, Errno> {
        let address = self.map(0, DIRECTORY_BYTES)?;
        // SAFETY: page-aligned, large enough (asserted above), never unmapped, of a file that is sealed against shrinking;
        // every field is an atomic integer.
        Ok(unsafe { address.cast::<Directory>().as_ref() })
    }

    fn map(&self, offset: usize, len: usize) -> Result<NonNull<u8>, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choosing touches no memory that Rust knows.
        let address = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &self.file,
                offset as u64,
            )
        }?;
        NonNull::new(address.cast()).ok_or(Errno::NOMEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;
    use std::format;

    fn open_again(file: &OwnedFd, token: u64) -> Option<(Arena, &'static Directory)> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        open(LedgerAddress { token, path: path.as_bytes() })
    }

    #[test]
    fn two_processes_see_one_directory_and_one_slot() {
        let file = create(7).unwrap();
        let (one, first) = open_again(&file, 7).unwrap();
        let (other, second) = open_again(&file, 7).unwrap();
        one.try_lock().unwrap();
        assert_eq!(other.try_lock(), Err(Errno::WOULDBLOCK));
        first.keys[3].store(99, Relaxed);
        assert_eq!(second.keys[3].load(Relaxed), 99);
        let (here, there) = (one.map_slot(SLOTS - 1).unwrap(), other.map_slot(SLOTS - 1).unwrap());
        // SAFETY: the last bytes of both mappings.
        unsafe {
            here.add(SLOT_BYTES - 1).write(5);
            assert_eq!(there.add(SLOT_BYTES - 1).read(), 5);
        }
        assert_eq!(other.map_slot(SLOTS), Err(Errno::INVAL));
        drop(one);
        assert_eq!(other.try_lock(), Ok(()), "a mapping does not keep the lock");
    }

    #[test]
    fn another_run_or_another_file_is_refused() {
        let file = create(7).unwrap();
        assert!(open_again(&file, 8).is_none());
        assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
        let other = rustix::fs::memfd_create("other", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(open_again(&other, 7).is_none());
    }
}

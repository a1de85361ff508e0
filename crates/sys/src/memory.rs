//! Memory that processes share, and files that exist in memory only.
#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::Errno;

/// An empty file without a name; other processes of this user reach it as `/proc/PID/fd/FD` while it is open here.
///
/// # Errors
/// `EMFILE`, `ENFILE`: too many open files. `ENOMEM`.
pub fn anonymous_file() -> Result<File, Errno> {
    rustix::fs::memfd_create("millstream", MemfdFlags::CLOEXEC).map(File::from)
}

/// What the mappings of a file from [`sealable_file`] are called in `/proc/PID/maps`.
pub const SEALABLE_NAME: &str = "memfd:millstream-ring";

/// As [`anonymous_file`], and its size can be sealed.
///
/// # Errors
/// As there.
pub fn sealable_file() -> Result<OwnedFd, Errno> {
    rustix::fs::memfd_create("millstream-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
}

/// The same for a broadcast, which is no pipe. Its name begins with [`SEALABLE_NAME`], by which the owner of a lock is
/// found in the maps of its process; but no listing of pipes shows it as one.
///
/// # Errors
/// As there.
pub fn sealable_file_of_broadcast() -> Result<OwnedFd, Errno> {
    rustix::fs::memfd_create("millstream-ring-broadcast", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
}

/// The same for memory beside a pipe, in which messages lie; no listing of pipes shows it as one.
///
/// # Errors
/// As there.
pub fn sealable_file_of_arena() -> Result<OwnedFd, Errno> {
    rustix::fs::memfd_create("millstream-arena", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
}

/// Gives an empty file its size for good: no process can change it afterwards, so no access can run off its end.
/// Several processes may do this at once, and one may do it again.
///
/// # Errors
/// `EFBIG`: above the process's limit on file sizes (`RLIMIT_FSIZE`); checked first, because the kernel would send a
/// signal. `EPERM`: sealed at another size. `EINVAL`: not a file in memory.
pub fn seal_at(file: impl AsFd, size: u64) -> Result<(), Errno> {
    if is_sealed_at(&file, size)? {
        return Ok(());
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < size) {
        return Err(Errno::FBIG);
    }
    // Another process may seal between the two calls, at the same size.
    if let Err(error) = rustix::fs::ftruncate(&file, size) {
        return if is_sealed_at(&file, size)? { Ok(()) } else { Err(error) };
    }
    match rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) {
        Err(error) if !is_sealed_at(&file, size)? => Err(error),
        _ => Ok(()),
    }
}

/// Whether `file` is one in memory whose size is `size` for good.
///
/// # Errors
/// `EINVAL`: not a file in memory.
pub fn is_sealed_at(file: impl AsFd, size: u64) -> Result<bool, Errno> {
    let seals = rustix::fs::fcntl_get_seals(&file)?;
    let length = rustix::fs::fstat(file)?.st_size;
    Ok(seals.contains(SealFlags::SHRINK | SealFlags::GROW) && u64::try_from(length) == Ok(size))
}

/// Opens what another process has open as `descriptor`, for reading and writing.
///
/// # Errors
/// `ENOENT`: no such process or descriptor, or `/proc` is not mounted. `EACCES`, `EPERM`: another user's.
pub fn open_of_process(process: u32, descriptor: u32) -> Result<OwnedFd, Errno> {
    use rustix::fs::{Mode, OFlags};
    // Opening a device or a FIFO can have effects; a file in memory is a regular file. `O_PATH` holds on to the file,
    // so the file that is checked is the one that is opened, whatever the other process does with its descriptor.
    let path = std::format!("/proc/{process}/fd/{descriptor}");
    let found = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let status = rustix::fs::fstat(&found)?;
    if rustix::fs::FileType::from_raw_mode(status.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(Errno::ACCESS);
    }
    let path = std::format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())
}

/// Whether both are the same file.
///
/// # Errors
/// `EBADF`: not open.
pub fn is_same(file: impl AsFd, other: impl AsFd) -> Result<bool, Errno> {
    let (file, other) = (rustix::fs::fstat(file)?, rustix::fs::fstat(other)?);
    Ok((file.st_dev, file.st_ino) == (other.st_dev, other.st_ino))
}

/// Whether `file` belongs to the effective user of this process.
///
/// # Errors
/// `EBADF`: not open.
pub fn is_of_this_user(file: impl AsFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fstat(file)?.st_uid == rustix::process::geteuid().as_raw())
}

/// Opens a file in memory once more: an open file description of its own, closed on exec.
///
/// # Errors
/// `ENOENT`: `/proc` is not mounted. `EMFILE`, `ENFILE`.
pub fn reopened(file: impl AsFd) -> Result<OwnedFd, Errno> {
    open_of_process(crate::own_pid(), file.as_fd().as_raw_fd().unsigned_abs())
}

/// Bytes in a file.
///
/// # Errors
/// `EBADF`: not open.
pub fn length(file: impl AsFd) -> Result<u64, Errno> {
    Ok(rustix::fs::fstat(file)?.st_size.unsigned_abs())
}

/// Memory that other processes may change at any time: addresses, never references.
#[derive(Debug)]
pub struct SharedMapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: an address range, which belongs to no thread. Callers prove the accesses to its bytes.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps the first `len` bytes of `file`, which is sealed at no less.
    ///
    /// # Errors
    /// `EINVAL`: `file` is not sealed at `len` bytes, so that an access could run off its end. `ENOMEM`: no address
    /// space, or too many mappings. `EACCES`: not open for both reading and writing.
    pub fn of_sealed(file: impl AsFd, len: usize) -> Result<SharedMapping, Errno> {
        if !is_sealed_at(&file, len as u64)? {
            return Err(Errno::INVAL);
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)?
        };
        Ok(SharedMapping { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
    }

    /// The first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped: never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sees to it that the pages of `offset..offset + len` (multiples of a page) exist and are mapped, so that using
    /// them takes no fault and cannot fail. Kernels before Linux 5.14 do nothing.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`: there is no memory for them.
    pub fn populate(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let range = self.range(offset, len)?;
        // SAFETY: within the mapping; populating changes no byte.
        match unsafe { rustix::mm::madvise(range, len, Advice::LinuxPopulateWrite) } {
            Err(Errno::INVAL) | Ok(()) => Ok(()),
            // Where touching the page would have raised SIGBUS.
            Err(Errno::FAULT) => Err(Errno::NOSPC),
            Err(error) => Err(error),
        }
    }

    /// Takes the pages of `offset..offset + len` (multiples of a page) out of the file: they are zeros, and take no memory
    /// until they are used again, in every process that maps them.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `EPERM`: the file cannot have holes, or is sealed against writing.
    pub fn remove(&self, offset: usize, len: usize) -> Result<(), Errno> {
        let range = self.range(offset, len)?;
        // SAFETY: within the mapping; later reads return zeros, which another process could have written too.
        unsafe { rustix::mm::madvise(range, len, Advice::LinuxRemove) }
    }

    fn range(&self, offset: usize, len: usize) -> Result<*mut c_void, Errno> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len);
        end.map(|_| self.start.as_ptr().wrapping_add(offset).cast()).ok_or(Errno::INVAL)
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: ours, and with `self` the last user of the addresses is gone.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Has all threads that this process starts from now on share one heap: otherwise each keeps for itself what it has
/// freed.
pub fn share_heap() {
    // SAFETY: a setting of the allocator, which looks at it when a thread first asks for memory.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Returns blocks of 128 KiB or more to the kernel as soon as they are freed. By default the allocator keeps blocks of
/// a size that it saw freed, up to 32 MiB each (`mallopt(3)`, `M_MMAP_THRESHOLD`).
pub fn return_large_blocks() {
    const LARGE: libc::c_int = 128 << 10;
    // SAFETY: a setting of the allocator.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_file_cannot_be_resized_and_may_be_sealed_again() {
        let file = sealable_file().unwrap();
        seal_at(&file, 8192).unwrap();
        seal_at(&file, 8192).unwrap();
        assert_eq!(seal_at(&file, 4096), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
    }

    #[test]
    fn descriptor_that_changes_meanwhile_never_opens_a_pipe() {
        use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
        const ENOUGH: usize = 5000;
        let (file, (pipe, _writer)) = (sealable_file().unwrap(), crate::pipe::create().unwrap());
        let mut changing = rustix::io::dup(&file).unwrap();
        let (number, own) = (changing.as_raw_fd().unsigned_abs(), crate::own_pid());
        let (is_over, mut files, mut refused, mut others) = (AtomicBool::new(false), 0, 0, std::vec::Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    rustix::io::dup2(&pipe, &mut changing).unwrap();
                    rustix::io::dup2(&file, &mut changing).unwrap();
                }
            });
            while others.is_empty() && files.min(refused) < ENOUGH {
                match open_of_process(own, number) {
                    Ok(opened) if is_same(&opened, &file) == Ok(true) => files += 1,
                    Err(Errno::ACCESS) => refused += 1,
                    other => others.push(other),
                }
            }
            is_over.store(true, Relaxed);
        });
        assert!(others.is_empty(), "{others:?}, after {files} files and {refused} refusals");
    }

    #[test]
    fn only_a_sealed_file_is_mapped() {
        let file = sealable_file().unwrap();
        rustix::fs::ftruncate(&file, 8192).unwrap();
        assert_eq!(SharedMapping::of_sealed(&file, 8192).err(), Some(Errno::INVAL));
        seal_at(&file, 8192).unwrap();
        assert_eq!(SharedMapping::of_sealed(&file, 16384).err(), Some(Errno::INVAL));
        let mapping = SharedMapping::of_sealed(&file, 8192).unwrap();
        assert_eq!(mapping.populate(4096, 4096), Ok(()));
        assert_eq!(mapping.populate(4096, 8192), Err(Errno::INVAL));
    }

    #[test]
    fn removed_pages_take_no_memory_and_are_zero() {
        use std::os::unix::fs::MetadataExt;
        let file = File::from(sealable_file().unwrap());
        seal_at(&file, 12288).unwrap();
        let mapping = SharedMapping::of_sealed(&file, 12288).unwrap();
        mapping.populate(0, 12288).unwrap();
        // SAFETY: mapped, and nothing else refers to it.
        unsafe { mapping.start().add(4096).write(7) };
        mapping.remove(4096, 8192).unwrap();
        // In blocks of 512 bytes (`stat(2)`).
        assert_eq!(file.metadata().unwrap().blocks() * 512, 4096);
        // SAFETY: as above.
        assert_eq!(unsafe { mapping.start().add(4096).read() }, 0);
        assert_eq!(mapping.remove(8192, 8192), Err(Errno::INVAL));
    }

    #[test]
    fn a_file_on_disk_is_no_ring() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(is_sealed_at(&file, 1), Err(Errno::INVAL));
    }
}

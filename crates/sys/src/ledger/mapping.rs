//! Maps the counters into a process: the supervisor makes them, all other processes find them.
#![allow(unsafe_code)]

use core::ptr;

use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::table::Ledger;
use crate::settings::LedgerAddress;

/// With these the file behind the mapping can neither shrink, which would turn an access into SIGBUS, nor lose them.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes empty counters that carry `token`. They live as long as the descriptor or a mapping does; the mapping made
/// here stays until the process ends.
///
/// # Errors
/// `EMFILE`, `ENFILE`: too many open files. `ENOMEM`. `ENOSYS`: no `memfd_create` (Linux before 3.17).
#[cfg(feature = "std")]
pub fn create(token: u64) -> Result<(rustix::fd::OwnedFd, &'static Ledger), crate::Errno> {
    use rustix::fs::MemfdFlags;

    let file = rustix::fs::memfd_create("millstream-ledger", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, size_of::<Ledger>() as u64)?;
    rustix::fs::fcntl_add_seals(&file, SEALS)?;
    let (probe, _) = crate::pipe::create()?;
    let ledger = map(&file)?;
    ledger.initialize(token, crate::pipe::identity(&probe).map_or(0, |pipe| pipe.device));
    Ok((file, ledger))
}

/// Finds the counters that the supervisor holds. `None` if there are none, if another user owns them, or if the file is
/// another one: the process then does not count. The mapping stays until the process ends or execs.
pub fn attach(address: LedgerAddress<'_>) -> Option<&'static Ledger> {
    // In another namespace the path may lead to any file; opening a FIFO or a device can have effects.
    let mut room = [0; 64];
    let path = address.c_path(&mut room)?;
    let stat = rustix::fs::stat(path).ok()?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return None;
    }
    let file = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).ok()?;
    // No other file is a sealed memfd of exactly this size.
    let is_sealed = rustix::fs::fcntl_get_seals(&file).ok()?.contains(SEALS);
    let has_our_size = rustix::fs::fstat(&file).ok()?.st_size as usize == size_of::<Ledger>();
    if !is_sealed || !has_our_size {
        return None;
    }
    let ledger = map(&file).ok()?;
    ledger.belongs_to(address.token).then_some(ledger)
}

fn map(file: &rustix::fd::OwnedFd) -> Result<&'static Ledger, crate::Errno> {
    // SAFETY: a new mapping at an address of the kernel's choosing touches no memory that Rust knows.
    let address = unsafe {
        rustix::mm::mmap(
            ptr::null_mut(),
            size_of::<Ledger>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )
    }?;
    // SAFETY: the mapping is page-aligned, as large as `Ledger`, never unmapped, and backed by a file that is sealed
    // against shrinking. Every field is an atomic integer, so all bit patterns are valid and other writers are allowed.
    Ok(unsafe { &*address.cast::<Ledger>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Origin, Program};
    use rustix::fd::AsRawFd;
    use std::format;

    fn attach_to(file: &impl AsRawFd, token: u64) -> Option<&'static Ledger> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        attach(LedgerAddress { token, path: path.as_bytes() })
    }

    #[test]
    fn pipe_recorded_through_one_mapping_is_listed_by_the_other() {
        let (file, ours) = create(42).unwrap();
        let theirs = attach_to(&file, 42).unwrap();
        theirs.record(5, Origin::Pipe, 4096, Some(Program::new(9, b"dash")));
        assert_eq!(ours.records().next().unwrap().maker, Some(Program::new(9, b"dash")));
        assert_eq!(ours.pipe_device(), theirs.pipe_device());
    }

    #[test]
    fn another_token_is_another_run() {
        let (file, _) = create(42).unwrap();
        assert!(attach_to(&file, 43).is_none());
    }

    #[test]
    fn file_without_counters_is_refused() {
        let file = rustix::fs::memfd_create("other", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, size_of::<Ledger>() as u64).unwrap();
        assert!(attach_to(&file, 0).is_none(), "not sealed");
        rustix::fs::fcntl_add_seals(&file, SEALS).unwrap();
        assert!(attach_to(&file, 0).is_none(), "no magic");
        let pipe = crate::pipe::create().unwrap();
        assert!(attach_to(&pipe.0, 0).is_none(), "a pipe");
        assert!(attach(LedgerAddress { token: 0, path: b"/proc/self/fd/99999" }).is_none(), "nothing there");
    }

    #[test]
    fn file_of_counters_cannot_be_truncated() {
        let (file, _) = create(1).unwrap();
        assert_eq!(rustix::fs::ftruncate(&file, 0), Err(crate::Errno::PERM));
    }
}

//! What a run has to know of the machine and of its user, found out without the C library and without allocating.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::mem::MaybeUninit;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};

use crate::{Errno, descriptors};

/// The number that is all there is in a file like those below `/proc/sys`; `None` if it cannot be read or is none.
pub fn number_in(path: &CStr) -> Option<u64> {
    let mut room = [0; 32];
    core::str::from_utf8(beginning_of(path, &mut room)?).ok()?.trim().parse().ok()
}

/// Whether users have the numbers that they have outside of all user namespaces. Only the map of the namespace tells.
pub fn is_in_initial_user_namespace() -> bool {
    let mut room = [0; 64];
    let map = beginning_of(c"/proc/self/uid_map", &mut room).and_then(|map| core::str::from_utf8(map).ok());
    map.is_some_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// Whether the kernel lets this process exceed the quotas on pipe memory (`CAP_SYS_RESOURCE` or `CAP_SYS_ADMIN`). Inside
/// a user namespace the answer may be yes and the kernel still refuse.
pub fn may_exceed_pipe_quota() -> bool {
    use rustix::thread::CapabilitySet;
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.intersects(CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN))
}

/// Eight unpredictable bytes.
///
/// # Errors
/// `ENOSYS`: a kernel before 3.17.
pub fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    // So few are never cut short by a signal.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The path of the program that this process runs, without links.
///
/// # Errors
/// `ENOENT`: `/proc` is not mounted. `ENAMETOOLONG`: there is not enough room.
pub fn own_file(room: &mut [MaybeUninit<u8>]) -> Result<&[u8], Errno> {
    let (path, rest) = rustix::fs::readlinkat_raw(rustix::fs::CWD, c"/proc/self/exe", room)?;
    // The kernel cuts off what does not fit.
    if rest.is_empty() { Err(Errno::NAMETOOLONG) } else { Ok(path) }
}

/// Whether there is a file of that name.
pub fn is_there(path: &CStr) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXISTS).is_ok()
}

/// The standard input and output. They may be closed; every call then fails with `EBADF`.
pub fn standing_ends() -> [BorrowedFd<'static>; 2] {
    // SAFETY: not -1; used for calls that are valid for any number.
    [0, 1].map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Calls `visit` with the inode of each pipe or FIFO for each descriptor that this process has open. It has one thread.
/// Does nothing where `/proc` is not mounted.
pub fn each_open_pipe(mut visit: impl FnMut(u64)) {
    descriptors::each(true, None, |_, status| {
        if FileType::from_raw_mode(status.st_mode) == FileType::Fifo {
            visit(status.st_ino);
        }
        true
    });
}

/// Bytes of second-level cache of one CPU, as the C library finds it; `None` where the processor cannot tell.
#[cfg(target_arch = "x86_64")]
pub fn second_level_cache_bytes() -> Option<u64> {
    /// "Authenti" and "HygonGen", the first four letters.
    const AMD: [u32; 2] = [0x6874_7541, 0x6f67_7948];
    let basic = cpuid(0, 0);
    let bytes = if AMD.contains(&basic.ebx) {
        // AMD64 Architecture Programmer's Manual, volume 3, E.4.5: kilobytes in the upper half.
        const CACHES: u32 = 0x8000_0006;
        let has_it = cpuid(0x8000_0000, 0).eax >= CACHES;
        if has_it { u64::from(cpuid(CACHES, 0).ecx >> 16) << 10 } else { 0 }
    } else {
        // Intel 64 Software Developer's Manual, volume 2, CPUID, leaf 4: each factor is stored less one.
        let caches = if basic.eax >= 4 { 0..8 } else { 0..0 };
        let mut caches = caches.map(|index| cpuid(4, index)).take_while(|cache| cache.eax & 31 != 0);
        caches.find(|cache| cache.eax & 31 != 2 && cache.eax >> 5 & 7 == 2).map_or(0, |cache| {
            let (ways, partitions, line) = (cache.ebx >> 22, cache.ebx >> 12 & 1023, cache.ebx & 4095);
            [ways, partitions, line, cache.ecx].iter().map(|&less_one| u64::from(less_one) + 1).product()
        })
    };
    (bytes > 0).then_some(bytes)
}

// Newer versions of Rust have made this intrinsic safe.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, unused_unsafe)]
fn cpuid(leaf: u32, index: u32) -> core::arch::x86_64::CpuidResult {
    // SAFETY: every processor of x86-64 has the instruction.
    unsafe { core::arch::x86_64::__cpuid_count(leaf, index) }
}

/// Other processors tell only the kernel.
#[cfg(not(target_arch = "x86_64"))]
pub fn second_level_cache_bytes() -> Option<u64> {
    None
}

fn open(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// As much of a file as there is room for.
fn beginning_of<'r>(path: &CStr, room: &'r mut [u8]) -> Option<&'r [u8]> {
    let len = rustix::io::read(open(path, OFlags::empty()).ok()?, &mut *room).ok()?;
    room.get(..len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::vec::Vec;

    #[test]
    fn numbers_of_the_kernel_are_read() {
        assert!(number_in(c"/proc/sys/fs/pipe-max-size").is_some_and(|bytes| bytes >= 4096));
        assert_eq!(
            (number_in(c"/nonexistent"), number_in(c"/proc/self/status"), number_in(c"/dev/null")),
            (None, None, None)
        );
    }

    #[test]
    fn the_cache_is_the_one_that_the_c_library_finds() {
        // SAFETY: takes a number, returns one.
        let by_libc = unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) };
        if let Some(bytes) = second_level_cache_bytes()
            && by_libc > 0
        {
            assert_eq!(bytes, by_libc.unsigned_abs());
        }
    }

    #[test]
    fn open_pipes_are_found_among_everything_else() {
        let (reader, writer) = crate::pipe::create().unwrap();
        let inode = crate::pipe::identity(&reader).unwrap().inode;
        // Other tests open and close files meanwhile, as no thread of a run does.
        let count = || {
            let mut found = Vec::new();
            each_open_pipe(|pipe| found.push(pipe));
            found.into_iter().filter(|&pipe| pipe == inode).count()
        };
        assert!((0..100).any(|_| count() == 2), "{} {}", reader.as_raw_fd(), writer.as_raw_fd());
        drop(reader);
        drop(writer);
        let mut is_there = false;
        each_open_pipe(|pipe| is_there |= pipe == inode);
        assert!(!is_there);
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }
}

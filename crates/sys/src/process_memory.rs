//! Memory of another process, copied by the kernel in one step (`process_vm_readv(2)`).
#![allow(unsafe_code)]

use std::io::IoSliceMut;

use crate::Errno;
use crate::process::last_errno;

/// Fills the start of `bytes` with what process `pid` has at `address`; returns how many bytes, fewer than wanted only
/// where its memory ends. A concurrent write of that process may be copied in part.
///
/// # Errors
/// `EPERM`: not allowed to look into that process (`ptrace(2)`: another user, or a security module such as Yama).
/// `ESRCH`: no such process. `EFAULT`: nothing is mapped there. `ENOSYS`.
pub fn read(pid: u32, address: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    let (Ok(pid), Ok(address)) = (libc::pid_t::try_from(pid), usize::try_from(address)) else {
        return Err(Errno::INVAL);
    };
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: core::ptr::without_provenance_mut(address), iov_len: bytes.len() };
    // SAFETY: the kernel writes to `bytes` only; `there` is an address of the other process, which the kernel checks.
    let count = unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(count).map_err(|_| last_errno())
}

/// Buffers that one call can fill (`IOV_MAX`).
pub const BUFFERS_MAX: usize = 1024;

/// As [`read`], from two ranges one after the other into several buffers. Both ranges are of the same memory: a process
/// that becomes another program (`execve(2)`) in between is not seen half before and half after.
///
/// # Errors
/// As there; `EINVAL` also for more than [`BUFFERS_MAX`] buffers.
pub fn read_two(pid: u32, ranges: [(u64, usize); 2], buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| Errno::INVAL)?;
    let there = ranges.map(|(address, len)| libc::iovec {
        // Wrong on a machine with shorter addresses, where the kernel refuses it.
        iov_base: core::ptr::without_provenance_mut(usize::try_from(address).unwrap_or(usize::MAX)),
        iov_len: len,
    });
    let count = core::ffi::c_ulong::try_from(buffers.len()).map_err(|_| Errno::INVAL)?;
    // SAFETY: `IoSliceMut` has the layout of an `iovec` (its documentation) and the kernel writes to what they lend only;
    // `there` are addresses of the other process, which the kernel checks.
    let read = unsafe { libc::process_vm_readv(pid, buffers.as_mut_ptr().cast(), count, there.as_ptr(), 2, 0) };
    usize::try_from(read).map_err(|_| last_errno())
}

/// Whether this process could read the first of `bytes`. It asks the kernel, as a system call with this buffer would.
///
/// Memory of a device, which [`read`] cannot read of any process, counts as there.
pub fn is_readable_here(bytes: &[u8]) -> bool {
    let Some(first) = bytes.first() else { return true };
    let mut scratch = 0_u8;
    let here = libc::iovec { iov_base: (&raw const *first).cast_mut().cast(), iov_len: 1 };
    let there = libc::iovec { iov_base: (&raw mut scratch).cast(), iov_len: 1 };
    // SAFETY: the kernel reads at `here`, where it checks the address itself, and writes one byte to `scratch`.
    let count =
        unsafe { libc::process_vm_writev(crate::own_pid().cast_signed(), &raw const here, 1, &raw const there, 1, 0) };
    // If the kernel cannot tell, the memory is not refused.
    count == 1 || last_errno() != Errno::FAULT
}

/// Lets process `pid` read the memory of this one where the Yama security module would allow that to ancestors only
/// (`PR_SET_PTRACER`). Without Yama the kernel answers `EINVAL`, and nothing has to be done.
pub fn let_look(pid: u32) {
    // SAFETY: takes numbers and touches no memory.
    let _ = unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(pid), 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_can_read_its_own_mapped_memory_only() {
        let there = [7_u8; 100];
        let mut here = [0; 100];
        let address = there.as_ptr().expose_provenance() as u64;
        assert_eq!(read(crate::own_pid(), address, &mut here), Ok(100));
        assert_eq!(here, there);
        assert_eq!(read(crate::own_pid(), 8, &mut here), Err(Errno::FAULT));
        assert_eq!(read(0, address, &mut here), Err(Errno::SRCH));
    }

    /// The page of the kernel's clock, which every process has: mapped from no file and no memory of its own.
    fn clock_page() -> &'static [u8] {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with("[vvar]")).expect("a page of the kernel's clock");
        let start = usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        // SAFETY: mapped for as long as the process lives; only ever given to the kernel.
        unsafe { core::slice::from_raw_parts(core::ptr::without_provenance(start), 4096) }
    }

    #[test]
    fn clock_page_counts_as_readable() {
        let clock = clock_page();
        let address = clock.as_ptr().addr() as u64;
        assert_eq!(
            read(crate::own_pid(), address, &mut [0]),
            Err(Errno::FAULT),
            "memory that cannot be read from elsewhere"
        );
        assert!(is_readable_here(clock));
        assert!(is_readable_here(&[1]) && is_readable_here(&[]));
        // SAFETY: only given to the kernel, which finds nothing there.
        assert!(!is_readable_here(unsafe { core::slice::from_raw_parts(core::ptr::without_provenance(4096), 1) }));
    }

    #[test]
    fn two_ranges_fill_several_buffers_as_far_as_there_is_memory() {
        let there: std::vec::Vec<u8> = (0..100).collect();
        let (mut first, mut second) = ([0; 10], [0; 100]);
        let address = there.as_ptr().expose_provenance() as u64;
        let mut read_from = |ranges| {
            let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
            read_two(crate::own_pid(), ranges, &mut buffers)
        };
        assert_eq!(read_from([(address + 90, 10), (address, 5)]), Ok(15));
        assert_eq!(read_from([(address + 90, 10), (8, 5)]), Ok(10), "the second is not there");
        assert_eq!(read_from([(8, 10), (address, 5)]), Err(Errno::FAULT));
        assert_eq!((&first[..], &second[..6]), (&there[90..], &[0, 1, 2, 3, 4, 0][..]));
    }
}

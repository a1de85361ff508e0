//! Memory of one process whose pages have the size that was asked for, and chains of references through it.
//!
//! ```text
//! reserved, no access      start, a multiple of 2 MiB                     reserved, no access
//! ░░░░░░░░░░░░░░░░░░░░░░░░▒ len bytes, read and write, whole pages of 2 MiB ▒░░░░░░░░░░░░░░░░░
//! ```
//!
//! The reserved addresses around it keep the kernel from merging it with a neighbour. So its entry in
//! `/proc/self/smaps` describes nothing else.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::c_void;
use core::mem::size_of;
use core::ops::Range;
use core::ptr::{self, NonNull};
use core::slice;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::Errno;

/// Bytes of a huge page on x86-64, and on AArch64 with the usual small pages.
pub const HUGE_BYTES: usize = 2 << 20;

/// Zeroed memory that no other process sees; a forked child gets a copy.
pub struct Pages {
    reserved: NonNull<u8>,
    reserved_len: usize,
    start: NonNull<u8>,
    len: usize,
}

/// A place in a chain: leads to another place or nowhere. As large as an address.
#[derive(Debug, Default)]
pub struct Link<'a>(Cell<Option<&'a Link<'a>>>);

const _: () = assert!(size_of::<Link<'_>>() == size_of::<usize>());

impl<'a> Link<'a> {
    /// Where it leads.
    #[inline]
    pub fn next(&self) -> Option<&'a Link<'a>> {
        self.0.get()
    }

    /// Makes it lead to `next`.
    #[inline]
    pub fn set(&self, next: &'a Link<'a>) {
        self.0.set(Some(next));
    }
}

impl Pages {
    /// At least `len` bytes, rounded up to whole pages of [`HUGE_BYTES`]. Nothing is touched yet.
    ///
    /// # Errors
    /// `EINVAL`: `len` is 0. `ENOMEM`: no address space.
    pub fn reserve(len: usize) -> Result<Pages, Errno> {
        let len = len.checked_next_multiple_of(HUGE_BYTES).filter(|&len| len > 0).ok_or(Errno::INVAL)?;
        let reserved_len = len.checked_add(2 * HUGE_BYTES).ok_or(Errno::NOMEM)?;
        // SAFETY: a new mapping at an address of the kernel's choosing touches no memory that Rust knows.
        let reserved = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), reserved_len, ProtFlags::empty(), MapFlags::PRIVATE)
        }?;
        let reserved = NonNull::new(reserved.cast::<u8>()).ok_or(Errno::NOMEM)?;
        // Behind the first page at least, and with a page behind it.
        let before = HUGE_BYTES - reserved.as_ptr().addr() % HUGE_BYTES;
        // SAFETY: `before` is at most HUGE_BYTES, so `len` bytes from there are inside with some to spare.
        let pages = Pages { reserved, reserved_len, start: unsafe { reserved.add(before) }, len };
        // SAFETY: inside the mapping made above, which is not in use yet.
        unsafe { rustix::mm::mprotect(pages.address(), len, MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(pages)
    }

    /// Bytes that can be used.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none: never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Their addresses, as `/proc/self/smaps` shows them.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.start.as_ptr().addr();
        start..start + self.len
    }

    /// Asks for huge pages, or for none, for each page that is touched for the first time from now on.
    ///
    /// # Errors
    /// `EINVAL`: the kernel was built without transparent huge pages.
    pub fn prefer_huge(&self, is_huge: bool) -> Result<(), Errno> {
        let advice = if is_huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
        // SAFETY: the whole of our own mapping; the advice changes no byte.
        unsafe { rustix::mm::madvise(self.address(), self.len, advice) }
    }

    /// Puts what is there into huge pages now.
    ///
    /// # Errors
    /// `EINVAL`: older than Linux 6.1, or built without transparent huge pages. `ENOMEM`, `EAGAIN`: no such page is free.
    pub fn collapse(&self) -> Result<(), Errno> {
        // SAFETY: the whole of our own mapping; bytes stay as they are.
        match unsafe { libc::madvise(self.address(), self.len, libc::MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        }
    }

    /// All bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: mapped for reading and writing until `self` is dropped, and zeroed by the kernel. The borrow is
        // exclusive: every other reference borrows from `self` too.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// All bytes as links, none of which leads anywhere yet: they are written, so each page exists afterwards.
    pub fn links(&mut self) -> &[Link<'_>] {
        // What an earlier borrow left must not be followed by this one, which may live longer.
        self.bytes_mut().fill(0);
        // SAFETY: as in `bytes_mut`, which this borrow excludes. A page is aligned enough; zero is `None` (the null
        // pointer optimisation of `Option<&T>`, which the language guarantees, and `Cell` has its content's layout).
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.len / size_of::<Link<'_>>()) }
    }

    fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: ours, and every reference into it borrows from `self`.
        let _ = unsafe { rustix::mm::munmap(self.reserved.as_ptr().cast(), self.reserved_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_aligned_zeroed_and_whole() {
        let mut pages = Pages::reserve(1).unwrap();
        assert_eq!((pages.len(), pages.addresses().start % HUGE_BYTES), (HUGE_BYTES, 0));
        assert!(pages.bytes_mut().iter().all(|&byte| byte == 0));
        pages.bytes_mut().fill(1);
    }

    #[test]
    fn a_chain_is_followed_and_the_next_one_starts_empty() {
        let mut pages = Pages::reserve(4096).unwrap();
        let links = pages.links();
        links[0].set(&links[7]);
        links[7].set(&links[0]);
        assert!(ptr::eq(links[0].next().unwrap(), &links[7]));
        assert!(ptr::eq(links[7].next().unwrap(), &links[0]));
        assert!(links[1].next().is_none());
        assert!(pages.links().iter().all(|link| link.next().is_none()));
    }

    #[test]
    fn no_memory_and_too_much_are_refused() {
        assert_eq!(Pages::reserve(0).err(), Some(Errno::INVAL));
        assert_eq!(Pages::reserve(usize::MAX).err(), Some(Errno::INVAL));
        assert_eq!(Pages::reserve(1 << 60).err(), Some(Errno::NOMEM));
    }
}

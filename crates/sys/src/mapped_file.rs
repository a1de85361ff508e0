//! A file mapped into memory: its pages in the kernel's cache, read without a copy.
#![allow(unsafe_code)]

use core::mem::size_of;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU64;
use std::os::fd::AsFd;
use std::vec;

use rustix::mm::{MapFlags, ProtFlags};

use crate::Errno;

/// A file mapped for reading. Other processes may write the file at any time, so its words are atomic. If one truncates
/// it, reading beyond the new end raises `SIGBUS`: not for a process that must survive.
pub struct MappedFile {
    start: NonNull<u8>,
    len: usize,
}

impl MappedFile {
    /// Maps the first `len` bytes.
    ///
    /// # Errors
    /// `EINVAL`: `len` is 0. `EACCES`: not open for reading, or not a regular file. `ENODEV`: it cannot be mapped.
    pub fn of(file: impl AsFd, len: usize) -> Result<MappedFile, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choosing touches no memory that Rust knows.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        Ok(MappedFile { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
    }

    /// Its whole words, as they are now. They can only be loaded: a store would raise `SIGSEGV`.
    #[inline]
    pub fn words(&self) -> Words<'_> {
        // SAFETY: mapped until `self` is dropped, aligned to a page; any bytes are a word, and atomics may be written
        // by others at any time. `Words` loads only, which read-only memory allows (see `core::sync::atomic`, "Atomic
        // accesses to read-only memory": loads of a word with `Relaxed` are among those that are granted).
        Words(unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), self.len / size_of::<u64>()) })
    }

    /// How many of its pages are in the kernel's cache, and how many it has (`mincore(2)`). Of a file that the caller
    /// neither owns nor may write, the kernel says that all are.
    ///
    /// # Errors
    /// `EAGAIN`: the kernel is short of memory for the moment.
    pub fn cached_pages(&self) -> Result<(usize, usize), Errno> {
        let mut states = vec![0_u8; self.len.div_ceil(page_bytes())];
        // SAFETY: our own mapping, which starts on a page, and a byte for each of its pages.
        let outcome = unsafe { libc::mincore(self.start.as_ptr().cast(), self.len, states.as_mut_ptr()) };
        match outcome {
            0 => Ok((states.iter().filter(|&&state| state & 1 == 1).count(), states.len())),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)),
        }
    }
}

/// Has the kernel drop the pages of a file from its cache, except mapped or dirty ones (`posix_fadvise(2)`).
///
/// # Errors
/// `EINVAL`, `ESPIPE`: this is no file.
pub fn drop_cached(file: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: ours, and every reference into it borrows from `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn page_bytes() -> usize {
    // SAFETY: takes a number, returns one.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1)
}

/// Words that can be loaded and not stored.
#[derive(Clone, Copy)]
pub struct Words<'a>(&'a [AtomicU64]);

impl Words<'_> {
    /// The sum, modulo 2^64.
    #[inline]
    pub fn sum(self) -> u64 {
        crate::shared::sum(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_just_written_is_cached_and_its_words_are_summed() {
        let file = crate::memory::anonymous_file().unwrap();
        let bytes: vec::Vec<u8> = (1..=1000_u64).flat_map(u64::to_ne_bytes).collect();
        std::io::Write::write_all(&mut &file, &bytes).unwrap();
        let mapped = MappedFile::of(&file, bytes.len()).unwrap();
        assert_eq!(mapped.words().sum(), 500_500);
        assert_eq!(mapped.cached_pages(), Ok((2, 2)));
    }

    #[test]
    fn pipe_has_no_pages_that_could_be_dropped() {
        let file = crate::memory::anonymous_file().unwrap();
        assert_eq!(drop_cached(&file), Ok(()));
        let (reader, _writer) = crate::pipe::create().unwrap();
        assert_eq!(drop_cached(&reader), Err(Errno::SPIPE));
    }

    #[test]
    fn nothing_is_not_mapped() {
        let file = crate::memory::anonymous_file().unwrap();
        assert_eq!(MappedFile::of(&file, 0).err(), Some(Errno::INVAL));
    }
}

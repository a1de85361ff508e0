//! Memory that a process shares only with the children that it forks.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use crate::Errno;

/// Zeroed memory that this process and the children it forks from now on all see. Each unmaps its own view when the
/// value is dropped; the memory goes with the last.
#[derive(Debug)]
pub struct Shared {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread. Words are atomic, and a caller that copies bytes
// promises that no other access is concurrent.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps `len` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// `EINVAL`: `len` is 0. `ENOMEM`.
    pub fn anonymous(len: usize) -> Result<Shared, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choosing touches no memory that Rust knows.
        let start = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
        }?;
        Ok(Shared { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
    }

    /// The first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8 or the word is not inside.
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && self.holds(offset, 8), "no word at {offset} of {}", self.len);
        // SAFETY: inside the mapping, which starts on a page, lives as long as `self` and was zeroed; any value is
        // valid, and an atomic may be written by others at any time.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).as_ptr().cast()) }
    }

    /// `count` words from byte `offset` on: as [`word`](Self::word), checked once.
    ///
    /// # Panics
    /// If `offset` is not a multiple of 8 or a word is not inside.
    pub fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        let is_inside = count.checked_mul(8).is_some_and(|len| self.holds(offset, len));
        assert!(offset.is_multiple_of(8) && is_inside, "no {count} words at {offset} of {}", self.len);
        // SAFETY: as in `word`, for each.
        unsafe { slice::from_raw_parts(self.start.add(offset).as_ptr().cast(), count) }
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Safety
    /// Until it returns, no other thread of any process reads or writes that range.
    ///
    /// # Panics
    /// If the range is not inside.
    pub unsafe fn copy_in(&self, offset: usize, bytes: &[u8]) {
        assert!(self.holds(offset, bytes.len()), "{} bytes at {offset} of {}", bytes.len(), self.len);
        // SAFETY: both ranges are valid for their length; they are distinct, because no slice of a caller lies in a
        // mapping that only this type knows.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset).as_ptr(), bytes.len()) }
    }

    /// Fills `bytes` with what is at `offset`.
    ///
    /// # Safety
    /// Until it returns, no other thread of any process writes that range.
    ///
    /// # Panics
    /// If the range is not inside.
    pub unsafe fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        assert!(self.holds(offset, bytes.len()), "{} bytes at {offset} of {}", bytes.len(), self.len);
        // SAFETY: as in `copy_in`.
        unsafe { ptr::copy_nonoverlapping(self.start.add(offset).as_ptr(), bytes.as_mut_ptr(), bytes.len()) }
    }

    fn holds(&self, offset: usize, len: usize) -> bool {
        offset <= self.len && len <= self.len - offset
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and every reference into it borrows from `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The sum of `words`, modulo 2^64. Four at a time, so that no addition waits for the one before.
#[inline]
pub fn sum(words: &[AtomicU64]) -> u64 {
    let mut sums = [0_u64; 4];
    let (fours, rest) = words.as_chunks::<4>();
    for four in fours {
        for (sum, word) in sums.iter_mut().zip(four) {
            *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
    }
    sums.into_iter().chain(rest.iter().map(|word| word.load(Ordering::Relaxed))).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn copy_out_returns_copied_in_bytes() {
        let memory = Shared::anonymous(8192).unwrap();
        let mut seen = [1; 4];
        // SAFETY: nothing else refers to the memory.
        unsafe {
            memory.copy_out(8188, &mut seen);
            assert_eq!(seen, [0; 4]);
            memory.copy_in(8188, b"mill");
            memory.copy_out(8188, &mut seen);
        }
        assert_eq!(&seen, b"mill");
        memory.word(8).store(7, Relaxed);
        assert_eq!(memory.word(8).load(Relaxed), 7);
    }

    #[test]
    #[should_panic(expected = "no word at 4096")]
    fn a_word_outside_is_refused() {
        Shared::anonymous(4096).unwrap().word(4096);
    }

    #[test]
    #[should_panic(expected = "2 bytes at 4095")]
    fn bytes_outside_are_refused() {
        // SAFETY: nothing else refers to the memory.
        unsafe { Shared::anonymous(4096).unwrap().copy_in(4095, &[0; 2]) };
    }

    #[test]
    fn every_word_is_in_the_sum() {
        let memory = Shared::anonymous(4096).unwrap();
        for (value, word) in (1..).zip(memory.words(8, 7)) {
            word.store(value, Relaxed);
        }
        assert_eq!((sum(memory.words(8, 7)), sum(memory.words(0, 512)), sum(&[])), (28, 28, 0));
        memory.word(0).store(u64::MAX, Relaxed);
        assert_eq!(sum(memory.words(0, 512)), 27);
    }

    #[test]
    #[should_panic(expected = "no 2 words at 4088")]
    fn words_outside_are_refused() {
        Shared::anonymous(4096).unwrap().words(4088, 2);
    }

    #[test]
    fn no_memory_at_all_is_refused() {
        assert_eq!(Shared::anonymous(0).err(), Some(Errno::INVAL));
    }
}

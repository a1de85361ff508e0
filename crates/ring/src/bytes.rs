//! The data banks: addresses to copy to and from, never references.
#![allow(unsafe_code)]

#[cfg(all(not(loom), target_arch = "x86_64"))]
mod lines;
/// For a processor of which nothing is known.
#[cfg(all(not(loom), not(target_arch = "x86_64")))]
mod lines {
    /// # Safety
    /// As for [`core::ptr::copy_nonoverlapping`].
    #[inline]
    pub(super) unsafe fn copy(source: *const u8, target: *mut u8, len: usize, _: super::Travelling) {
        // SAFETY: as promised.
        unsafe { core::ptr::copy_nonoverlapping(source, target, len) }
    }

    #[inline]
    pub(super) fn ask_ahead_of_filling(_: *const u8, _: usize) {}
}

/// A stretch of the ring: where it begins and how long it is. Another process may change its bytes at any time, so the
/// address is for the kernel, and never for a reference.
#[cfg(not(loom))]
pub type Stretch = (core::ptr::NonNull<u8>, usize);

/// Which CPU has the cache lines of the ring that this side copies to or from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// This CPU, which the other side used last as well.
    Near,
    /// Another CPU.
    Away,
}

/// Which side of a copy lies in the ring.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Travelling {
    /// Read by the other side, and about to be overwritten here.
    Target,
    /// Written by the other side.
    Source,
}

#[cfg(not(loom))]
mod memory {
    use core::marker::PhantomData;
    use core::ptr::{NonNull, copy_nonoverlapping};

    use super::{Lines, Travelling, lines};

    /// Two banks of bytes that another process may change at any time.
    ///
    /// While both sides keep to the protocol, no byte is written and read at once. A hostile peer can break that: the
    /// copy then moves bytes of either value. The language calls such a race undefined. On the machine it is a plain
    /// copy through addresses from which the compiler may assume nothing, because no reference to them ever exists.
    #[derive(Clone, Copy, Debug)]
    pub struct Bytes<'a> {
        start: NonNull<u8>,
        len: usize,
        memory: PhantomData<&'a u8>,
    }

    impl Bytes<'_> {
        /// The banks at `start`, of `len` bytes together.
        ///
        /// # Safety
        /// All of them are mapped for reading and writing, and stay so for the lifetime of the value.
        pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
            Bytes { start, len, memory: PhantomData }
        }

        pub(crate) fn len(&self) -> usize {
            self.len
        }

        pub(crate) fn write(&self, offset: usize, source: &[u8], lines: Lines) {
            let target = self.at(offset, source.len());
            // SAFETY: in the banks, by the line above; `source` is this process's own, so they do not overlap.
            unsafe { copy(source.as_ptr(), target.as_ptr(), source.len(), lines, Travelling::Target) }
        }

        pub(crate) fn read(&self, offset: usize, target: &mut [u8], lines: Lines) {
            let source = self.at(offset, target.len());
            // SAFETY: as for `write`.
            unsafe { copy(source.as_ptr(), target.as_mut_ptr(), target.len(), lines, Travelling::Source) }
        }

        /// The eight bytes at `offset`, the lowest first.
        #[inline]
        pub(crate) fn word(&self, offset: usize) -> u64 {
            // SAFETY: as for `write`.
            u64::from_le(unsafe { self.at(offset, size_of::<u64>()).cast::<u64>().read_unaligned() })
        }

        #[inline]
        pub(crate) fn set_word(&self, offset: usize, word: u64) {
            // SAFETY: as for `write`.
            unsafe { self.at(offset, size_of::<u64>()).cast::<u64>().write_unaligned(word.to_le()) }
        }

        /// The address of `len` bytes.
        #[inline]
        pub(crate) fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
            assert!(len <= self.len && offset <= self.len - len);
            // SAFETY: in the banks, or just behind them, by the line above.
            unsafe { self.start.add(offset) }
        }

        /// A writer is about to fill `len` bytes in place, and next what lies behind them. This prefetches lines that
        /// another CPU has, where that helps.
        #[inline]
        pub(crate) fn will_be_filled(&self, offset: usize, len: usize, lines: Lines) {
            if lines == Lines::Away {
                lines::ask_ahead_of_filling(self.at(offset, len).as_ptr(), len);
            }
        }

        /// Copies `len` bytes to other banks.
        pub(crate) fn copy(&self, offset: usize, other: &Bytes<'_>, target: usize, len: usize) {
            let (from, to) = (self.at(offset, len), other.at(target, len));
            // SAFETY: both lie in their banks. They may overlap, if the other banks are these.
            unsafe { core::ptr::copy(from.as_ptr(), to.as_ptr(), len) }
        }
    }

    /// # Safety
    /// As for [`copy_nonoverlapping`].
    #[inline]
    unsafe fn copy(source: *const u8, target: *mut u8, len: usize, lines: Lines, travelling: Travelling) {
        match lines {
            // SAFETY: as promised.
            Lines::Near => unsafe { copy_nonoverlapping(source, target, len) },
            // SAFETY: as promised.
            Lines::Away => unsafe { lines::copy(source, target, len, travelling) },
        }
    }
}

#[cfg(loom)]
mod model {
    use loom::cell::UnsafeCell;

    use super::Lines;

    /// The banks of a model: loom checks that no byte is written and read at once.
    #[derive(Clone, Copy, Debug)]
    pub struct Bytes<'a> {
        cells: &'a [UnsafeCell<u8>],
    }

    impl<'a> Bytes<'a> {
        /// The banks in `cells`.
        pub fn new(cells: &'a [UnsafeCell<u8>]) -> Bytes<'a> {
            Bytes { cells }
        }

        pub(crate) fn len(&self) -> usize {
            self.cells.len()
        }

        pub(crate) fn write(&self, offset: usize, source: &[u8], _: Lines) {
            for (cell, &byte) in self.cells[offset..].iter().zip(source) {
                // SAFETY: loom stops the model if another thread uses the byte.
                cell.with_mut(|cell| unsafe { *cell = byte });
            }
        }

        pub(crate) fn read(&self, offset: usize, target: &mut [u8], _: Lines) {
            for (cell, byte) in self.cells[offset..].iter().zip(target) {
                // SAFETY: loom stops the model if another thread writes the byte.
                *byte = cell.with(|cell| unsafe { *cell });
            }
        }

        pub(crate) fn word(&self, offset: usize) -> u64 {
            let mut bytes = [0; size_of::<u64>()];
            self.read(offset, &mut bytes, Lines::Near);
            u64::from_le_bytes(bytes)
        }

        pub(crate) fn set_word(&self, offset: usize, word: u64) {
            self.write(offset, &word.to_le_bytes(), Lines::Near);
        }

        pub(crate) fn will_be_filled(&self, _: usize, _: usize, _: Lines) {}

        pub(crate) fn copy(&self, offset: usize, other: &Bytes<'_>, target: usize, len: usize) {
            for index in 0..len {
                let mut byte = [0];
                self.read(offset + index, &mut byte, Lines::Near);
                other.write(target + index, &byte, Lines::Near);
            }
        }
    }
}

#[cfg(not(loom))]
pub use memory::Bytes;
#[cfg(loom)]
pub use model::Bytes;

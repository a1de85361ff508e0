//! The data banks: addresses that are copied to and from, never borrowed.
#![allow(unsafe_code)]

#[cfg(not(loom))]
mod lines;

/// Where the cache lines of the ring are that are copied to or from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// With this CPU, which the other side used last as well.
    Near,
    /// With another CPU.
    Away,
}

#[cfg(not(loom))]
mod memory {
    use core::marker::PhantomData;
    use core::ptr::{NonNull, copy_nonoverlapping};

    use super::Lines;
    use super::lines::{self, Travelling};

    /// Two banks of bytes that another process may change at any time.
    ///
    /// While both sides keep to the protocol no byte is written and read at once. A hostile peer can break that: the
    /// copy then moves bytes of either value. The language calls such a race undefined; on the machine it is a plain
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

        /// The address of `len` bytes.
        pub(crate) fn at(&self, offset: usize, len: usize) -> NonNull<u8> {
            assert!(len <= self.len && offset <= self.len - len);
            // SAFETY: in the banks, or just behind them, by the line above.
            unsafe { self.start.add(offset) }
        }

        /// Copies `len` bytes to other banks.
        pub(crate) fn copy(&self, offset: usize, other: &Bytes<'_>, target: usize, len: usize) {
            let (from, to) = (self.at(offset, len), other.at(target, len));
            // SAFETY: both lie in their banks. They may overlap, should the other banks be these.
            unsafe { core::ptr::copy(from.as_ptr(), to.as_ptr(), len) }
        }
    }

    /// Copies, and asks for the lines of the ring that come next while it does, if they are away.
    ///
    /// # Safety
    /// As for [`copy_nonoverlapping`].
    #[inline]
    unsafe fn copy(source: *const u8, target: *mut u8, len: usize, lines: Lines, travelling: Travelling) {
        if lines == Lines::Near || len > lines::LONGEST {
            // SAFETY: as promised.
            return unsafe { copy_nonoverlapping(source, target, len) };
        }
        let mut done = 0;
        while done < len {
            let piece = lines::AHEAD.min(len - done);
            // SAFETY: both pieces lie in what the caller has promised.
            let (from, to) = unsafe { (source.add(done), target.add(done)) };
            lines::ask_for_next(if travelling == Travelling::Target { to } else { from }, piece, travelling);
            // SAFETY: as promised.
            unsafe { copy_nonoverlapping(from, to, piece) };
            done += piece;
        }
    }
}

#[cfg(loom)]
mod model {
    use loom::cell::UnsafeCell;

    use super::Lines;

    /// The banks of a model: every byte is watched for being written and read at once.
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

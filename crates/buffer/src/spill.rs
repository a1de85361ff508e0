//! A file for what memory has no room for, in slots of the size of a block.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A place in the file. The lowest are used first and again, so the file is as long as the most that ever lay in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

/// The file. Slots are given out by the queue.
pub(crate) struct Spill {
    file: File,
    slot_size: u64,
}

impl Spill {
    pub(crate) fn new(file: File, slot_size: usize) -> Spill {
        Spill { file, slot_size: slot_size as u64 }
    }

    /// Behind the first `len` bytes of the slot.
    pub(crate) fn write(&self, slot: Slot, len: usize, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, slot.0 * self.slot_size + len as u64)
    }

    pub(crate) fn read(&self, slot: Slot, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, slot.0 * self.slot_size)
    }
}

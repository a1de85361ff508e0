//! What was found of a compressed file: where it can be read from, and how bytes of it are read.

use std::fs::File;
use std::io;

/// Where decompression can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// In what is decompressed.
    pub(crate) plain: u64,
    /// In the file.
    pub(crate) source: u64,
}

/// What a file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    /// In the order of the file. The beginning is not among them.
    pub(crate) places: Vec<Place>,
    /// Bytes that are decompressed, if the file tells, and what it tells was checked against its length.
    pub(crate) size: Option<u64>,
    /// Bytes that have to come before those of a place: the header of the stream.
    pub(crate) header: Vec<u8>,
    /// Where the file has to end for a decoder that begins at a place: what follows is about the file as a whole.
    pub(crate) end: Option<u64>,
}

impl Index {
    /// The last place that is not behind `plain`.
    pub(crate) fn before(&self, plain: u64) -> Option<Place> {
        let behind = self.places.partition_point(|place| place.plain <= plain);
        behind.checked_sub(1).map(|last| self.places[last])
    }
}

/// Reads at a place; `None` if the file ends before.
pub(super) fn exactly<const N: usize>(file: &File, offset: u64) -> io::Result<Option<[u8; N]>> {
    use std::os::unix::fs::FileExt;

    let mut bytes = [0; N];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

//! Blocked gzip, as `bgzip` writes it: members of at most 64 KiB, each with its length in its header.
//!
//! # References
//! The SAM/BAM Format Specification, section 4.1.

use std::fs::File;
use std::io;

use super::found::{Index, Place, exactly, u32_at};

/// Header of a member, up to the length: `1f 8b 08 04`, time, flags and system, bytes of extra fields (6), `BC`, 2.
const HEADER: usize = 18;

/// Checksum, and bytes that were compressed.
const TRAILER: u64 = 8;

/// Decompressing this much more takes less time than a place is worth.
const APART: u64 = 256 << 10;

/// The index of a file of which every member is such a block.
pub(super) fn index(file: &File) -> io::Result<Option<Index>> {
    let len = file.metadata()?.len();
    let mut index = Index::default();
    let (mut source, mut plain, mut last) = (0, 0, 0);
    let Some(mut header) = exactly::<HEADER>(file, 0)? else { return Ok(None) };
    loop {
        let Some(block) = block_bytes(&header) else { return Ok(None) };
        let trailer = source + block - TRAILER;
        source += block;
        // The trailer and the next header are read at once.
        let both = exactly::<{ TRAILER as usize + HEADER }>(file, trailer)?;
        let size = match &both {
            Some(both) => u32_at(both, 4),
            None => match exactly::<{ TRAILER as usize }>(file, trailer)? {
                Some(trailer) => u32_at(&trailer, 4),
                None => return Ok(None),
            },
        };
        plain += u64::from(size);
        if source == len {
            index.size = Some(plain);
            return Ok(Some(index));
        }
        let Some(both) = both else { return Ok(None) };
        header.copy_from_slice(&both[TRAILER as usize..]);
        if plain - last >= APART {
            index.places.push(Place { plain, source });
            last = plain;
        }
    }
}

/// Bytes of a block, if this is the header of one.
fn block_bytes(header: &[u8; HEADER]) -> Option<u64> {
    let is_block = header[..4] == [0x1f, 0x8b, 8, 4] && header[10..16] == [6, 0, b'B', b'C', 2, 0];
    let bytes = u64::from(u16::from_le_bytes([header[16], header[17]])) + 1;
    (is_block && bytes >= HEADER as u64 + TRAILER).then_some(bytes)
}

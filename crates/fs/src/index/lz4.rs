//! lz4: a frame may say how many bytes are in it.
//!
//! # References
//! `doc/lz4_Frame_format.md` in the sources of lz4, version 1.6.4.

use std::fs::File;
use std::io;

use super::found::{Index, exactly, u32_at};

const MAGIC: u32 = 0x184d_2204;
const HAS_SIZE: u8 = 8;
const HAS_BLOCK_CHECKSUMS: u8 = 0x10;
const HAS_CHECKSUM: u8 = 4;
const HAS_DICTIONARY: u8 = 1;

/// The size of a file of frames that all say theirs. They cannot be begun in the middle: blocks may need those before them.
pub(super) fn index(file: &File) -> io::Result<Option<Index>> {
    let len = file.metadata()?.len();
    let (mut source, mut size) = (0, 0_u64);
    while source < len {
        let Some(header) = exactly::<14>(file, source)? else { return Ok(None) };
        let flags = header[4];
        if u32_at(&header, 0) != MAGIC || flags & HAS_SIZE == 0 {
            return Ok(None);
        }
        let content = u64::from(u32_at(&header, 6)) | u64::from(u32_at(&header, 10)) << 32;
        let Some(more) = size.checked_add(content) else { return Ok(None) };
        size = more;
        source += 15 + if flags & HAS_DICTIONARY != 0 { 4 } else { 0 };
        loop {
            let Some(block) = exactly::<4>(file, source)? else { return Ok(None) };
            source += 4;
            // The highest bit says that the block is not compressed.
            match u64::from(u32_at(&block, 0) & 0x7fff_ffff) {
                0 => break,
                bytes => source += bytes + if flags & HAS_BLOCK_CHECKSUMS != 0 { 4 } else { 0 },
            }
        }
        source += if flags & HAS_CHECKSUM != 0 { 4 } else { 0 };
    }
    Ok((source == len).then_some(Index { size: Some(size), ..Index::default() }))
}

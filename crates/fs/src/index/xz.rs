//! xz: an index at the end of the stream says where its blocks are. `xz -T` and `xz --block-size` make several.
//!
//! # References
//! `doc/xz-file-format.txt` in the sources of xz, version 1.2.1, sections 2 and 4.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::found::{Index, Place, exactly, u32_at};

const HEADER: usize = 12;

/// An index larger than this is not read: a million blocks.
const INDEX_MOST: u64 = 32 << 20;

/// The index of a file of one stream.
pub(super) fn index(file: &File) -> io::Result<Option<Index>> {
    let len = file.metadata()?.len();
    let Some(footer_at) = len.checked_sub(HEADER as u64) else { return Ok(None) };
    let (Some(header), Some(footer)) = (exactly::<HEADER>(file, 0)?, exactly::<HEADER>(file, footer_at)?) else {
        return Ok(None);
    };
    if header[..6] != *b"\xfd7zXZ\0" || footer[10..] != *b"YZ" || footer[8..10] != header[6..8] {
        return Ok(None);
    }
    let bytes = (u64::from(u32_at(&footer, 4)) + 1) * 4;
    let Some(start) = footer_at.checked_sub(bytes).filter(|_| bytes <= INDEX_MOST) else { return Ok(None) };
    let mut records = vec![0; bytes as usize];
    file.read_exact_at(&mut records, start)?;
    let parsed = parse(&records);
    // Where the blocks end the index begins; otherwise there is another stream, or padding, before.
    let index = parsed.filter(|(_, end)| *end == start).map(|(index, _)| index);
    Ok(index.map(|index| Index { header: header.into(), end: Some(start), ..index }))
}

/// The places, and where the last block ends.
fn parse(index: &[u8]) -> Option<(Index, u64)> {
    let (content, checksum) = index.split_at(index.len().checked_sub(4)?);
    if crc32fast::hash(content) != u32_at(checksum, 0) || content.first() != Some(&0) {
        return None;
    }
    let mut rest = &content[1..];
    let records = number(&mut rest)?;
    let mut places = Vec::new();
    let (mut plain, mut source) = (0_u64, HEADER as u64);
    for _ in 0..records {
        if plain > 0 {
            places.push(Place { plain, source });
        }
        let unpadded = number(&mut rest)?;
        source = source.checked_add(unpadded.checked_next_multiple_of(4)?)?;
        plain = plain.checked_add(number(&mut rest)?)?;
    }
    Some((Index { places, size: Some(plain), ..Index::default() }, source))
}

/// A number of up to nine bytes, seven bits in each.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..9 {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

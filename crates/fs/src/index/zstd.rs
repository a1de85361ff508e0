//! zstd: frames can be read one by one. The seekable format has a table of them at its end; other files are walked from block
//! to block, which is three bytes to read for each 128 KiB.
//!
//! # References
//! RFC 8878, section 3.1; `contrib/seekable_format/zstd_seekable_compression_format.md` in the sources of zstd, version 0.1.0.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::found::{Index, Place, exactly, u32_at};

const FRAME: u32 = 0xfd2f_b528;
/// The last four bits may be anything.
const SKIPPABLE: u32 = 0x184d_2a50;
const SEEKABLE: u32 = 0x8f92_eab1;
/// Frames, descriptor, magic.
const FOOTER: usize = 9;
/// A table larger than this is not read: two million frames.
const TABLE_MOST: u64 = 32 << 20;
/// Magic and length of the frame that the table is in.
const SKIPPED_HEADER: u64 = 8;

/// The index of a file. Without sizes in its frames there is none.
pub(super) fn index(file: &File) -> io::Result<Option<Index>> {
    let len = file.metadata()?.len();
    match table(file, len)? {
        Some(index) => Ok(Some(index)),
        None => walked(file, len),
    }
}

/// What the table of the seekable format says, if there is one that fits the file.
fn table(file: &File, len: u64) -> io::Result<Option<Index>> {
    let Some(start) = len.checked_sub(FOOTER as u64) else { return Ok(None) };
    let Some(footer) = exactly::<FOOTER>(file, start)? else { return Ok(None) };
    let (frames, has_checksums) = (u64::from(u32_at(&footer, 0)), footer[4] & 0x80 != 0);
    if u32_at(&footer, 5) != SEEKABLE || footer[4] & 0x7c != 0 {
        return Ok(None);
    }
    let entry = if has_checksums { 12 } else { 8 };
    let bytes = frames * entry;
    if bytes > TABLE_MOST {
        return Ok(None);
    }
    let Some(begin) = start.checked_sub(bytes + SKIPPED_HEADER) else { return Ok(None) };
    let mut entries = vec![0; bytes as usize];
    file.read_exact_at(&mut entries, begin + SKIPPED_HEADER)?;
    let mut index = Index::default();
    let (mut plain, mut source) = (0, 0);
    for entry in entries.chunks_exact(entry as usize) {
        if source > 0 {
            index.places.push(Place { plain, source });
        }
        source += u64::from(u32_at(entry, 0));
        plain += u64::from(u32_at(entry, 4));
    }
    // The frames end where the table begins.
    index.size = Some(plain);
    Ok((source == begin).then_some(index))
}

/// What the headers of the frames say.
fn walked(file: &File, len: u64) -> io::Result<Option<Index>> {
    let mut index = Index { size: Some(0), ..Index::default() };
    let mut source = 0;
    while source < len {
        let Some(magic) = exactly::<8>(file, source)? else { return Ok(None) };
        match u32_at(&magic, 0) {
            FRAME => {}
            magic_number if magic_number & !0xf == SKIPPABLE => {
                source += SKIPPED_HEADER + u64::from(u32_at(&magic, 4));
                continue;
            }
            _ => return Ok(None),
        }
        let Some(plain) = index.size else { break };
        if source > 0 {
            index.places.push(Place { plain, source });
        }
        let Some((header, content, has_checksum)) = frame_header(file, source)? else { return Ok(None) };
        index.size = content.and_then(|content| plain.checked_add(content));
        let Some(end) = frame_end(file, source + header)? else { return Ok(None) };
        source = end + if has_checksum { 4 } else { 0 };
    }
    // Behind a frame without its size no further place is known.
    if source > len {
        return Ok(None);
    }
    Ok(Some(index))
}

/// Bytes of a frame's header, bytes of its content if it says so, and whether a checksum follows its blocks.
fn frame_header(file: &File, source: u64) -> io::Result<Option<(u64, Option<u64>, bool)>> {
    let mut header = [0; 18];
    let count = crate::calls::read_at(file, &mut header, source)?;
    if count < 6 {
        return Ok(None);
    }
    let descriptor = header[4];
    let is_single = descriptor & 0x20 != 0;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = match (descriptor >> 6, is_single) {
        (0, false) => 0,
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let at = 5 + usize::from(!is_single) + dictionary;
    if count < at + size {
        return Ok(None);
    }
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&header[at..at + size]);
    let number = u64::from_le_bytes(bytes);
    let content = match size {
        0 => None,
        2 => Some(number + 256),
        _ => Some(number),
    };
    Ok(Some(((at + size) as u64, content, descriptor & 4 != 0)))
}

/// Where the last block of a frame ends.
fn frame_end(file: &File, mut source: u64) -> io::Result<Option<u64>> {
    loop {
        let Some(header) = exactly::<3>(file, source)? else { return Ok(None) };
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let (is_last, kind, size) = (header & 1 != 0, header >> 1 & 3, u64::from(header >> 3));
        source += 3 + if kind == 1 { 1 } else { size };
        if is_last {
            return Ok(Some(source));
        }
    }
}

//! Sparse members of tar archives: which bytes of a file the archive has. Elsewhere it has zeros.

use super::bytes::{BLOCK, Extent, ReadAt, TarError, exactly, number, parsed};

/// Extents of one file, at most.
const EXTENTS_MOST: usize = 1 << 18;

/// Extents in a header of GNU tar, where they begin, and the byte behind them, which says whether more follow.
const IN_HEADER: (usize, usize, usize) = (4, 386, 482);
/// Those in a block that follows it.
const IN_BLOCK: (usize, usize, usize) = (21, 0, 504);
/// Where the header says how large the file is.
const REAL_SIZE: std::ops::Range<usize> = 483..495;
/// Bytes of a number.
const NUMBER: usize = 12;

/// Where the bytes of a file are.
pub(super) struct Layout {
    pub(super) size: u64,
    pub(super) extents: Vec<Extent>,
    /// Where in the archive what the member contains begins.
    pub(super) data: u64,
}

/// What extended headers say, in any of the versions 0.0, 0.1 and 1.0.
#[derive(Clone, Debug, Default)]
pub(super) struct Pax {
    major: u64,
    size: Option<u64>,
    /// Starts and lengths by turns.
    numbers: Vec<u64>,
}

impl Pax {
    pub(super) fn note(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"major" => self.major = parsed(value)?,
            b"size" | b"realsize" => self.size = Some(parsed(value)?),
            b"offset" | b"numbytes" => self.numbers.push(parsed(value)?),
            b"map" => {
                let numbers = value.split(|&byte| byte == b',').filter(|number| !number.is_empty());
                self.numbers = numbers.map(parsed).collect::<Option<_>>()?;
            }
            _ => {}
        }
        Some(())
    }
}

/// `offset`: that of the header. `stored`: bytes that the archive has of the file.
pub(super) fn of_gnu(source: &mut ReadAt<'_>, header: &[u8], offset: u64, stored: u64) -> Result<Layout, TarError> {
    let corrupt = || corrupt(offset);
    let mut numbers = Vec::new();
    let mut data = offset + BLOCK;
    let mut has_more = read_numbers(&mut numbers, header, IN_HEADER).ok_or_else(corrupt)?;
    while has_more {
        let block = exactly(source, data, BLOCK)?;
        has_more = read_numbers(&mut numbers, &block, IN_BLOCK).ok_or_else(corrupt)?;
        data += BLOCK;
    }
    let size = number(&header[REAL_SIZE]).and_then(|size| u64::try_from(size).ok()).ok_or_else(corrupt)?;
    let extents = extents(&numbers, size, data, stored).ok_or_else(corrupt)?;
    Ok(Layout { size, extents, data })
}

/// Whether more follow.
fn read_numbers(numbers: &mut Vec<u64>, bytes: &[u8], (count, start, more): (usize, usize, usize)) -> Option<bool> {
    for pair in bytes[start..].chunks_exact(2 * NUMBER).take(count) {
        let [from, len] = [&pair[..NUMBER], &pair[NUMBER..]].map(number);
        // Places that are not used have zeros.
        if pair[0] != 0 {
            numbers.extend([u64::try_from(from?).ok()?, u64::try_from(len?).ok()?]);
        }
    }
    (numbers.len() <= 2 * EXTENTS_MOST).then_some(bytes[more] != 0)
}

/// In version 1.0 the numbers stand before the bytes, each in a line, filled up to a block.
pub(super) fn of_pax(source: &mut ReadAt<'_>, pax: Pax, data: u64, stored: u64) -> Result<Layout, TarError> {
    let corrupt = || corrupt(data - BLOCK);
    let size = pax.size.ok_or_else(corrupt)?;
    if pax.major == 0 {
        let extents = extents(&pax.numbers, size, data, stored).ok_or_else(corrupt)?;
        return Ok(Layout { size, extents, data });
    }
    let mut lines = Lines { source, next: data, end: data + stored, block: Vec::new(), taken: 0 };
    let count = lines.number()?.filter(|&count| count <= EXTENTS_MOST as u64).ok_or_else(corrupt)?;
    let mut numbers = Vec::new();
    for _ in 0..2 * count {
        numbers.push(lines.number()?.ok_or_else(corrupt)?);
    }
    let begin = lines.next;
    let extents = extents(&numbers, size, begin, stored - (begin - data)).ok_or_else(corrupt)?;
    Ok(Layout { size, extents, data: begin })
}

fn corrupt(offset: u64) -> TarError {
    TarError::at(offset, "the archive is corrupt: a sparse file does not fit its map")
}

/// In order, in the file, and as many bytes as the archive has.
fn extents(numbers: &[u64], size: u64, data: u64, stored: u64) -> Option<Vec<Extent>> {
    let (mut extents, mut end, mut used) = (Vec::new(), 0, 0_u64);
    if !numbers.len().is_multiple_of(2) {
        return None;
    }
    for pair in numbers.chunks_exact(2) {
        let (start, len) = (pair[0], pair[1]);
        let behind = start.checked_add(len)?;
        if start < end || behind > size || used.checked_add(len)? > stored {
            return None;
        }
        if len > 0 {
            extents.push(Extent { start, len, source: data.checked_add(used)? });
        }
        (end, used) = (behind, used + len);
    }
    Some(extents)
}

/// Numbers in lines, block by block.
struct Lines<'a, 'b> {
    source: &'a mut ReadAt<'b>,
    next: u64,
    end: u64,
    block: Vec<u8>,
    taken: usize,
}

impl Lines<'_, '_> {
    fn byte(&mut self) -> Result<Option<u8>, TarError> {
        if self.taken == self.block.len() {
            if self.next + BLOCK > self.end {
                return Ok(None);
            }
            self.block = exactly(self.source, self.next, BLOCK)?;
            (self.next, self.taken) = (self.next + BLOCK, 0);
        }
        self.taken += 1;
        Ok(Some(self.block[self.taken - 1]))
    }

    fn number(&mut self) -> Result<Option<u64>, TarError> {
        let mut number = 0_u64;
        loop {
            let digit = match self.byte()? {
                Some(b'\n') => return Ok(Some(number)),
                Some(digit @ b'0'..=b'9') => u64::from(digit - b'0'),
                _ => return Ok(None),
            };
            match number.checked_mul(10).and_then(|number| number.checked_add(digit)) {
                Some(longer) => number = longer,
                None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_have_to_fit_the_file_and_the_archive() {
        let extent = |start, len, source| Extent { start, len, source };
        assert_eq!(extents(&[0, 5, 10, 2, 20, 0], 20, 100, 7), Some(vec![extent(0, 5, 100), extent(10, 2, 105)]));
        for (numbers, size, stored) in
            [(&[0, 5, 4, 1][..], 20, 6), (&[0, 5], 4, 5), (&[0, 5], 5, 4), (&[u64::MAX, 2], 20, 5), (&[0], 20, 5)]
        {
            assert_eq!(extents(numbers, size, 100, stored), None, "{numbers:?}");
        }
    }
}

//! A sum that notices bytes that changed, were lost, or came in another place, and costs little beside adding one to each.

use std::io::Read;

use millstream_sys::vector;

use crate::method::cached_file::CachedFile;

/// Bytes that are added up at once.
const BLOCK: usize = 64;

/// Fletcher's sum in eight lanes of 64 bits: that of the words, and that of those sums, in which each word counts as often as
/// words follow.
#[derive(Clone, Default)]
pub(in crate::method) struct Sum {
    words: [u64; 8],
    sums: [u64; 8],
    begun: Vec<u8>,
    bytes: u64,
}

impl Sum {
    pub(in crate::method) fn add(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if !self.begun.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.begun.len()));
            self.begun.extend_from_slice(now);
            bytes = later;
            if self.begun.len() == BLOCK {
                let begun = std::mem::take(&mut self.begun);
                self.blocks(begun.as_chunks::<BLOCK>().0);
            }
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        self.blocks(blocks);
        self.begun.extend_from_slice(rest);
    }

    fn blocks(&mut self, blocks: &[[u8; BLOCK]]) {
        // In registers.
        let (mut words, mut sums) = (self.words, self.sums);
        for block in blocks {
            for (lane, word) in block.as_chunks::<8>().0.iter().enumerate() {
                words[lane] = words[lane].wrapping_add(u64::from_le_bytes(*word));
                sums[lane] = sums[lane].wrapping_add(words[lane]);
            }
        }
        (self.words, self.sums) = (words, sums);
    }

    /// Bytes that were added.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The sum.
    pub(in crate::method) fn total(&self) -> u64 {
        let mut whole = self.clone();
        let mut last = [0; BLOCK];
        last[..self.begun.len()].copy_from_slice(&self.begun);
        whole.blocks(&[last]);
        // An odd factor loses nothing, and each lane gets another power of it.
        let mix = |total: u64, part: &u64| total.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(*part);
        whole.words.iter().chain(&whole.sums).fold(self.bytes, mix)
    }
}

/// Adds one to each byte: with the loop of the transform, so that none is faster.
#[inline]
pub(in crate::method) fn add_one(bytes: &mut [u8]) {
    vector::each_byte(bytes, |byte| byte.wrapping_add(1));
}

/// The sum of a file after 0, 1, ... `most` stages.
pub(super) fn expected(file: &CachedFile, most: usize) -> Result<Vec<u64>, String> {
    let mut sums = vec![Sum::default(); most + 1];
    let (mut open, mut buffer) = (file.open()?, vec![0; 64 << 10]);
    loop {
        let count = open.read(&mut buffer).map_err(|error| format!("cannot read the file: {error}"))?;
        if count == 0 {
            return Ok(sums.iter().map(Sum::total).collect());
        }
        let bytes = &mut buffer[..count];
        for sum in &mut sums {
            sum.add(bytes);
            add_one(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8], piece: usize) -> u64 {
        let mut sum = Sum::default();
        bytes.chunks(piece).for_each(|piece| sum.add(piece));
        assert_eq!(sum.bytes(), bytes.len() as u64);
        sum.total()
    }

    #[test]
    fn pieces_do_not_matter_and_every_change_does() {
        let mut bytes: Vec<u8> = (0..10_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let whole = of(&bytes, 10_000);
        for piece in [1, 7, 63, 64, 65, 4096] {
            assert_eq!(of(&bytes, piece), whole, "{piece}");
        }
        assert_ne!(of(&bytes[1..], 64), whole);
        assert_ne!(of(&bytes[..9999], 64), whole);
        // Two blocks exchanged, and a byte off by one.
        let (first, second) = bytes.split_at_mut(64);
        first.swap_with_slice(&mut second[..64]);
        assert_ne!(of(&bytes, 64), whole);
        let (first, second) = bytes.split_at_mut(64);
        first.swap_with_slice(&mut second[..64]);
        bytes[9_999] = bytes[9_999].wrapping_add(1);
        assert_ne!(of(&bytes, 64), whole);
    }
}

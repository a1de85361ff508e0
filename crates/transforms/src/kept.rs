//! A queue that keeps the end of a stream.

use std::collections::VecDeque;

/// Bytes of a block. The queue has at most a few blocks more than its bytes need.
pub(crate) const BLOCK: usize = 4 << 10;

/// The most blocks that are not full: the first, the last, and the next one.
pub(crate) const SLACK: usize = 3 * BLOCK;

/// A queue of bytes whose memory grows by blocks and not by doubling, so that no more is used than is kept.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    blocks: VecDeque<Box<[u8]>>,
    /// A block that is used again, so that a running stream does not allocate.
    spare: Option<Box<[u8]>>,
    /// Bytes of the first block that were removed.
    start: usize,
    len: usize,
}

impl Kept {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = self.start + self.len;
            if end == self.blocks.len() * BLOCK {
                let spare = self.spare.take();
                self.blocks.push_back(spare.unwrap_or_else(|| vec![0; BLOCK].into_boxed_slice()));
            }
            let count = bytes.len().min(BLOCK - end % BLOCK);
            self.blocks[end / BLOCK][end % BLOCK..][..count].copy_from_slice(&bytes[..count]);
            self.len += count;
            bytes = &bytes[count..];
        }
    }

    pub(crate) fn drop_first(&mut self, count: usize) {
        self.start += count;
        self.len -= count;
        while self.start >= BLOCK {
            self.spare = self.blocks.pop_front();
            self.start -= BLOCK;
        }
    }

    /// What is kept, in order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let (start, end) = (self.start, self.start + self.len);
        self.blocks.iter().enumerate().map(move |(place, block)| {
            let within = |position: usize| position.saturating_sub(place * BLOCK).min(BLOCK);
            &block[within(start)..within(end)]
        })
    }

    /// Moves as many bytes to `output` as fit. Returns how many.
    pub(crate) fn take(&mut self, output: &mut [u8]) -> usize {
        let mut count = 0;
        for piece in self.pieces() {
            let part = piece.len().min(output.len() - count);
            output[count..count + part].copy_from_slice(&piece[..part]);
            count += part;
        }
        self.drop_first(count);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_blocks_go() {
        let (mut kept, mut model, mut next) = (Kept::default(), VecDeque::new(), 1_u32);
        for _ in 0..2000 {
            next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let count = next as usize >> 19;
            if next.is_multiple_of(3) {
                let bytes: Vec<u8> = (0..count).map(|place| (place ^ count) as u8).collect();
                kept.push(&bytes);
                model.extend(bytes);
            } else if next % 3 == 1 {
                let count = count.min(model.len());
                kept.drop_first(count);
                model.drain(..count);
            } else {
                let mut output = vec![0; count];
                let taken = kept.take(&mut output);
                assert!(output[..taken].iter().copied().eq(model.drain(..taken)));
            }
            assert_eq!(kept.len(), model.len());
            assert!(kept.pieces().flatten().eq(&model));
            assert!((kept.blocks.len() + usize::from(kept.spare.is_some())) * BLOCK <= kept.len() + SLACK);
        }
    }
}

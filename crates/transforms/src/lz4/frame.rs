//! Where the parts of an LZ4 frame begin and end.
//!
//! ```text
//!   magic  descriptor   size  data [checksum]   size  data [checksum]   0  [checksum]
//!   ╰─────────────── gathered ──────────────╯   ╰──── gathered ─────╯   ╰─ gathered ─╯
//! ```
//!
//! This reads only lengths. The library checks the bytes, with their checksums.

use millstream_net::TransformError;

const MAGIC: u32 = 0x184d_2204;
/// Begins frames of a format that programs before 2013 wrote.
const MAGIC_LEGACY: u32 = 0x184c_2102;
/// The first of sixteen numbers that begin frames without content.
const MAGIC_SKIPPED: u32 = 0x184d_2a50;

/// The part that came last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Magic,
    LengthToSkip,
    /// The first two bytes of the descriptor, which tell its length.
    Flags,
    Descriptor,
    BlockSize,
    Block,
    EndMark,
}

/// Whether the library can decode the gathered bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    Nothing,
    Block,
}

#[derive(Debug, Default)]
pub(super) struct Gather {
    part: Part,
    /// Bytes that were gathered since the last block.
    bytes: Vec<u8>,
    /// Length of `bytes` when the current part is complete; 0 means four, those of a magic number.
    wanted: usize,
    /// Bytes of a frame without content that are still to be skipped.
    skipping: u64,
    has_block_checksums: bool,
    has_checksum: bool,
    block_max: usize,
    frames: u64,
    /// Bytes of the stream that were taken, and bytes of it before the gathered ones.
    offset: u64,
    start: u64,
}

impl Gather {
    /// Takes bytes from the front of `input`, which is not empty, at most to the end of a block.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<(usize, Gathered), TransformError> {
        if self.skipping > 0 {
            let count = input.len().min(usize::try_from(self.skipping).unwrap_or(usize::MAX));
            self.skipping -= count as u64;
            self.offset += count as u64;
            return Ok((count, Gathered::Nothing));
        }
        if self.bytes.is_empty() {
            self.start = self.offset;
        }
        let count = input.len().min(self.wanted() - self.bytes.len());
        self.bytes.extend_from_slice(&input[..count]);
        self.offset += count as u64;
        while self.bytes.len() == self.wanted() {
            if matches!(self.part, Part::Block | Part::EndMark) {
                return Ok((count, Gathered::Block));
            }
            self.go_on()?;
        }
        Ok((count, Gathered::Nothing))
    }

    fn wanted(&self) -> usize {
        if self.wanted == 0 { 4 } else { self.wanted }
    }

    /// Goes on behind a complete part that is not the last of a block.
    fn go_on(&mut self) -> Result<(), TransformError> {
        let (part, more) = match self.part {
            Part::Magic => match self.last_number() {
                MAGIC => (Part::Flags, 2),
                MAGIC_LEGACY => return Err(self.fault("has the format of lz4 -l, which is not supported")),
                magic if magic & !15 == MAGIC_SKIPPED => (Part::LengthToSkip, 4),
                _ => return Err(self.fault("is corrupt: no frame begins here")),
            },
            Part::LengthToSkip => {
                self.skipping = u64::from(self.last_number());
                self.begin_frame();
                return Ok(());
            }
            Part::Flags => (Part::Descriptor, self.read_flags()?),
            Part::Descriptor => (Part::BlockSize, 4),
            Part::BlockSize => match self.last_number() {
                0 => (Part::EndMark, if self.has_checksum { 4 } else { 0 }),
                size => (Part::Block, self.block_len(size)?),
            },
            Part::Block | Part::EndMark => unreachable!("the last part of a block is not gone on from"),
        };
        self.part = part;
        self.wanted = self.bytes.len() + more;
        Ok(())
    }

    /// Reads the flags; returns the length of the descriptor behind them.
    fn read_flags(&mut self) -> Result<usize, TransformError> {
        let [.., flags, block] = self.bytes[..] else { unreachable!("two bytes were waited for") };
        let has = |bit: u8| flags & bit != 0;
        (self.has_block_checksums, self.has_checksum) = (has(0x10), has(0x04));
        if flags >> 6 != 1 {
            return Err(self.fault("is corrupt: it has a version that is not known"));
        }
        self.block_max = match block >> 4 & 7 {
            size @ 4..=7 => 1 << (8 + 2 * size),
            _ => return Err(self.fault("is corrupt: it has a size of blocks that does not exist")),
        };
        Ok(8 * usize::from(has(0x08)) + 4 * usize::from(has(0x01)) + 1)
    }

    fn block_len(&self, size: u32) -> Result<usize, TransformError> {
        // The highest bit marks a block that is not compressed.
        let len = (size & 0x7fff_ffff) as usize;
        if len > self.block_max {
            return Err(self.fault("is corrupt: a block is longer than its frame allows"));
        }
        Ok(len + 4 * usize::from(self.has_block_checksums))
    }

    /// The last four bytes.
    fn last_number(&self) -> u32 {
        let last = self.bytes.last_chunk().expect("four bytes were waited for");
        u32::from_le_bytes(*last)
    }

    /// Swaps the gathered bytes for memory to be used again, and goes on behind them.
    pub(super) fn swap(&mut self, other: &mut Vec<u8>) {
        std::mem::swap(&mut self.bytes, other);
        self.bytes.clear();
        if self.part == Part::EndMark {
            self.begin_frame();
        } else {
            (self.part, self.wanted) = (Part::BlockSize, 4);
        }
    }

    fn begin_frame(&mut self) {
        self.frames += 1;
        self.bytes.clear();
        (self.part, self.wanted) = (Part::Magic, 4);
    }

    /// Ends the stream.
    pub(super) fn end(&self) -> Result<(), TransformError> {
        let is_between = self.part == Part::Magic && self.bytes.is_empty() && self.skipping == 0;
        match (is_between, self.frames) {
            (true, 0) => Err(self.fault("is empty")),
            (true, _) => Ok(()),
            (false, _) => Err(self.fault("ends too early: the file is truncated").at(self.offset)),
        }
    }

    /// The error for the gathered bytes.
    pub(super) fn fault(&self, what: &str) -> TransformError {
        TransformError::new(format!("the lz4 stream {what}")).at(self.start)
    }
}

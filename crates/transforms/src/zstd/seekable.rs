//! The seekable format: frames that stand by themselves, each of as many bytes of the stream, and a table of them at the end.
//!
//! ```text
//!   frame  frame  ... frame  5E 2A 4D 18 | bytes | entry entry ... entry | frames | 80 | B1 EA 92 8F
//!                            ╰── a frame to skip, for who does not know it ──────────────────────╯
//!   entry: bytes of the frame, bytes of what is in it, the low half of the XXH64 of these; four bytes each
//! ```
//!
//! # References
//! `contrib/seekable_format/zstd_seekable_compression_format.md` in the sources of zstd, version 0.1.0.

use std::hash::Hasher;
use std::ops::RangeInclusive;

use millstream_net::{Fault, Next, Rewrite, Step};
use twox_hash::XxHash64;
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use crate::kept::{Kept, SLACK};

/// Bytes of what is in a frame. The format has 1 GiB at most; below 64 KiB the table would be large, and little be compressed.
pub(super) const FRAME: RangeInclusive<u64> = 64 << 10..=1 << 30;

const ENTRY: usize = 12;

/// Frames that the format allows.
const FRAMES_MAX: usize = 0x800_0000;

/// Memory for the table.
pub(super) const MEMORY: RangeInclusive<usize> = 32 << 10..=FRAMES_MAX * ENTRY;

const SKIPPABLE: u32 = 0x184d_2a5e;
const SEEKABLE: u32 = 0x8f92_eab1;
const HAS_CHECKSUMS: u8 = 0x80;
const FOOTER: usize = 9;

pub(super) struct Seekable {
    encoder: Encoder<'static>,
    frame_bytes: u32,
    /// Of the frame that is being written.
    read: u32,
    written: u32,
    hash: XxHash64,
    table: Kept,
    frames: usize,
    frames_max: usize,
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Frame,
    /// All of it was read.
    EndOfFrame,
    Table,
}

impl Seekable {
    pub(super) fn new(encoder: Encoder<'static>, frame_bytes: u32) -> Seekable {
        let frames_max = (MEMORY.start() - SLACK) / ENTRY;
        let (hash, table) = (XxHash64::with_seed(0), Kept::default());
        Seekable { encoder, frame_bytes, read: 0, written: 0, hash, table, frames: 0, frames_max, part: Part::Frame }
    }

    /// Compresses bytes of one frame. Returns how many were read and written.
    fn compress(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), Fault> {
        let room = (self.frame_bytes - self.read) as usize;
        let input = &input[..input.len().min(room)];
        let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
        self.encoder.run(&mut from, &mut to)?;
        let (read, written) = (from.pos(), to.pos());
        self.hash.write(&input[..read]);
        // Neither is longer than a frame, which is compressed to little more than it has.
        self.read += read as u32;
        self.written += written as u32;
        if self.read == self.frame_bytes {
            self.part = Part::EndOfFrame;
        }
        Ok((read, written))
    }

    fn end_frame(&mut self, output: &mut [u8]) -> Result<usize, Fault> {
        let mut to = OutBuffer::around(output);
        // Its threads may still be busy and nothing be ready.
        let mut left = self.encoder.finish(&mut to, true)?;
        while left > 0 && to.pos() == 0 {
            left = self.encoder.finish(&mut to, true)?;
        }
        let written = to.pos();
        self.written += written as u32;
        if left == 0 {
            if self.frames == self.frames_max {
                return Err(Fault::new(format!(
                    "there is memory for a table of {} frames, and more are needed; larger frames need fewer",
                    self.frames_max
                )));
            }
            let checksum = self.hash.finish() as u32;
            [self.written, self.read, checksum].iter().for_each(|number| self.table.push(&number.to_le_bytes()));
            self.frames += 1;
            (self.read, self.written, self.hash) = (0, 0, XxHash64::with_seed(0));
            self.part = Part::Frame;
        }
        Ok(written)
    }

    /// Returns how much of what stands before the table was written: all of it, or nothing for lack of room.
    fn begin_table(&mut self, output: &mut [u8]) -> usize {
        let bytes = self.table.len() + FOOTER;
        let start = [SKIPPABLE.to_le_bytes(), (bytes as u32).to_le_bytes()].concat();
        let Some(room) = output.get_mut(..start.len()) else { return 0 };
        room.copy_from_slice(&start);
        self.table.push(&(self.frames as u32).to_le_bytes());
        self.table.push(&[HAS_CHECKSUMS]);
        self.table.push(&SEEKABLE.to_le_bytes());
        self.part = Part::Table;
        start.len()
    }
}

impl Rewrite for Seekable {
    fn may_keep(&mut self, bytes: usize) {
        self.frames_max = (bytes.saturating_sub(SLACK) / ENTRY).min(FRAMES_MAX);
    }

    fn use_threads(&mut self, most: usize) {
        super::use_threads(&mut self.encoder, most);
    }

    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let (rest, room, part) = (&input[consumed..], &mut output[produced..], self.part);
            let (read, written) = match self.part {
                Part::Frame if !rest.is_empty() => self.compress(rest, room)?,
                Part::Frame if ends && self.read > 0 => {
                    self.part = Part::EndOfFrame;
                    continue;
                }
                Part::Frame if ends => (0, self.begin_table(room)),
                Part::Frame => (0, 0),
                Part::EndOfFrame => (0, self.end_frame(room)?),
                Part::Table => (0, self.table.take(room)),
            };
            (consumed, produced) = (consumed + read, produced + written);
            if self.part == Part::Table && self.table.len() == 0 {
                return Ok(Step { consumed, produced, next: Next::Done });
            }
            let is_idle = (read, written, self.part) == (0, 0, part);
            if is_idle || produced == output.len() {
                return Ok(Step { consumed, produced, next: Next::More });
            }
        }
    }
}

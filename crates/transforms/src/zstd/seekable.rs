//! The seekable format: independent frames, each of the same number of bytes of the stream, and a table of them at the
//! end.
//!
//! ```text
//!   frame  frame  ... frame  5E 2A 4D 18 | bytes | entry entry ... entry | frames | 80 | B1 EA 92 8F
//!                            ╰── a frame that other decoders skip ───────────────────────────────╯
//!   entry: bytes of the frame, bytes of its content, the low half of the XXH64 of these; four bytes each
//! ```
//!
//! # References
//! `contrib/seekable_format/zstd_seekable_compression_format.md` in the sources of zstd, version 0.1.0.

use std::hash::Hasher;
use std::ops::RangeInclusive;

use millstream_net::{Next, Rewrite, Step, TransformError};
use twox_hash::XxHash64;

use super::encoder::Encoder;
use super::frames::Frames;
use crate::kept::{Kept, SLACK};

/// Bytes of the content of a frame. The format allows 1 GiB; below 64 KiB the table would be large, and the compression
/// weak.
pub(super) const FRAME: RangeInclusive<u64> = 64 << 10..=1 << 30;

const ENTRY: usize = 12;

/// The most frames that the format allows.
const FRAMES_MAX: usize = 0x800_0000;

/// Memory for the table.
pub(super) const MEMORY: RangeInclusive<usize> = 32 << 10..=FRAMES_MAX * ENTRY;

const SKIPPABLE: u32 = 0x184d_2a5e;
const SEEKABLE: u32 = 0x8f92_eab1;
const HAS_CHECKSUMS: u8 = 0x80;
const FOOTER: usize = 9;

pub(super) struct Seekable {
    body: Body,
    table: Table,
    is_table_begun: bool,
}

/// How frames are made.
pub(super) enum Body {
    /// Several threads make them, each from a piece in memory.
    Pieces(Frames),
    /// One thread makes one after the other, for pieces too large for that.
    Streams(Streams),
}

/// The entries, and room for more.
struct Table {
    bytes: Kept,
    frames: usize,
    frames_max: usize,
}

impl Table {
    fn add(&mut self, written: usize, read: usize, checksum: u32) -> Result<(), TransformError> {
        if self.frames == self.frames_max {
            return Err(TransformError::new(format!(
                "there is memory for a table of {} frames, and more are needed; larger frames need fewer",
                self.frames_max
            )));
        }
        // Both fit: the content of a frame is limited, and compression adds little to it.
        [written as u32, read as u32, checksum].iter().for_each(|number| self.bytes.push(&number.to_le_bytes()));
        self.frames += 1;
        Ok(())
    }
}

/// Frames that are written while their content is read.
pub(super) struct Streams {
    encoder: Encoder,
    frame_bytes: u32,
    /// Bytes that were read of the current frame.
    read: u32,
    written: u32,
    hash: XxHash64,
    /// All of the current frame was read.
    is_end_of_frame: bool,
}

impl Streams {
    pub(super) fn new(encoder: Encoder, frame_bytes: u32) -> Streams {
        let hash = XxHash64::with_seed(0);
        Streams { encoder, frame_bytes, read: 0, written: 0, hash, is_end_of_frame: false }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool, table: &mut Table) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            let (rest, room) = (&input[consumed..], &mut output[produced..]);
            let (read, written) = if self.is_end_of_frame {
                (0, self.end_frame(room, table)?)
            } else if !rest.is_empty() {
                self.compress(rest, room)?
            } else if ends && self.read > 0 {
                self.is_end_of_frame = true;
                continue;
            } else {
                return Ok(Step { consumed, produced, next: if ends { Next::Done } else { Next::More } });
            };
            (consumed, produced) = (consumed + read, produced + written);
            let is_idle = (read, written) == (0, 0) && self.read > 0;
            if is_idle || produced == output.len() {
                return Ok(Step { consumed, produced, next: Next::More });
            }
        }
    }

    /// Compresses bytes of one frame. Returns how many were read and written.
    fn compress(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), TransformError> {
        let room = (self.frame_bytes - self.read) as usize;
        let input = &input[..input.len().min(room)];
        let (read, written) = self.encoder.compress(input, output)?;
        self.hash.write(&input[..read]);
        self.read += read as u32;
        self.written += written as u32;
        self.is_end_of_frame = self.read == self.frame_bytes;
        Ok((read, written))
    }

    fn end_frame(&mut self, output: &mut [u8], table: &mut Table) -> Result<usize, TransformError> {
        let (written, is_complete) = self.encoder.end_frame(output)?;
        self.written += written as u32;
        if is_complete {
            table.add(self.written as usize, self.read as usize, self.hash.finish() as u32)?;
            (self.read, self.written, self.hash) = (0, 0, XxHash64::with_seed(0));
            self.is_end_of_frame = false;
        }
        Ok(written)
    }
}

impl Seekable {
    pub(super) fn new(body: Body) -> Seekable {
        let frames_max = (MEMORY.start() - SLACK) / ENTRY;
        Seekable { body, table: Table { bytes: Kept::default(), frames: 0, frames_max }, is_table_begun: false }
    }

    /// Writes the bytes before the table, if they fit. Returns how many it wrote: all, or none.
    fn begin_table(&mut self, output: &mut [u8]) -> usize {
        let Table { bytes: table, frames, .. } = &mut self.table;
        let bytes = table.len() + FOOTER;
        let start = [SKIPPABLE.to_le_bytes(), (bytes as u32).to_le_bytes()].concat();
        let Some(room) = output.get_mut(..start.len()) else { return 0 };
        room.copy_from_slice(&start);
        table.push(&(*frames as u32).to_le_bytes());
        table.push(&[HAS_CHECKSUMS]);
        table.push(&SEEKABLE.to_le_bytes());
        self.is_table_begun = true;
        start.len()
    }

    fn compress(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let table = &mut self.table;
        match &mut self.body {
            Body::Streams(streams) => streams.step(input, output, ends, table),
            Body::Pieces(frames) => frames.step(input, output, ends, |frame| {
                let checksum = frame.bytes.last_chunk().map_or(0, |last| u32::from_le_bytes(*last));
                table.add(frame.bytes.len(), frame.piece_bytes, checksum)
            }),
        }
    }
}

impl Rewrite for Seekable {
    fn may_keep(&mut self, bytes: usize) {
        self.table.frames_max = (bytes.saturating_sub(SLACK) / ENTRY).min(FRAMES_MAX);
    }

    fn use_threads(&mut self, most: usize) {
        match &mut self.body {
            Body::Pieces(frames) => frames.use_threads(most),
            Body::Streams(streams) => streams.encoder.use_threads(most),
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let mut step = Step { consumed: 0, produced: 0, next: Next::Done };
        if !self.is_table_begun {
            step = self.compress(input, output, ends)?;
            if step.next == Next::More {
                return Ok(step);
            }
            step.produced += self.begin_table(&mut output[step.produced..]);
        }
        if self.is_table_begun {
            step.produced += self.table.bytes.take(&mut output[step.produced..]);
        }
        let is_done = self.is_table_begun && self.table.bytes.len() == 0;
        Ok(Step { next: if is_done { Next::Done } else { Next::More }, ..step })
    }
}

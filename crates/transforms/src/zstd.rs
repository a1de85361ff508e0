//! Zstandard (RFC 8878).

mod encoder;
mod frames;
mod seekable;

use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::arguments;
use encoder::Encoder;
use frames::Frames;
use seekable::{Body, Seekable, Streams};

/// `zstd`
pub(crate) static ZSTD: Entry = Entry {
    name: "zstd",
    usage: "zstd [-1 ... -19] [-s SIZE], with K, M or G",
    summary: "compressed, as zstd(1) does, with a checksum and in several threads; -3 unless given; -s: in the seekable format, in \
              frames of SIZE bytes that can be decompressed alone",
    takes: Data::Any,
    gives: Data::Format("zstd"),
    build: |arguments| {
        let option = arguments.iter().position(|word| word == "-s");
        let (levels, seekable) = arguments.split_at(option.unwrap_or(arguments.len()));
        // The level may also follow it.
        let (size, more) = match seekable {
            [] => (None, &[][..]),
            [_, size, more @ ..] => {
                (Some(arguments::size("SIZE", size, *seekable::FRAME.start(), *seekable::FRAME.end())?), more)
            }
            [_] => return Err("SIZE has to follow '-s'".into()),
        };
        let level = arguments::level(&[levels, more].concat(), 1, 19, 3)?;
        let encoder = || Encoder::new(level).map_err(|error| format!("zstd cannot begin: {error}"));
        let stage = match (size, piece_bytes(level)) {
            (None, Some(bytes)) => Stage::rewrite(Size::Unknown, InPieces(Frames::new(level, bytes))),
            (None, None) => Stage::rewrite(Size::Unknown, Compress(encoder()?)),
            (Some(size), _) if size <= IN_PIECES_MAX as u64 => {
                let frames = Frames::new(level, size as usize).without_empty();
                Stage::rewrite(Size::Unknown, Seekable::new(Body::Pieces(frames))).keeping(seekable::MEMORY)
            }
            (Some(size), _) => {
                let body = Body::Streams(Streams::new(encoder()?, size as u32));
                Stage::rewrite(Size::Unknown, Seekable::new(body)).keeping(seekable::MEMORY)
            }
        };
        Ok(stage.with_threads().with_inverse("unzstd"))
    },
};

/// Bytes of the pieces that become frames. Distant matches are worth more at higher levels, so pieces are larger there.
/// From level 10 on the stream is one frame: the cuts would cost more than they gain.
fn piece_bytes(level: i32) -> Option<usize> {
    match level {
        ..=5 => Some(4 << 20),
        6..=9 => Some(IN_PIECES_MAX),
        _ => None,
    }
}

/// The largest size of pieces that threads keep whole.
const IN_PIECES_MAX: usize = 8 << 20;

struct InPieces(Frames);

impl Rewrite for InPieces {
    fn use_threads(&mut self, most: usize) {
        self.0.use_threads(most);
    }

    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        self.0.step(input, output, ends, |_| Ok(()))
    }
}

struct Compress(Encoder);

impl Rewrite for Compress {
    fn use_threads(&mut self, most: usize) {
        self.0.use_threads(most);
    }

    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        if !input.is_empty() {
            let (consumed, produced) = self.0.compress(input, output)?;
            return Ok(Step { consumed, produced, next: Next::More });
        }
        let (produced, is_complete) = if ends { self.0.end_frame(output)? } else { (0, false) };
        Ok(Step { consumed: 0, produced, next: if is_complete { Next::Done } else { Next::More } })
    }
}

/// `unzstd`
pub(crate) static UNZSTD: Entry = Entry {
    name: "unzstd",
    usage: "unzstd",
    summary: "what was compressed with zstd, also in several frames",
    takes: Data::Format("zstd"),
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        let decoder = Decoder::new().map_err(|error| format!("zstd cannot begin: {error}"))?;
        let decompress = Decompress { decoder, is_between: true, frames: 0, offset: 0, part: 0, wanted: BEGINNING };
        Ok(Stage::rewrite(Size::Unknown, decompress).with_inverse("zstd"))
    },
};

/// Bytes that identify a frame.
const BEGINNING: usize = 5;

/// The library gets the bytes that it asks for, one block at a time, so that an error can name its block.
struct Decompress {
    decoder: Decoder<'static>,
    is_between: bool,
    frames: u64,
    /// Bytes of the stream that were read.
    offset: u64,
    /// Where the current part begins: a header, a block, a checksum.
    part: u64,
    /// Bytes of it that are still missing.
    wanted: usize,
}

impl Decompress {
    /// Reads from the start of `input`, at most to the end of a part. Returns how much was read and written.
    fn read(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), TransformError> {
        let input = &input[..input.len().min(self.wanted)];
        let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
        let wanted = self.decoder.run(&mut from, &mut to).map_err(|error| {
            TransformError::new(format!("the zstd stream is corrupt, in the part that begins here: {error}"))
                .at(self.part)
        })?;
        let (consumed, produced) = (from.pos(), to.pos());
        self.offset += consumed as u64;
        if wanted == 0 || consumed == self.wanted {
            self.part = self.offset;
        }
        self.is_between = wanted == 0;
        self.frames += u64::from(self.is_between);
        self.wanted = if self.is_between { BEGINNING } else { wanted };
        Ok((consumed, produced))
    }
}

impl Rewrite for Decompress {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            if consumed == input.len() && self.is_between {
                return match (ends, self.frames) {
                    (true, 0) => Err(TransformError::new("the zstd stream is empty")),
                    _ => Ok(Step { consumed, produced, next: if ends { Next::Done } else { Next::More } }),
                };
            }
            let (read, written) = self.read(&input[consumed..], &mut output[produced..])?;
            (consumed, produced) = (consumed + read, produced + written);
            if produced == output.len() || (read, written) == (0, 0) {
                break;
            }
        }
        if ends && !self.is_between && consumed == input.len() && produced == 0 {
            return Err(TransformError::new("the zstd stream ends too early: the file is truncated").at(self.offset));
        }
        Ok(Step { consumed, produced, next: Next::More })
    }
}

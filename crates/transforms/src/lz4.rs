//! LZ4 frames.

mod frame;

use std::io::{self, BufRead, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;
use crate::pending::Pending;
use frame::{Gather, Gathered};

/// `lz4`
pub(crate) static LZ4: Entry = Entry {
    name: "lz4",
    usage: "lz4",
    summary: "compressed fast, as lz4(1) does, with a checksum; it has no levels",
    takes: Data::Any,
    gives: Data::Format("lz4"),
    build: |arguments| {
        arguments::none(arguments)?;
        let frame =
            FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max256KB).content_checksum(true);
        let encoder = FrameEncoder::with_frame_info(frame, Pending::default());
        Ok(Stage::rewrite(Size::Unknown, Compress { encoder, is_empty: true, has_ended: false }).with_inverse("unlz4"))
    },
};

/// Bytes that are compressed before their output is passed on.
const PIECE: usize = 64 << 10;

/// The frame of an empty stream, which the library leaves out: descriptor, end mark, checksum of nothing.
const EMPTY: [u8; 15] = [0x04, 0x22, 0x4d, 0x18, 0x64, 0x40, 0xa7, 0x00, 0x00, 0x00, 0x00, 0x05, 0x5d, 0xcc, 0x02];

struct Compress {
    encoder: FrameEncoder<Pending>,
    is_empty: bool,
    has_ended: bool,
}

impl Compress {
    fn end(&mut self) -> Result<(), TransformError> {
        self.has_ended = true;
        if self.is_empty {
            self.encoder.get_mut().end().extend_from_slice(&EMPTY);
        }
        self.encoder.try_finish().map_err(|error| TransformError::new(error.to_string()))
    }
}

impl Rewrite for Compress {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, self.encoder.get_mut().take(output));
        while self.encoder.get_ref().is_empty() && consumed < input.len() {
            let piece = &input[consumed..input.len().min(consumed + PIECE)];
            self.encoder.write_all(piece)?;
            self.is_empty = false;
            consumed += piece.len();
            produced += self.encoder.get_mut().take(&mut output[produced..]);
        }
        if ends && consumed == input.len() && self.encoder.get_ref().is_empty() && !self.has_ended {
            self.end()?;
            produced += self.encoder.get_mut().take(&mut output[produced..]);
        }
        let is_done = self.has_ended && self.encoder.get_ref().is_empty();
        Ok(Step { consumed, produced, next: if is_done { Next::Done } else { Next::More } })
    }
}

/// `unlz4`
pub(crate) static UNLZ4: Entry = Entry {
    name: "unlz4",
    usage: "unlz4",
    summary: "what was compressed with lz4, also in several frames; no dictionaries, and not the format of lz4 -l",
    takes: Data::Format("lz4"),
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        let decompress =
            Decompress { gather: Gather::default(), decoder: FrameDecoder::new(Pending::default()), ready: 0 };
        Ok(Stage::rewrite(Size::Unknown, decompress).with_inverse("lz4"))
    },
};

/// The library reads from a stream that does not pause, so it gets whole blocks only.
struct Decompress {
    gather: Gather,
    decoder: FrameDecoder<Pending>,
    /// Bytes that the library has decompressed and `step` has not taken yet.
    ready: usize,
}

impl Decompress {
    fn decompress(&mut self) -> Result<(), TransformError> {
        self.gather.swap(self.decoder.get_mut().end());
        let block = self.decoder.fill_buf().map(<[u8]>::len);
        let block = block.map_err(|error| self.gather.fault(&format!("is corrupt: {}", in_words(&error))))?;
        if !self.decoder.get_ref().is_empty() {
            return Err(self.gather.fault("is corrupt: a block does not have the length that it names"));
        }
        self.ready = block;
        Ok(())
    }

    fn take(&mut self, output: &mut [u8]) -> Result<usize, TransformError> {
        if self.ready == 0 {
            return Ok(0);
        }
        // The library does not read here: bytes are ready.
        let block = self.decoder.fill_buf()?;
        let count = block.len().min(output.len());
        output[..count].copy_from_slice(&block[..count]);
        self.decoder.consume(count);
        self.ready -= count;
        Ok(count)
    }
}

/// The error of the library, which it reports as the name of a variant.
fn in_words(error: &io::Error) -> String {
    use lz4_flex::frame::Error;

    let known = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::DecompressionError(_)) => "a block cannot be decompressed",
        Some(Error::HeaderChecksumError) => "the checksum of a header is wrong",
        Some(Error::BlockChecksumError) => "the checksum of a block is wrong",
        Some(Error::ContentChecksumError) => "the checksum of the content is wrong",
        Some(Error::ContentLengthError { .. }) => "the content does not have the length that the header names",
        Some(Error::ReservedBitsSet) => "a bit is set that has no meaning",
        Some(Error::DictionaryNotSupported) => "it needs a dictionary, which is not supported",
        _ => return error.to_string(),
    };
    known.into()
}

impl Rewrite for Decompress {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, self.take(output)?);
        while self.ready == 0 && consumed < input.len() {
            let (count, gathered) = self.gather.take(&input[consumed..])?;
            consumed += count;
            if gathered == Gathered::Block {
                self.decompress()?;
                produced += self.take(&mut output[produced..])?;
            }
        }
        if !(ends && consumed == input.len() && self.ready == 0) {
            return Ok(Step { consumed, produced, next: Next::More });
        }
        self.gather.end()?;
        Ok(Step { consumed, produced, next: Next::Done })
    }
}

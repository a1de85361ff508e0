//! Brotli (RFC 7932).

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderDestroyInstance, BrotliEncoderStateStruct};
use brotli::enc::encode::{BrotliEncoderOperation as Operation, BrotliEncoderParameter as Parameter};
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;

/// Binary logarithm of the window: 4 MiB, the default of the library.
const WINDOW: u32 = 22;

/// The length of the stream that the encoder assumes. Without it, the encoder would estimate it from the first piece,
/// and its output would depend on the pieces.
const LENGTH_HINT: u32 = 1 << 22;

/// `brotli`
pub(crate) static BROTLI: Entry = Entry {
    name: "brotli",
    usage: "brotli [-0 ... -11]",
    summary: "compressed, as brotli(1) does; -11 unless given, which is slow",
    takes: Data::Any,
    gives: Data::Format("brotli"),
    build: |arguments| {
        let level = arguments::level(arguments, 0, 11, 11)?.unsigned_abs();
        Ok(Stage::rewrite(Size::Unknown, Compress::new(level)).with_inverse("unbrotli"))
    },
};

struct Compress {
    state: BrotliEncoderStateStruct<StandardAlloc>,
    /// Collects pieces of one size for the two fastest levels, which make a block of each piece that they get.
    held: Option<Held>,
}

#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// Bytes of a complete piece, or of the last one, that the encoder has got.
    given: usize,
}

/// Bytes of such a piece.
const PIECE: usize = 256 << 10;

impl Compress {
    fn new(level: u32) -> Compress {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        state.set_parameter(Parameter::BROTLI_PARAM_QUALITY, level);
        state.set_parameter(Parameter::BROTLI_PARAM_LGWIN, WINDOW);
        state.set_parameter(Parameter::BROTLI_PARAM_SIZE_HINT, LENGTH_HINT);
        Compress { state, held: (level < 2).then(Held::default) }
    }
}

/// Returns how many bytes were read and written.
fn compress(
    state: &mut BrotliEncoderStateStruct<StandardAlloc>,
    input: &[u8],
    output: &mut [u8],
    operation: Operation,
) -> Result<(usize, usize), TransformError> {
    let (mut left, mut consumed, mut room, mut produced) = (input.len(), 0, output.len(), 0);
    let is_well = state.compress_stream(
        operation,
        &mut left,
        input,
        &mut consumed,
        &mut room,
        output,
        &mut produced,
        &mut None,
        &mut |_, _, _, _| (),
    );
    if is_well { Ok((consumed, produced)) } else { Err(TransformError::new("brotli cannot go on")) }
}

impl Rewrite for Compress {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (consumed, produced) = match &mut self.held {
            None => {
                let operation =
                    if ends { Operation::BROTLI_OPERATION_FINISH } else { Operation::BROTLI_OPERATION_PROCESS };
                compress(&mut self.state, input, output, operation)?
            }
            Some(held) => held.step(&mut self.state, input, output, ends)?,
        };
        let next = if ends && self.state.is_finished() { Next::Done } else { Next::More };
        Ok(Step { consumed, produced, next })
    }
}

impl Held {
    fn step(
        &mut self,
        state: &mut BrotliEncoderStateStruct<StandardAlloc>,
        input: &[u8],
        output: &mut [u8],
        ends: bool,
    ) -> Result<(usize, usize), TransformError> {
        let consumed = if self.given > 0 { 0 } else { input.len().min(PIECE - self.bytes.len()) };
        self.bytes.extend_from_slice(&input[..consumed]);
        let is_full = self.bytes.len() == PIECE;
        let (piece, operation) = match () {
            () if is_full => (&self.bytes[self.given..], Operation::BROTLI_OPERATION_PROCESS),
            () if ends && consumed == input.len() => (&self.bytes[self.given..], Operation::BROTLI_OPERATION_FINISH),
            () => (&[][..], Operation::BROTLI_OPERATION_PROCESS),
        };
        let (given, produced) = compress(state, piece, output, operation)?;
        self.given += given;
        if is_full && self.given == PIECE {
            *self = Held { bytes: std::mem::take(&mut self.bytes), given: 0 };
            self.bytes.clear();
        }
        Ok((consumed, produced))
    }
}

/// The library frees its memory only on request.
impl Drop for Compress {
    fn drop(&mut self) {
        BrotliEncoderDestroyInstance(&mut self.state);
    }
}

/// `unbrotli`
pub(crate) static UNBROTLI: Entry = Entry {
    name: "unbrotli",
    usage: "unbrotli",
    summary: "what was compressed with brotli, with a window of at most 16 MiB",
    takes: Data::Format("brotli"),
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        let alloc = StandardAlloc::default;
        let state = BrotliState::new_strict(alloc(), alloc(), alloc());
        Ok(Stage::rewrite(Size::Unknown, Decompress { state, is_begun: false, has_ended: false })
            .with_inverse("brotli"))
    },
};

struct Decompress {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    is_begun: bool,
    has_ended: bool,
}

impl Rewrite for Decompress {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        self.is_begun |= !input.is_empty();
        if self.has_ended {
            return match input.is_empty() {
                true => Ok(Step { consumed: 0, produced: 0, next: if ends { Next::Done } else { Next::More } }),
                false => Err(TransformError::new("bytes follow the end of the brotli stream")),
            };
        }
        if ends && !self.is_begun {
            return Err(TransformError::new("the brotli stream is empty"));
        }
        let (mut left, mut consumed, mut room, mut produced) = (input.len(), 0, output.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut consumed,
            input,
            &mut room,
            &mut produced,
            output,
            &mut 0,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultFailure => Err(TransformError::new("the brotli stream is corrupt").after(consumed)),
            BrotliResult::NeedsMoreInput if ends && consumed == input.len() && produced == 0 => {
                Err(TransformError::new("the brotli stream ends too early: the file is truncated").after(consumed))
            }
            result => {
                self.has_ended = matches!(result, BrotliResult::ResultSuccess);
                Ok(Step { consumed, produced, next: Next::More })
            }
        }
    }
}

//! gzip (RFC 1952) and zlib (RFC 1950).

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;
use crate::pending::Pending;

/// The largest window, 2^15 bytes, which every reader has to understand.
const WINDOW: u8 = 15;

/// `gzip`
pub(crate) static GZIP: Entry = Entry {
    name: "gzip",
    usage: "gzip [-0 ... -9]",
    summary: "compressed, as gzip(1) does; -6 unless given",
    takes: Data::Any,
    gives: Data::Format("gzip"),
    build: |arguments| compress(arguments, "gunzip", |level| Compress::new_gzip(level, WINDOW)),
};

/// `zlib`
pub(crate) static ZLIB: Entry = Entry {
    name: "zlib",
    usage: "zlib [-0 ... -9]",
    summary: "compressed, in the frame that PNG and HTTP's deflate have; -6 unless given",
    takes: Data::Any,
    gives: Data::Format("zlib"),
    build: |arguments| compress(arguments, "unzlib", |level| Compress::new_with_window_bits(level, true, WINDOW)),
};

fn compress(arguments: &[String], inverse: &str, new: fn(Compression) -> Compress) -> Result<Stage, String> {
    let level = arguments::level(arguments, 0, 9, 6)?;
    let deflate = Deflate::new(new(Compression::new(level.unsigned_abs())));
    Ok(Stage::rewrite(Size::Unknown, deflate).with_inverse(inverse))
}

/// Bytes that the library gets at once. Its output depends on where the stream is cut, so this cuts always at the same
/// places.
const PIECE: usize = 64 << 10;

/// Room for its output: more than it can need, because the library would also end a block for lack of room.
const ROOM: usize = 4 * PIECE;

struct Deflate {
    stream: Compress,
    /// The beginning of a piece that is not complete.
    begun: Vec<u8>,
    pending: Pending,
    has_ended: bool,
}

impl Deflate {
    fn new(stream: Compress) -> Deflate {
        Deflate { stream, begun: Vec::new(), pending: Pending::default(), has_ended: false }
    }
}

/// Compresses a piece, or with `Finish` the last one and the end of the stream.
fn compress_piece(
    stream: &mut Compress,
    mut piece: &[u8],
    pending: &mut Pending,
    flush: FlushCompress,
) -> Result<(), TransformError> {
    let out = pending.end();
    loop {
        out.reserve_exact(ROOM);
        let before = stream.total_in();
        let status = stream.compress_vec(piece, out, flush).map_err(|error| TransformError::new(error.to_string()))?;
        piece = &piece[(stream.total_in() - before) as usize..];
        let is_done = match flush {
            FlushCompress::Finish => status == Status::StreamEnd,
            _ => piece.is_empty(),
        };
        if is_done {
            return Ok(());
        }
    }
}

impl Rewrite for Deflate {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            produced += self.pending.take(&mut output[produced..]);
            let rest = &input[consumed..];
            if !self.pending.is_empty() || (rest.is_empty() && !ends) {
                return Ok(Step { consumed, produced, next: Next::More });
            }
            if self.has_ended {
                return Ok(Step { consumed, produced, next: Next::Done });
            }
            let Deflate { stream, begun, pending, .. } = self;
            if rest.is_empty() {
                compress_piece(stream, begun, pending, FlushCompress::Finish)?;
                self.has_ended = true;
            } else if begun.is_empty() && rest.len() >= PIECE {
                compress_piece(stream, &rest[..PIECE], pending, FlushCompress::None)?;
                consumed += PIECE;
            } else {
                let count = rest.len().min(PIECE - begun.len());
                begun.extend_from_slice(&rest[..count]);
                consumed += count;
                if begun.len() == PIECE {
                    compress_piece(stream, begun, pending, FlushCompress::None)?;
                    begun.clear();
                }
            }
        }
    }
}

/// `gunzip`
pub(crate) static GUNZIP: Entry = Entry {
    name: "gunzip",
    usage: "gunzip",
    summary: "what was compressed with gzip, also in several parts one after the other",
    takes: Data::Format("gzip"),
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        let inflate = Inflate::new("gzip", true, || Decompress::new_gzip(WINDOW));
        Ok(Stage::rewrite(Size::Unknown, inflate).with_inverse("gzip"))
    },
};

/// `unzlib`
pub(crate) static UNZLIB: Entry = Entry {
    name: "unzlib",
    usage: "unzlib",
    summary: "what was compressed with zlib",
    takes: Data::Format("zlib"),
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        let inflate = Inflate::new("zlib", false, || Decompress::new_with_window_bits(true, WINDOW));
        Ok(Stage::rewrite(Size::Unknown, inflate).with_inverse("zlib"))
    },
};

struct Inflate {
    format: &'static str,
    /// Whether another stream may follow.
    may_repeat: bool,
    new: fn() -> Decompress,
    stream: Decompress,
    /// Whether the stream has ended and no byte of another has come.
    is_between: bool,
    streams: u64,
}

impl Inflate {
    fn new(format: &'static str, may_repeat: bool, new: fn() -> Decompress) -> Inflate {
        Inflate { format, may_repeat, new, stream: new(), is_between: true, streams: 0 }
    }

    /// Reads what follows a stream: zeros are padding (of tapes), and anything but the beginning of another is an
    /// error.
    fn between(&mut self, input: &[u8], ends: bool) -> Option<Result<Step, TransformError>> {
        let zeros = if self.streams == 0 { 0 } else { input.iter().take_while(|&&byte| byte == 0).count() };
        if zeros > 0 {
            return Some(Ok(Step { consumed: zeros, produced: 0, next: Next::More }));
        }
        match (input.is_empty(), ends, self.streams) {
            (true, true, 0) => Some(Err(TransformError::new(format!("the {} stream is empty", self.format)))),
            (true, true, _) => Some(Ok(Step { consumed: 0, produced: 0, next: Next::Done })),
            (true, false, _) => Some(Ok(Step { consumed: 0, produced: 0, next: Next::More })),
            (false, _, 1..) if !self.may_repeat => {
                Some(Err(TransformError::new(format!("bytes follow the end of the {} stream", self.format))))
            }
            (false, ..) => {
                self.stream = (self.new)();
                self.is_between = false;
                None
            }
        }
    }
}

impl Rewrite for Inflate {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        if self.is_between
            && let Some(done) = self.between(input, ends)
        {
            return done;
        }
        let (read, written) = (self.stream.total_in(), self.stream.total_out());
        let status = self.stream.decompress(input, output, FlushDecompress::None).map_err(|error| {
            let consumed = usize::try_from(self.stream.total_in() - read).unwrap_or(0);
            let which =
                if self.streams == 0 { String::new() } else { format!(" (part {} of the file)", self.streams + 1) };
            TransformError::new(format!(
                "the {} stream is corrupt: {}{which}",
                self.format,
                error.message().unwrap_or("bad data")
            ))
            .after(consumed)
        })?;
        let mut step = step((read, written), (self.stream.total_in(), self.stream.total_out()), false);
        if status == Status::StreamEnd {
            self.is_between = true;
            self.streams += 1;
        } else if ends && step.consumed == input.len() && step.produced == 0 {
            return Err(TransformError::new(format!(
                "the {} stream ends too early: the file is truncated",
                self.format
            ))
            .after(step.consumed));
        }
        step.next = Next::More;
        Ok(step)
    }
}

fn step(before: (u64, u64), after: (u64, u64), is_done: bool) -> Step {
    // What fits into a slice fits into a `usize`.
    let [consumed, produced] = [after.0 - before.0, after.1 - before.1].map(|count| count as usize);
    Step { consumed, produced, next: if is_done { Next::Done } else { Next::More } }
}

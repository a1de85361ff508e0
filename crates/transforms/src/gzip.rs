//! gzip (RFC 1952) and zlib (RFC 1950).

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use millstream_net::{Data, Entry, Fault, Next, Rewrite, Size, Stage, Step};

use crate::arguments;

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
    Ok(Stage::rewrite(Size::Unknown, Deflate(new(Compression::new(level.unsigned_abs())))).undone_by(inverse))
}

struct Deflate(Compress);

impl Rewrite for Deflate {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
        if input.is_empty() && !ends {
            return Ok(Step { consumed: 0, produced: 0, next: Next::More });
        }
        let (read, written) = (self.0.total_in(), self.0.total_out());
        let flush = if ends { FlushCompress::Finish } else { FlushCompress::None };
        let status = self.0.compress(input, output, flush).map_err(|error| Fault::new(error.to_string()))?;
        Ok(step((read, written), (self.0.total_in(), self.0.total_out()), status == Status::StreamEnd))
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
        Ok(Stage::rewrite(Size::Unknown, inflate).undone_by("gzip"))
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
        Ok(Stage::rewrite(Size::Unknown, inflate).undone_by("zlib"))
    },
};

struct Inflate {
    format: &'static str,
    /// Whether another stream may follow.
    may_repeat: bool,
    new: fn() -> Decompress,
    stream: Decompress,
    /// Whether it ended and nothing of another has come.
    is_between: bool,
    streams: u64,
}

impl Inflate {
    fn new(format: &'static str, may_repeat: bool, new: fn() -> Decompress) -> Inflate {
        Inflate { format, may_repeat, new, stream: new(), is_between: true, streams: 0 }
    }

    /// After a stream: zeros are padding (tapes), and what is not the beginning of another is an error.
    fn between(&mut self, input: &[u8], ends: bool) -> Option<Result<Step, Fault>> {
        let zeros = if self.streams == 0 { 0 } else { input.iter().take_while(|&&byte| byte == 0).count() };
        if zeros > 0 {
            return Some(Ok(Step { consumed: zeros, produced: 0, next: Next::More }));
        }
        match (input.is_empty(), ends, self.streams) {
            (true, true, 0) => Some(Err(Fault::new(format!("the {} stream is empty", self.format)))),
            (true, true, _) => Some(Ok(Step { consumed: 0, produced: 0, next: Next::Done })),
            (true, false, _) => Some(Ok(Step { consumed: 0, produced: 0, next: Next::More })),
            (false, _, 1..) if !self.may_repeat => {
                Some(Err(Fault::new(format!("bytes follow the end of the {} stream", self.format))))
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
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
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
            Fault::new(format!(
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
            return Err(Fault::new(format!("the {} stream ends too early: the file is truncated", self.format))
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

//! Zstandard (RFC 8878).

use millstream_net::{Data, Entry, Fault, Next, Rewrite, Size, Stage, Step};
use zstd::stream::raw::{CParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};

use crate::arguments;

/// `zstd`
pub(crate) static ZSTD: Entry = Entry {
    name: "zstd",
    usage: "zstd [-1 ... -19]",
    summary: "compressed, as zstd(1) does, with a checksum and on all CPUs; -3 unless given",
    takes: Data::Any,
    gives: Data::Format("zstd"),
    build: |arguments| {
        let level = arguments::level(arguments, 1, 19, 3)?;
        let encoder = Compress::new(level).map_err(|error| format!("zstd cannot begin: {error}"))?;
        Ok(Stage::rewrite(Size::Unknown, encoder).undone_by("unzstd"))
    },
};

struct Compress(Encoder<'static>);

impl Compress {
    fn new(level: i32) -> std::io::Result<Compress> {
        let mut encoder = Encoder::new(level)?;
        encoder.set_parameter(CParameter::ChecksumFlag(true))?;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if cpus > 1 {
            // Frames as one thread would write them, cut into jobs that run beside each other.
            encoder.set_parameter(CParameter::NbWorkers(u32::try_from(cpus).unwrap_or(1)))?;
        }
        Ok(Compress(encoder))
    }
}

impl Rewrite for Compress {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
        let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
        if !input.is_empty() {
            self.0.run(&mut from, &mut to)?;
        } else if ends {
            // Its threads may still be busy and nothing be ready.
            let mut left = self.0.finish(&mut to, true)?;
            while left > 0 && to.pos() == 0 {
                left = self.0.finish(&mut to, true)?;
            }
            let next = if left == 0 { Next::Done } else { Next::More };
            return Ok(Step { consumed: 0, produced: to.pos(), next });
        }
        let consumed = from.pos();
        Ok(Step { consumed, produced: to.pos(), next: Next::More })
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
        Ok(Stage::rewrite(Size::Unknown, Decompress { decoder, is_between: true, frames: 0 }).undone_by("zstd"))
    },
};

struct Decompress {
    decoder: Decoder<'static>,
    is_between: bool,
    frames: u64,
}

impl Rewrite for Decompress {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
        if input.is_empty() && self.is_between {
            return match (ends, self.frames) {
                (true, 0) => Err(Fault::new("the zstd stream is empty")),
                _ => Ok(Step { consumed: 0, produced: 0, next: if ends { Next::Done } else { Next::More } }),
            };
        }
        let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
        let hint = self.decoder.run(&mut from, &mut to);
        let hint = hint.map_err(|error| Fault::new(format!("the zstd stream is corrupt: {error}")))?;
        let (consumed, produced) = (from.pos(), to.pos());
        self.is_between = hint == 0;
        self.frames += u64::from(self.is_between);
        if ends && !self.is_between && consumed == input.len() && produced == 0 {
            return Err(Fault::new("the zstd stream ends too early: the file is truncated").after(consumed));
        }
        Ok(Step { consumed, produced, next: Next::More })
    }
}

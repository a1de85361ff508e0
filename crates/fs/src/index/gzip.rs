//! gzip that is not in blocks: checkpoints are made while it is decompressed for the first time, and later reads go on from
//! them.
//!
//! A checkpoint is taken between two DEFLATE blocks. It holds the place, down to the bit, and the 32 KiB that the next block may
//! refer to, compressed.
//!
//! # References
//! RFC 1952; the idea is that of `examples/zran.c` in the sources of zlib.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_net::{NetworkError, TransformError};

use super::found::u32_at;
use super::inflate::{At, Inflate};

/// Bytes of a source before a checkpoint that have to be what they were.
const PROOF: u64 = 4096;

/// Bytes of output between two checkpoints, at first.
const APART: u64 = 1 << 20;

/// Checkpoints of one file, at most: 16 MiB where windows cannot be compressed. With more, every second is dropped.
pub(super) const MOST: usize = 512;

const INPUT: usize = 64 << 10;

/// The checkpoints of one file.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoints(Arc<Mutex<Made>>);

#[derive(Debug)]
struct Made {
    apart: u64,
    list: Vec<Checkpoint>,
    /// Whether there are some that were not kept on disk.
    is_new: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub(super) plain: u64,
    /// The next byte to read.
    pub(super) source: u64,
    /// Of the byte before, how many bits were not used.
    pub(super) bits: u8,
    pub(super) window: Arc<[u8]>,
    /// Of the member so far.
    pub(super) sum: crc32fast::Hasher,
    pub(super) len: u32,
    /// Members before it.
    pub(super) members: u64,
    /// The sum of the bytes before it, if it was kept on disk: they may be others now.
    pub(super) proof: Option<u32>,
}

impl Default for Checkpoints {
    fn default() -> Checkpoints {
        Checkpoints::kept(APART, Vec::new())
    }
}

impl Checkpoints {
    fn made(&self) -> MutexGuard<'_, Made> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that were kept.
    pub(super) fn kept(apart: u64, list: Vec<Checkpoint>) -> Checkpoints {
        Checkpoints(Arc::new(Mutex::new(Made { apart: apart.max(APART), list, is_new: false })))
    }

    /// All of them, and how far they are apart.
    pub(super) fn all(&self) -> (u64, Vec<Checkpoint>) {
        let made = self.made();
        (made.apart, made.list.clone())
    }

    /// Whether there are some that were not kept; then the caller keeps them.
    pub(crate) fn take_new(&self) -> bool {
        std::mem::take(&mut self.made().is_new)
    }

    /// Drops all: the source is another one.
    fn clear(&self) {
        let mut made = self.made();
        (made.apart, made.is_new) = (APART, false);
        made.list.clear();
    }

    /// Where the last checkpoint is that is not behind `plain`, in the output; 0 without one.
    pub(crate) fn before(&self, plain: u64) -> u64 {
        self.last_before(plain).map_or(0, |checkpoint| checkpoint.plain)
    }

    fn last_before(&self, plain: u64) -> Option<Checkpoint> {
        let made = self.made();
        let behind = made.list.partition_point(|checkpoint| checkpoint.plain <= plain);
        behind.checked_sub(1).map(|last| made.list[last].clone())
    }

    /// Whether a checkpoint is wanted here.
    fn is_wanted(&self, plain: u64) -> bool {
        let made = self.made();
        plain >= made.list.last().map_or(0, |last| last.plain) + made.apart
    }

    fn add(&self, checkpoint: Checkpoint) {
        let mut made = self.made();
        if made.list.last().is_none_or(|last| last.plain < checkpoint.plain) {
            made.list.push(checkpoint);
            made.is_new = true;
        }
        if made.list.len() > MOST {
            let mut place = 0;
            made.list.retain(|_| {
                place += 1;
                place % 2 == 0
            });
            made.apart *= 2;
        }
    }
}

/// Decompresses a file from its beginning or from a checkpoint.
pub(crate) struct Gunzip {
    input: Bytes,
    state: State,
    plain: u64,
    /// Members that have ended.
    members: u64,
    checkpoints: Checkpoints,
}

enum State {
    /// Before a header.
    Between,
    Body(Box<Body>),
    Ended,
}

struct Body {
    inflate: Inflate,
    /// Of the member so far.
    sum: crc32fast::Hasher,
    len: u32,
}

impl Gunzip {
    /// Begins at the last checkpoint that is not behind `plain`.
    pub(crate) fn new(file: Arc<File>, checkpoints: &Checkpoints, plain: u64) -> Result<Gunzip, NetworkError> {
        let mut gunzip = Gunzip {
            input: Bytes::new(file, 0),
            state: State::Between,
            plain: 0,
            members: 0,
            checkpoints: checkpoints.clone(),
        };
        if let Some(checkpoint) = checkpoints.last_before(plain) {
            if gunzip.fits(&checkpoint) {
                gunzip.resume(&checkpoint)?;
            } else {
                checkpoints.clear();
            }
        }
        Ok(gunzip)
    }

    /// Of the output, where the next byte stands.
    pub(crate) fn position(&self) -> u64 {
        self.plain
    }

    /// Whether a checkpoint that was kept on disk is one of this source.
    fn fits(&self, checkpoint: &Checkpoint) -> bool {
        let is_proved = |kept| proof(&self.input.file, checkpoint.source).is_ok_and(|found| found == kept);
        checkpoint.proof.is_none_or(is_proved)
    }

    fn resume(&mut self, checkpoint: &Checkpoint) -> Result<(), NetworkError> {
        let Checkpoint { plain, source, bits, window, sum, len, members, .. } = checkpoint;
        let before = if *bits > 0 { 1 } else { 0 };
        self.input.seek(source - before);
        let byte = if *bits > 0 { self.input.next()?.unwrap_or_default() } else { 0 };
        let window = decompressed(window).ok_or_else(|| self.fault("a checkpoint cannot be read"))?;
        let inflate = Inflate::resumed(byte, *bits, &window).map_err(|what| self.fault(what))?;
        self.state = State::Body(Box::new(Body { inflate, sum: sum.clone(), len: *len }));
        (self.plain, self.members) = (*plain, *members);
        Ok(())
    }

    /// Reads some bytes to the start of `out`. Returns 0 at the end.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        loop {
            match &mut self.state {
                State::Ended => return Ok(0),
                State::Between => self.begin_member()?,
                State::Body(body) => {
                    if self.input.is_empty() {
                        self.input.refill()?;
                    }
                    let step = match body.inflate.step(self.input.rest(), out) {
                        Ok(step) => step,
                        Err(what) => return Err(self.fault(format!("the gzip stream is corrupt: {what}"))),
                    };
                    self.input.consume(step.consumed);
                    self.plain += step.produced as u64;
                    body.sum.update(&out[..step.produced]);
                    body.len = body.len.wrapping_add(step.produced as u32);
                    match step.at {
                        At::StreamEnd => self.end_member()?,
                        At::BlockEnd { bits } => self.note(bits),
                        At::Within if step.produced == 0 && self.input.has_ended() => {
                            return Err(self.fault("the gzip stream ends too early: the file is truncated"));
                        }
                        At::Within => {}
                    }
                    if step.produced > 0 {
                        return Ok(step.produced);
                    }
                }
            }
        }
    }

    /// Takes a checkpoint behind a block, if it is time for one.
    fn note(&mut self, bits: u8) {
        let State::Body(body) = &mut self.state else { return };
        if self.checkpoints.is_wanted(self.plain) {
            let window = compressed(&body.inflate.window());
            let source = self.input.position();
            let (sum, len) = (body.sum.clone(), body.len);
            let (plain, members) = (self.plain, self.members);
            self.checkpoints.add(Checkpoint { plain, source, bits, window, sum, len, members, proof: None });
        }
    }

    /// Reads a header, or finds that there is none.
    fn begin_member(&mut self) -> Result<(), NetworkError> {
        let mut first = self.input.next()?;
        while self.members > 0 && first == Some(0) {
            first = self.input.next()?;
        }
        let Some(first) = first else {
            if self.members == 0 {
                return Err(self.fault("the gzip stream is empty"));
            }
            self.state = State::Ended;
            return Ok(());
        };
        let mut header = [first; 10];
        for byte in &mut header[1..] {
            *byte = self.needed()?;
        }
        if header[..3] != [0x1f, 0x8b, 8] || header[3] & 0xe0 != 0 {
            let part =
                if self.members == 0 { String::new() } else { format!(" (part {} of the file)", self.members + 1) };
            return Err(self.fault(format!("the gzip stream is corrupt: bad header{part}")));
        }
        let flags = header[3];
        if flags & 4 != 0 {
            let len = u16::from_le_bytes([self.needed()?, self.needed()?]);
            for _ in 0..len {
                self.needed()?;
            }
        }
        for text in [8, 16] {
            while flags & text != 0 && self.needed()? != 0 {}
        }
        if flags & 2 != 0 {
            self.needed()?;
            self.needed()?;
        }
        let inflate = Inflate::new().map_err(|what| self.fault(what))?;
        self.state = State::Body(Box::new(Body { inflate, sum: crc32fast::Hasher::new(), len: 0 }));
        Ok(())
    }

    /// Compares the trailer with what was decompressed.
    fn end_member(&mut self) -> Result<(), NetworkError> {
        let mut trailer = [0; 8];
        for byte in &mut trailer {
            *byte = self.needed()?;
        }
        let State::Body(body) = std::mem::replace(&mut self.state, State::Between) else { return Ok(()) };
        let Body { sum, len, .. } = *body;
        if (u32_at(&trailer, 0), u32_at(&trailer, 4)) != (sum.finalize(), len) {
            return Err(self.fault("the gzip stream is corrupt: the checksum is wrong"));
        }
        self.members += 1;
        Ok(())
    }

    fn needed(&mut self) -> Result<u8, NetworkError> {
        self.input.next()?.ok_or_else(|| self.fault("the gzip stream ends too early: the file is truncated"))
    }

    fn fault(&self, what: impl Into<String>) -> NetworkError {
        NetworkError::Stage { stage: "gunzip".into(), offset: self.input.position(), fault: TransformError::new(what) }
    }
}

/// A file that is read in order, from any place.
struct Bytes {
    file: Arc<File>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Of the file, what follows the buffer.
    behind: u64,
    has_ended: bool,
}

impl Bytes {
    fn new(file: Arc<File>, offset: u64) -> Bytes {
        let buffer = vec![0; INPUT].into_boxed_slice();
        Bytes { file, buffer, start: 0, end: 0, behind: offset, has_ended: false }
    }

    fn seek(&mut self, offset: u64) {
        (self.start, self.end, self.behind, self.has_ended) = (0, 0, offset, false);
    }

    fn position(&self) -> u64 {
        self.behind - (self.end - self.start) as u64
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn has_ended(&self) -> bool {
        self.has_ended && self.is_empty()
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }

    fn refill(&mut self) -> Result<(), NetworkError> {
        loop {
            match self.file.read_at(&mut self.buffer, self.behind) {
                Ok(count) => {
                    (self.start, self.end, self.has_ended) = (0, count, count == 0);
                    self.behind += count as u64;
                    return Ok(());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(NetworkError::Source { name: "the source".into(), offset: self.behind, error });
                }
            }
        }
    }

    fn next(&mut self) -> Result<Option<u8>, NetworkError> {
        if self.is_empty() {
            self.refill()?;
        }
        let next = self.rest().first().copied();
        self.start += usize::from(next.is_some());
        Ok(next)
    }
}

/// Windows are texts of 32 KiB: worth compressing, and rarely decompressed.
fn compressed(window: &[u8]) -> Arc<[u8]> {
    lz4_flex::block::compress_prepend_size(window).into()
}

fn decompressed(window: &[u8]) -> Option<Vec<u8>> {
    lz4_flex::block::decompress_size_prepended(window).ok()
}

/// The sum of the bytes of a source before a checkpoint.
pub(super) fn proof(source: &File, offset: u64) -> std::io::Result<u32> {
    let len = offset.min(PROOF);
    let mut bytes = vec![0; len as usize];
    source.read_exact_at(&mut bytes, offset - len)?;
    Ok(crc32fast::hash(&bytes))
}

//! Goes over a source in order, from its beginning or from a place that the format allows.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use millstream_net::{Input, NetworkError, Pull};
use sha2::{Digest as _, Sha256};

use crate::blocks::{BLOCK, Block};
use crate::calls;
use crate::in_place;
use crate::index::Index;
use crate::index::gzip::{Checkpoints, Gunzip};
use crate::view::{Format, Member, Shape, View};

/// A decoder of one file.
pub(crate) struct Decoder {
    made: Made,
    /// Transforms in place behind the format.
    behind: Vec<Member>,
    /// Of the output, where the next byte stands.
    position: u64,
    /// Where it has to stop, if it would not by itself.
    end: Option<u64>,
}

enum Made {
    Line(Pull),
    Gunzip(Gunzip),
    Digest(Box<Digest>),
}

/// The SHA-256 of what another decoder gives, as a line in hex.
struct Digest {
    /// `None`: the source is empty, or was read.
    decoder: Option<Decoder>,
    /// What was not given yet, once it was read.
    line: Option<Vec<u8>>,
}

impl Digest {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        let line = match &mut self.line {
            Some(line) => line,
            none => {
                let mut sum = Sha256::new();
                if let Some(mut decoder) = self.decoder.take() {
                    let mut bytes = vec![0; BLOCK];
                    loop {
                        match decoder.fill(&mut bytes)? {
                            0 => break,
                            count => sum.update(&bytes[..count]),
                        }
                    }
                }
                let mut line: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                line.push('\n');
                none.insert(line.into_bytes())
            }
        };
        let count = line.len().min(out.len());
        out[..count].copy_from_slice(&line[..count]);
        line.drain(..count);
        Ok(count)
    }
}

impl Decoder {
    /// A decoder that begins at the last place that is not behind `plain`.
    pub(crate) fn new(
        view: &View,
        file: &Arc<File>,
        index: &Index,
        checkpoints: &Checkpoints,
        plain: u64,
    ) -> Result<Decoder, NetworkError> {
        if let Some(view) = view.is_digest_of() {
            let is_empty = view.is_empty_when_source_is() && calls::len_of(file).is_ok_and(|len| len == 0);
            let decoder = (!is_empty).then(|| Decoder::new(view, file, &Index::default(), &Checkpoints::default(), 0));
            let digest = Digest { decoder: decoder.transpose()?, line: None };
            return Ok(Decoder { made: Made::Digest(Box::new(digest)), behind: Vec::new(), position: 0, end: None });
        }
        let source = |header: &[u8], offset, end| {
            let bytes = Box::new(Bytes { header: header.into(), file: Arc::clone(file), offset, end });
            Input { bytes, name: "the source".into(), offset }
        };
        let Shape::Format(format) = view.shape() else {
            let made = Made::Line(view.pull(source(&[], 0, None))?);
            return Ok(Decoder { made, behind: Vec::new(), position: 0, end: None });
        };
        let behind = view.readers_behind_format()?;
        let place = index.before(plain);
        if *format == Format::Gzip && place.is_none() {
            let gunzip = Gunzip::new(Arc::clone(file), checkpoints, plain)?;
            let position = gunzip.position();
            return Ok(Decoder { made: Made::Gunzip(gunzip), behind, position, end: None });
        }
        let Some(place) = place else {
            let made = Made::Line(view.pull_format(source(&[], 0, None))?);
            return Ok(Decoder { made, behind, position: 0, end: None });
        };
        // Behind it the decoder would miss what comes there.
        let end = index.size.filter(|_| index.end.is_some());
        let made = Made::Line(view.pull_format(source(&index.header, place.source, index.end))?);
        Ok(Decoder { made, behind, position: place.plain, end })
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Fills a buffer with what comes next. Fewer bytes: the end.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, NetworkError> {
        let most = self.end.map_or(bytes.len() as u64, |end| (end - self.position.min(end)).min(bytes.len() as u64));
        let bytes = &mut bytes[..most as usize];
        let mut count = 0;
        while count < bytes.len() {
            let more = match &mut self.made {
                Made::Line(pull) => pull.fill(&mut bytes[count..])?,
                Made::Gunzip(gunzip) => gunzip.read(&mut bytes[count..])?,
                Made::Digest(digest) => digest.read(&mut bytes[count..])?,
            };
            if more == 0 {
                break;
            }
            count += more;
        }
        in_place::apply(&mut self.behind, self.position, &mut bytes[..count])?;
        self.position += count as u64;
        Ok(count)
    }
}

/// The next block of a decoder that stands at the beginning of one: shorter than others at the end. `used`: memory of a block
/// that is not needed any more.
pub(crate) fn next_block(decoder: &mut Decoder, used: Option<Block>) -> Result<Block, NetworkError> {
    let mut bytes = used.and_then(Arc::into_inner).unwrap_or_default();
    bytes.resize(BLOCK, 0);
    let count = decoder.fill(&mut bytes)?;
    bytes.truncate(count);
    Ok(Arc::new(bytes))
}

/// The source from a place on, after the header of the stream.
struct Bytes {
    header: Vec<u8>,
    file: Arc<File>,
    offset: u64,
    /// Where it ends, if before the end of the file.
    end: Option<u64>,
}

impl io::Read for Bytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.header.is_empty() {
            let count = self.header.len().min(out.len());
            out[..count].copy_from_slice(&self.header[..count]);
            self.header.drain(..count);
            return Ok(count);
        }
        let most = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.offset)).min(out.len() as u64);
        let count = self.file.read_at(&mut out[..most as usize], self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

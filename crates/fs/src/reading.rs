//! Files whose bytes come out of a network that cannot be asked for any piece: decoders go over the source in order.
//!
//! A decoder starts at the beginning, or at a place that the format or an earlier pass has shown. What it passes goes into the
//! cache of blocks. A few decoders of a file stay where they are, so that several programs can read it in order at once.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_net::{Failure, Input, Pull};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::blocks::BLOCK;
use crate::common::{Common, add};
use crate::in_place;
use crate::index::Index;
use crate::index::gzip::{Checkpoints, Gunzip};
use crate::rules::SizeFrom;
use crate::source::{Object, Result, Version};
use crate::view::{Format, Member, Shape, View};

/// Decoders of one file that stay where they are.
const DECODERS: usize = 4;

/// A source as transformed.
pub(crate) struct Reading {
    view: Arc<View>,
    common: Arc<Common>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// `None` until the source is first looked at.
    version: Option<Version>,
    file: Option<Arc<File>>,
    /// Names the version in the cache.
    content: u64,
    index: Option<Index>,
    checkpoints: Checkpoints,
    /// That which was used last is the last.
    decoders: Vec<Decoder>,
    size: Option<u64>,
}

impl Reading {
    pub(crate) fn new(view: Arc<View>, common: Arc<Common>) -> Reading {
        let content = common.blocks.new_content();
        let inner = Inner {
            version: None,
            file: None,
            content,
            index: None,
            checkpoints: Checkpoints::default(),
            decoders: Vec::new(),
            size: None,
        };
        Reading { view, common, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything about another version of the source. Returns whether there was one.
    pub(crate) fn look_at(&self, object: &Object) -> Result<bool> {
        let version = Version::of(&object.stat()?);
        let mut inner = self.inner();
        if inner.version == Some(version) {
            return Ok(false);
        }
        let is_changed = inner.version.is_some();
        inner.forget(self.common.blocks.new_content());
        inner.version = Some(version);
        Ok(is_changed)
    }

    /// A new version that has just been made, of so many bytes as programs see it, is the source now.
    pub(crate) fn replaced(&self, object: &Object, len: Option<u64>) -> Result<()> {
        let version = Version::of(&object.stat()?);
        let mut inner = self.inner();
        inner.forget(self.common.blocks.new_content());
        inner.version = Some(version);
        if let Some(len) = len {
            self.keep_size(&mut inner, object, len);
        }
        Ok(())
    }

    /// Closes the source, while no program has the file open.
    pub(crate) fn rest(&self) {
        let mut inner = self.inner();
        inner.decoders.clear();
        inner.file = None;
    }

    /// Reads at most `len` bytes; fewer only at the end.
    pub(crate) fn read(&self, object: &Object, name: &Path, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + bytes.len() as u64;
            let block = self.block(object, name, at / BLOCK as u64)?;
            let within = (at % BLOCK as u64) as usize;
            let Some(rest) = block.get(within..).filter(|rest| !rest.is_empty()) else { break };
            bytes.extend_from_slice(&rest[..rest.len().min(len - bytes.len())]);
            if block.len() < BLOCK {
                break;
            }
        }
        Ok(bytes)
    }

    /// The size that programs are told; `None` where the rule says that it is not to be found out.
    pub(crate) fn size(&self, object: &Object, name: &Path) -> Result<Option<u64>> {
        self.look_at(object)?;
        if let Some(size) = self.size_told(object, name)? {
            return Ok(Some(size));
        }
        match self.view.size_from() {
            SizeFrom::Unknown => Ok(None),
            SizeFrom::Scan => self.scan(object, name).map(Some),
        }
    }

    /// The size, if it is known without decompressing anything.
    pub(crate) fn size_told(&self, object: &Object, name: &Path) -> Result<Option<u64>> {
        let mut inner = self.inner();
        if inner.size.is_some() {
            return Ok(inner.size);
        }
        let source = object.stat()?.st_size as u64;
        let told = match self.view.shape() {
            _ if source == 0 && self.is_empty_when_source_is() => Some(0),
            Shape::InPlace => Some(source),
            Shape::Computed(sizes) => Some(sizes.iter().fold(source, |size, computed| computed(size))),
            Shape::Format(format) => {
                inner.open(object)?;
                inner.index(*format).map_err(|error| self.unreadable(name, error))?.size
            }
            Shape::Stream => None,
        };
        inner.size = match told {
            Some(told) => Some(told),
            None if self.view.size_from() == SizeFrom::Scan => self.kept_size(object, inner.version)?,
            None => None,
        };
        Ok(inner.size)
    }

    /// A file of no bytes is one that a program has just made, and written nothing to. No format allows it.
    fn is_empty_when_source_is(&self) -> bool {
        self.view.can_be_written() || matches!(self.view.shape(), Shape::Format(_))
    }

    /// Reads to the end, and keeps the size in an attribute of the source where that is possible.
    fn scan(&self, object: &Object, name: &Path) -> Result<u64> {
        let mut inner = self.inner();
        if let Some(size) = inner.size {
            return Ok(size);
        }
        inner.open(object)?;
        let mut decoder = self.decoder(&mut inner, name, 0)?;
        let mut piece = vec![0; BLOCK];
        while self.advance(&mut decoder, name, &mut piece)? > 0 {}
        inner.check_unchanged(&self.common, name)?;
        let size = decoder.position;
        self.keep_size(&mut inner, object, size);
        Ok(size)
    }

    fn keep_size(&self, inner: &mut Inner, object: &Object, size: u64) {
        inner.size = Some(size);
        let Some(version) = inner.version.filter(|_| self.view.size_from() == SizeFrom::Scan) else { return };
        // Without the right to, or where the file system has no attributes, it is scanned again after the next mount.
        let _ = object.set_attribute(self.size_attribute().as_ref(), kept_as(version, size).as_bytes(), XattrFlags::empty());
    }

    /// What an earlier scan has found, if the source has not changed since.
    fn kept_size(&self, object: &Object, version: Option<Version>) -> Result<Option<u64>> {
        let Some(version) = version else { return Ok(None) };
        let value = object.whole_attribute(&self.size_attribute())?;
        let text = value.and_then(|value| String::from_utf8(value).ok());
        let size = text.as_deref().and_then(|text| text.split(' ').next()?.parse().ok());
        Ok(size.filter(|&size| text == Some(kept_as(version, size))))
    }

    /// One for each network: a source may have several views.
    fn size_attribute(&self) -> String {
        format!("{ATTRIBUTES}size.{:08x}", crc32fast::hash(self.view.line().as_bytes()))
    }

    fn unreadable(&self, name: &Path, error: std::io::Error) -> Errno {
        self.common.report(name, format_args!("cannot read the source: {error}"));
        in_place::errno(&error)
    }

    /// A block of transformed bytes: shorter than others at the end, and empty behind it.
    fn block(&self, object: &Object, name: &Path, block: u64) -> Result<Arc<[u8]>> {
        let mut inner = self.inner();
        if let Some(bytes) = self.common.blocks.get(inner.content, block) {
            add(&self.common.counts.hits, 1);
            return Ok(bytes);
        }
        add(&self.common.counts.misses, 1);
        inner.open(object)?;
        let wanted = block * BLOCK as u64;
        let is_empty = inner.version.is_some_and(|version| version.size == 0) && self.is_empty_when_source_is();
        if is_empty || inner.size.is_some_and(|size| size <= wanted) {
            return Ok(Arc::from([]));
        }
        let mut decoder = self.decoder(&mut inner, name, wanted)?;
        let made = self.make_blocks(&mut inner, &mut decoder, name, block);
        let made = made.and_then(|made| inner.check_unchanged(&self.common, name).map(|()| made))?;
        if made.len() < BLOCK {
            match inner.size {
                None => self.keep_size(&mut inner, object, decoder.position),
                Some(size) if size == decoder.position => {}
                Some(size) => {
                    let found = decoder.position;
                    self.common.report(name, format_args!("there are {found} bytes in the source, which says {size}"));
                    return Err(Errno::IO);
                }
            }
        }
        inner.decoders.push(decoder);
        if inner.decoders.len() > DECODERS {
            inner.decoders.remove(0);
        }
        Ok(made)
    }

    /// Has a decoder make blocks until it has made this one, or reached the end.
    fn make_blocks(&self, inner: &mut Inner, decoder: &mut Decoder, name: &Path, block: u64) -> Result<Arc<[u8]>> {
        let begun = decoder.position % BLOCK as u64;
        if begun > 0 {
            // A place within a block: its rest alone is of no use.
            let mut rest = vec![0; BLOCK - begun as usize];
            self.advance(decoder, name, &mut rest)?;
        }
        loop {
            let at = decoder.position / BLOCK as u64;
            let mut bytes = vec![0; BLOCK];
            let count = self.advance(decoder, name, &mut bytes)?;
            bytes.truncate(count);
            let bytes: Arc<[u8]> = bytes.into();
            self.common.blocks.put(inner.content, at, Arc::clone(&bytes));
            match at {
                at if at == block => return Ok(bytes),
                _ if count < BLOCK => return Ok(Arc::from([])),
                _ => {}
            }
        }
    }

    /// Fills a buffer with what comes next. Fewer bytes: the end.
    fn advance(&self, decoder: &mut Decoder, name: &Path, bytes: &mut [u8]) -> Result<usize> {
        let count = decoder.fill(bytes).map_err(|failure| self.common.failed(name, &failure))?;
        let applied = in_place::apply(&mut decoder.behind, decoder.position, &mut bytes[..count]);
        applied.map_err(|failure| self.common.failed(name, &failure))?;
        decoder.position += count as u64;
        Ok(count)
    }

    /// The decoder that gets to `wanted` soonest, without the list.
    fn decoder(&self, inner: &mut Inner, name: &Path, wanted: u64) -> Result<Decoder> {
        let place = match self.view.shape() {
            Shape::Format(format) => {
                let index = inner.index(*format).map_err(|error| self.unreadable(name, error))?;
                index.before(wanted).map_or(0, |place| place.plain).max(inner.checkpoints.before(wanted))
            }
            _ => 0,
        };
        let near = inner.decoders.iter().enumerate().filter(|(_, decoder)| (place..=wanted).contains(&decoder.position));
        if let Some((nearest, _)) = near.max_by_key(|(_, decoder)| decoder.position) {
            return Ok(inner.decoders.remove(nearest));
        }
        self.new_decoder(inner, place).map_err(|failure| self.common.failed(name, &failure))
    }

    /// A decoder that begins at a place, or before where there is none.
    fn new_decoder(&self, inner: &Inner, plain: u64) -> std::result::Result<Decoder, Failure> {
        let Some(file) = &inner.file else { return Err(Failure::Unfit("the source is not open".into())) };
        let source = |header: &[u8], offset| {
            let bytes = Box::new(Bytes { header: header.into(), file: Arc::clone(file), offset });
            Input { bytes, name: "the source".into(), offset }
        };
        let Shape::Format(format) = self.view.shape() else {
            let made = Made::Line(self.view.pull(source(&[], 0))?);
            return Ok(Decoder { made, behind: Vec::new(), position: 0, end: None });
        };
        let behind = self.view.readers_behind_format()?;
        let place = inner.index.as_ref().and_then(|index| Some((index, index.before(plain)?)));
        if *format == Format::Gzip && place.is_none() {
            let gunzip = Gunzip::new(Arc::clone(file), &inner.checkpoints, plain)?;
            let position = gunzip.position();
            return Ok(Decoder { made: Made::Gunzip(gunzip), behind, position, end: None });
        }
        let Some((index, place)) = place else {
            let made = Made::Line(self.view.pull_format(source(&[], 0))?);
            return Ok(Decoder { made, behind, position: 0, end: None });
        };
        let end = index.size.filter(|_| index.ends_at_size);
        let made = Made::Line(self.view.pull_format(source(&index.header, place.source))?);
        Ok(Decoder { made, behind, position: place.plain, end })
    }
}

/// Names of attributes of a source that are ours begin so.
pub(crate) const ATTRIBUTES: &str = "user.millstream.";

/// A size with the version that it belongs to.
fn kept_as(version: Version, size: u64) -> String {
    format!("{size} {version}")
}

impl Inner {
    fn forget(&mut self, content: u64) {
        *self = Inner {
            version: None,
            file: None,
            content,
            index: None,
            checkpoints: Checkpoints::default(),
            decoders: Vec::new(),
            size: None,
        };
    }

    fn open(&mut self, object: &Object) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(Arc::new(object.open(rustix::fs::OFlags::RDONLY)?));
        }
        Ok(())
    }

    fn index(&mut self, format: Format) -> std::io::Result<&Index> {
        if self.index.is_none() {
            let file = self.file.as_ref().ok_or(std::io::ErrorKind::NotFound)?;
            self.index = Some(Index::of(format, file)?);
        }
        self.index.as_ref().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// What was decompressed of a source that changed meanwhile is neither the old file nor the new one.
    fn check_unchanged(&mut self, common: &Common, name: &Path) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let now = Version::of(&rustix::fs::fstat(file)?);
        if self.version.is_none_or(|version| version == now) {
            return Ok(());
        }
        common.report(name, "the source was changed while it was read; open it again");
        self.forget(common.blocks.new_content());
        Err(Errno::IO)
    }
}

/// Goes over the source in order.
struct Decoder {
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
}

impl Decoder {
    fn fill(&mut self, bytes: &mut [u8]) -> std::result::Result<usize, Failure> {
        let most = self.end.map_or(bytes.len() as u64, |end| (end - self.position.min(end)).min(bytes.len() as u64));
        let bytes = &mut bytes[..most as usize];
        match &mut self.made {
            Made::Line(pull) => pull.fill(bytes),
            Made::Gunzip(gunzip) => {
                let mut filled = 0;
                while filled < bytes.len() {
                    match gunzip.read(&mut bytes[filled..])? {
                        0 => break,
                        count => filled += count,
                    }
                }
                Ok(filled)
            }
        }
    }
}

/// The source from a place on, after the header of the stream.
struct Bytes {
    header: Vec<u8>,
    file: Arc<File>,
    offset: u64,
}

impl std::io::Read for Bytes {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if !self.header.is_empty() {
            let count = self.header.len().min(out.len());
            out[..count].copy_from_slice(&self.header[..count]);
            self.header.drain(..count);
            return Ok(count);
        }
        let count = self.file.read_at(out, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

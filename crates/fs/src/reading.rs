//! Files whose bytes come out of a network that cannot be asked for any piece: decoders go over the source in order.
//!
//! A decoder starts at the beginning, or at a place that the format or an earlier pass has shown. What it passes goes into the
//! cache of blocks. A few decoders of a file stay where they are, so that several programs can read it in order at once.

mod ahead;
mod shared;
mod window;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_net::NetworkError;
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::blocks::{BLOCK, Block, Piece, spare};
use crate::calls;
use crate::common::{Common, add};
use crate::decoder::{Decoder, next_block};
use crate::line::SizeFrom;
use crate::source::{Object, Result, Version};
use crate::view::{Format, Shape, View};
use shared::{Inner, Shared};
use window::Changed;

/// A source as transformed.
pub(crate) struct Reading {
    view: Arc<View>,
    common: Arc<Common>,
    shared: Arc<Shared>,
}

impl Reading {
    /// `changes`: how often the source was changed by others, for programs that have it open already.
    pub(crate) fn new(view: Arc<View>, common: Arc<Common>, changes: u64) -> Reading {
        let inner = Mutex::new(Inner { changes, ..Inner::new(common.blocks.new_content()) });
        Reading { view, common, shared: Arc::new(Shared { inner, changed: Changed::default() }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner()
    }

    /// Forgets everything about another version of the source. Returns whether there was one.
    pub(crate) fn look_at(&self, object: &Object) -> Result<bool> {
        let version = Version::of(&object.stat()?);
        let mut inner = self.inner();
        if inner.version == Some(version) {
            return Ok(false);
        }
        let is_changed = inner.version.is_some();
        inner.changes += u64::from(is_changed);
        inner.forget(self.common.blocks.new_content());
        inner.version = Some(version);
        Ok(is_changed)
    }

    /// How often the source was changed by others. A program that has opened it before must not get bytes of both.
    pub(crate) fn changes(&self) -> u64 {
        self.inner().changes
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
    pub(crate) fn rest(&self, name: &Path) {
        let mut inner = self.inner();
        self.keep_checkpoints(&inner, name);
        inner.decoders.clear();
        inner.file = None;
        inner.ahead.stop(&self.shared.changed);
    }

    /// Closes the source, unless it is being read. Returns whether that freed a descriptor.
    pub(crate) fn rest_unless_busy(&self) -> bool {
        let Ok(mut inner) = self.shared.inner.try_lock() else { return false };
        if inner.ahead.at_work.is_some() {
            return false;
        }
        inner.decoders.clear();
        inner.file.take().is_some()
    }

    /// Reads at most `len` bytes; fewer only at the end.
    pub(crate) fn read(&self, object: &Object, name: &Path, offset: u64, len: usize) -> Result<Piece> {
        let within = (offset % BLOCK as u64) as usize;
        let first = self.block(object, name, offset / BLOCK as u64)?;
        let start = within.min(first.len());
        if within + len <= BLOCK || first.len() < BLOCK {
            let end = (within + len).min(first.len()).max(start);
            return Ok(Piece::of_block(first, start..end));
        }
        let (mut bytes, mut count) = (spare(len), 0);
        let (mut block, mut start) = (first, start);
        loop {
            let more = (block.len() - start).min(len - count);
            bytes[count..count + more].copy_from_slice(&block[start..start + more]);
            count += more;
            if count == len || block.len() < BLOCK {
                return Ok(Piece::of_start(bytes, count));
            }
            (block, start) = (self.block(object, name, (offset + count as u64) / BLOCK as u64)?, 0);
        }
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
            _ if source == 0 && self.view.is_empty_when_source_is() => Some(0),
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

    /// Reads to the end, and keeps the size in an attribute of the source where that is possible.
    pub(crate) fn scan(&self, object: &Object, name: &Path) -> Result<u64> {
        let mut inner = self.inner();
        if let Some(size) = inner.size {
            return Ok(size);
        }
        inner.open(object)?;
        let mut decoder = self.decoder(&mut inner, name, 0)?;
        let mut piece = vec![0; BLOCK];
        while decoder.fill(&mut piece).map_err(|failure| self.common.failed(name, &failure))? > 0 {}
        inner.check_unchanged(&self.common, name)?;
        let size = decoder.position();
        self.keep_size(&mut inner, object, size);
        self.keep_checkpoints(&inner, name);
        Ok(size)
    }

    /// Those of a source that has changed meanwhile are of no use.
    fn keep_checkpoints(&self, inner: &Inner, name: &Path) {
        if let (Some(file), Ok(true)) = (&inner.file, inner.is_unchanged()) {
            self.common.keep(file, name, &inner.checkpoints);
        }
    }

    /// Looks for the checkpoints of an earlier mount.
    fn load_checkpoints(&self, inner: &mut Inner) {
        let Some(kept) = &self.common.kept else { return };
        if !std::mem::replace(&mut inner.has_looked, true)
            && let Some(loaded) = inner.file.as_ref().and_then(|file| kept.load(file))
        {
            inner.checkpoints = loaded;
        }
    }

    fn keep_size(&self, inner: &mut Inner, object: &Object, size: u64) {
        inner.size = Some(size);
        let Some(version) = inner.version.filter(|_| self.view.size_from() == SizeFrom::Scan) else { return };
        // Without the right to, or where the file system has no attributes, it is scanned again after the next mount.
        let _ = object.set_attribute(
            self.size_attribute().as_ref(),
            kept_as(version, size).as_bytes(),
            XattrFlags::empty(),
        );
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
        calls::errno(&error)
    }

    /// A block of transformed bytes: shorter than others at the end, and empty behind it.
    fn block(&self, object: &Object, name: &Path, block: u64) -> Result<Block> {
        let mut inner = self.inner();
        let wanted = block * BLOCK as u64;
        loop {
            if let Some(bytes) = self.common.blocks.get(inner.content, block) {
                add(&self.common.counts.hits, 1);
                inner.ahead.reached(block, &self.shared.changed);
                return Ok(bytes);
            }
            let is_empty =
                inner.version.is_some_and(|version| version.size == 0) && self.view.is_empty_when_source_is();
            if is_empty || inner.size.is_some_and(|size| size <= wanted) {
                return Ok(Block::default());
            }
            if !inner.ahead.will_make(block) {
                break;
            }
            inner.ahead.reached(block, &self.shared.changed);
            let made = self.shared.changed.of_block(block);
            inner = made.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        add(&self.common.counts.misses, 1);
        inner.open(object)?;
        let mut decoder = self.decoder(&mut inner, name, wanted)?;
        let made = self.make_blocks(&mut inner, &mut decoder, block);
        let made = made.map_err(|failure| self.common.failed(name, &failure))?;
        inner.check_unchanged(&self.common, name)?;
        if made.len() < BLOCK {
            match inner.size {
                None => self.keep_size(&mut inner, object, decoder.position()),
                Some(size) if size == decoder.position() => {}
                Some(size) => {
                    let found = decoder.position();
                    self.common.report(name, format_args!("there are {found} bytes in the source, which says {size}"));
                    return Err(Errno::IO);
                }
            }
        }
        let is_in_order = inner.last_made.replace(block).is_some_and(|last| last + 1 == block);
        if is_in_order && made.len() == BLOCK {
            ahead::start(&self.shared, &self.common, &mut inner, decoder, block);
        } else {
            inner.keep(decoder);
        }
        Ok(made)
    }

    /// Has a decoder make blocks until it has made this one, or reached the end.
    fn make_blocks(
        &self,
        inner: &mut Inner,
        decoder: &mut Decoder,
        block: u64,
    ) -> std::result::Result<Block, NetworkError> {
        let begun = decoder.position() % BLOCK as u64;
        if begun > 0 {
            // A place within a block: its rest alone is of no use.
            decoder.fill(&mut vec![0; BLOCK - begun as usize])?;
        }
        loop {
            let at = decoder.position() / BLOCK as u64;
            let bytes = next_block(decoder, None)?;
            self.common.blocks.put(inner.content, at, Arc::clone(&bytes));
            match at {
                at if at == block => return Ok(bytes),
                _ if bytes.len() < BLOCK => return Ok(Block::default()),
                _ => {}
            }
        }
    }

    /// The decoder that gets to `wanted` soonest, without the list.
    fn decoder(&self, inner: &mut Inner, name: &Path, wanted: u64) -> Result<Decoder> {
        let place = match self.view.shape() {
            Shape::Format(format) => {
                let index = inner.index(*format).map_err(|error| self.unreadable(name, error))?;
                let place = index.before(wanted).map_or(0, |place| place.plain);
                if *format == Format::Gzip && index.places.is_empty() {
                    self.load_checkpoints(inner);
                }
                place.max(inner.checkpoints.before(wanted))
            }
            _ => 0,
        };
        let near =
            inner.decoders.iter().enumerate().filter(|(_, decoder)| (place..=wanted).contains(&decoder.position()));
        if let Some((nearest, _)) = near.max_by_key(|(_, decoder)| decoder.position()) {
            return Ok(inner.decoders.remove(nearest));
        }
        let file = inner.file.as_ref().ok_or(Errno::BADF)?;
        let index = inner.index.clone().unwrap_or_default();
        let decoder = Decoder::new(&self.view, file, &index, &inner.checkpoints, place);
        decoder.map_err(|failure| self.common.failed(name, &failure))
    }
}

/// Names of attributes of a source that are ours begin so.
pub(crate) const ATTRIBUTES: &str = "user.millstream.";

/// A size with the version that it belongs to.
fn kept_as(version: Version, size: u64) -> String {
    format!("{size} {version}")
}

//! What is known of a source while it is read, shared by the programs that read it and the thread that works ahead of them.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::window::{Ahead, Changed};
use crate::common::Common;
use crate::decoder::Decoder;
use crate::index::Index;
use crate::index::gzip::Checkpoints;
use crate::source::{Object, Result, Version};
use crate::view::Format;

/// Decoders of one file that stay where they are.
const DECODERS: usize = 4;

/// What is known of one version of the source.
pub(super) struct Inner {
    /// `None` until the source is first looked at.
    pub(super) version: Option<Version>,
    pub(super) file: Option<Arc<File>>,
    /// Names the version in the cache.
    pub(super) content: u64,
    pub(super) changes: u64,
    pub(super) index: Option<Index>,
    pub(super) checkpoints: Checkpoints,
    /// Whether those of an earlier mount were looked for.
    pub(super) has_looked: bool,
    /// That which was used last is the last.
    pub(super) decoders: Vec<Decoder>,
    pub(super) ahead: Ahead,
    /// The block that a program has waited for last.
    pub(super) last_made: Option<u64>,
    pub(super) size: Option<u64>,
}

/// What decoders that work ahead share with those that read.
pub(super) struct Shared {
    pub(super) inner: Mutex<Inner>,
    pub(super) changed: Changed,
}

impl Shared {
    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    pub(super) fn new(content: u64) -> Inner {
        Inner {
            version: None,
            file: None,
            content,
            changes: 0,
            index: None,
            checkpoints: Checkpoints::default(),
            has_looked: false,
            decoders: Vec::new(),
            ahead: Ahead::default(),
            last_made: None,
            size: None,
        }
    }

    /// A decoder that works ahead finds another content, and ends.
    pub(super) fn forget(&mut self, content: u64) {
        *self = Inner { changes: self.changes, ..Inner::new(content) };
    }

    /// Keeps a decoder where it is, instead of the one that was used longest ago.
    pub(super) fn keep(&mut self, decoder: Decoder) {
        if self.file.is_none() {
            return;
        }
        self.decoders.push(decoder);
        if self.decoders.len() > DECODERS {
            self.decoders.remove(0);
        }
    }

    pub(super) fn open(&mut self, object: &Object) -> Result<()> {
        if self.file.is_none() {
            self.file = Some(Arc::new(object.open(rustix::fs::OFlags::RDONLY)?));
        }
        Ok(())
    }

    pub(super) fn index(&mut self, format: Format) -> std::io::Result<&Index> {
        if self.index.is_none() {
            let file = self.file.as_ref().ok_or(std::io::ErrorKind::NotFound)?;
            self.index = Some(Index::of(format, file)?);
        }
        self.index.as_ref().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Whether a block that was made for a content is one of it: the source is as it was, and ends where it says.
    pub(super) fn accepts(&mut self, content: u64, is_last: bool, end: u64) -> bool {
        let is_same = self.content == content && self.is_unchanged().unwrap_or(false);
        is_same && (!is_last || *self.size.get_or_insert(end) == end)
    }

    pub(super) fn is_unchanged(&self) -> Result<bool> {
        let Some(file) = &self.file else { return Ok(true) };
        let now = Version::of(&rustix::fs::fstat(file)?);
        Ok(self.version.is_none_or(|version| version == now))
    }

    /// What was decompressed of a source that changed meanwhile is neither the old file nor the new one.
    pub(super) fn check_unchanged(&mut self, common: &Common, name: &Path) -> Result<()> {
        if self.is_unchanged()? {
            return Ok(());
        }
        common.report(name, "the source was changed while it was read; open it again");
        self.changes += 1;
        self.forget(common.blocks.new_content());
        Err(Errno::IO)
    }
}

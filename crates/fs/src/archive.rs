//! Archives whose members appear as files of a directory.
//!
//! A rule with `archive = "tar"` shows a file as a directory. Its read network gives the bytes of the archive, so `gunzip` is for
//! `*.tar.gz`; they come through [`Content`], as those of any other file do, with its index, cache and errors.
//!
//! ```text
//!   backup.tar.gz ──▶ gunzip ──▶ stream ──▶ headers ──▶ tree: names, attributes, extents in the stream
//!                       ▲                                                      │
//!                       ╰──── any piece of it: index, checkpoints, cache ◀─────╯ reads of a member
//! ```
//!
//! The headers are read in one pass when a program first looks into the directory. A program that only lists what is beside it does
//! not cause that. The tree belongs to a version of the file. If that changes, the next lookup reads the headers again, with new
//! numbers for all members; a program that has a member of the old version open gets EIO.
//!
//! Nothing in the directory can be changed. No member can be reached outside of it, whatever its name is.

mod sparse;
mod tar;
mod tree;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::blocks::{Piece, spare};
use crate::common::Common;
use crate::content::Content;
use crate::source::{Object, Result, Version};
use tar::{End, Extent, TarError};
use tree::Builder;
pub(crate) use tree::{Kind, TOP, Tree};

/// An archive that is shown as a directory.
pub(crate) struct Archive {
    object: Arc<Object>,
    content: Arc<Content>,
    common: Arc<Common>,
    /// For messages.
    name: PathBuf,
    known: Mutex<Known>,
    /// How many read it.
    users: Mutex<usize>,
}

/// What is known of the members.
#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    Tree(Arc<Tree>),
    /// This version is no archive, which was told.
    Unreadable(Version),
}

/// The archive is being read. Without readers its file is closed.
pub(crate) struct InUse {
    archive: Arc<Archive>,
    changes: u64,
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut users = self.archive.users();
        *users -= 1;
        if *users == 0 {
            // It only says whether what was written is in place, and nothing was.
            let _ = self.archive.content.closed(&self.archive.object);
        }
    }
}

impl Archive {
    pub(crate) fn new(object: Arc<Object>, content: Arc<Content>) -> Archive {
        let (name, common) = (object.path().unwrap_or_default(), Arc::clone(content.common()));
        Archive { object, content, common, name, known: Mutex::default(), users: Mutex::default() }
    }

    fn users(&self) -> MutexGuard<'_, usize> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read.
    pub(crate) fn in_use(self: &Arc<Self>) -> Result<InUse> {
        let mut users = self.users();
        self.content.opened(&self.object)?;
        *users += 1;
        Ok(InUse { archive: Arc::clone(self), changes: self.content.changes() })
    }

    fn version(&self) -> Result<Version> {
        self.object.stat().map(|stat| Version::of(&stat))
    }

    /// Whether the file is still that of which the tree is.
    pub(crate) fn is_current(&self, tree: &Tree) -> Result<bool> {
        Ok(self.version()? == tree.version)
    }

    /// The members. Others wait while one thread reads the headers.
    pub(crate) fn tree(self: &Arc<Self>) -> Result<Arc<Tree>> {
        let version = self.version()?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Known::Tree(tree) if tree.version == version => return Ok(Arc::clone(tree)),
            Known::Unreadable(unreadable) if *unreadable == version => return Err(Errno::IO),
            _ => {}
        }
        match self.read_headers(version) {
            Ok(tree) => {
                let tree = Arc::new(tree);
                *known = Known::Tree(Arc::clone(&tree));
                Ok(tree)
            }
            Err(TarError::Source(error)) => Err(error),
            Err(TarError::Format { offset, what }) => {
                self.common.report(&self.name, format_args!("tar: at byte {offset} of the archive: {what}"));
                *known = Known::Unreadable(version);
                Err(Errno::IO)
            }
        }
    }

    fn read_headers(self: &Arc<Self>, version: Version) -> std::result::Result<Tree, TarError> {
        let in_use = self.in_use()?;
        let mut builder = Builder::new();
        let end =
            tar::read(&mut |offset, bytes| self.read_at(&in_use, offset, bytes), &mut |member| builder.add(member))?;
        if self.version()? != version {
            self.common.report(&self.name, "the archive was changed while it was read; list the directory again");
            return Err(TarError::Source(Errno::IO));
        }
        builder.remarks().for_each(|remark| self.common.note(&self.name, remark));
        if end == End::Unmarked {
            self.common.note(&self.name, "tar: the archive has no mark at its end: members may be missing");
        }
        Ok(builder.finish(version))
    }

    /// Fills a buffer. Fewer bytes: the end.
    fn read_at(&self, in_use: &InUse, offset: u64, bytes: &mut [u8]) -> Result<usize> {
        let piece = self.content.read(&self.object, offset, bytes.len(), in_use.changes)?;
        bytes[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }

    /// Reads at most `len` bytes of a file in the archive; fewer only at the end of the file.
    pub(crate) fn read(&self, in_use: &InUse, tree: &Tree, place: u32, offset: u64, len: usize) -> Result<Piece> {
        let Kind::File { size, extents } = &tree.entry(place).kind else { return Err(Errno::ISDIR) };
        if !self.is_current(tree)? {
            self.common.report(&self.name, "the archive was changed by another program; open the file again");
            return Err(Errno::IO);
        }
        let len = size.saturating_sub(offset).min(len as u64) as usize;
        let end = offset + len as u64;
        let first = extents.partition_point(|extent| extent.start + extent.len <= offset);
        if let Some(extent) =
            extents.get(first).filter(|extent| extent.start <= offset && end <= extent.start + extent.len)
        {
            let piece =
                self.content.read(&self.object, extent.source + (offset - extent.start), len, in_use.changes)?;
            return if piece.len() == len { Ok(piece) } else { Err(self.truncated(extent)) };
        }
        let mut bytes = spare(len);
        bytes[..len].fill(0);
        for extent in extents[first..].iter().take_while(|extent| extent.start < end) {
            let (from, to) = (extent.start.max(offset), (extent.start + extent.len).min(end));
            let part = &mut bytes[(from - offset) as usize..(to - offset) as usize];
            if self.read_at(in_use, extent.source + (from - extent.start), part)? < part.len() {
                return Err(self.truncated(extent));
            }
        }
        Ok(Piece::of_start(bytes, len))
    }

    /// The header has said that there are more bytes.
    fn truncated(&self, extent: &Extent) -> Errno {
        let Extent { source, len, .. } = extent;
        let what = format_args!("tar: at byte {source} of the archive: fewer than {len} bytes follow: it is truncated");
        self.common.report(&self.name, what);
        Errno::IO
    }
}

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

mod bytes;
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
use bytes::{Extent, TarError};
use tar::End;
use tree::{Builder, MEMORY_MOST};
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
        let mut builder = Builder::new(MEMORY_MOST);
        let end =
            tar::read(&mut |offset, bytes| self.read_at(&in_use, offset, bytes), &mut |member| builder.add(member))?;
        self.check_version(version)?;
        builder.remarks().for_each(|remark| self.common.note(&self.name, remark));
        if end == End::Unmarked {
            self.common.note(&self.name, "tar: the archive has no mark at its end: members may be missing");
        }
        Ok(builder.finish(version))
    }

    fn check_version(&self, version: Version) -> Result<()> {
        if self.version()? == version {
            return Ok(());
        }
        self.common.report(&self.name, "the archive was changed while it was read; list the directory again");
        Err(Errno::IO)
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

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 512;

    /// A member with the letter of its type, whose header has the right sum.
    fn member(name: &[u8], kind: u8, link: &[u8], body: &[u8], size: &str) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        bytes[..name.len()].copy_from_slice(name);
        bytes[100..107].copy_from_slice(b"0000644");
        bytes[124..124 + size.len()].copy_from_slice(size.as_bytes());
        bytes[156] = kind;
        bytes[157..157 + link.len()].copy_from_slice(link);
        bytes[257..263].copy_from_slice(b"ustar\0");
        set_sum(&mut bytes);
        bytes.extend_from_slice(body);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    fn set_sum(header: &mut [u8]) {
        header[148..156].fill(b' ');
        let sum: u32 = header[..BLOCK].iter().map(|&byte| u32::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    }

    fn with_body(name: &[u8], kind: u8, body: &[u8]) -> Vec<u8> {
        member(name, kind, b"", body, &format!("{:011o}", body.len()))
    }

    fn read(bytes: &[u8]) -> std::result::Result<Tree, TarError> {
        let mut builder = Builder::new(MEMORY_MOST);
        let mut source = |offset: u64, out: &mut [u8]| {
            let start = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
            let count = out.len().min(bytes.len() - start);
            out[..count].copy_from_slice(&bytes[start..start + count]);
            Ok(count)
        };
        tar::read(&mut source, &mut |member| builder.add(member))?;
        assert!(builder.remarks().all(|remark| !remark.contains('\n')));
        Ok(builder.finish(Version::default()))
    }

    fn sample() -> Vec<u8> {
        let sparse = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n28 GNU.sparse.realsize=1000\n17 mtime=123.456\n";
        let mut map = b"1\n500\n6\n".to_vec();
        map.resize(BLOCK, 0);
        map.extend_from_slice(b"sparse");
        let mut gnu = member(b"gnu", b'S', b"", b"sparse", "00000000006");
        gnu[386..397].copy_from_slice(b"00000000144");
        gnu[398..409].copy_from_slice(b"00000000006");
        gnu[483..494].copy_from_slice(b"00000001750");
        set_sum(&mut gnu);
        [
            with_body(b"@LongLink", b'L', &[b'l'; 200]),
            with_body(b"short", b'0', b"hello"),
            member(b"link", b'1', &[b'l'; 100], b"", ""),
            member(b"dir/symlink", b'2', b"target", b"", ""),
            member(b"dir", b'5', b"", b"", ""),
            with_body(b"pax", b'x', sparse),
            with_body(b"sparse", b'0', &map),
            gnu,
            vec![0; 2 * BLOCK],
        ]
        .concat()
    }

    #[test]
    fn sparse_members_have_their_extents() {
        let tree = read(&sample()).unwrap();
        for name in [&b"sparse"[..], b"gnu"] {
            let Kind::File { size, extents } = &tree.entry(tree.child(TOP, name).unwrap()).kind else { panic!() };
            let at = if name == b"gnu" { 100 } else { 500 };
            assert_eq!((*size, extents.len(), extents[0].start, extents[0].len), (1000, 1, at, 6));
            let source = extents[0].source as usize;
            assert_eq!(&sample()[source..source + 6], b"sparse");
        }
        assert!(tree.child(TOP, &[b'l'; 200]).is_some());
    }

    /// Whatever an archive has in it, it is read or refused; each header has the right sum, so that more than that is looked at.
    #[test]
    fn mutated_archives_are_read_or_refused() {
        let (sample, mut random) = (sample(), 88_172_645_463_325_252_u64);
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize
        };
        let (mut read_ones, mut refused) = (0, 0);
        for _ in 0..30_000 {
            let mut bytes = sample.clone();
            for _ in 0..1 + next() % 4 {
                let place = next() % bytes.len();
                bytes[place] = if next() % 2 == 0 { next() as u8 } else { b"0179\0\xff\x80 =\n"[next() % 10] };
            }
            for header in bytes.chunks_exact_mut(BLOCK).filter(|block| block[257..262] == *b"ustar") {
                set_sum(header);
            }
            bytes.truncate(bytes.len() - if next() % 4 == 0 { next() % bytes.len() } else { 0 });
            match read(&bytes) {
                Ok(_) => read_ones += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(read_ones > 1000 && refused > 1000, "{read_ones} and {refused}");
    }
}

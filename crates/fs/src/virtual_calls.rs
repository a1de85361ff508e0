//! What each call does with files and directories that are in no source. Any other call would change something: to it they are a
//! file system that cannot be written.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo, OpenFlags};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::archive::{Archive, Kind, TOP, Tree};
use crate::attributes::{kind_of, system_time};
use crate::blocks::Piece;
use crate::common::add;
use crate::mounted::Mounted;
use crate::names::Entry;
use crate::source::{Object, Result};
use crate::virtuals::{How, Key, Member, OpenVirtual, Virtual, What};

/// Permissions of a generated file.
const GENERATED_MODE: u16 = 0o444;

impl Mounted {
    /// What an archive has under a name, in its top directory.
    pub(crate) fn member(&self, archive: Arc<Archive>, name: &OsStr) -> Result<Arc<Virtual>> {
        let tree = archive.tree()?;
        self.member_in(&Member { archive, tree, place: TOP }, name)
    }

    /// What a directory in an archive has under a name.
    pub(crate) fn lookup_virtual(&self, parent: INodeNo, name: &OsStr) -> Result<Arc<Virtual>> {
        self.member_in(self.virtuals.get(parent)?.member()?.current()?, name)
    }

    fn member_in(&self, directory: &Member, name: &OsStr) -> Result<Arc<Virtual>> {
        let Member { archive, tree, place } = directory;
        tree.names(*place).ok_or(Errno::NOTDIR)?;
        let place = tree.child(*place, name.as_bytes()).ok_or(Errno::NOENT)?;
        let member = Member { archive: Arc::clone(archive), tree: Arc::clone(tree), place };
        let key = Key::Member(Arc::as_ptr(tree).addr(), place);
        Ok(self.virtuals.found(key, What::Member(member)))
    }

    /// A generated file of a directory.
    pub(crate) fn generated(&self, parent: INodeNo, directory: &Object, name: &OsStr) -> Result<Arc<Virtual>> {
        let view = self.names.generated(directory, name)?.ok_or(Errno::NOENT)?;
        let path = directory.path()?.join(name);
        Ok(self.virtuals.found(Key::Generated(parent.0, name.to_owned()), What::Generated { view, path }))
    }

    pub(crate) fn virtual_attributes(&self, ino: INodeNo) -> Result<FileAttr> {
        self.attributes_of_virtual(&*self.virtuals.get(ino)?)
    }

    pub(crate) fn attributes_of_virtual(&self, node: &Virtual) -> Result<FileAttr> {
        match &node.what {
            What::Generated { .. } => Ok(self.with_owner(generated_attributes(node.id), None)),
            // Of an old version too, for programs that have it open: what they get is EIO where they read.
            What::Member(Member { tree, place, .. }) => {
                let entry = tree.entry(*place);
                Ok(self.with_owner(member_attributes(node.id, tree, *place), Some((entry.user, entry.group))))
            }
        }
    }

    /// As `tar -x` has it: files have the owners that the archive names where root unpacks it, and else belong to the user.
    fn with_owner(&self, attributes: FileAttr, owner: Option<(u32, u32)>) -> FileAttr {
        let (uid, gid) = owner
            .filter(|_| self.gives_owners)
            .unwrap_or_else(|| (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()));
        FileAttr { uid, gid, ..attributes }
    }

    pub(crate) fn virtual_target(&self, ino: INodeNo) -> Result<Vec<u8>> {
        let node = self.virtuals.get(ino)?;
        let Member { tree, place, .. } = node.member()?.current()?;
        match &tree.entry(*place).kind {
            Kind::Symlink(target) => Ok(target.to_vec()),
            _ => Err(Errno::INVAL),
        }
    }

    /// The names in the top directory of an archive.
    pub(crate) fn archive_entries(archive: Arc<Archive>) -> Result<Vec<Entry>> {
        let tree = archive.tree()?;
        Member { archive, tree, place: TOP }.entries()
    }

    pub(crate) fn virtual_entries(&self, ino: INodeNo) -> Result<Vec<Entry>> {
        self.virtuals.get(ino)?.member()?.current()?.entries()
    }

    pub(crate) fn open_virtual(&self, ino: INodeNo, flags: OpenFlags) -> Result<OpenVirtual> {
        if OFlags::from_bits_retain(flags.0 as u32).intersects(OFlags::WRONLY | OFlags::RDWR) {
            return Err(Errno::ROFS);
        }
        let node = self.virtuals.get(ino)?;
        let how = match &node.what {
            What::Member(member) => How::Member(member.current()?.archive.in_use()?),
            What::Generated { .. } => How::Generated(Mutex::default()),
        };
        add(&self.common.counts.opens, 1);
        add(&self.common.counts.open_files, 1);
        Ok(OpenVirtual { node, how })
    }

    pub(crate) fn close_virtual(&self) {
        self.common.counts.open_files.fetch_sub(1, Relaxed);
    }

    pub(crate) fn read_virtual(&self, open: &OpenVirtual, offset: u64, len: usize) -> Result<Piece> {
        match (&open.node.what, &open.how) {
            (What::Member(member), How::Member(in_use)) => {
                member.archive.read(in_use, &member.tree, member.place, offset, len)
            }
            (What::Generated { view, path }, How::Generated(running)) => {
                let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
                running.read(view, offset, len).map_err(|failure| {
                    running.pull = None;
                    self.common.failed(path, &failure)
                })
            }
            _ => Err(Errno::STALE),
        }
    }
}

fn generated_attributes(id: u64) -> FileAttr {
    let now = SystemTime::now();
    FileAttr { perm: GENERATED_MODE, ..attributes(id, FileType::RegularFile, now) }
}

fn member_attributes(id: u64, tree: &Tree, place: u32) -> FileAttr {
    let entry = tree.entry(place);
    let modified = system_time(entry.seconds, u64::from(entry.nanoseconds));
    let size = match &entry.kind {
        Kind::File { size, .. } => *size,
        Kind::Symlink(target) => target.len() as u64,
        Kind::Directory(_) | Kind::Special(..) => 0,
    };
    let (rdev, nlink) = match &entry.kind {
        Kind::Special(_, (major, minor)) => (device_number(*major, *minor), entry.names),
        // Of directories programs take it for one more than those that are in it, or for unknown.
        Kind::Directory(_) => (0, 1),
        _ => (0, entry.names),
    };
    let attributes = attributes(id, entry.kind.file_type(), modified);
    FileAttr { size, blocks: size.div_ceil(512), perm: entry.mode as u16, rdev, nlink, ..attributes }
}

fn attributes(id: u64, kind: FileType, time: SystemTime) -> FileAttr {
    FileAttr {
        ino: INodeNo(id),
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: UNIX_EPOCH,
        kind: kind_of(kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// As the kernel packs it in 32 bits.
fn device_number(major: u32, minor: u32) -> u32 {
    minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12
}

//! Files and directories that are not in the source: members of archives, and files whose bytes a network makes of nothing.
//!
//! They have numbers of their own, above those of all other nodes. Only the calls in this file know them: to any other call, all of
//! which would change something, they are a file system that cannot be written.
//!
//! The bytes of a **generated** file come out of its network while a program reads it. Each open file runs the network once, from
//! the first read on. A read that is not where the last one ended runs it anew, and skips what comes before, as files of `/proc` do.
//! Its size is not known, and told as 0.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, INodeNo, OpenFlags};
use millstream_net::{Input, Pull};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::archive::{Archive, InUse, Kind, TOP, Tree};
use crate::attributes::{kind_of, system_time};
use crate::blocks::{BLOCK, Piece, spare};
use crate::common::add;
use crate::mounted::Mounted;
use crate::names::Entry;
use crate::source::{Object, Result};
use crate::view::View;

/// Numbers from here on are those of this file.
const FIRST: u64 = 1 << 60;

/// Bytes that are skipped at once.
const SKIPPED: usize = BLOCK;

/// Permissions of a generated file.
const GENERATED_MODE: u16 = 0o444;

pub(crate) fn is_virtual(ino: INodeNo) -> bool {
    ino.0 >= FIRST
}

/// A file or directory without a source.
pub(crate) struct Virtual {
    pub(crate) id: u64,
    what: What,
}

enum What {
    Member(Member),
    Generated {
        view: Arc<View>,
        /// For messages.
        path: PathBuf,
    },
}

#[derive(Clone)]
struct Member {
    archive: Arc<Archive>,
    tree: Arc<Tree>,
    place: u32,
}

/// The same thing has the same number, for as long as the kernel remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The address of the tree, and the place in it.
    Member(usize, u32),
    /// The number of the directory, and the name.
    Generated(u64, OsString),
}

/// All that the kernel remembers of them.
#[derive(Default)]
pub(crate) struct Virtuals {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    known: HashMap<u64, Known>,
    by_key: HashMap<Key, u64>,
    made: u64,
}

struct Known {
    node: Arc<Virtual>,
    key: Key,
    /// How often the kernel was told of it, less what it has forgotten.
    lookups: u64,
}

impl Virtuals {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, ino: INodeNo) -> Result<Arc<Virtual>> {
        self.table().known.get(&ino.0).map(|known| Arc::clone(&known.node)).ok_or(Errno::STALE)
    }

    pub(crate) fn len(&self) -> usize {
        self.table().known.len()
    }

    /// The kernel is told of it once more.
    fn found(&self, key: Key, what: What) -> Arc<Virtual> {
        let mut table = self.table();
        let id = match table.by_key.get(&key) {
            Some(&id) => id,
            None => {
                let id = FIRST + table.made;
                table.made += 1;
                table.by_key.insert(key.clone(), id);
                let node = Arc::new(Virtual { id, what });
                table.known.insert(id, Known { node, key, lookups: 0 });
                id
            }
        };
        let known = table.known.get_mut(&id).expect("what is known by its key is known by its number");
        known.lookups += 1;
        Arc::clone(&known.node)
    }

    /// The kernel has forgotten so many of the times that it was told of it.
    pub(crate) fn forget(&self, id: u64, lookups: u64) {
        let mut table = self.table();
        let Some(known) = table.known.get_mut(&id) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0
            && let Some(Known { key, .. }) = table.known.remove(&id)
        {
            table.by_key.remove(&key);
        }
    }
}

impl Virtual {
    fn member(&self) -> Result<&Member> {
        match &self.what {
            What::Member(member) => Ok(member),
            What::Generated { .. } => Err(Errno::NOTDIR),
        }
    }
}

impl Member {
    /// The kernel looks a path up anew if this says that a directory or file of it is of an old version of the archive.
    fn current(&self) -> Result<&Member> {
        if self.archive.is_current(&self.tree)? { Ok(self) } else { Err(Errno::STALE) }
    }

    fn entries(&self) -> Result<Vec<Entry>> {
        let names = self.tree.names(self.place).ok_or(Errno::NOTDIR)?;
        let listed = names.iter().map(|(name, &place)| Entry {
            name: OsString::from_vec(name.to_vec()),
            kind: self.tree.entry(place).kind.file_type(),
            inode: FIRST + u64::from(place),
        });
        Ok(listed.collect())
    }
}

/// A virtual file that a program has open.
pub(crate) struct OpenVirtual {
    node: Arc<Virtual>,
    how: How,
}

enum How {
    Member(InUse),
    Generated(Mutex<Running>),
}

/// A network that is read from.
#[derive(Default)]
struct Running {
    /// `None`: not yet, or it has failed.
    pull: Option<Pull>,
    /// Where the next byte of it stands.
    position: u64,
}

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

impl OpenVirtual {
    /// Whether the kernel must not stop at the size, which says nothing.
    pub(crate) fn is_of_unknown_size(&self) -> bool {
        matches!(self.how, How::Generated(_))
    }
}

impl Running {
    /// Reads some bytes; none at the end.
    fn read(
        &mut self,
        view: &View,
        offset: u64,
        len: usize,
    ) -> std::result::Result<Piece, millstream_net::NetworkError> {
        let pull = match &mut self.pull {
            Some(pull) if self.position <= offset => pull,
            other => {
                self.position = 0;
                let nothing = Input { bytes: Box::new(std::io::empty()), name: "nothing".into(), offset: 0 };
                other.insert(view.pull(nothing)?)
            }
        };
        let mut bytes = spare(len.max(SKIPPED));
        while self.position < offset {
            let most = (offset - self.position).min(SKIPPED as u64) as usize;
            match pull.read(&mut bytes[..most])? {
                0 => return Ok(Piece::of_start(bytes, 0)),
                count => self.position += count as u64,
            }
        }
        let count = pull.read(&mut bytes[..len])?;
        self.position += count as u64;
        Ok(Piece::of_start(bytes, count))
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

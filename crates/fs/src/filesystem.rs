//! The protocol: each call of the kernel is one of [`Mounted`], and its answer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno as Reply, FileAttr, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;

use crate::attributes;
use crate::control;
use crate::handles::{Handle, OpenFile};
use crate::links::is_own;
use crate::mounted::{Ahead, Change, Maker, Mounted, Opened, Sync};
use crate::nodes::{Node, ROOT};
use crate::source::Result;
use crate::virtuals::is_virtual;

/// What the kernel is asked for: listings with attributes, several at once, and a look at the time of a file whenever it asks
/// for attributes, which tells it that another program has changed the source.
const WANTED: [InitFlags; 4] = [
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_AUTO_INVAL_DATA,
];

/// In a listing, the directory itself and the one above come first.
const DOTS: usize = 2;

/// How long the kernel may believe what it was told: the source may be changed by programs that do not use the mount.
const TTL: Duration = Duration::from_secs(1);

/// The mount as the kernel sees it.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) mounted: Arc<Mounted>,
    /// Whether the kernel reads and writes sources itself where nothing is transformed.
    pub(crate) passes_through: bool,
}

fn code(error: Errno) -> Reply {
    Reply::from_i32(error.raw_os_error())
}

/// A bug in a transform is an error of one call, and not the end of the mount.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> std::result::Result<T, Reply> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Errno::IO)).map_err(code)
}

/// Gives the answer of `$work` to `$reply`, or its error.
macro_rules! answer {
    ($reply:ident, $work:expr, |$value:pat_param| $given:expr) => {
        match guarded(|| $work) {
            Ok($value) => $given,
            Err(error) => $reply.error(error),
        }
    };
}

impl Served {
    fn handle(&self, handle: FileHandle) -> Result<Arc<Handle>> {
        self.mounted.handles.get(handle.0).ok_or(Errno::BADF)
    }

    /// A node that was looked up, with its attributes. Without these the kernel was told of nothing.
    fn attributes_of(&self, node: &Node) -> Result<FileAttr> {
        let attributes = self.mounted.attributes(node);
        if attributes.is_err() {
            self.mounted.nodes.forget(node.id, 1);
        }
        attributes
    }

    /// What the kernel has kept of a member is right: a changed archive has members with other numbers.
    fn open_virtual(&self, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.mounted.open_virtual(ino, flags), |open| {
            let flag = match open.is_of_unknown_size() {
                true => FopenFlags::FOPEN_DIRECT_IO,
                false => FopenFlags::FOPEN_KEEP_CACHE,
            };
            reply.opened(FileHandle(self.mounted.handles.add(Handle::Virtual(open))), flag);
        });
    }

    /// The number by which the kernel reads and writes a source without asking: the same for all programs that have it open.
    fn backing(
        &self,
        open: &OpenFile,
        register: impl FnOnce(&std::fs::File) -> std::io::Result<fuser::BackingId>,
    ) -> Option<Arc<fuser::BackingId>> {
        let file = open.file.as_ref().filter(|_| self.passes_through)?;
        let mut backing = open.node.backing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(backing) = backing.upgrade() {
            return Some(backing);
        }
        // Where the kernel cannot (the source is on stacked file systems, say), this process does it.
        let new = Arc::new(register(file).ok()?);
        *backing = Arc::downgrade(&new);
        Some(new)
    }
}

/// Networks run with the rights of this process: only its own user, and root, say through which ones bytes go.
fn check_trusted(request: &Request) -> Result<()> {
    let user = request.uid();
    if user == 0 || user == rustix::process::geteuid().as_raw() { Ok(()) } else { Err(Errno::PERM) }
}

fn maker(request: &Request) -> Maker {
    Maker { user: request.uid(), group: request.gid(), thread: request.pid() }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // What this kernel does not have, it does without.
        for wanted in WANTED {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_readahead(1 << 20);
        let can_pass_through = self.passes_through && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok();
        self.passes_through = can_pass_through && config.set_max_stack_depth(1).is_ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer!(reply, self.mounted.entry(parent, name), |attributes| reply.entry(&TTL, &attributes, Generation(0)));
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.mounted.forget(ino, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = || match is_virtual(ino) {
            true => self.mounted.virtual_attributes(ino),
            false => self.mounted.attributes(&*self.mounted.node(ino)?),
        };
        answer!(reply, found(), |attributes| reply.attr(&TTL, &attributes));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, user, group, size, accessed, modified };
        let changed = || self.mounted.change(&*self.mounted.changeable(ino)?, &change, request.pid());
        answer!(reply, changed(), |attributes| reply.attr(&TTL, &attributes));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = || match is_virtual(ino) {
            true => self.mounted.virtual_target(ino),
            false => self.mounted.node(ino)?.source().link_target(),
        };
        answer!(reply, target(), |target| reply.data(&target));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let made = || {
            let (mode, device) = (mode & !umask, u64::from(device));
            self.attributes_of(&*self.mounted.make_node(parent, name, mode, device, maker(request))?)
        };
        answer!(reply, made(), |attributes| reply.entry(&TTL, &attributes, Generation(0)));
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let made = || self.attributes_of(&*self.mounted.make_directory(parent, name, mode & !umask, maker(request))?);
        answer!(reply, made(), |attributes| reply.entry(&TTL, &attributes, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.mounted.remove(parent, name, false), |()| reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.mounted.remove(parent, name, true), |()| reply.ok());
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = || self.attributes_of(&*self.mounted.make_symlink(parent, name, target, maker(request))?);
        answer!(reply, made(), |attributes| reply.entry(&TTL, &attributes, Generation(0)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        answer!(reply, self.mounted.rename(parent, name, new_parent, new_name, flags), |()| reply.ok());
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = || self.attributes_of(&*self.mounted.make_link(&*self.mounted.node(ino)?, parent, name)?);
        answer!(reply, made(), |attributes| reply.entry(&TTL, &attributes, Generation(0)));
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if is_virtual(ino) {
            return self.open_virtual(ino, flags, reply);
        }
        let opened = || self.mounted.open(&self.mounted.node(ino)?, flags);
        answer!(reply, opened(), |(mut open, opened)| {
            open.backing = self.backing(&open, |file| reply.open_backing(file));
            let backing = open.backing.clone();
            let handle = FileHandle(self.mounted.handles.add(Handle::File(open)));
            match (backing, opened) {
                (Some(backing), _) => reply.opened_passthrough(handle, FopenFlags::empty(), &backing),
                (None, Opened::Unchanged) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
                (None, Opened::OfUnknownSize) => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
                (None, Opened::Source | Opened::Changed) => reply.opened(handle, FopenFlags::empty()),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = || {
            let open = self.mounted.create(parent, name, mode & !umask, OpenFlags(flags), maker(request))?;
            match self.attributes_of(&open.node) {
                Ok(attributes) => Ok((open, attributes)),
                Err(error) => {
                    self.mounted.close(&open)?;
                    Err(error)
                }
            }
        };
        answer!(reply, created(), |(mut open, attributes)| {
            open.backing = self.backing(&open, |file| reply.open_backing(file));
            let backing = open.backing.clone();
            let handle = FileHandle(self.mounted.handles.add(Handle::File(open)));
            let (generation, flags) = (Generation(0), FopenFlags::empty());
            match backing {
                Some(backing) => reply.created_passthrough(&TTL, &attributes, generation, handle, flags, &backing),
                None => reply.created(&TTL, &attributes, generation, handle, flags),
            }
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = || self.mounted.read(&*self.handle(handle)?, offset, size as usize);
        answer!(reply, read(), |bytes| reply.data(&bytes));
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = || self.mounted.write(&*self.handle(handle)?, offset, bytes, request.pid());
        answer!(reply, written(), |count| reply.written(count as u32));
    }

    fn flush(&self, request: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        answer!(reply, self.mounted.flush(&*self.handle(handle)?, request.pid()), |()| reply.ok());
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.mounted.release(handle.0), |()| reply.ok());
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, is_data: bool, reply: ReplyEmpty) {
        let sync = if is_data { Sync::Data } else { Sync::All };
        answer!(reply, self.mounted.sync(&*self.handle(handle)?, sync), |()| reply.ok());
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.mounted.entries(ino), |entries| {
            let handle = self.mounted.handles.add(Handle::Directory(entries));
            reply.opened(FileHandle(handle), FopenFlags::empty());
        });
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut read = || match &*self.handle(handle)? {
            Handle::Directory(entries) => {
                let listed = attributes::listed(ino, entries).enumerate().skip(offset as usize);
                for (place, (number, kind, name)) in listed {
                    if reply.add(INodeNo(number), place as u64 + 1, kind, name) {
                        break;
                    }
                }
                Ok(())
            }
            Handle::File(_) | Handle::Virtual(_) => Err(Errno::NOTDIR),
        };
        answer!(reply, read(), |()| reply.ok());
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let mut read = || match &*self.handle(handle)? {
            Handle::Directory(entries) => {
                let listed = attributes::listed(ino, entries).enumerate().skip(offset as usize);
                for (count, (place, (number, kind, name))) in listed.enumerate() {
                    let found = match place {
                        ..DOTS => None,
                        _ => match self.mounted.look_ahead(ino, name) {
                            Ok(None) => continue,
                            // No name may be left out: the next call begins with this one.
                            Err(_) if count > 0 => break,
                            found => found?,
                        },
                    };
                    let (ttl, attributes) = match &found {
                        Some(Ahead { attributes, are_known: true, .. }) => (TTL, *attributes),
                        Some(Ahead { attributes, .. }) => (Duration::ZERO, *attributes),
                        None => (Duration::ZERO, attributes::known(number, kind)),
                    };
                    if reply.add(attributes.ino, place as u64 + 1, name, &ttl, &attributes, Generation(0)) {
                        found.inspect(|found| self.mounted.forget(INodeNo(found.id), 1));
                        break;
                    }
                }
                Ok(())
            }
            Handle::File(_) | Handle::Virtual(_) => Err(Errno::NOTDIR),
        };
        answer!(reply, read(), |()| reply.ok());
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.mounted.handles.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = || {
            if is_virtual(ino) || self.mounted.node(ino)?.is_archive() {
                return Ok(());
            }
            let directory = self.mounted.node(ino)?.source();
            rustix::fs::fsync(directory.open(rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY)?)
        };
        answer!(reply, synced(), |()| reply.ok());
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let ino = if is_virtual(ino) { INodeNo(ROOT) } else { ino };
        answer!(reply, self.mounted.node(ino)?.source().room(), |room| reply.statfs(
            room.f_blocks,
            room.f_bfree,
            room.f_bavail,
            room.f_files,
            room.f_ffree,
            room.f_bsize as u32,
            room.f_namemax as u32,
            room.f_frsize as u32,
        ));
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let set = || {
            if is_own(name.as_bytes()) {
                check_trusted(request)?;
            }
            let flags = XattrFlags::from_bits_retain(flags as u32);
            self.mounted.changeable(ino)?.source().set_attribute(name, value, flags)
        };
        answer!(reply, set(), |()| reply.ok());
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let got = || match is_virtual(ino) {
            true => Err(Errno::NODATA),
            false => self.mounted.attribute(&*self.mounted.node(ino)?, name),
        };
        answer!(reply, got(), |value| give_sized(reply, &value, size));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let listed = || match is_virtual(ino) {
            true => Ok(Vec::new()),
            false => self.mounted.attribute_names(&*self.mounted.node(ino)?),
        };
        answer!(reply, listed(), |names| give_sized(reply, &names, size));
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = || {
            if is_own(name.as_bytes()) {
                check_trusted(request)?;
            }
            self.mounted.changeable(ino)?.source().remove_attribute(name)
        };
        answer!(reply, removed(), |()| reply.ok());
    }

    fn ioctl(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        command: u32,
        input: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let done = || {
            let (node, command) = (self.mounted.changeable(ino)?, control::understood(command, input)?);
            check_trusted(request)?;
            match command {
                control::Command::Push(stage) => self.mounted.push(&node, &stage),
                control::Command::Pop => self.mounted.pop(&node),
            }
        };
        answer!(reply, done(), |()| reply.ioctl(0, &[]));
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = || {
            let flags = FallocateFlags::from_bits_retain(mode as u32);
            let handle = self.handle(handle)?;
            let Handle::File(open) = &*handle else { return Err(Errno::ISDIR) };
            if let (None, Some(file)) = (open.node.content(), &open.file) {
                return rustix::fs::fallocate(file, flags, offset, length);
            }
            let end = offset + length;
            match (flags.is_empty(), self.mounted.attributes(&*self.mounted.node(ino)?)?.size < end) {
                (false, _) => Err(Errno::OPNOTSUPP),
                (true, false) => Ok(()),
                (true, true) => {
                    let change = Change { size: Some(end), ..Change::default() };
                    self.mounted.change(&open.node, &change, request.pid()).map(drop)
                }
            }
        };
        answer!(reply, done(), |()| reply.ok());
    }

    fn lseek(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let found = || {
            let handle = self.handle(handle)?;
            let from = u64::try_from(offset).map_err(|_| Errno::INVAL)?;
            let wants_data = match whence {
                libc::SEEK_DATA => true,
                libc::SEEK_HOLE => false,
                _ => return Err(Errno::INVAL),
            };
            let size = match &*handle {
                Handle::File(OpenFile { node, file: Some(file), .. }) if node.content().is_none() => {
                    return rustix::fs::seek(
                        file,
                        if wants_data { SeekFrom::Data(from) } else { SeekFrom::Hole(from) },
                    );
                }
                Handle::File(open) => self.mounted.attributes(&open.node)?.size,
                Handle::Virtual(_) => self.mounted.virtual_attributes(ino)?.size,
                Handle::Directory(_) => return Err(Errno::ISDIR),
            };
            // All of it is data, up to the hole behind the end.
            match from >= size {
                true => Err(Errno::NXIO),
                false => Ok(if wants_data { from } else { size }),
            }
        };
        answer!(reply, found(), |offset| reply.offset(offset as i64));
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copied = || {
            let (from, to) = (self.handle(from)?, self.handle(to)?);
            let (Some(source), Some(target)) = (plain_file(&from), plain_file(&to)) else {
                // The kernel then reads and writes.
                return Err(Errno::OPNOTSUPP);
            };
            let len = len.min(1 << 30) as usize;
            let (mut from_offset, mut to_offset) = (from_offset, to_offset);
            rustix::fs::copy_file_range(source, Some(&mut from_offset), target, Some(&mut to_offset), len)
        };
        answer!(reply, copied(), |count| reply.written(count as u32));
    }
}

/// What is read and written in the source itself.
fn plain_file(handle: &Handle) -> Option<&std::fs::File> {
    match handle {
        Handle::File(open) if open.node.content().is_none() => open.file.as_ref(),
        _ => None,
    }
}

/// An attribute, or its size where that was asked.
fn give_sized(reply: ReplyXattr, value: &[u8], size: u32) {
    match size as usize {
        0 => reply.size(value.len() as u32),
        room if room < value.len() => reply.error(code(Errno::RANGE)),
        _ => reply.data(value),
    }
}

//! What the calls of programs do: the mount, without the protocol.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use fuser::{FileAttr, INodeNo, Notifier, OpenFlags, TimeOrNow};
use rustix::fs::{FileType, Mode, OFlags, RenameFlags, Timestamps};
use rustix::io::Errno;

use crate::attributes::{attributes_of, attributes_of_archive, timespec};
use crate::blocks::{Piece, spare};
use crate::calls::{errno, read_at};
use crate::common::{Common, add};
use crate::content::{Content, Shown};
use crate::handles::{Handle, Handles, OpenFile};
use crate::links::is_own;
use crate::names::{Entry, Named, Names, is_file};
use crate::nodes::{Node, Nodes, ROOT};
use crate::rules::Rules;
use crate::source::{Object, Result};
use crate::view::View;
use crate::virtuals::{Virtual, Virtuals, is_virtual};

/// The attribute of the root that has the counters in it.
pub const STATISTICS: &str = "user.millstream.statistics";

/// Bytes of an extended attribute, and of all names of them, at most (`xattr(7)`).
const ATTRIBUTE_MOST: usize = 64 << 10;

/// A directory as it is mounted.
pub(crate) struct Mounted {
    pub(crate) source: PathBuf,
    pub(crate) names: Names,
    pub(crate) nodes: Nodes,
    pub(crate) virtuals: Virtuals,
    pub(crate) handles: Handles,
    pub(crate) common: Arc<Common>,
    /// Whether owners of new files are those of the programs that make them, and not the daemon's.
    pub(crate) gives_owners: bool,
    pub(crate) notifier: OnceLock<Notifier>,
}

/// What is behind a name.
pub(crate) enum Found {
    Node(Arc<Node>),
    Virtual(Arc<Virtual>),
}

/// What a listing says of a name.
pub(crate) struct Ahead {
    /// Of the node.
    pub(crate) id: u64,
    pub(crate) attributes: FileAttr,
    /// Otherwise the size is not.
    pub(crate) are_known: bool,
}

/// Attributes to change.
#[derive(Default)]
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<TimeOrNow>,
    pub(crate) modified: Option<TimeOrNow>,
}

/// What is known of a program that makes something: its user and group are the owners.
#[derive(Clone, Copy)]
pub(crate) struct Maker {
    pub(crate) user: u32,
    pub(crate) group: u32,
    pub(crate) thread: u32,
}

impl Mounted {
    /// `most`: files that are remembered, each of which takes a descriptor.
    pub(crate) fn new(source: &Path, rules: Rules, common: Common, most: usize, is_read_only: bool) -> Result<Mounted> {
        let root = Object::root(source)?;
        let stat = root.stat()?;
        let path = root.path()?;
        Ok(Mounted {
            source: path.clone(),
            names: Names::new(rules, path, is_read_only),
            nodes: Nodes::new(root, &stat, most),
            virtuals: Virtuals::default(),
            handles: Handles::default(),
            common: Arc::new(common),
            gives_owners: rustix::process::geteuid().is_root(),
            notifier: OnceLock::new(),
        })
    }

    /// A node that has a source. What has none cannot be changed.
    pub(crate) fn node(&self, ino: INodeNo) -> Result<Arc<Node>> {
        if is_virtual(ino) {
            return Err(Errno::ROFS);
        }
        self.nodes.get(ino.0).ok_or(Errno::STALE)
    }

    /// The same for what is to be changed: an archive is shown as a directory, which is not its source.
    pub(crate) fn changeable(&self, ino: INodeNo) -> Result<Arc<Node>> {
        let node = self.node(ino)?;
        if node.is_archive() { Err(Errno::ROFS) } else { Ok(node) }
    }

    fn directory(&self, ino: INodeNo) -> Result<Arc<Object>> {
        Ok(self.changeable(ino)?.source())
    }

    /// The kernel has forgotten so many of the times that it was told of a number.
    pub(crate) fn forget(&self, ino: INodeNo, lookups: u64) {
        if is_virtual(ino) { self.virtuals.forget(ino.0, lookups) } else { self.nodes.forget(ino.0, lookups) }
    }

    /// A call that changes nothing. If no descriptor is left it is made again with those of sources that are not being read.
    fn with_descriptors<T>(&self, call: impl Fn() -> Result<T>) -> Result<T> {
        match call() {
            Err(Errno::MFILE) if self.nodes.rest() > 0 => call(),
            other => other,
        }
    }

    /// What is behind a name. The kernel will remember it.
    pub(crate) fn lookup(self: &Arc<Self>, parent: INodeNo, name: &OsStr) -> Result<Found> {
        if is_virtual(parent) {
            return self.lookup_virtual(parent, name).map(Found::Virtual);
        }
        let node = self.node(parent)?;
        if let Some(archive) = node.archive() {
            return self.member(archive, name).map(Found::Virtual);
        }
        let directory = node.source();
        match self.with_descriptors(|| self.names.find(&directory, name)) {
            Ok(named) => Ok(Found::Node(self.found(parent, name, named))),
            Err(Errno::NOENT) => self.generated(parent, &directory, name).map(Found::Virtual),
            Err(error) => {
                if error == Errno::MFILE {
                    self.thin_out(true);
                }
                Err(error)
            }
        }
    }

    /// The same, with its attributes.
    pub(crate) fn entry(self: &Arc<Self>, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        let (id, attributes) = match self.lookup(parent, name)? {
            Found::Node(node) => (node.id, self.attributes(&node)),
            Found::Virtual(node) => (node.id, self.attributes_of_virtual(&node)),
        };
        // Without them the kernel is told of nothing.
        attributes.inspect_err(|_| self.forget(INodeNo(id), 1))
    }

    fn found(self: &Arc<Self>, parent: INodeNo, name: &OsStr, named: Named) -> Arc<Node> {
        let Named { object, stat, view, .. } = named;
        let content = |object: &Object| {
            let view = view.as_ref()?;
            let name = object.path().unwrap_or_default();
            Some(Content::new(Arc::clone(view), Arc::clone(&self.common), name, 0))
        };
        let node = self.nodes.found((parent.0, name), object, &stat, view.as_ref(), content);
        self.thin_out(false);
        node
    }

    /// Has the kernel forget the oldest files, if there are too many. It does so for those that no program has open.
    fn thin_out(self: &Arc<Self>, is_none_left: bool) {
        let Some(notifier) = self.notifier.get().cloned() else { return };
        let Some(surplus) = self.nodes.surplus(is_none_left) else { return };
        let mounted = Arc::clone(self);
        let forget = move || {
            for named in surplus {
                // One that is not known by this name any more is known by another, or not at all.
                let _ = notifier.inval_entry(INodeNo(named.parent), &named.name);
            }
            mounted.nodes.thinned();
        };
        // Not from this thread, which the kernel may be waiting for with the directory locked.
        if std::thread::Builder::new().name("thin out".into()).spawn(forget).is_err() {
            self.nodes.thinned();
        }
    }

    pub(crate) fn attributes(&self, node: &Node) -> Result<FileAttr> {
        let source = node.source();
        if node.is_archive() {
            return Ok(attributes_of_archive(node, &source.stat()?));
        }
        let shown = node.content().map(|content| content.shown(&source)).transpose()?;
        Ok(attributes_of(node, &source.stat()?, shown))
    }

    /// The same; `None` if a whole file would have to be read for them.
    pub(crate) fn attributes_at_once(&self, node: &Node) -> Result<Option<FileAttr>> {
        let source = node.source();
        let Some(content) = node.content().filter(|content| !content.view().is_archive()) else {
            return self.attributes(node).map(Some);
        };
        let Some(shown) = content.shown_at_once(&source)? else { return Ok(None) };
        Ok(Some(attributes_of(node, &source.stat()?, Some(shown))))
    }

    /// `thread`: that of the program.
    pub(crate) fn change(&self, node: &Node, change: &Change, thread: u32) -> Result<FileAttr> {
        let source = node.source();
        if let Some(size) = change.size {
            match node.content() {
                Some(content) => self.replaced(node, content.set_len(&source, size, thread, *node.openers() > 0)?),
                None => source.open(OFlags::WRONLY)?.set_len(size).map_err(|error| errno(&error))?,
            }
        }
        let source = node.source();
        if change.user.is_some() || change.group.is_some() {
            source.set_owner(change.user, change.group)?;
        }
        if let Some(mode) = change.mode {
            source.set_mode(Mode::from_raw_mode(mode & 0o7777))?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times =
                Timestamps { last_access: timespec(change.accessed), last_modification: timespec(change.modified) };
            source.set_times(&times)?;
            if let (Some(content), Some(TimeOrNow::SpecificTime(_))) = (node.content(), change.modified) {
                content.times_were_set();
            }
        }
        self.attributes(node)
    }

    /// Makes a file and opens it.
    pub(crate) fn create(
        self: &Arc<Self>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        flags: OpenFlags,
        maker: Maker,
    ) -> Result<OpenFile> {
        let directory = self.directory(parent)?;
        let (source, view) = self.names.for_new(&directory, name)?;
        let file = directory.create(&source, opened_with(flags), Mode::from_raw_mode(mode & 0o7777))?;
        let named = self.made(&directory, source, view, mode, maker)?;
        let node = self.found(parent, name, named);
        let opened = self.open_new(&node, file, flags, maker.thread);
        if opened.is_err() {
            self.nodes.forget(node.id, 1);
        }
        opened
    }

    fn open_new(&self, node: &Arc<Node>, file: File, flags: OpenFlags, thread: u32) -> Result<OpenFile> {
        let mut openers = node.openers();
        let Some(content) = node.content() else {
            *openers += 1;
            return Ok(self.opened(node, Some(file), flags));
        };
        // Its source is no file of the format yet: even with nothing written to it, it will be.
        content.opened(&node.source())?;
        self.replaced(node, content.set_len(&node.source(), 0, thread, true)?);
        *openers += 1;
        Ok(self.opened(node, None, flags))
    }

    fn opened(&self, node: &Arc<Node>, file: Option<File>, flags: OpenFlags) -> OpenFile {
        add(&self.common.counts.opens, 1);
        add(&self.common.counts.open_files, 1);
        let can_write = opened_with(flags).intersects(OFlags::WRONLY | OFlags::RDWR);
        let appends = OFlags::from_bits_retain(flags.0 as u32).contains(OFlags::APPEND);
        let changes = node.content().map_or(0, |content| content.changes());
        OpenFile { node: Arc::clone(node), file, can_write, appends, changes, backing: None }
    }

    pub(crate) fn make_node(
        self: &Arc<Self>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        device: u64,
        maker: Maker,
    ) -> Result<Arc<Node>> {
        let directory = self.directory(parent)?;
        let kind = FileType::from_raw_mode(mode);
        let (source, view) = match kind {
            FileType::RegularFile | FileType::Unknown => self.names.for_new(&directory, name)?,
            _ => (name.to_owned(), None),
        };
        let kind = if kind == FileType::Unknown { FileType::RegularFile } else { kind };
        directory.make_node(&source, kind, Mode::from_raw_mode(mode & 0o7777), device)?;
        let named = self.made(&directory, source, view, mode, maker)?;
        Ok(self.found(parent, name, named))
    }

    pub(crate) fn make_directory(
        self: &Arc<Self>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        maker: Maker,
    ) -> Result<Arc<Node>> {
        let directory = self.directory(parent)?;
        directory.make_directory(name, Mode::from_raw_mode(mode & 0o7777))?;
        let named = self.made(&directory, name.to_owned(), None, mode, maker)?;
        Ok(self.found(parent, name, named))
    }

    pub(crate) fn make_symlink(
        self: &Arc<Self>,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        maker: Maker,
    ) -> Result<Arc<Node>> {
        let directory = self.directory(parent)?;
        directory.make_symlink(name, target)?;
        let named = self.made(&directory, name.to_owned(), None, 0, maker)?;
        Ok(self.found(parent, name, named))
    }

    /// What was just made, given to its maker.
    fn made(
        &self,
        directory: &Object,
        source: OsString,
        view: Option<Arc<View>>,
        mode: u32,
        maker: Maker,
    ) -> Result<Named> {
        let object = directory.child(&source)?;
        let mut stat = object.stat()?;
        if self.gives_owners {
            // In a directory with the set-group-id bit the kernel has chosen the group.
            let is_group_given = directory.stat()?.st_mode & 0o2000 != 0;
            let group = (!is_group_given).then_some(maker.group).filter(|&group| group != stat.st_gid);
            let user = Some(maker.user).filter(|&user| user != stat.st_uid);
            if user.is_some() || group.is_some() {
                object.set_owner(user, group)?;
            }
        }
        stat = object.stat()?;
        // The umask of this process is not that of the program; and changing the owner has taken bits away.
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if !is_link && (stat.st_mode ^ mode) & 0o6777 != 0 {
            object.set_mode(Mode::from_raw_mode(mode & 0o7777 | stat.st_mode & 0o2000))?;
            stat = object.stat()?;
        }
        Ok(Named { object, stat, source, view })
    }

    pub(crate) fn make_link(self: &Arc<Self>, node: &Node, parent: INodeNo, name: &OsStr) -> Result<Arc<Node>> {
        let directory = self.directory(parent)?;
        let source = match node.content() {
            Some(content) => self.names.for_view(&directory, name, content.view())?.ok_or(Errno::OPNOTSUPP)?,
            None if is_file(&node.source().stat()?) && !self.names.is_free_of_rules(&directory, name)? => {
                return Err(Errno::OPNOTSUPP);
            }
            None => name.to_owned(),
        };
        directory.make_link(&source, &node.source())?;
        match self.lookup(parent, name)? {
            Found::Node(node) => Ok(node),
            Found::Virtual(_) => Err(Errno::STALE),
        }
    }

    pub(crate) fn remove(&self, parent: INodeNo, name: &OsStr, is_directory: bool) -> Result<()> {
        let directory = self.directory(parent)?;
        let named = match self.names.find(&directory, name) {
            Err(Errno::NOENT) => return self.remove_generated(&directory, name),
            named => named?,
        };
        if is_archive(&named) {
            return Err(Errno::ROFS);
        }
        if named.view.is_some() && self.names.links().is_link(&named.object, name)? {
            // The link goes, not the file.
            return self.names.links().remove(&named.object, name);
        }
        if !self.names.is_only_name(&directory, &named)? {
            // One of several views: the source would go from under the others.
            return Err(Errno::PERM);
        }
        directory.remove(&named.source, is_directory)
    }

    /// The link goes. Without one, a rule says that the file is there.
    fn remove_generated(&self, directory: &Object, name: &OsStr) -> Result<()> {
        self.names.generated(directory, name)?.ok_or(Errno::NOENT)?;
        match self.names.links().remove(directory, name) {
            Err(Errno::NODATA) => Err(Errno::PERM),
            removed => removed,
        }
    }

    /// Gives something another name. What had that name is gone afterwards.
    pub(crate) fn rename(
        &self,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        let (from, to) = (self.directory(parent)?, self.directory(new_parent)?);
        let named = self.names.find(&from, name)?;
        let replaced = match self.names.find(&to, new_name) {
            Ok(replaced) => Some(replaced),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error),
        };
        if replaced.as_ref().is_some_and(is_archive) {
            // Its directory is not empty.
            return Err(Errno::NOTEMPTY);
        }
        let new_source = match &named.view {
            // Another rule would show it otherwise: the program copies it then.
            Some(view) => self.names.for_view(&to, new_name, view)?.ok_or(Errno::XDEV)?,
            None if is_file(&named.stat) && !self.names.is_free_of_rules(&to, new_name)? => return Err(Errno::XDEV),
            None => new_name.to_owned(),
        };
        let Some(other) = replaced.filter(|replaced| replaced.source != new_source) else {
            return from.rename(&named.source, &to, &new_source, flags);
        };
        if !flags.is_empty() {
            return Err(if flags.contains(RenameFlags::NOREPLACE) { Errno::EXIST } else { Errno::INVAL });
        }
        let is_link = other.view.is_some() && self.names.links().is_link(&other.object, new_name)?;
        if is_link || !self.names.is_only_name(&to, &other)? {
            // The program copies it then, into that view.
            return Err(Errno::XDEV);
        }
        // A file that is hidden by the other one must not be lost.
        from.rename(&named.source, &to, &new_source, RenameFlags::NOREPLACE)?;
        // The name has led to the other one until now, or leads to it still. Without it, it leads to the new one.
        to.remove(&other.source, false)
    }

    pub(crate) fn open(&self, node: &Arc<Node>, flags: OpenFlags) -> Result<(OpenFile, Opened)> {
        let source = node.source();
        let mut openers = node.openers();
        let Some(content) = node.content() else {
            let file = self.with_descriptors(|| source.open(opened_with(flags)))?;
            *openers += 1;
            return Ok((self.opened(node, Some(file), flags), Opened::Source));
        };
        if opened_with(flags).intersects(OFlags::WRONLY | OFlags::RDWR) {
            content.check_writable(&source)?;
        }
        let is_changed = content.opened(&source)?;
        let how = match (content.is_size_unknown(&source)?, is_changed) {
            (true, _) => Opened::OfUnknownSize,
            (false, true) => Opened::Changed,
            (false, false) => Opened::Unchanged,
        };
        *openers += 1;
        Ok((self.opened(node, None, flags), how))
    }

    pub(crate) fn release(&self, handle: u64) -> Result<()> {
        let Some(handle) = self.handles.remove(handle) else { return Ok(()) };
        match &*handle {
            Handle::File(open) => self.close(open),
            Handle::Virtual(_) => {
                self.close_virtual();
                Ok(())
            }
            Handle::Directory(_) => Ok(()),
        }
    }

    /// A program has closed a file for good.
    pub(crate) fn close(&self, open: &OpenFile) -> Result<()> {
        self.common.counts.open_files.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
        let mut openers = open.node.openers();
        *openers = openers.saturating_sub(1);
        if let (0, Some(content)) = (*openers, open.node.content()) {
            self.replaced(&open.node, content.closed(&open.node.source())?);
        }
        Ok(())
    }

    /// A thread closes a descriptor. Errors that come late are told now.
    pub(crate) fn flush(&self, handle: &Handle, closer: u32) -> Result<()> {
        let Handle::File(OpenFile { node, file, can_write, .. }) = handle else { return Ok(()) };
        if let (true, Some(content)) = (*can_write, node.content()) {
            let committed = content.flush(&node.source(), closer)?;
            self.replaced(node, committed);
        }
        let closed = file.as_ref().map_or(Ok(()), millstream_sys::written::close_copy);
        closed.map_err(|error| errno(&error))
    }

    /// Puts what was written on disk.
    pub(crate) fn sync(&self, handle: &Handle, sync: Sync) -> Result<()> {
        let Handle::File(OpenFile { node, file, can_write, .. }) = handle else { return Ok(()) };
        if let (true, Some(content)) = (*can_write, node.content()) {
            let committed = content.commit(&node.source(), true)?;
            self.replaced(node, committed);
        }
        let Some(file) = file else { return Ok(()) };
        let synced = match sync {
            Sync::Data => file.sync_data(),
            Sync::All => file.sync_all(),
        };
        synced.map_err(|error| errno(&error))
    }

    /// The mount is gone: what programs had open is closed, and what they wrote is put into the sources.
    pub(crate) fn close_all(&self) {
        for handle in self.handles.numbers() {
            let _ = self.release(handle);
        }
    }

    /// Puts what programs have written into the sources. Does not wait for those that read.
    pub(crate) fn commit_all(&self) {
        for handle in self.handles.numbers() {
            let Some(handle) = self.handles.get(handle) else { continue };
            let Handle::File(OpenFile { node, can_write: true, .. }) = &*handle else { continue };
            if let Some(content) = node.content() {
                // An error is told in the log.
                let _ = content.commit(&node.source(), false);
            }
        }
    }

    pub(crate) fn replaced(&self, node: &Node, source: Option<Object>) {
        if let Some(source) = source {
            self.nodes.replace_source(node, source);
        }
    }

    pub(crate) fn read(&self, handle: &Handle, offset: u64, len: usize) -> Result<Piece> {
        let bytes = match handle {
            Handle::File(open) => self.with_descriptors(|| read_file(open, offset, len))?,
            Handle::Virtual(open) => self.read_virtual(open, offset, len)?,
            Handle::Directory(_) => return Err(Errno::ISDIR),
        };
        add(&self.common.counts.bytes_read, bytes.len() as u64);
        Ok(bytes)
    }

    /// `thread`: that of the program.
    pub(crate) fn write(&self, handle: &Handle, offset: u64, bytes: &[u8], thread: u32) -> Result<usize> {
        let Handle::File(OpenFile { node, file, appends, .. }) = handle else { return Err(Errno::ISDIR) };
        let count = match (node.content(), file) {
            // The kernel does not know where the end is.
            (Some(content), _) if *appends && content.is_size_unknown(&node.source())? => {
                let end = content.end(&node.source())?;
                content.write(&node.source(), end, bytes, thread).map(|()| bytes.len())?
            }
            (Some(content), _) => content.write(&node.source(), offset, bytes, thread).map(|()| bytes.len())?,
            (None, Some(file)) => file.write_at(bytes, offset).map_err(|error| errno(&error))?,
            (None, None) => return Err(Errno::STALE),
        };
        add(&self.common.counts.bytes_written, count as u64);
        Ok(count)
    }

    /// A name in a directory that is being listed, with its attributes if they can be had at once, and without a size if not.
    /// The kernel will remember it. `None`: it has gone since the directory was opened.
    pub(crate) fn look_ahead(self: &Arc<Self>, parent: INodeNo, name: &OsStr) -> Result<Option<Ahead>> {
        let (id, attributes) = match self.lookup(parent, name) {
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error),
            Ok(Found::Virtual(node)) => (node.id, self.attributes_of_virtual(&node).map(|known| (known, true))),
            Ok(Found::Node(node)) => (node.id, self.attributes_ahead(&node)),
        };
        match attributes {
            Ok((attributes, are_known)) => Ok(Some(Ahead { id, attributes, are_known })),
            Err(error) => {
                self.forget(INodeNo(id), 1);
                Err(error)
            }
        }
    }

    /// Attributes, and whether the size is among them.
    fn attributes_ahead(&self, node: &Node) -> Result<(FileAttr, bool)> {
        if let Ok(Some(attributes)) = self.attributes_at_once(node) {
            return Ok((attributes, true));
        }
        Ok((attributes_of(node, &node.source().stat()?, Some(Shown::default())), false))
    }

    /// An extended attribute: that of the source, or the counters where the root is asked for them.
    pub(crate) fn attribute(&self, node: &Node, name: &OsStr) -> Result<Vec<u8>> {
        if node.id == ROOT && name == STATISTICS {
            return Ok(self.statistics().to_string().into_bytes());
        }
        let mut value = vec![0; ATTRIBUTE_MOST];
        let count = node.source().attribute(name, &mut value)?;
        value.truncate(count);
        Ok(value)
    }

    /// The names of extended attributes, each with a zero behind it. What this program keeps in a source is about its bytes,
    /// and not about those of a view.
    pub(crate) fn attribute_names(&self, node: &Node) -> Result<Vec<u8>> {
        let mut names = vec![0; ATTRIBUTE_MOST];
        let count = node.source().attributes(&mut names)?;
        names.truncate(count);
        if node.content().is_none() {
            return Ok(names);
        }
        let kept = names.split_inclusive(|&byte| byte == 0).filter(|name| !is_own(name));
        Ok(kept.flatten().copied().collect())
    }

    fn statistics(&self) -> serde_json::Value {
        let mut statistics = self.common.counts.to_json();
        statistics["source"] = self.source.to_string_lossy().into();
        statistics["pid"] = std::process::id().into();
        statistics["nodes"] = (self.nodes.len() + self.virtuals.len()).into();
        statistics
    }

    pub(crate) fn entries(&self, ino: INodeNo) -> Result<Vec<Entry>> {
        if is_virtual(ino) {
            return self.virtual_entries(ino);
        }
        let node = self.node(ino)?;
        match node.archive() {
            Some(archive) => Mounted::archive_entries(archive),
            None => self.names.entries(&node.source()),
        }
    }
}

fn read_file(open: &OpenFile, offset: u64, len: usize) -> Result<Piece> {
    let OpenFile { node, file, changes, .. } = open;
    match (node.content(), file) {
        (Some(content), _) => content.read(&node.source(), offset, len, *changes),
        (None, Some(file)) => {
            let mut bytes = spare(len);
            let count = read_at(file, &mut bytes[..len], offset)?;
            Ok(Piece::of_start(bytes, count))
        }
        (None, None) => Err(Errno::STALE),
    }
}

fn is_archive(named: &Named) -> bool {
    named.view.as_ref().is_some_and(|view| view.is_archive())
}

/// What of a file is put on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    Data,
    All,
}

/// How the kernel is to treat a file that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It may read and write the source itself.
    Source,
    /// What it has kept is what is there.
    Unchanged,
    /// What it has kept is old.
    Changed,
    /// It must not stop at the size, which says nothing.
    OfUnknownSize,
}

/// The flags with which a source is opened. What the kernel does itself is left out: it says where each write goes, at the end
/// too.
fn opened_with(flags: OpenFlags) -> OFlags {
    let flags = OFlags::from_bits_retain(flags.0 as u32);
    flags & (OFlags::WRONLY | OFlags::RDWR | OFlags::SYNC | OFlags::DSYNC | OFlags::NOATIME)
}

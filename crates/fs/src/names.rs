//! Names in the mount, and what of the source is behind them.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use millstream_sys::whole_file;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::links::{Linked, Links};
use crate::rules::Rules;
use crate::source::{Object, Result};
use crate::view::View;

/// What a name of the mount stands for.
pub(crate) struct Named {
    pub(crate) object: Object,
    pub(crate) stat: Stat,
    /// The name in the source.
    pub(crate) source: OsString,
    /// `None`: as its source.
    pub(crate) view: Option<Arc<View>>,
}

/// A name in a directory of the mount.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
    pub(crate) inode: u64,
}

/// What a listing says as the inode of a file that has none.
const GENERATED: u64 = u64::MAX;

/// Rules and links, asked for a directory of the source.
pub(crate) struct Names {
    rules: Rules,
    root: PathBuf,
    links: Links,
    is_read_only: bool,
}

impl Names {
    pub(crate) fn new(rules: Rules, root: PathBuf, is_read_only: bool) -> Names {
        Names { rules, root, links: Links::default(), is_read_only }
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// The directory relative to the root, if any rule looks at it.
    fn relative(&self, directory: &Object) -> Result<Vec<u8>> {
        if !self.rules.look_at_directories() {
            return Ok(Vec::new());
        }
        let path = directory.path()?;
        let relative = path.strip_prefix(&self.root).unwrap_or(&path);
        Ok(relative.as_os_str().as_bytes().to_vec())
    }

    /// What a name stands for: a source of that name; else a source that a rule shows so; else a link.
    pub(crate) fn find(&self, directory: &Object, name: &OsStr) -> Result<Named> {
        let relative = self.relative(directory)?;
        match self.of_source(directory, &relative, name) {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        for (source, rule) in self.rules.sources_of(&relative, name.as_bytes()) {
            let source = OsString::from_vec(source);
            let Ok(object) = directory.child(&source) else { continue };
            let stat = object.stat()?;
            if is_file(&stat) {
                return Ok(Named { object, stat, source, view: Some(Arc::clone(&rule.view)) });
            }
        }
        let Linked { object, stat, source, view } = self.links.find(directory, name)?.ok_or(Errno::NOENT)?;
        Ok(Named { object, stat, source, view: Some(view) })
    }

    /// What gives the bytes of a file that is not in the source.
    pub(crate) fn generated(&self, directory: &Object, name: &OsStr) -> Result<Option<Arc<View>>> {
        let relative = self.relative(directory)?;
        match self.rules.generated(&relative, name.as_bytes()) {
            Some(view) => Ok(Some(Arc::clone(view))),
            None => self.links.generated(directory, name),
        }
    }

    /// The source of this name, if it appears under it.
    fn of_source(&self, directory: &Object, relative: &[u8], name: &OsStr) -> Result<Named> {
        let object = directory.child(name)?;
        let stat = object.stat()?;
        let source = name.to_owned();
        if !is_file(&stat) {
            return Ok(Named { object, stat, source, view: None });
        }
        let mut views = self.rules.views_of(relative, name.as_bytes());
        if let Some((_, rule)) = views.find(|(shown, _)| shown == name.as_bytes()) {
            return Ok(Named { object, stat, source, view: Some(Arc::clone(&rule.view)) });
        }
        match self.rules.shows_source(relative, name.as_bytes()) {
            true => Ok(Named { object, stat, source, view: None }),
            false => Err(Errno::NOENT),
        }
    }

    /// The source that a new file of this name is to have, and its view.
    pub(crate) fn for_new(&self, directory: &Object, name: &OsStr) -> Result<(OsString, Option<Arc<View>>)> {
        let relative = self.relative(directory)?;
        let mut sources = self.rules.sources_of(&relative, name.as_bytes());
        if let Some((source, rule)) = sources.find(|(_, rule)| rule.view.can_be_written()) {
            return Ok((OsString::from_vec(source), Some(Arc::clone(&rule.view))));
        }
        match self.rules.shows_source(&relative, name.as_bytes()) {
            true => Ok((name.to_owned(), None)),
            // It would appear under another name, or transformed by what cannot be undone.
            false => Err(Errno::OPNOTSUPP),
        }
    }

    /// The source with which a view appears under a name.
    pub(crate) fn for_view(&self, directory: &Object, name: &OsStr, view: &Arc<View>) -> Result<Option<OsString>> {
        let relative = self.relative(directory)?;
        let mut sources = self.rules.sources_of(&relative, name.as_bytes());
        // A digest goes with its file, and has no source of its own.
        let same = sources.find(|(_, rule)| Arc::ptr_eq(&rule.view, view) && view.is_digest_of().is_none());
        Ok(same.map(|(source, _)| OsString::from_vec(source)))
    }

    /// Whether a source that appears under a name appears under no other, so that it goes with that name.
    pub(crate) fn is_only_name(&self, directory: &Object, named: &Named) -> Result<bool> {
        let (relative, source) = (self.relative(directory)?, named.source.as_bytes());
        let Some(view) = &named.view else { return Ok(true) };
        let views = self.rules.views_of(&relative, source).filter(|(_, rule)| rule.view.is_digest_of().is_none());
        let is_shown_itself = self.rules.shows_source(&relative, source);
        Ok(view.is_digest_of().is_none() && views.count() == 1 && !is_shown_itself)
    }

    /// Whether a source without a view would appear under this name.
    pub(crate) fn is_free_of_rules(&self, directory: &Object, name: &OsStr) -> Result<bool> {
        Ok(self.rules.shows_source(&self.relative(directory)?, name.as_bytes()))
    }

    /// All names in a directory of the mount.
    pub(crate) fn entries(&self, directory: &Object) -> Result<Vec<Entry>> {
        let relative = self.relative(directory)?;
        let mut sources = directory.names()?;
        if !self.is_read_only {
            // What a daemon has left that was killed.
            sources.retain(|(name, ..)| !whole_file::remove_abandoned(directory.as_fd(), name));
        }
        let mut entries = Vec::with_capacity(sources.len());
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        let mut add = |name: Vec<u8>, kind, inode| {
            if seen.insert(name.clone()) {
                entries.push(Entry { name: OsString::from_vec(name), kind, inode });
            }
        };
        // Sources under their own names first: they win, as in 'find'.
        for (name, kind, inode) in &sources {
            let is_file = matches!(kind, FileType::RegularFile | FileType::Unknown);
            let mut views = self.rules.views_of(&relative, name.as_bytes());
            let own = views.find(|(shown, _)| shown == name.as_bytes()).filter(|_| is_file);
            if own.is_some() || !is_file || self.rules.shows_source(&relative, name.as_bytes()) {
                let is_archive = own.is_some_and(|(_, rule)| rule.view.is_archive());
                add(name.as_bytes().to_vec(), if is_archive { FileType::Directory } else { *kind }, *inode);
            }
        }
        for (name, kind, inode) in &sources {
            if matches!(kind, FileType::RegularFile | FileType::Unknown) {
                self.rules.views_of(&relative, name.as_bytes()).for_each(|(shown, rule)| {
                    let kind = if rule.view.is_archive() { FileType::Directory } else { *kind };
                    add(shown, kind, *inode);
                });
            }
        }
        for (name, inode) in self.links.names_in(directory)? {
            add(name, FileType::RegularFile, inode);
        }
        for name in self.rules.generated_in(&relative) {
            add(name.to_vec(), FileType::RegularFile, GENERATED);
        }
        Ok(entries)
    }
}

pub(crate) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

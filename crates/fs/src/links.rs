//! Links: views of single files, kept in extended attributes of these files.
//!
//! ```text
//!   attribute of the file        user.millstream.link.NAME    {"read": "gunzip | upper", "write": null, "size": "scan"}
//!   attribute of its directory   user.millstream.links        says that there are such files in it
//! ```
//!
//! A file with a link appears under NAME too, in its own directory. A directory with one has a file NAME, whose bytes are what
//! the network makes of nothing.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Stat, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::line::{self, SizeFrom, WriteNetwork};
use crate::reading::ATTRIBUTES;
use crate::source::{Object, Result};
use crate::view::View;

const LINK: &str = "user.millstream.link.";
const MARK: &str = "user.millstream.links";

/// What a link says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    read: String,
    /// `None`: what undoes the read network, if anything does.
    write: Option<String>,
    #[serde(default)]
    size: SizeFrom,
}

/// A link of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The name under which the file appears.
    pub name: String,
    /// The network that its bytes go through.
    pub network: String,
}

/// A file that appears under a name because of a link.
pub(crate) struct Linked {
    pub(crate) object: Object,
    pub(crate) stat: Stat,
    /// The name in the source.
    pub(crate) source: OsString,
    pub(crate) view: Arc<View>,
}

/// Views of links, each made once.
#[derive(Default)]
pub(crate) struct Links {
    views: Mutex<HashMap<Vec<u8>, Arc<View>>>,
}

impl Links {
    /// The file that appears under a name because of a link.
    pub(crate) fn find(&self, directory: &Object, name: &OsStr) -> Result<Option<Linked>> {
        if !has_links(directory)? {
            return Ok(None);
        }
        let Some(attribute) = name.to_str().map(|name| format!("{LINK}{name}")) else { return Ok(None) };
        for (source, kind, _) in directory.names()? {
            if !matches!(kind, FileType::RegularFile | FileType::Unknown) {
                continue;
            }
            let Ok(object) = directory.child(&source) else { continue };
            let Some(value) = object.whole_attribute(&attribute)? else { continue };
            let stat = object.stat()?;
            if !is_trusted(&stat) {
                continue;
            }
            let view = self.view(&value).ok_or(Errno::IO)?;
            if may_run(&stat, &view) {
                return Ok(Some(Linked { object, stat, source, view }));
            }
        }
        Ok(None)
    }

    /// What gives the bytes of a file that is in no source, because of a link of the directory.
    pub(crate) fn generated(&self, directory: &Object, name: &OsStr) -> Result<Option<Arc<View>>> {
        let Some(name) = name.to_str().filter(|_| has_links(directory) == Ok(true)) else { return Ok(None) };
        let Some(value) = directory.whole_attribute(&format!("{LINK}{name}"))? else { return Ok(None) };
        let stat = directory.stat()?;
        if !is_trusted(&stat) {
            return Ok(None);
        }
        let view = self.view(&value).ok_or(Errno::IO)?;
        Ok(Some(view).filter(|view| may_run(&stat, view)))
    }

    /// The names of all links in a directory, with the inodes of their files.
    pub(crate) fn names_in(&self, directory: &Object) -> Result<Vec<(Vec<u8>, u64)>> {
        let mut names = Vec::new();
        if !has_links(directory)? {
            return Ok(names);
        }
        self.add_names(directory, &directory.stat()?, &mut names)?;
        for (source, kind, _) in directory.names()? {
            if matches!(kind, FileType::RegularFile | FileType::Unknown)
                && let Ok(object) = directory.child(&source)
            {
                self.add_names(&object, &object.stat()?, &mut names)?;
            }
        }
        Ok(names)
    }

    fn add_names(&self, object: &Object, stat: &Stat, names: &mut Vec<(Vec<u8>, u64)>) -> Result<()> {
        if !is_trusted(stat) {
            return Ok(());
        }
        for name in linked(object)? {
            let value = || object.whole_attribute(&format!("{LINK}{name}"));
            let is_shown = !is_written_by_others(stat) || {
                let view = value()?.and_then(|value| self.view(&value));
                view.is_some_and(|view| may_run(stat, &view))
            };
            if is_shown {
                names.push((name.into_bytes(), stat.st_ino));
            }
        }
        Ok(())
    }

    /// Whether a file appears under this name because of a link.
    pub(crate) fn is_link(&self, object: &Object, name: &OsStr) -> Result<bool> {
        let Some(name) = name.to_str() else { return Ok(false) };
        Ok(object.whole_attribute(&format!("{LINK}{name}"))?.is_some())
    }

    /// A file no longer appears under this name.
    pub(crate) fn remove(&self, object: &Object, name: &OsStr) -> Result<()> {
        let name = name.to_str().ok_or(Errno::NOENT)?;
        object.remove_attribute(OsStr::new(&format!("{LINK}{name}")))
    }

    fn view(&self, value: &[u8]) -> Option<Arc<View>> {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = views.get(value) {
            return Some(Arc::clone(view));
        }
        let written: Written = serde_json::from_slice(value).ok()?;
        let view = Arc::new(written.view().ok()?);
        views.insert(value.to_vec(), Arc::clone(&view));
        Some(view)
    }
}

impl Written {
    fn view(&self) -> std::result::Result<View, String> {
        let write = match &self.write {
            Some(line) => WriteNetwork::Given(line::network(line)?),
            None => WriteNetwork::Inverse,
        };
        View::new(line::network(&self.read)?, write, self.size)
    }
}

/// Networks run with the rights of the daemon: only its own user may name them.
fn is_trusted(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// An attribute can be set by all that may write the file. So a link of such a file runs no command.
fn may_run(stat: &Stat, view: &View) -> bool {
    !(is_written_by_others(stat) && view.has_command())
}

/// The bits of the group are also those of an access control list.
fn is_written_by_others(stat: &Stat) -> bool {
    stat.st_mode & 0o022 != 0
}

fn has_links(directory: &Object) -> Result<bool> {
    match directory.attribute(OsStr::new(MARK), &mut [0; 16]) {
        Ok(_) | Err(Errno::RANGE) => Ok(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The names under which a file appears because of links.
fn linked(object: &Object) -> Result<Vec<String>> {
    let mut names = vec![0; 65_536];
    let count = match object.attributes(&mut names) {
        Err(Errno::OPNOTSUPP) => 0,
        count => count?,
    };
    let names = names[..count].split(|&byte| byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    Ok(names.filter_map(|name| name.strip_prefix(LINK).map(Into::into)).collect())
}

/// Makes a file appear under a further name, through a network. Both have to be in one directory, which `name` is a name in. If the
/// file is a directory, `name` is one in it, of a file that has what the network makes of nothing.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn link(file: &Path, name: &str, read: &str, write: Option<&str>) -> std::result::Result<(), String> {
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return Err(format!("'{name}' is no name of a file in the directory of '{}'", file.display()));
    }
    let written = Written { read: read.into(), write: write.map(Into::into), size: SizeFrom::default() };
    let view = written.view()?;
    let (file, object, directory) = opened(file)?;
    if object.stat().is_ok_and(|stat| !may_run(&stat, &view)) {
        let file = file.display();
        return Err(format!("others may write '{file}', so its links run no commands: chmod go-w '{file}'"));
    }
    if write.is_some() && is_directory(&object) {
        return Err(format!("a file in '{}' without a source cannot be written: leave '--write' out", file.display()));
    }
    if directory.child(OsStr::new(name)).is_ok() {
        let path = if is_directory(&object) { file.join(name) } else { file.with_file_name(name) };
        return Err(format!("'{}' exists already; choose another name", path.display()));
    }
    let value = serde_json::to_vec(&written).map_err(|error| error.to_string())?;
    let set = |object: &Object, attribute: &str, value: &[u8]| {
        let set = object.set_attribute(OsStr::new(attribute), value, XattrFlags::empty());
        set.map_err(|error| format!("cannot set the attribute '{attribute}' of '{}': {error}", file.display()))
    };
    set(&object, &format!("{LINK}{name}"), &value)?;
    set(&directory, MARK, b"1")
}

/// The links of a file.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn links(file: &Path) -> std::result::Result<Vec<Link>, String> {
    let (file, object, _) = opened(file)?;
    let unreadable = |error| format!("cannot read the attributes of '{}': {error}", file.display());
    let mut links = Vec::new();
    for name in linked(&object).map_err(unreadable)? {
        let value = object.whole_attribute(&format!("{LINK}{name}")).map_err(unreadable)?.unwrap_or_default();
        let network =
            serde_json::from_slice::<Written>(&value).map_or_else(|_| "(unreadable)".into(), |link| link.read);
        links.push(Link { name, network });
    }
    links.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(links)
}

/// Removes a link of a file.
///
/// # Errors
/// What is wrong, as a sentence.
pub fn unlink(file: &Path, name: &str) -> std::result::Result<(), String> {
    let (file, object, _) = opened(file)?;
    match object.remove_attribute(OsStr::new(&format!("{LINK}{name}"))) {
        Ok(()) => Ok(()),
        Err(Errno::NODATA) => Err(format!("'{}' has no link '{name}'", file.display())),
        Err(error) => Err(format!("cannot remove the link '{name}' of '{}': {error}", file.display())),
    }
}

fn is_directory(object: &Object) -> bool {
    object.stat().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// A file and its directory; or a directory, twice.
fn opened(file: &Path) -> std::result::Result<(PathBuf, Object, Object), String> {
    let cannot_open = |error: &dyn std::fmt::Display| format!("cannot open '{}': {error}", file.display());
    let path = std::fs::canonicalize(file).map_err(|error| cannot_open(&error))?;
    let object = Object::at(&path).map_err(|error| cannot_open(&error))?;
    let kind = object.stat().map(|stat| FileType::from_raw_mode(stat.st_mode)).map_err(|error| cannot_open(&error))?;
    let directory = match kind {
        FileType::Directory => path.as_path(),
        FileType::RegularFile => path.parent().unwrap_or(Path::new("/")),
        _ => return Err(format!("'{}' is neither a regular file nor a directory", file.display())),
    };
    let directory = Object::root(directory).map_err(|error| cannot_open(&error))?;
    Ok((path, object, directory))
}

/// Whether an attribute is for this program alone.
pub(crate) fn is_own(attribute: &[u8]) -> bool {
    attribute.starts_with(ATTRIBUTES.as_bytes())
}

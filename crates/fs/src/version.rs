//! A new version of a source, which takes its place in one step.
//!
//! Other users may own the directories of a mount that root serves, and exchange one for a symbolic link while a version is
//! being written. So no path is followed: the directory is opened without symbolic links when the version is put in place, and
//! its entry has to be the file that is replaced.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use millstream_sys::attributes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::source::{Object, Result};

/// The content of a version, which has no name yet, or a hidden one.
#[derive(Debug)]
pub(crate) struct Version {
    file: File,
    directory: OwnedFd,
    /// Where the file system cannot make files without a name.
    hidden: Option<OsString>,
}

/// Until a version is complete, whatever the final permissions are.
const OWNERS_ALONE: Mode = Mode::RUSR.union(Mode::WUSR);

impl Version {
    /// Begins a version of a source, in the directory where this is, or was.
    pub(crate) fn new(object: &Object) -> Result<Version> {
        let (directory, _) = object.directory()?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        match openat(&directory, ".", flags | OFlags::TMPFILE, OWNERS_ALONE) {
            Ok(file) => Ok(Version { file: file.into(), directory, hidden: None }),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) => {
                let (name, file) =
                    hidden(|name| openat(&directory, name, flags | OFlags::CREATE | OFlags::EXCL, OWNERS_ALONE))?;
                Ok(Version { file: file.into(), directory, hidden: Some(name) })
            }
            Err(error) => Err(error),
        }
    }

    /// Opens what was written so far, to read it.
    pub(crate) fn reopen(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Puts the version in the place of the source, with its owner, permissions and attributes, and on disk if `is_synced`.
    pub(crate) fn place(mut self, object: &Object, is_synced: bool) -> io::Result<()> {
        let old = object.own_path();
        let permissions = attributes::take_over(old.as_ref(), &std::fs::metadata(&old)?, &self.file)?;
        if is_synced {
            self.file.sync_all()?;
        }
        let (directory, name) = object.entry()?;
        let hidden = match self.hidden.take() {
            Some(name) => {
                renameat(&self.directory, &name, &directory, &name)?;
                name
            }
            None => {
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                let link = |name: &OsStr| linkat(CWD, &own, &directory, name, AtFlags::SYMLINK_FOLLOW);
                hidden(link)?.0
            }
        };
        // Before the rename: a reader of the name must find neither a private file nor a wider one.
        let set = self.file.set_permissions(Permissions::from_mode(permissions.mode()));
        let placed = set.and_then(|()| Ok(renameat(&directory, &hidden, &directory, &name)?));
        if placed.is_err() {
            let _ = unlinkat(&directory, &hidden, AtFlags::empty());
        } else if is_synced {
            // Not every file system can say so for a directory.
            let _ = openat(&directory, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).and_then(fsync);
        }
        placed
    }
}

impl Write for Version {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Version {
    fn drop(&mut self) {
        if let Some(name) = &self.hidden {
            // It may have gone with its directory.
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

/// Makes something under a name that is hidden and free.
fn hidden<T>(make: impl Fn(&OsStr) -> Result<T>) -> Result<(OsString, T)> {
    for count in 0..10_000 {
        let name = OsString::from(format!(".millstream-{}-{count}", std::process::id()));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (name, made)),
        }
    }
    Err(Errno::EXIST)
}

//! A new version of a source, which takes its place in one step.
//!
//! Other users may own the directories of a mount that root serves, and exchange one for a symbolic link while a version is
//! being written. So no path is followed: the directory is opened without symbolic links when the version is put in place, and
//! its entry has to be the file that is replaced.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};

use millstream_sys::attributes;
use millstream_sys::whole_file::Replacement;

use crate::calls::errno;
use crate::source::{Object, Result};

/// The content of a version, which has no name yet, or a hidden one.
#[derive(Debug)]
pub(crate) struct Version(Replacement);

impl Version {
    /// Begins a version of a source, in the directory where this is, or was.
    pub(crate) fn new(object: &Object) -> Result<Version> {
        let (directory, _) = object.directory()?;
        Replacement::create(directory).map(Version).map_err(|error| errno(&error))
    }

    /// Opens what was written so far, to read it.
    pub(crate) fn reopen(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.0.file().as_raw_fd()))
    }

    /// Puts the version in the place of the source, with its owner, permissions and attributes, and on disk if `is_synced`.
    pub(crate) fn place(self, object: &Object, is_synced: bool) -> io::Result<()> {
        let old = object.own_path();
        let permissions = attributes::take_over(old.as_ref(), &std::fs::metadata(&old)?, self.0.file())?;
        if is_synced {
            // Before the entry is looked at: this takes time, in which others may rename the source.
            self.0.file().sync_all()?;
        }
        let (directory, name) = object.entry()?;
        self.0.place(directory.as_fd(), &name, &permissions, is_synced)
    }
}

impl Write for Version {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

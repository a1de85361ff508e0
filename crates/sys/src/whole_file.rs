//! A file that appears under its name complete or not at all.

use std::format;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, linkat};
use rustix::io::Errno;

use crate::attributes;

/// A new content for a file. Until [`WholeFile::keep`] the old one is there for everybody, and if that is never called nothing
/// has happened: where the file system can (`O_TMPFILE`), the new content has no name before, so that not even a kill leaves
/// anything behind.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    path: PathBuf,
    /// Where the content is until it is kept, if it needs a name.
    temporary: Option<PathBuf>,
    /// Those that it gets when it is complete; until then it is its owner's alone.
    permissions: Permissions,
}

/// A file without a name in this directory, to read and write, that goes with its last descriptor.
///
/// # Errors
/// Those of `open(2)` and, where the file system cannot make a file without a name, of `unlink(2)`.
pub fn nameless_in(directory: &Path) -> io::Result<File> {
    let made = new_file().read(true).custom_flags(libc::O_TMPFILE).open(directory);
    made.or_else(|_| {
        let temporary = temporary_name(&directory.join("spool"))?;
        let file = new_file().read(true).create_new(true).open(&temporary)?;
        std::fs::remove_file(&temporary).map(|()| file)
    })
}

impl WholeFile {
    /// Begins a new content for the file at `path`, which may not exist yet. Of a symbolic link the file that it leads to is
    /// meant. A file that exists keeps its owner, group, permissions, access control list and attributes, but not set-user-id and its
    /// like, which the old content had.
    ///
    /// # Errors
    /// Those of creating a file in that directory; `EISDIR` for a directory, and for a name that only one can have. A sentence: the
    /// new file cannot have what the old one has, or the old one has several names.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        let path = meant(path)?;
        let old = match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => return Err(Errno::ISDIR.into()),
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // Of this name there can be no file, which is better known now than when its content is complete.
            Err(error) => return Err(error),
        };
        let mut whole = WholeFile::nameless(&path).or_else(|_| WholeFile::named(&path))?;
        if let Some(old) = old {
            whole.permissions = attributes::take_over(&path, &old, &whole.file)?;
            // An access control list has changed them.
            whole.file.set_permissions(Permissions::from_mode(OWNERS_ALONE))?;
        }
        Ok(whole)
    }

    fn nameless(path: &Path) -> io::Result<WholeFile> {
        let file = new_file().custom_flags(libc::O_TMPFILE).open(directory_of(path))?;
        Ok(WholeFile { file, path: path.into(), temporary: None, permissions: attributes::usual_permissions() })
    }

    fn named(path: &Path) -> io::Result<WholeFile> {
        let temporary = temporary_name(path)?;
        let file = new_file().create_new(true).open(&temporary)?;
        let permissions = attributes::usual_permissions();
        Ok(WholeFile { file, path: path.into(), temporary: Some(temporary), permissions })
    }

    /// Puts the new content on disk, where it still has no name.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Puts the new content on disk, and then in the place of the old one.
    ///
    /// # Errors
    /// Those of `fsync(2)`, `linkat(2)`, `fchmod(2)` and `rename(2)`. The old content is still there then.
    pub fn keep(mut self) -> io::Result<()> {
        self.sync()?;
        if self.temporary.is_none() {
            // A link cannot replace a file, and renaming needs a name.
            let temporary = temporary_name(&self.path)?;
            let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, open, CWD, &temporary, AtFlags::SYMLINK_FOLLOW)?;
            self.temporary = Some(temporary);
        }
        if let Some(temporary) = &self.temporary {
            // Before the rename: a reader of the name must find neither a private file nor a wider one.
            self.file.set_permissions(self.permissions.clone())?;
            std::fs::rename(temporary, &self.path)?;
            self.temporary = None;
        }
        // The new name is on disk too. Not every file system can say so for a directory.
        let _ = File::open(directory_of(&self.path)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nobody to tell; the name says what it is.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Until a file is complete, whatever the final permissions are.
const OWNERS_ALONE: u32 = 0o600;

fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(OWNERS_ALONE);
    options
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Symbolic links that lead to a file, at most: as many as the kernel follows.
const LINKS_MAX: u32 = 40;

/// The file that a path leads to, which may not exist yet, as `open(2)` would find it.
fn meant(path: &Path) -> io::Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    if path.as_os_str().is_empty() || path.exists() {
        // The second: open somewhere, and its name is gone.
        return Err(Errno::NOENT.into());
    }
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        match std::fs::read_link(&path) {
            Ok(next) => path = directory_of(&path).join(next),
            Err(_) if is_name_of_directory(&path) => return Err(Errno::ISDIR.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}

fn is_name_of_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    path.file_name().is_none() || bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// Beside the file, and not in use: the process's number, and a count in it. Not made of the file's name, which may be as long
/// as a name can be.
fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let free = (0..10_000_u32).map(|count| path.with_file_name(format!(".millstream-{}-{count}", crate::own_pid())));
    free.into_iter().find(|path| !path.exists()).ok_or_else(|| Errno::EXIST.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    /// A directory that is gone with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("millstream-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(&self.0).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    type Beginning = fn(&Path) -> io::Result<WholeFile>;
    const WAYS: [(&str, Beginning); 2] = [("nameless", WholeFile::nameless), ("named", WholeFile::named)];

    #[test]
    fn what_is_kept_replaces_what_was_there() {
        for (name, begin) in WAYS {
            let scratch = Scratch::new(&format!("kept-{name}"));
            let path = scratch.0.join("file");
            std::fs::write(&path, "old").unwrap();
            let mut whole = begin(&path).unwrap();
            whole.write_all(b"new").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
            whole.keep().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            assert_eq!(scratch.names(), ["file"]);
        }
    }

    #[test]
    fn what_is_not_kept_was_never_there() {
        for (name, begin) in WAYS {
            let scratch = Scratch::new(&format!("dropped-{name}"));
            let mut whole = begin(&scratch.0.join("file")).unwrap();
            whole.write_all(b"new").unwrap();
            drop(whole);
            assert_eq!(scratch.names(), [""; 0]);
        }
    }

    #[test]
    fn permissions_stay_and_links_are_followed() {
        let scratch = Scratch::new("permissions");
        let (path, link) = (scratch.0.join("file"), scratch.0.join("link"));
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let mut whole = WholeFile::create(&link).unwrap();
        whole.write_all(b"new").unwrap();
        whole.keep().unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    }

    #[test]
    fn a_directory_is_refused_and_so_is_one_that_is_missing() {
        let scratch = Scratch::new("refused");
        let error = |path: &Path| WholeFile::create(path).unwrap_err().raw_os_error();
        assert_eq!(error(&scratch.0), Some(libc::EISDIR));
        assert_eq!(error(&scratch.0.join("missing/file")), Some(libc::ENOENT));
        assert_eq!(error(&scratch.0.join("missing/")), Some(libc::EISDIR));
        assert_eq!(error(&scratch.0.join("missing/..")), Some(libc::EISDIR));
        assert_eq!(error(Path::new("")), Some(libc::ENOENT));
        assert_eq!(error(&scratch.0.join("x".repeat(256))), Some(libc::ENAMETOOLONG));
        assert_eq!(scratch.names(), [""; 0]);
    }

    #[test]
    fn the_longest_name_can_be_written() {
        for (way, begin) in WAYS {
            let scratch = Scratch::new(&format!("longest-{way}"));
            let name = "x".repeat(255);
            let mut whole = begin(&scratch.0.join(&name)).unwrap();
            whole.write_all(b"new").unwrap();
            whole.keep().unwrap();
            assert_eq!(scratch.names(), [name]);
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_yet_leads_to_the_new_file() {
        let scratch = Scratch::new("nowhere");
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, scratch.0.join(name)).unwrap();
        std::fs::create_dir(scratch.0.join("inner")).unwrap();
        link("inner/second", "first");
        link("../file", "inner/second");
        let mut whole = WholeFile::create(&scratch.0.join("first")).unwrap();
        whole.write_all(b"new").unwrap();
        whole.keep().unwrap();
        assert_eq!(std::fs::read(scratch.0.join("file")).unwrap(), b"new");
        assert!(std::fs::symlink_metadata(scratch.0.join("first")).unwrap().is_symlink());
        assert!(std::fs::symlink_metadata(scratch.0.join("inner/second")).unwrap().is_symlink());
        // In a circle, or into a directory that is missing: as the kernel says.
        link("here", "there");
        link("there", "here");
        link("missing/file", "far");
        let error = |name: &str| WholeFile::create(&scratch.0.join(name)).unwrap_err().raw_os_error();
        assert_eq!((error("here"), error("far")), (Some(libc::ELOOP), Some(libc::ENOENT)));
    }
}

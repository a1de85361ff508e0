//! A file that appears under its name complete or not at all.

use std::ffi::{OsStr, OsString};
use std::format;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, fsync, linkat, open, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::attributes;

/// A new content for a file. Until [`WholeFile::keep`], every process sees the old content; without that call nothing
/// changes.
#[derive(Debug)]
pub struct WholeFile {
    content: Replacement,
    name: OsString,
    /// The permissions that it gets when it is complete; until then only its owner may use it.
    permissions: Permissions,
}

/// Makes a file without a name in this directory, for reading and writing. The kernel removes it with its last
/// descriptor.
///
/// # Errors
/// Those of creating a file there.
pub fn nameless_in(directory: &Path) -> io::Result<File> {
    let directory = open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // Dropping the replacement removes its name, if it has one.
    Replacement::create(directory)?.file.try_clone()
}

impl WholeFile {
    /// Begins a new content for the file at `path`, which may not exist yet. A symbolic link stands for the file that
    /// it leads to. A file that exists keeps its owner, group, permissions, access control list and attributes, but not
    /// set-user-id and the like, which belonged to the old content.
    ///
    /// # Errors
    /// Those of creating a file in that directory; `EISDIR` for a directory, and for a name that only a directory can
    /// have. A sentence: the new file cannot have the attributes of the old one, or the old one has several names.
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        let path = meant(path)?;
        let old = match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => return Err(Errno::ISDIR.into()),
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // No file can have this name: it is better to fail now than when the content is complete.
            Err(error) => return Err(error),
        };
        let directory = open(directory_of(&path), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let content = Replacement::create(directory)?;
        let mut permissions = attributes::usual_permissions();
        if let Some(old) = old {
            permissions = attributes::take_over(&path, &old, content.file())?;
            // An access control list has changed them.
            content.file().set_permissions(Permissions::from_mode(OWNERS_ALONE.as_raw_mode()))?;
        }
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_os_string();
        Ok(WholeFile { content, name, permissions })
    }

    /// Puts the new content on disk, where it still has no name.
    ///
    /// # Errors
    /// Those of `fsync(2)`.
    pub fn sync(&self) -> io::Result<()> {
        self.content.file().sync_all()
    }

    /// Writes the new content to disk, and then replaces the old one.
    ///
    /// # Errors
    /// Those of `fsync(2)`, `linkat(2)`, `fchmod(2)` and `rename(2)`. The old content is still there then.
    pub fn keep(self) -> io::Result<()> {
        let directory = self.content.directory.try_clone()?;
        self.content.place(directory.as_fd(), &self.name, &self.permissions, true)
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.content.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Content that becomes a file in one step. Where the file system supports it (`O_TMPFILE`), it has no name before, so
/// that a kill leaves nothing behind. Otherwise it has a hidden name with the number of the process, and is locked
/// (`flock(2)`) while the process lives.
#[derive(Debug)]
pub struct Replacement {
    file: File,
    directory: OwnedFd,
    /// Its name until it is placed, if it needs one.
    hidden: Option<OsString>,
}

impl Replacement {
    /// Begins in a directory, which may be open as a path only.
    ///
    /// # Errors
    /// Those of creating a file there.
    pub fn create(directory: OwnedFd) -> io::Result<Replacement> {
        match Replacement::nameless(&directory) {
            Ok(file) => Ok(Replacement { file, directory, hidden: None }),
            Err(_) => Replacement::named(directory),
        }
    }

    fn nameless(directory: &OwnedFd) -> io::Result<File> {
        let file = openat(directory, ".", OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE, OWNERS_ALONE)?;
        Ok(locked(file.into()))
    }

    fn named(directory: OwnedFd) -> io::Result<Replacement> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
        let (name, file) = hidden(|name| openat(&directory, name, flags, OWNERS_ALONE))?;
        Ok(Replacement { file: locked(file.into()), directory, hidden: Some(name) })
    }

    /// The content, for reading and writing. Only its owner can open it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the content a name, replaces the file of that name, and writes it to disk if `is_synced`.
    ///
    /// # Errors
    /// Those of `fsync(2)`, `linkat(2)`, `fchmod(2)` and `rename(2)`. What had the name is still there then.
    pub fn place(
        mut self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        permissions: &Permissions,
        is_synced: bool,
    ) -> io::Result<()> {
        if is_synced {
            self.file.sync_all()?;
        }
        let hidden = match self.hidden.take() {
            Some(name) => {
                // Its directory may have been replaced meanwhile.
                renameat(&self.directory, &name, directory, &name)?;
                name
            }
            None => {
                // A link cannot replace a file, and renaming needs a name.
                let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                hidden(|name| linkat(CWD, &own, directory, name, AtFlags::SYMLINK_FOLLOW))?.0
            }
        };
        // Before the rename: a reader of the name must find neither a private file nor a wider one.
        let set = self.file.set_permissions(permissions.clone());
        let placed = set.and_then(|()| Ok(renameat(directory, &hidden, directory, name)?));
        if placed.is_err() {
            let _ = unlinkat(directory, &hidden, AtFlags::empty());
        } else if is_synced {
            // The new name must reach the disk too. Not every file system can sync a directory.
            let _ = openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).and_then(fsync);
        }
        placed
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(name) = &self.hidden {
            // It may have gone with its directory.
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

/// Until a file is complete, whatever the final permissions are.
const OWNERS_ALONE: Mode = Mode::RUSR.union(Mode::WUSR);

/// The beginning of hidden names. It does not contain the file's name, which may have the longest possible length.
const HIDDEN: &str = ".millstream-";

/// Calls `make` with hidden names until one is free. A name has the process's number, and a count.
fn hidden<T>(make: impl Fn(&OsStr) -> Result<T, Errno>) -> io::Result<(OsString, T)> {
    for count in 0..10_000 {
        let name = OsString::from(format!("{HIDDEN}{}-{count}", crate::own_pid()));
        match make(&name) {
            Err(Errno::EXIST) => {}
            made => return Ok((name, made?)),
        }
    }
    Err(Errno::EXIST.into())
}

/// Locks the file: a process of another container cannot see whether ours lives, but it sees the lock.
fn locked(file: File) -> File {
    // Without locks, only the number of the process tells.
    let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
    file
}

/// Removes a file that a process which was killed has left under a hidden name. Returns whether it was one.
pub fn remove_abandoned(directory: BorrowedFd<'_>, name: &OsStr) -> bool {
    let Some(owner) = owner_of(name) else { return false };
    if test_kill_process(owner) != Err(Errno::SRCH) {
        return false;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(directory, name, flags, Mode::empty()) else { return false };
    let is_file = fstat(&file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    is_file
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && unlinkat(directory, name, AtFlags::empty()).is_ok()
}

/// The process in a hidden name.
fn owner_of(name: &OsStr) -> Option<Pid> {
    let (process, count) = name.to_str()?.strip_prefix(HIDDEN)?.split_once('-')?;
    count.parse::<u32>().ok()?;
    Pid::from_raw(process.parse().ok()?)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The most symbolic links that lead to a file: as many as the kernel follows.
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

    type Beginning = fn(OwnedFd) -> io::Result<Replacement>;
    const WAYS: [(&str, Beginning); 2] = [
        ("nameless", |directory| Ok(Replacement { file: Replacement::nameless(&directory)?, directory, hidden: None })),
        ("named", Replacement::named),
    ];

    fn begun(scratch: &Scratch, name: &str, begin: Beginning) -> WholeFile {
        let directory = open(&scratch.0, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        WholeFile {
            content: begin(directory).unwrap(),
            name: name.into(),
            permissions: attributes::usual_permissions(),
        }
    }

    #[test]
    fn kept_content_replaces_the_old_one() {
        for (name, begin) in WAYS {
            let scratch = Scratch::new(&format!("kept-{name}"));
            let path = scratch.0.join("file");
            std::fs::write(&path, "old").unwrap();
            let mut whole = begun(&scratch, "file", begin);
            whole.write_all(b"new").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
            whole.keep().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            assert_eq!(scratch.names(), ["file"]);
        }
    }

    #[test]
    fn content_that_is_not_kept_leaves_no_trace() {
        for (name, begin) in WAYS {
            let scratch = Scratch::new(&format!("dropped-{name}"));
            let mut whole = begun(&scratch, "file", begin);
            whole.write_all(b"new").unwrap();
            drop(whole);
            assert_eq!(scratch.names(), [""; 0]);
        }
    }

    #[test]
    fn mode_changes_between_completion_and_rename() {
        use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
        for (way, begin) in WAYS {
            let scratch = Scratch::new(&format!("modes-{way}"));
            let mut whole = begun(&scratch, "file", begin);
            whole.permissions = Permissions::from_mode(0o640);
            whole.write_all(b"new").unwrap();
            assert_eq!(whole.content.file().metadata().unwrap().permissions().mode() & 0o7777, 0o600, "{way}");
            let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
            inotify::add_watch(&watch, &scratch.0, WatchFlags::ATTRIB | WatchFlags::MOVED_TO).unwrap();
            whole.keep().unwrap();
            let mut buffer = [core::mem::MaybeUninit::uninit(); 4096];
            let (mut reader, mut seen) = (inotify::Reader::new(&watch, &mut buffer), Vec::new());
            while let Ok(event) = reader.next() {
                let name = event.file_name().unwrap_or_default().to_string_lossy();
                let is_moved = event.events().contains(ReadFlags::MOVED_TO);
                seen.push((is_moved, name == "file"));
            }
            // The mode under another name, and then the rename.
            assert_eq!(seen, [(false, false), (true, true)], "{way}");
            let mode = std::fs::metadata(scratch.0.join("file")).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o640, "{way}");
        }
    }

    #[test]
    fn abandoned_file_goes_and_others_stay() {
        let scratch = Scratch::new("abandoned");
        let directory = open(&scratch.0, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        // No process has a number as large as that (`proc_sys_kernel(5)`, pid_max).
        let (abandoned, in_use) = (".millstream-4194305-0", ".millstream-4194305-1");
        let names = [abandoned, in_use, ".millstream-x-0", ".millstream-4194305", "file", ".millstream-1-0"];
        names.iter().for_each(|name| std::fs::write(scratch.0.join(name), "").unwrap());
        std::os::unix::fs::symlink("file", scratch.0.join(".millstream-4194305-2")).unwrap();
        let _in_use = locked(File::open(scratch.0.join(in_use)).unwrap());
        let living = Replacement::named(directory.try_clone().unwrap()).unwrap();
        let removed: Vec<String> =
            scratch.names().into_iter().filter(|name| remove_abandoned(directory.as_fd(), name.as_ref())).collect();
        assert_eq!(removed, [abandoned]);
        assert_eq!(scratch.names().len(), names.len() + 1);
        drop(living);
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
    fn directory_and_missing_directory_are_refused() {
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
            let mut whole = begun(&scratch, &name, begin);
            whole.write_all(b"new").unwrap();
            whole.keep().unwrap();
            assert_eq!(scratch.names(), [name]);
        }
    }

    #[test]
    fn dangling_link_leads_to_the_new_file() {
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

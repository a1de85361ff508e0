//! Objects of the source directory. Each is held by a descriptor (`O_PATH`), so it stays the same one whatever happens to its
//! name.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    self, AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, StatVfs, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;

/// What calls of the kernel give.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// A file, directory or anything else of the source.
#[derive(Debug)]
pub(crate) struct Object(OwnedFd);

const HELD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Object {
    /// The directory that is to be mounted.
    pub(crate) fn root(path: &Path) -> Result<Object> {
        fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map(Object)
    }

    /// What a path leads to now.
    pub(crate) fn at(path: &Path) -> Result<Object> {
        fs::open(path, HELD, Mode::empty()).map(Object)
    }

    /// What has this name in a directory that is open.
    pub(crate) fn within(directory: &OwnedFd, name: &OsStr) -> Result<Object> {
        fs::openat(directory, name, HELD, Mode::empty()).map(Object)
    }

    /// What has this name in this directory.
    pub(crate) fn child(&self, name: &OsStr) -> Result<Object> {
        fs::openat(&self.0, name, HELD, Mode::empty()).map(Object)
    }

    pub(crate) fn stat(&self) -> Result<Stat> {
        fs::statat(&self.0, "", AtFlags::EMPTY_PATH)
    }

    /// By this name the kernel finds the object itself, without looking at permissions of directories.
    pub(crate) fn own_path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }

    /// Opens the object itself.
    pub(crate) fn open(&self, flags: OFlags) -> Result<File> {
        fs::open(self.own_path(), flags | OFlags::CLOEXEC, Mode::empty()).map(File::from)
    }

    /// Where it is now.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let path = fs::readlink(self.own_path(), Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
    }

    /// The directory in which it is, or was before its last name went, and its name there. No symbolic link is followed.
    pub(crate) fn directory(&self) -> Result<(OwnedFd, OsString)> {
        let path = self.path()?;
        let (directory, name) = (path.parent().ok_or(Errno::INVAL)?, path.file_name().ok_or(Errno::INVAL)?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::openat2(CWD, directory, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        Ok((directory, name.to_owned()))
    }

    /// The same, if it is there under that name.
    pub(crate) fn entry(&self) -> Result<(OwnedFd, OsString)> {
        let (directory, name) = self.directory()?;
        let (own, found) = (self.stat()?, fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW)?);
        let is_same = (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino);
        if is_same { Ok((directory, name)) } else { Err(Errno::STALE) }
    }

    /// The names in this directory, with their kinds, without `.` and `..`.
    pub(crate) fn names(&self) -> Result<Vec<(OsString, FileType, u64)>> {
        let opened = self.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in fs::Dir::new(opened)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push((OsString::from_vec(name.to_vec()), entry.file_type(), entry.ino()));
            }
        }
        Ok(names)
    }

    pub(crate) fn link_target(&self) -> Result<Vec<u8>> {
        fs::readlinkat(&self.0, "", Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// Makes a file and opens it. It is an error if the name is taken.
    pub(crate) fn create(&self, name: &OsStr, flags: OFlags, mode: Mode) -> Result<File> {
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::openat(&self.0, name, flags, mode).map(File::from)
    }

    pub(crate) fn make_node(&self, name: &OsStr, kind: FileType, mode: Mode, device: u64) -> Result<()> {
        fs::mknodat(&self.0, name, kind, mode, device)
    }

    pub(crate) fn make_directory(&self, name: &OsStr, mode: Mode) -> Result<()> {
        fs::mkdirat(&self.0, name, mode)
    }

    pub(crate) fn make_symlink(&self, name: &OsStr, target: &Path) -> Result<()> {
        fs::symlinkat(target, &self.0, name)
    }

    /// A further name for `object` in this directory.
    pub(crate) fn make_link(&self, name: &OsStr, object: &Object) -> Result<()> {
        fs::linkat(CWD, object.own_path(), &self.0, name, AtFlags::SYMLINK_FOLLOW)
    }

    pub(crate) fn remove(&self, name: &OsStr, is_directory: bool) -> Result<()> {
        fs::unlinkat(&self.0, name, if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() })
    }

    pub(crate) fn rename(&self, name: &OsStr, to: &Object, new: &OsStr, flags: RenameFlags) -> Result<()> {
        fs::renameat_with(&self.0, name, &to.0, new, flags)
    }

    pub(crate) fn set_mode(&self, mode: Mode) -> Result<()> {
        fs::chmodat(CWD, self.own_path(), mode, AtFlags::empty())
    }

    pub(crate) fn set_owner(&self, user: Option<u32>, group: Option<u32>) -> Result<()> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        fs::chownat(&self.0, "", user, group, AtFlags::EMPTY_PATH)
    }

    pub(crate) fn set_times(&self, times: &Timestamps) -> Result<()> {
        fs::utimensat(CWD, self.own_path(), times, AtFlags::empty())
    }

    pub(crate) fn room(&self) -> Result<StatVfs> {
        fs::fstatvfs(&self.0)
    }

    pub(crate) fn attribute(&self, name: &OsStr, value: &mut [u8]) -> Result<usize> {
        fs::getxattr(self.own_path(), name, value)
    }

    /// The whole value of an attribute; `None` if there is none.
    pub(crate) fn whole_attribute(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let mut value = vec![0; 65_536];
        match self.attribute(OsStr::new(name), &mut value) {
            Ok(count) => {
                value.truncate(count);
                Ok(Some(value))
            }
            // The last: no attribute has a name as long as that.
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::RANGE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn set_attribute(&self, name: &OsStr, value: &[u8], flags: XattrFlags) -> Result<()> {
        fs::setxattr(self.own_path(), name, value, flags)
    }

    pub(crate) fn remove_attribute(&self, name: &OsStr) -> Result<()> {
        fs::removexattr(self.own_path(), name)
    }

    /// The names of its attributes, each with a zero behind it.
    pub(crate) fn attributes(&self, names: &mut [u8]) -> Result<usize> {
        fs::listxattr(self.own_path(), names)
    }
}

impl AsFd for Object {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// By this a source that was changed is told from one that was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) inode: u64,
    /// Bytes of the source.
    pub(crate) size: u64,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u64,
}

impl Version {
    pub(crate) fn of(stat: &Stat) -> Version {
        Version {
            inode: stat.st_ino,
            size: stat.st_size as u64,
            seconds: stat.st_mtime,
            nanoseconds: stat.st_mtime_nsec,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version { inode, size, seconds, nanoseconds } = self;
        write!(f, "{size} {inode} {seconds}.{nanoseconds:09}")
    }
}

//! Attributes of files, from those of the source to those that the kernel is told, and times the other way round.

use std::ffi::OsStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType as Kind, INodeNo, TimeOrNow};
use rustix::fs::{FileType, Stat, Timespec, UTIME_NOW, UTIME_OMIT};

use crate::content::Shown;
use crate::names::Entry;
use crate::nodes::Node;

/// A time that a program sets.
pub(crate) fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW as _ },
        Some(TimeOrNow::SpecificTime(time)) => {
            let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
                Ok(since) => (since.as_secs() as i64, i64::from(since.subsec_nanos())),
                Err(before) => {
                    let before = before.duration();
                    let part = i64::from(before.subsec_nanos());
                    let whole = -(before.as_secs() as i64);
                    if part == 0 { (whole, 0) } else { (whole - 1, 1_000_000_000 - part) }
                }
            };
            Timespec { tv_sec: seconds, tv_nsec: nanoseconds }
        }
    }
}

pub(crate) fn system_time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let part = Duration::from_nanos(nanoseconds);
    match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + part,
        Err(_) => UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + part,
    }
}

pub(crate) fn kind_of(kind: FileType) -> Kind {
    match kind {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::NamedPipe,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::RegularFile | FileType::Unknown => Kind::RegularFile,
    }
}

/// The attributes of a node: those of its source, but for what a view changes.
pub(crate) fn attributes_of(node: &Node, stat: &Stat, shown: Option<Shown>) -> FileAttr {
    let size = shown.map_or(stat.st_size as u64, |shown| shown.size);
    let modified = system_time(stat.st_mtime, stat.st_mtime_nsec);
    let changed = system_time(stat.st_ctime, stat.st_ctime_nsec);
    let written = shown.and_then(|shown| shown.written);
    FileAttr {
        ino: INodeNo(node.id),
        size,
        // A program takes a file of fewer blocks for one with holes.
        blocks: shown.map_or(stat.st_blocks as u64, |_| size.div_ceil(512)),
        atime: system_time(stat.st_atime, stat.st_atime_nsec),
        mtime: written.unwrap_or(modified),
        ctime: written.unwrap_or(changed),
        crtime: UNIX_EPOCH,
        kind: kind_of(FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// Those of a file whose members are shown, as a directory: readers may look into it.
pub(crate) fn attributes_of_archive(node: &Node, stat: &Stat) -> FileAttr {
    let attributes = attributes_of(node, stat, Some(Shown::default()));
    let readable = attributes.perm & 0o444;
    FileAttr { kind: Kind::Directory, perm: readable | readable >> 2, nlink: 1, ..attributes }
}

/// The names in a directory with numbers and kinds, after those of the directory itself and the one above.
pub(crate) fn listed(ino: INodeNo, entries: &[Entry]) -> impl Iterator<Item = (u64, Kind, &OsStr)> {
    let dots = [".", ".."].map(|name| (ino.0, Kind::Directory, OsStr::new(name)));
    dots.into_iter().chain(entries.iter().map(|entry| (entry.inode, kind_of(entry.kind), entry.name.as_os_str())))
}

/// What a listing says of the directory itself and the one above, which the kernel knows.
pub(crate) fn known(number: u64, kind: Kind) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

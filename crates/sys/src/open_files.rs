//! What processes have open, as far as this one may know, found out without opening it.
//!
//! Nothing here asks a file system about a file: that of a hostile user could delay its answer for ever. The kernel
//! alone makes the names under `/proc/PID/fd` and the notes under `/proc/PID/fdinfo`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::string::String;
use std::vec::Vec;

use rustix::fs::{Mode, OFlags};

use crate::memory::SEALABLE_NAME;
use crate::transfer::Access;
use crate::{Errno, memory};

/// A descriptor of some process that could concern a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Its number there.
    pub descriptor: u32,
    /// What it is.
    pub target: Target,
}

/// What a descriptor is open on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// An anonymous pipe, by its number.
    Pipe(u64),
    /// A file with the name of those from [`memory::sealable_file`].
    Memory,
}

/// The processes that can be seen, by number, in the order of `/proc`.
///
/// # Errors
/// `ENOENT`: `/proc` is not mounted.
pub fn processes() -> Result<Vec<u32>, Errno> {
    let entries = fs::read_dir("/proc").map_err(errno)?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The pipes and memory files that a process has open.
///
/// # Errors
/// `EACCES`: another user's process. `ENOENT`, `ESRCH`: it has ended.
pub fn of_process(process: u32) -> Result<Vec<OpenFile>, Errno> {
    let entries = fs::read_dir(std::format!("/proc/{process}/fd")).map_err(errno)?;
    let numbers =
        entries.map(|entry| entry.map(|entry| entry.file_name()).map_err(errno)).collect::<Result<Vec<_>, _>>();
    Ok(numbers?.into_iter().filter_map(|number| open_file(process, &number)).collect())
}

fn open_file(process: u32, number: &OsString) -> Option<OpenFile> {
    let descriptor = number.to_str()?.parse().ok()?;
    let link = fs::read_link(std::format!("/proc/{process}/fd/{descriptor}")).ok()?;
    let target = target(link.to_str()?)?;
    Some(OpenFile { descriptor, target })
}

/// Files with a path begin with a slash, so no file is called like a pipe; one could be called like a memory file.
fn target(link: &str) -> Option<Target> {
    if let Some(number) = link.strip_prefix("pipe:[") {
        return number.strip_suffix(']')?.parse().ok().map(Target::Pipe);
    }
    let name = link.strip_prefix('/')?.strip_suffix(" (deleted)")?;
    (name == SEALABLE_NAME).then_some(Target::Memory)
}

/// The access for which a process has a descriptor open; `None` if it has not, is gone, or is another user's.
pub fn access(process: u32, descriptor: u32) -> Option<Access> {
    let notes = fs::read_to_string(std::format!("/proc/{process}/fdinfo/{descriptor}")).ok()?;
    let flags = u32::from_str_radix(note(&notes, "flags:")?, 8).ok()?;
    match OFlags::from_bits_retain(flags) & OFlags::RWMODE {
        OFlags::RDONLY => Some(Access::Read),
        OFlags::WRONLY => Some(Access::Write),
        _ => Some(Access::Both),
    }
}

fn note<'n>(notes: &'n str, name: &str) -> Option<&'n str> {
    notes.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Whether there is a process of this number, as far as this one may know.
pub fn is_process(process: u32) -> bool {
    Path::new(&std::format!("/proc/{process}")).exists()
}

/// Holds on to what a process has open, whatever it is, without opening it: no peer of a pipe notices.
///
/// # Errors
/// `ENOENT`, `ESRCH`: no such process or descriptor. `EACCES`, `EPERM`: another user's.
pub fn pin(process: u32, descriptor: u32) -> Result<OwnedFd, Errno> {
    let path = std::format!("/proc/{process}/fd/{descriptor}");
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// The number of a pinned anonymous pipe; `None` if it is something else.
pub fn pipe_number(pinned: impl AsFd) -> Option<u64> {
    let link = fs::read_link(std::format!("/proc/self/fd/{}", pinned.as_fd().as_raw_fd())).ok()?;
    match target(link.to_str()?)? {
        Target::Pipe(number) => Some(number),
        Target::Memory => None,
    }
}

/// Tells memory files from files on file systems, whatever their names are.
#[derive(Clone, Copy, Debug)]
pub struct MemoryFiles {
    /// The kernel's own mount, on which all of them lie.
    mount: u64,
}

impl MemoryFiles {
    /// Finds out how to tell them.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: too many open files. `ENOENT`: `/proc` is not mounted.
    pub fn known() -> Result<MemoryFiles, Errno> {
        let mount = mount_of(memory::sealable_file()?).ok_or(Errno::NOENT)?;
        Ok(MemoryFiles { mount })
    }

    /// Opens what was pinned, if it is a memory file.
    ///
    /// # Errors
    /// `EACCES`: it is something else, or may not be opened for that.
    pub fn open(&self, pinned: impl AsFd, access: Access) -> Result<OwnedFd, Errno> {
        if mount_of(&pinned) == Some(self.mount) {
            crate::transfer::reopened(pinned, access, true)
        } else {
            Err(Errno::ACCESS)
        }
    }
}

fn mount_of(file: impl AsFd) -> Option<u64> {
    let notes = fs::read_to_string(std::format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd())).ok()?;
    note(&notes, "mnt_id:")?.parse().ok()
}

/// The number of an open file, unique among those on its file system.
///
/// # Errors
/// `EBADF`: not open.
pub fn file_number(file: impl AsFd) -> Result<u64, Errno> {
    rustix::fs::fstat(file).map(|status| status.st_ino)
}

/// The name of the program that a process runs, as the kernel keeps it; empty if the process is gone. Any process can
/// choose its own name.
pub fn command(process: u32) -> String {
    let bytes = fs::read(std::format!("/proc/{process}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\n').into()
}

/// The user that owns a process; `None` if it is gone. Root for a program that may not be inspected.
pub fn user(process: u32) -> Option<u32> {
    fs::metadata(std::format!("/proc/{process}")).ok().map(|status| status.uid())
}

/// Whether the process is a thread of the kernel, which has no files.
pub fn is_of_kernel(process: u32) -> bool {
    /// `PF_KTHREAD` of linux/sched.h.
    const KERNEL_THREAD: u32 = 0x0020_0000;
    let stat = fs::read_to_string(std::format!("/proc/{process}/stat")).unwrap_or_default();
    // After the name come state, parent, group, session, terminal, its group and the flags (`proc(5)`).
    let flags = stat.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(6)?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// The names of all files that are open in any process which this one may inspect. The name of a nameless file ends with
/// ` (deleted)`.
pub fn names() -> BTreeSet<PathBuf> {
    let descriptors = |process| fs::read_dir(std::format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let open = processes().unwrap_or_default().into_iter().flat_map(descriptors);
    open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok()).collect()
}

/// Files in a directory whose names begin with `prefix`; none if it cannot be read.
pub fn files_called(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
    named.map(|entry| entry.path()).collect()
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_descriptors_are_found_with_their_access() {
        let (reader, writer) = crate::pipe::create().unwrap();
        let file = memory::sealable_file().unwrap();
        let found = of_process(crate::own_pid()).unwrap();
        let number = |fd: &OwnedFd| fd.as_raw_fd().unsigned_abs();
        let at = |fd: &OwnedFd| found.iter().find(|open| open.descriptor == number(fd)).map(|open| open.target);
        let inode = crate::pipe::identity(&reader).unwrap().inode;
        assert_eq!((at(&reader), at(&writer)), (Some(Target::Pipe(inode)), Some(Target::Pipe(inode))));
        assert_eq!(at(&file), Some(Target::Memory));
        let access = |fd| access(crate::own_pid(), number(fd));
        assert_eq!((access(&reader), access(&writer)), (Some(Access::Read), Some(Access::Write)));
    }

    #[test]
    fn pinning_an_end_does_not_keep_it_open() {
        let _guard = crate::children::none();
        let (reader, writer) = crate::pipe::create().unwrap();
        let pinned = pin(crate::own_pid(), reader.as_raw_fd().unsigned_abs()).unwrap();
        assert_eq!(pipe_number(&pinned), crate::pipe::identity(&writer).map(|identity| identity.inode));
        drop(reader);
        assert!(crate::transfer::readiness(&writer).unwrap().peer_gone);
    }

    #[test]
    fn file_with_the_name_of_a_memory_file_is_not_opened() {
        let directory = std::env::temp_dir().join(std::format!("{}-{}", "memfd:millstream-ring", crate::own_pid()));
        let file = fs::File::create(&directory).unwrap();
        fs::remove_file(&directory).unwrap();
        let (known, own) = (MemoryFiles::known().unwrap(), crate::own_pid());
        let pinned = |fd: i32| pin(own, fd.unsigned_abs()).unwrap();
        assert_eq!(known.open(pinned(file.as_raw_fd()), Access::Read).err(), Some(Errno::ACCESS));
        let memory = memory::sealable_file().unwrap();
        assert!(known.open(pinned(memory.as_raw_fd()), Access::Read).is_ok());
    }

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(target("pipe:[123]"), Some(Target::Pipe(123)));
        assert_eq!(target("/memfd:millstream-ring (deleted)"), Some(Target::Memory));
        for other in ["/pipe:[1]", "pipe:[x]", "socket:[5]", "/memfd:millstream (deleted)", "/tmp/a", ""] {
            assert_eq!(target(other), None, "{other}");
        }
    }

    #[test]
    fn processes_are_known_by_name_and_user() {
        let own = crate::own_pid();
        assert!(processes().unwrap().contains(&own));
        assert!(!command(own).is_empty() && user(own).is_some() && !is_of_kernel(own));
        assert_eq!((command(0), user(0), of_process(0).err()), (String::new(), None, Some(Errno::NOENT)));
    }
}

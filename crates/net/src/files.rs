//! Files that a network must not use for two things at once.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::catalogue::Transform;
use crate::error::NetworkError;
use crate::graph::{Network, Target, Work};
use crate::transform::Stage;

/// Checks that no file is written twice, that none is appended to while it is read, whatever names it has, and that
/// each standard stream is used once.
///
/// # Errors
/// [`NetworkError::Invalid`].
pub(crate) fn check_named(network: &Network, stages: &[Option<(&dyn Transform, Stage)>]) -> Result<(), NetworkError> {
    let works = || network.nodes.iter().map(|node| &node.work);
    let sidecars = stages.iter().flatten().filter_map(|(_, stage)| stage.beside.as_deref());
    let files = works().filter_map(|work| match work {
        Work::Write(Target::File(path)) => Some(&**path),
        _ => None,
    });
    // A new file replaces a name, not what the name leads to: two of them collide only if they have the same name.
    let mut replaced = BTreeSet::new();
    for path in sidecars.chain(files).filter(|path| !is_device(path)) {
        if !replaced.insert(absolute(path)) {
            return Err(written_twice(path));
        }
    }
    let read: BTreeSet<Identity> = works().filter_map(path_read).map(Identity::of).collect();
    let mut appended = BTreeSet::new();
    for path in works().filter_map(path_appended).filter(|path| !is_device(path)) {
        if replaced.contains(&absolute(path)) || !appended.insert(Identity::of(path)) {
            return Err(written_twice(path));
        }
        if read.contains(&Identity::of(path)) {
            let what = format!("'{}' would be read and appended to, and never end", path.display());
            return Err(NetworkError::Invalid(what));
        }
    }
    if works().filter(|work| matches!(work, Work::Read(None))).nth(1).is_some() {
        return Err(NetworkError::Invalid("the standard input is read twice".into()));
    }
    if works().filter(|work| matches!(work, Work::Write(Target::Stdout))).nth(1).is_some() {
        return Err(NetworkError::Invalid("the standard output is written twice".into()));
    }
    Ok(())
}

fn written_twice(path: &Path) -> NetworkError {
    NetworkError::Invalid(format!("'{}' is written twice", path.display()))
}

fn path_read(work: &Work) -> Option<&Path> {
    match work {
        Work::Read(path) => path.as_deref(),
        _ => None,
    }
}

fn path_appended(work: &Work) -> Option<&Path> {
    match work {
        Work::Write(Target::Append(path)) => Some(path),
        _ => None,
    }
}

/// Checks the same of files that the standard streams lead to, once it is sure that these are used.
///
/// # Errors
/// [`NetworkError::Invalid`].
pub(crate) fn check_standard(network: &Network) -> Result<(), NetworkError> {
    let works = || network.nodes.iter().map(|node| &node.work);
    let named = |path: &Path| (Identity::of(path), format!("'{}'", path.display()));
    let mut read: Vec<_> = works().filter_map(path_read).map(named).collect();
    let mut grown: Vec<_> = works().filter_map(path_appended).map(named).collect();
    // An empty one has nothing that could be read again and again.
    let file_at = |stream: BorrowedFd<'_>| {
        regular(stream).filter(|metadata| metadata.len() > 0).map(|file| Identity::from(&file))
    };
    if works().any(|work| matches!(work, Work::Read(None))) {
        read.extend(file_at(io::stdin().as_fd()).map(|file| (file, "the standard input".into())));
    }
    let appended = grown.len();
    if works().any(|work| matches!(work, Work::Write(Target::Stdout))) {
        grown.extend(file_at(io::stdout().as_fd()).map(|file| (file, "the standard output".into())));
    }
    for (place, (file, to)) in grown.iter().enumerate() {
        if let Some((_, from)) = read.iter().find(|(other, _)| other == file) {
            return Err(NetworkError::Invalid(format!(
                "{from} and {to} are one file, which would be written while it is read"
            )));
        }
        if place >= appended && grown[..appended].iter().any(|(other, _)| other == file) {
            return Err(NetworkError::Invalid(format!("{to} is a file that is also appended to")));
        }
    }
    Ok(())
}

fn regular(stream: BorrowedFd<'_>) -> Option<Metadata> {
    let file = File::from(stream.try_clone_to_owned().ok()?);
    file.metadata().ok().filter(Metadata::is_file)
}

/// What makes two names one file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    There {
        device: u64,
        inode: u64,
    },
    /// Not yet.
    Named(PathBuf),
}

impl Identity {
    fn of(path: &Path) -> Identity {
        std::fs::metadata(path).map_or_else(|_| Identity::Named(absolute(path)), |metadata| Identity::from(&metadata))
    }
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Identity {
        Identity::There { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Without links, as far as the file or its directory is there.
fn absolute(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| {
        let path = std::path::absolute(path).unwrap_or(path.into());
        match (path.parent().and_then(|parent| std::fs::canonicalize(parent).ok()), path.file_name()) {
            (Some(parent), Some(name)) => parent.join(name),
            _ => path,
        }
    })
}

/// The descriptor of this process that a name stands for, as `/dev/stderr`, `/dev/fd/2` and `/proc/self/fd/2` do. A
/// network appends to the file that is open there, because other processes share it; it replaces a file of any other
/// name.
pub(crate) fn descriptor_named(path: &Path) -> Option<i32> {
    let own = std::fs::canonicalize("/proc/self/fd").ok()?;
    let mut path = PathBuf::from(path);
    // As many links as the kernel follows.
    for _ in 0..40 {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let directory = std::fs::canonicalize(directory).ok()?;
        if directory == own {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = directory.join(std::fs::read_link(&path).ok()?);
    }
    None
}

fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_descriptors_are_told_from_names_of_files() {
        let named = |path: &str| descriptor_named(Path::new(path));
        assert_eq!(["/dev/stdin", "/dev/stdout", "/dev/stderr"].map(named), [Some(0), Some(1), Some(2)]);
        assert_eq!(["/dev/fd/2", "/proc/self/fd/7", "/dev/../proc/self/fd/1"].map(named), [Some(2), Some(7), Some(1)]);
        assert_eq!(["/dev/null", "/etc/passwd", "/proc/1/fd/2", "2", "", "/"].map(named), [None; 6]);
    }
}

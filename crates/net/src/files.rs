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

/// No file is written twice, and none is appended to while it is read, whatever names it has. The standard streams are each used once.
///
/// # Errors
/// [`NetworkError::Invalid`].
pub(crate) fn check_named(network: &Network, stages: &[Option<(&dyn Transform, Stage)>]) -> Result<(), NetworkError> {
    let unfit = |what: String| Err(NetworkError::Invalid(what));
    let (mut replaced, mut stdins, mut stdouts) = (BTreeSet::new(), 0, 0);
    let (mut read, mut appended) = (BTreeSet::new(), BTreeSet::new());
    let beside = stages.iter().flatten().filter_map(|(_, stage)| stage.beside.as_deref());
    for path in beside.filter(|path| !is_device(path)) {
        if !replaced.insert(absolute(path)) {
            return unfit(format!("'{}' is written twice", path.display()));
        }
    }
    for node in &network.nodes {
        match &node.work {
            Work::Read(Some(path)) => drop(read.insert(Identity::of(path))),
            Work::Read(None) => stdins += 1,
            Work::Write(Target::Stdout) => stdouts += 1,
            Work::Write(Target::File(path) | Target::Append(path)) if is_device(path) => {}
            // Each name of a file is replaced by itself, and only by name are two of them the same.
            Work::Write(Target::File(path)) if !replaced.insert(absolute(path)) => {
                return unfit(format!("'{}' is written twice", path.display()));
            }
            Work::Write(Target::Append(path)) if !appended.insert(Identity::of(path)) => {
                return unfit(format!("'{}' is written twice", path.display()));
            }
            _ => {}
        }
    }
    for node in &network.nodes {
        let Work::Write(Target::Append(path)) = &node.work else { continue };
        if is_device(path) {
            continue;
        }
        if replaced.contains(&absolute(path)) {
            return unfit(format!("'{}' is written twice", path.display()));
        }
        if read.contains(&Identity::of(path)) {
            return unfit(format!("'{}' would be read and appended to, and never end", path.display()));
        }
    }
    match (stdins, stdouts) {
        (0..=1, 0..=1) => Ok(()),
        (0..=1, _) => unfit("the standard output is written twice".into()),
        _ => unfit("the standard input is read twice".into()),
    }
}

/// The same for files that the standard streams lead to, once it is sure that these are used.
///
/// # Errors
/// [`NetworkError::Invalid`].
pub(crate) fn check_standard(network: &Network) -> Result<(), NetworkError> {
    let uses = |is_it: fn(&Work) -> bool| network.nodes.iter().any(|node| is_it(&node.work));
    let (mut read, mut grown) = (Vec::new(), Vec::new());
    for node in &network.nodes {
        match &node.work {
            Work::Read(Some(path)) => read.push((Identity::of(path), format!("'{}'", path.display()))),
            Work::Write(Target::Append(path)) => grown.push((Identity::of(path), format!("'{}'", path.display()))),
            _ => {}
        }
    }
    // An empty one has nothing that could be read again and again.
    let file_at = |stream: BorrowedFd<'_>| {
        regular(stream).filter(|metadata| metadata.len() > 0).map(|file| Identity::from(&file))
    };
    let stdin = if uses(|work| matches!(work, Work::Read(None))) { file_at(io::stdin().as_fd()) } else { None };
    let stdout =
        uses(|work| matches!(work, Work::Write(Target::Stdout))).then(|| file_at(io::stdout().as_fd())).flatten();
    read.extend(stdin.map(|file| (file, "the standard input".into())));
    let named = grown.len();
    grown.extend(stdout.map(|file| (file, "the standard output".into())));
    for (place, (file, to)) in grown.iter().enumerate() {
        if let Some((_, from)) = read.iter().find(|(other, _)| other == file) {
            return Err(NetworkError::Invalid(format!(
                "{from} and {to} are one file, which would be written while it is read"
            )));
        }
        if place >= named && grown[..named].iter().any(|(other, _)| other == file) {
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

/// The descriptor of this process that a name stands for, as `/dev/stderr`, `/dev/fd/2` and `/proc/self/fd/2` do. A network
/// appends to the file that is open there, because other processes share it; it replaces a file of any other name.
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

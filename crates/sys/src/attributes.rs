//! What a file keeps when a new file replaces it: owner, group, permissions, access control list, extended attributes.

use std::ffi::{CStr, CString};
use std::format;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

use rustix::fs::{Gid, Uid, XattrFlags};
use rustix::io::Errno;

/// Permissions that a new content takes over; it gets no set-user-id and the like.
const PERMISSIONS: u32 = 0o777;
/// Attributes that belong to the content: capabilities of a program.
const OF_CONTENT: [&CStr; 1] = [c"security.capability"];
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// Gives `new` the owner, the group, the access control list and the extended attributes of the file `old` at `path`.
/// Returns the permissions, which the caller has to set.
///
/// # Errors
/// A sentence: what `new` cannot have, or that `old` has several names, of which only one would get the new content.
pub fn take_over(path: &Path, old: &Metadata, new: &File) -> io::Result<Permissions> {
    if old.nlink() > 1 {
        let names = old.nlink();
        return Err(refusal(
            io::ErrorKind::Other,
            &format!("it has {names} names (hard links), and only one would be replaced"),
        ));
    }
    let made = new.metadata()?;
    let changed = |old: u32, made: u32| (old != made).then_some(old);
    let (owner, group) = (changed(old.uid(), made.uid()), changed(old.gid(), made.gid()));
    if owner.is_some() || group.is_some() {
        rustix::fs::fchown(new, owner.map(Uid::from_raw), group.map(Gid::from_raw)).map_err(|error| {
            let (owner, group) = (old.uid(), old.gid());
            refusal(
                io::Error::from(error).kind(),
                &format!("a new file cannot have its owner {owner} and group {group}"),
            )
        })?;
    }
    take_over_attributes(path, new)?;
    Ok(Permissions::from_mode(old.mode() & PERMISSIONS))
}

fn refusal(kind: io::ErrorKind, why: &str) -> io::Error {
    io::Error::new(kind, format!("{why}; '>' of the shell writes into the file that is there"))
}

/// The permissions of a new file of a program that asks for none in particular.
pub(crate) fn usual_permissions() -> Permissions {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    Permissions::from_mode(0o666 & !umask.unwrap_or(0o077))
}

fn take_over_attributes(path: &Path, new: &File) -> io::Result<()> {
    let old = match names(|room| rustix::fs::listxattr(path, room)) {
        // This file system has none.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Vec::new(),
        names => names?,
    };
    for name in old.iter().filter(|name| !OF_CONTENT.contains(&name.as_c_str())) {
        let value = value(|room| rustix::fs::getxattr(path, name.as_c_str(), room))?;
        let is_there =
            self::value(|room| rustix::fs::fgetxattr(new, name.as_c_str(), room)).is_ok_and(|made| made == value);
        if !is_there {
            let set = rustix::fs::fsetxattr(new.as_fd(), name.as_c_str(), &value, XattrFlags::empty());
            set.map_err(|error| cannot_have(name, error))?;
        }
    }
    if !old.iter().any(|name| name.as_c_str() == ACCESS_LIST) {
        // One that the directory gives to new files.
        match rustix::fs::fremovexattr(new.as_fd(), ACCESS_LIST) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(cannot_have(ACCESS_LIST, error)),
        }
    }
    Ok(())
}

fn cannot_have(name: &CStr, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    let name = name.to_string_lossy();
    let what = if name == ACCESS_LIST.to_string_lossy() {
        "access control list".to_string()
    } else {
        format!("attribute '{name}'")
    };
    refusal(error.kind(), &format!("a new file cannot have its {what}: {error}"))
}

fn names(list: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<CString>, Errno> {
    let bytes = value(list)?;
    let names = bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

/// The result of a call that fails with `ERANGE` if its buffer is too small. No result is longer than 64 KiB
/// (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
fn value(get: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut room = vec![0; 256];
    loop {
        match get(&mut room) {
            Err(Errno::RANGE) if room.len() < 64 << 10 => room.resize(4 * room.len(), 0),
            Err(error) => return Err(error),
            Ok(len) => {
                room.truncate(len);
                return Ok(room);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("millstream-{}-attributes-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn old_and_new(&self) -> (std::path::PathBuf, Metadata, File) {
            let path = self.0.join("old");
            std::fs::write(&path, "old").unwrap();
            let metadata = std::fs::metadata(&path).unwrap();
            (path, metadata, File::create(self.0.join("new")).unwrap())
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn take_over_refuses_hard_links() {
        let scratch = Scratch::new("names");
        let (path, _, new) = scratch.old_and_new();
        std::fs::hard_link(&path, scratch.0.join("other")).unwrap();
        let error = take_over(&path, &std::fs::metadata(&path).unwrap(), &new).unwrap_err();
        assert!(error.to_string().contains("2 names"), "{error}");
    }

    #[test]
    fn take_over_copies_attributes() {
        let scratch = Scratch::new("kept");
        let (path, metadata, new) = scratch.old_and_new();
        let set = rustix::fs::setxattr(&path, c"user.millstream", &[7; 2000], XattrFlags::empty());
        take_over(&path, &metadata, &new).unwrap();
        let kept = value(|room| rustix::fs::fgetxattr(&new, c"user.millstream", room));
        assert_eq!(kept.is_ok_and(|kept| kept == [7; 2000]), set.is_ok());
    }

    #[test]
    fn refusal_names_the_attribute() {
        let error = cannot_have(ACCESS_LIST, Errno::OPNOTSUPP).to_string();
        assert!(error.contains("access control list"), "{error}");
        let error = cannot_have(c"user.a", Errno::NOSPC).to_string();
        assert!(error.contains("attribute 'user.a'") && error.contains("No space"), "{error}");
    }
}

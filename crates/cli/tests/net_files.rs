//! Files that a network writes: what they keep when they are replaced, their permissions meanwhile, and late errors.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use common::{Scratch, Seen, fed, millstream, output};

/// Writes to the file what is upper case of "new\n".
fn write_to(path: &Path) -> Seen {
    fed(millstream(["net", &format!("upper | write '{}'", path.display())]), b"new\n").1
}

/// Of Python, which has calls for extended attributes.
fn python(script: &str, path: &Path) -> Seen {
    output(Command::new("python3").args(["-c", script]).arg(path))
}

fn old_file(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    let path = scratch.path(name);
    fs::write(&path, "old\n").unwrap();
    path
}

#[test]
fn replaced_file_keeps_owner_group_and_permissions() {
    let scratch = Scratch::new();
    let path = old_file(&scratch, "file");
    common::set_mode(&path, 0o640);
    // Needs root, as which the tests run where they run in full.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if is_root {
        chown(&path, Some(64_130), Some(64_131)).unwrap();
    }
    let before = fs::metadata(&path).unwrap();
    let seen = write_to(&path);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""));
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"NEW\n");
    assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()));
}

#[test]
fn replaced_file_keeps_access_control_list_and_attributes() {
    let scratch = Scratch::new();
    let path = old_file(&scratch, "file");
    // Read and write for the owner, read for user 64132, as setfacl(1) writes it (linux/posix_acl_xattr.h).
    let set = "
import os, struct, sys
entry = lambda tag, perm, id: struct.pack('<HHI', tag, perm, id)
none = 0xffffffff
acl = struct.pack('<I', 2) + entry(1, 6, none) + entry(2, 4, 64132) + entry(4, 4, none) + entry(16, 4, none) + entry(32, 0, none)
os.setxattr(sys.argv[1], 'system.posix_acl_access', acl)
os.setxattr(sys.argv[1], 'user.origin', b'mill')";
    let is_there = python(set, &path);
    assert_eq!((is_there.code, is_there.stderr.as_str()), (Some(0), ""));
    let show =
        "import os, sys; print([(name, os.getxattr(sys.argv[1], name)) for name in sorted(os.listxattr(sys.argv[1]))])";
    let before = python(show, &path).stdout;
    assert!(before.contains("posix_acl_access") && before.contains("user.origin"), "{before}");
    let seen = write_to(&path);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""));
    assert_eq!(python(show, &path).stdout, before);
    assert_eq!(fs::read(&path).unwrap(), b"NEW\n");
}

#[test]
fn write_refuses_file_with_hard_links() {
    let scratch = Scratch::new();
    let path = old_file(&scratch, "file");
    fs::hard_link(&path, scratch.path("other")).unwrap();
    let seen = write_to(&path);
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert!(seen.stderr.contains("2 names (hard links)") && seen.stderr.contains("'>' of the shell"), "{seen:?}");
    assert_eq!(fs::read(&path).unwrap(), b"old\n");
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 2);
}

#[test]
fn write_refuses_file_whose_owner_it_cannot_keep() {
    let scratch = Scratch::new();
    let path = old_file(&scratch, "file");
    let directory = path.parent().unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    let script =
        format!("printf 'new\\n' | '{}' net \"upper | write '{}'\"", scratch.installed().display(), path.display());
    let seen = output(Command::new("setpriv").args([
        "--reuid",
        "64133",
        "--regid",
        "64133",
        "--clear-groups",
        "sh",
        "-c",
        &script,
    ]));
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert!(seen.stderr.contains("a new file cannot have its owner 0 and group 0"), "{seen:?}");
    assert_eq!(fs::read(&path).unwrap(), b"old\n");
}

#[test]
fn new_file_is_private_until_complete() {
    let scratch = Scratch::new();
    let shim = scratch.compile("cc", "seen.so", MODES, &["-shared", "-fPIC"]);
    let path = scratch.path("new");
    let line = format!("read '{}' | write '{}'", scratch.file("text", "text\n"), path.display());
    let script = format!("umask 027; LD_PRELOAD='{shim}' exec '{}' net \"{line}\"", common::program());
    let seen = output(Command::new("sh").args(["-c", &script]).env("SEEN", scratch.path("modes")).env("OWN", &path));
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    // It has another name than its own when it gets its mode.
    assert_eq!(fs::read_to_string(scratch.path("modes")).unwrap(), "complete 600 5 unnamed\n");
}

/// Before the mode of a file with a name changes: mode, size, and whether its own name is there go to `$SEEN`.
const MODES: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
int fchmod(int fd, mode_t mode) {
    struct stat before;
    if (!fstat(fd, &before) && before.st_nlink > 0) {
        FILE *seen = fopen(getenv("SEEN"), "a");
        const char *named = access(getenv("OWN"), F_OK) ? "unnamed" : "named";
        fprintf(seen, "complete %o %ld %s\n", before.st_mode & 07777, (long)before.st_size, named);
        fclose(seen);
    }
    return syscall(SYS_fchmod, fd, mode);
}
"#;

/// What is written is refused only when it is put on disk, or when the last of it is closed, as NFS and FUSE can do.
const LATE: &str = r"
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static int is_file(int fd) { struct stat s; return !fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_size == 5; }
#ifdef AT_FSYNC
int fsync(int fd) { return is_file(fd) ? (errno = EIO, -1) : syscall(SYS_fsync, fd); }
#else
int close(int fd) { int refused = is_file(fd), done = syscall(SYS_close, fd); return refused ? (errno = EDQUOT, -1) : done; }
#endif
";

#[test]
fn late_write_error_fails_the_network() {
    let scratch = Scratch::new();
    let program = common::program();
    for (name, options, says) in
        [("fsync", "-DAT_FSYNC", "Input/output error"), ("close", "-UAT_FSYNC", "Disk quota exceeded")]
    {
        let shim = scratch.compile("cc", &format!("{name}.so"), LATE, &["-shared", "-fPIC", options]);
        for (way, line) in [("append", "append file"), ("stdout", "identity >file"), ("whole", "write file")] {
            // What has replaced the old file cannot be refused any more; it was put on disk before.
            if (name, way) == ("close", "whole") {
                continue;
            }
            let line = match line.split_once(" >") {
                Some((line, _)) => format!("'{program}' net '{line}' >file"),
                None => format!("'{program}' net 'identity | {line}'"),
            };
            let script = format!("rm -f file; printf 'text\\n' >from; LD_PRELOAD='{shim}' {line} <from");
            let seen = output(Command::new("sh").args(["-c", &script]).current_dir(scratch.path("")));
            assert_eq!(seen.code, Some(1), "{name}, {way}: {seen:?}");
            assert!(seen.stderr.contains(says), "{name}, {way}: {seen:?}");
        }
    }
}

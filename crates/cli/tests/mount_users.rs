//! `millstream mount` by ordinary users: through `fusermount3`, and with what the system does not allow told in a sentence.
//!
//! Each test has mounts of its own: a device that all users may open, whatever that of the system is like, and a file that
//! says whether users may let others in.

mod common;
mod mounting;

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;

use common::{Scratch, Seen, output};

const USER: u32 = 65534;

/// `as_user` runs a command as the user. `$MILLSTREAM` mounts the directory `source` on `mount`. `gone` waits until it is not
/// mounted any more.
const HEAD: &str = "\
mknod -m \"$DEVICE_MODE\" device c 10 229
mount --bind device /dev/fuse
[ -e /etc/fuse.conf ] || : >/etc/fuse.conf
mount --bind conf /etc/fuse.conf
user='setpriv --reuid=65534 --regid=65534 --clear-groups'
as_user() { $user \"$@\"; }
gone() { while grep -q \" $PWD/mount \" /proc/self/mountinfo; do sleep 0.02; done; }
";

/// Runs a script that ends when a step fails. `conf`: what `/etc/fuse.conf` says.
fn script(scratch: &Scratch, device_mode: &str, conf: &str, steps: &str) -> Seen {
    for name in ["source", "mount"] {
        fs::create_dir_all(scratch.path(name)).unwrap();
        chown(scratch.path(name), Some(USER), Some(USER)).unwrap();
    }
    fs::write(scratch.path("conf"), conf).unwrap();
    common::set_mode(&scratch.path("conf"), 0o644);
    let packed = scratch.path("source").join("a.gz");
    fs::write(&packed, mounting::piped("gzip", &["-c"], b"hello\n")).unwrap();
    chown(&packed, Some(USER), Some(USER)).unwrap();
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--mount", "--propagation", "private", "sh", "-ec"]);
    command.arg(format!("{HEAD}{steps}")).current_dir(scratch.path(""));
    command.env("MILLSTREAM", reachable(scratch)).env("DEVICE_MODE", device_mode);
    output(&mut command)
}

/// The program where every user may start it.
fn reachable(scratch: &Scratch) -> PathBuf {
    let program = scratch.installed();
    let top = scratch.path("");
    for path in program.ancestors().take_while(|path| path.starts_with(&top)) {
        common::set_mode(path, 0o755);
    }
    program
}

#[test]
fn user_mounts_reads_writes_and_unmounts() {
    if mounting::is_forbidden() {
        return;
    }
    let scratch = Scratch::new();
    let seen = script(
        &scratch,
        "666",
        "",
        "
as_user \"$MILLSTREAM\" mount source mount gunzip
as_user sh -c 'cat mount/a; echo there >>mount/a; echo new >mount/b; mkdir mount/c; rm -r mount/c'
gzip -dc source/a.gz source/b.gz
stat -c %u source/b.gz
as_user \"$MILLSTREAM\" push mount/a upper
as_user cat mount/a
as_user \"$MILLSTREAM\" mounts | grep -c 'mount'
cat mount/a 2>&1 && exit 1
as_user fusermount3 -u mount
gone
$user \"$MILLSTREAM\" mount --foreground source mount gunzip & daemon=$!
until as_user test -e mount/a; do sleep 0.02; done
kill $daemon
wait $daemon
gone
ls -A mount
",
    );
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let lines: Vec<&str> = seen.stdout.lines().collect();
    assert_eq!(lines[..7], ["hello", "hello", "there", "new", "65534", "HELLO", "THERE"], "{seen:?}");
    assert!(lines.len() == 9 && lines[8].contains("Permission denied"), "root is another user: {seen:?}");
}

#[test]
fn other_users_are_let_in_only_where_the_system_allows_it() {
    if mounting::is_forbidden() {
        return;
    }
    let steps = "
as_user \"$MILLSTREAM\" mount --allow-other source mount gunzip
cat mount/a
as_user fusermount3 -u mount
gone
";
    let seen = script(&Scratch::new(), "666", "# user_allow_other\n", steps);
    assert_eq!((seen.code, seen.stderr.lines().count()), (Some(125), 1), "{seen:?}");
    assert!(seen.stderr.contains("cannot let other users in: /etc/fuse.conf has no line"), "{seen:?}");
    let seen = script(&Scratch::new(), "666", "user_allow_other\n", steps);
    assert_eq!((seen.code, &*seen.stdout), (Some(0), "hello\n"), "{seen:?}");
}

#[test]
fn device_that_users_may_not_open_is_told() {
    if mounting::is_forbidden() {
        return;
    }
    let seen = script(&Scratch::new(), "600", "", "as_user \"$MILLSTREAM\" mount source mount gunzip");
    assert_eq!((seen.code, seen.stderr.lines().count()), (Some(125), 1), "{seen:?}");
    assert!(seen.stderr.contains("this user may not open /dev/fuse"), "{seen:?}");
}

#[test]
fn directory_of_another_user_is_refused_in_a_sentence() {
    if mounting::is_forbidden() {
        return;
    }
    let seen = script(&Scratch::new(), "666", "", "mkdir other\nas_user \"$MILLSTREAM\" mount source other gunzip");
    assert_eq!((seen.code, seen.stderr.lines().count()), (Some(125), 1), "{seen:?}");
    assert!(seen.stderr.contains("cannot mount on") && seen.stderr.contains("other'"), "{seen:?}");
}

//! Random calls on names, permissions, times and bytes, made in a mount and in a bare directory alike: what `fsstress` and
//! `pjdfstest` do. Each call has to give the same, errors included, and both trees are the same in the end.

mod common;
mod mounting;

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use common::Scratch;
use mounting::Mounted;

/// For each network. `MILLSTREAM_RANDOM_SECONDS=120` for more (`make check-mount`).
fn length() -> Duration {
    let seconds = std::env::var("MILLSTREAM_RANDOM_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(2.0))
}

/// Programs at once, each in a directory of its own.
const PROGRAMS: u64 = 4;

/// Few names, so that calls meet what others have made; one that cannot be, and one that is too long.
fn random_path(random: &mut fastrand::Rng) -> PathBuf {
    let long = "n".repeat(256);
    let names = ["a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "e", "e/a", "a/a", "missing/a", &long];
    PathBuf::from(names[random.usize(..names.len())])
}

/// A call with all that was drawn for it, so that it can be made twice.
#[derive(Clone, Debug)]
enum Call {
    Create { path: PathBuf, is_new: bool, mode: u32 },
    Write { path: PathBuf, offset: u64, bytes: Vec<u8> },
    Append { path: PathBuf, bytes: Vec<u8> },
    Truncate { path: PathBuf, len: u64 },
    Read { path: PathBuf },
    MakeDirectory { path: PathBuf },
    RemoveDirectory { path: PathBuf },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf },
    Link { from: PathBuf, to: PathBuf },
    Symlink { target: PathBuf, path: PathBuf },
    ReadLink { path: PathBuf },
    Mode { path: PathBuf, mode: u32 },
    Owner { path: PathBuf, user: u32, follows: bool },
    Times { path: PathBuf, seconds: u64 },
    State { path: PathBuf },
    List { path: PathBuf },
    Lock { path: PathBuf },
    WriteRemoved { path: PathBuf, bytes: Vec<u8> },
}

impl Call {
    fn random(random: &mut fastrand::Rng) -> Call {
        let (path, to) = (random_path(random), random_path(random));
        let bytes = vec![random.u8(..); random.usize(..9000)];
        let mode = [0o644, 0o600, 0o4755, 0o1777, 0o000][random.usize(..5)];
        match random.u8(..23) {
            0 => Call::Create { path, is_new: true, mode },
            1 | 2 => Call::Create { path, is_new: false, mode },
            3 | 4 => Call::Write { path, offset: random.u64(..9000), bytes },
            5 => Call::Append { path, bytes },
            6 => Call::Truncate { path, len: random.u64(..12_000) },
            7 => Call::Read { path },
            8 | 9 => Call::MakeDirectory { path },
            10 => Call::RemoveDirectory { path },
            11 => Call::Remove { path },
            12 | 13 => Call::Rename { from: path, to },
            14 => Call::Link { from: path, to },
            15 => Call::Symlink { target: to, path },
            16 => Call::ReadLink { path },
            17 => Call::Mode { path, mode },
            18 => Call::Owner { path, user: random.u32(1..100), follows: random.bool() },
            19 => Call::Times { path, seconds: random.u64(..1 << 32) },
            20 => Call::State { path },
            21 => Call::List { path },
            _ if random.bool() => Call::Lock { path },
            _ => Call::WriteRemoved { path, bytes },
        }
    }

    /// What it gives in a directory, or the number of the error.
    fn made_in(&self, top: &Path) -> Result<String, i32> {
        self.attempt(top).map_err(|error| error.raw_os_error().unwrap_or(-1))
    }

    fn attempt(&self, top: &Path) -> io::Result<String> {
        let at = |path: &Path| top.join(path);
        let nothing = |()| String::new();
        match self {
            Call::Create { path, is_new, mode } => {
                let file =
                    OpenOptions::new().write(true).create(true).truncate(true).create_new(*is_new).open(at(path))?;
                file.set_permissions(Permissions::from_mode(*mode)).map(nothing)
            }
            Call::Write { path, offset, bytes } => {
                OpenOptions::new().write(true).open(at(path))?.write_all_at(bytes, *offset).map(nothing)
            }
            Call::Append { path, bytes } => {
                OpenOptions::new().append(true).open(at(path))?.write_all(bytes).map(nothing)
            }
            Call::Truncate { path, len } => OpenOptions::new().write(true).open(at(path))?.set_len(*len).map(nothing),
            Call::Read { path } => fs::read(at(path)).map(|bytes| summary(&bytes)),
            Call::MakeDirectory { path } => fs::create_dir(at(path)).map(nothing),
            Call::RemoveDirectory { path } => fs::remove_dir(at(path)).map(nothing),
            Call::Remove { path } => fs::remove_file(at(path)).map(nothing),
            Call::Rename { from, to } => fs::rename(at(from), at(to)).map(nothing),
            Call::Link { from, to } => fs::hard_link(at(from), at(to)).map(nothing),
            Call::Symlink { target, path } => symlink(target, at(path)).map(nothing),
            Call::ReadLink { path } => fs::read_link(at(path)).map(|target| target.display().to_string()),
            Call::Mode { path, mode } => fs::set_permissions(at(path), Permissions::from_mode(*mode)).map(nothing),
            Call::Owner { path, user, follows: true } => chown(at(path), Some(*user), Some(7)).map(nothing),
            Call::Owner { path, user, follows: false } => lchown(at(path), Some(*user), None).map(nothing),
            Call::Times { path, seconds } => {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(*seconds);
                let file = File::open(at(path))?;
                file.set_times(FileTimes::new().set_accessed(time).set_modified(time))?;
                Ok(file.metadata()?.mtime().to_string())
            }
            Call::State { path } => state_of(&at(path)),
            Call::List { path } => Ok(names_in(&at(path))?.join(" ")),
            Call::Lock { path } => lock_twice(&at(path)),
            Call::WriteRemoved { path, bytes } => write_removed(&at(path), bytes),
        }
    }
}

fn summary(bytes: &[u8]) -> String {
    let sum = bytes.iter().fold(0_u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    format!("{} bytes, {sum:x}", bytes.len())
}

/// The type, permissions, owners; of what is no directory also the size and how many names it has.
fn state_of(path: &Path) -> io::Result<String> {
    let found = path.symlink_metadata()?;
    let kind = found.file_type();
    let kind = (kind.is_dir(), kind.is_file(), kind.is_symlink(), kind.is_fifo());
    let counted = (!found.is_dir()).then(|| (found.len(), found.nlink()));
    Ok(format!("{kind:?} {:o} {}:{} {counted:?}", found.mode(), found.uid(), found.gid()))
}

fn names_in(path: &Path) -> io::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(path)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// A second lock is refused as long as there is the first.
fn lock_twice(path: &Path) -> io::Result<String> {
    let (first, second) = (File::open(path)?, File::open(path)?);
    first.lock()?;
    let is_refused = matches!(second.try_lock(), Err(TryLockError::WouldBlock));
    first.unlock()?;
    let is_given = second.try_lock().is_ok();
    Ok(format!("{is_refused} {is_given}"))
}

/// A file without a name is still a file.
fn write_removed(path: &Path, bytes: &[u8]) -> io::Result<String> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    fs::remove_file(path)?;
    file.write_all_at(bytes, 10)?;
    let mut found = vec![0; bytes.len()];
    file.read_exact_at(&mut found, 10)?;
    Ok(format!("{} of {}", summary(&found), file.metadata()?.len()))
}

/// All that is known of what is below a directory.
fn tree(top: &Path) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    let mut to_read = vec![top.to_owned()];
    while let Some(directory) = to_read.pop() {
        for name in names_in(&directory).unwrap() {
            let path = directory.join(name);
            let state = state_of(&path).unwrap();
            let found = path.symlink_metadata().unwrap();
            let content = match found.file_type() {
                kind if kind.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
                kind if kind.is_file() => summary(&fs::read(&path).unwrap()),
                _ => String::new(),
            };
            if found.is_dir() {
                to_read.push(path.clone());
            }
            known.insert(path.strip_prefix(top).unwrap().display().to_string(), format!("{state} {content}"));
        }
    }
    known
}

fn compared(network: &[&str]) {
    let given = std::env::var("MILLSTREAM_SEED");
    let seed = given.map_or_else(|_| fastrand::u64(..u64::MAX / 2), |seed| seed.parse().expect("a number"));
    let (mount, bare) = (Mounted::new(network), Scratch::new());
    std::thread::scope(|scope| {
        for program in 0..PROGRAMS {
            let name = program.to_string();
            let tops = [bare.path(&name), mount.at(&name)];
            scope.spawn(move || compare_program(&tops, seed + program));
        }
    });
    assert_eq!(mount.log(), "", "seed {seed}");
}

fn compare_program(tops: &[PathBuf; 2], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    tops.iter().for_each(|top| fs::create_dir(top).unwrap());
    let (begun, mut calls, mut failed) = (Instant::now(), 0, 0);
    let mut done: Vec<String> = Vec::new();
    while begun.elapsed() < length() || calls < 300 {
        let call = Call::random(&mut random);
        let [bare, ours] = tops.each_ref().map(|top| call.made_in(top));
        done.push(format!("{call:.200?}"));
        let surplus = done.len().saturating_sub(40);
        done.drain(..surplus);
        assert_eq!(
            ours, bare,
            "seed {seed}, call {calls}: {call:?} gave the first, and in the bare directory the second: {done:#?}"
        );
        calls += 1;
        failed += usize::from(bare.is_err());
    }
    let [bare, ours] = tops.each_ref().map(|top| tree(top));
    assert_eq!(ours, bare, "seed {seed}");
    assert!(failed > calls / 20 && failed < calls * 19 / 20, "{failed} of {calls} calls failed");
    println!("{calls} calls, of which {failed} failed");
}

#[test]
fn unbound_mount_does_what_a_directory_does() {
    if !mounting::is_forbidden() {
        compared(&[]);
    }
}

#[test]
fn identity_mount_does_what_a_directory_does() {
    if !mounting::is_forbidden() {
        compared(&["identity"]);
    }
}

#[test]
fn in_place_mount_does_what_a_directory_does() {
    if !mounting::is_forbidden() {
        compared(&["rot13"]);
    }
}

/// Calls of another user than the one that owns the files. What each prints is compared.
const OF_OTHERS: &str = r#"
try() { if out=$(eval "$1" 2>&1); then echo "$1: yes $out"; else echo "$1: no"; fi; }
for step in 'cat open' 'cat private' 'echo x >open' 'echo x >>shared' 'echo x >own' 'cat own' 'rm open' 'mkdir own.d' \
    'chmod 777 open' 'chmod 640 own' 'chown 0 own' 'chgrp 0 own' 'touch -d @5 open' 'touch open' 'touch -d @5 own' \
    'stat -c %Y own' 'ls closed' 'cat closed/a' 'ls listed' 'cat listed/a' 'cat passed/a' 'ls passed' 'echo x >passed/new' \
    'rm sticky/a' 'mv sticky/a sticky/b' 'echo x >sticky/own' 'mv sticky/own sticky/own2' 'rm sticky/own2' \
    'ln open sticky/hard' 'ln shared sticky/hard' 'ln -s open sticky/soft' 'cat setuid' 'echo x >>setuid' 'stat -c %a setuid' \
    'mkfifo own.pipe' 'mknod own.dev c 1 3' 'truncate -s 3 shared' 'truncate -s 3 open' 'rmdir closed' 'stat -c %u:%g:%a own' \
    'setfattr -n user.x -v 1 own' 'mv own shared.d/own' 'ls shared.d' 'mkdir grouped/d' 'stat -c %g:%a grouped/d'; do
    try "$step"
done"#;

const FOR_OTHERS: &str = "
umask 022
for name in open private shared setuid; do echo $name >$name; done
chmod 644 open; chmod 600 private; chmod 666 shared; chmod 6777 setuid
mkdir closed listed passed sticky shared.d grouped
for directory in closed listed passed sticky; do echo $directory >$directory/a; done
chmod 700 closed; chmod 744 listed; chmod 711 passed; chmod 1777 sticky; chmod 777 shared.d; chgrp 33 grouped; chmod 2777 grouped
chmod 777 .
";

fn printed(directory: &Path, is_other: bool, script: &str) -> String {
    let mut command = Command::new("setpriv");
    if is_other {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    let seen = common::output(command.args(["sh", "-c", script]).current_dir(directory));
    assert_eq!((seen.code, &*seen.stderr), (Some(0), ""), "{script}");
    seen.stdout
}

#[test]
fn permissions_are_those_of_a_directory_for_other_users() {
    if mounting::is_forbidden() {
        return;
    }
    for network in [&[][..], &["rot13"]] {
        let (mount, bare) = (Mounted::for_others(network), Scratch::new());
        let [expected, found] = [bare.path(""), mount.at("")].map(|top| {
            printed(&top, false, FOR_OTHERS);
            printed(&top, true, OF_OTHERS)
        });
        assert!(expected.matches(": yes").count() >= 15 && expected.matches(": no").count() >= 15, "{expected}");
        assert_eq!(found, expected, "{network:?}");
    }
}

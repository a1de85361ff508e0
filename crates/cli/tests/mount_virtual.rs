//! Files that are in no source: the members of archives, which are as `tar -x` makes them, and what networks generate.

mod common;
mod mounting;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{Scratch, output};
use mounting::Mounted;

const RULES: &str = "[[rule]]\nmatch = '*.tar'\nas = '*'\narchive = 'tar'\n\
     [[rule]]\nmatch = '*.tar.gz'\nas = '*'\nread = 'gunzip'\narchive = 'tar'\n\
     [[rule]]\nmatch = '*.tar.zst'\nas = '*'\nread = 'unzstd'\narchive = 'tar'\n\
     [[rule]]\nmatch = '*.tar.xz'\nas = '*'\nread = 'unxz'\narchive = 'tar'\n";

/// Everything that a tar archive can have, and names that its headers have no room for.
const SAMPLE: &str = r#"
set -e
mkdir -p short/empty short/private long/$(printf 'd%.0s' $(seq 90))/$(printf 'e%.0s' $(seq 90))/$(printf 'f%.0s' $(seq 90))
seq 200000 >short/large; : >short/nothing; echo hello >short/hello; printf x >short/one
ln short/hello short/private/link; ln -s ../hello short/private/symlink; ln -s /etc/passwd short/absolute
mkfifo short/fifo
chmod 4751 short/one; chmod 0 short/nothing; chmod 700 short/private; chown 1234:4321 short/hello
touch -d '1999-12-31 23:59:58' short/one; touch -d '1969-07-20 20:17:40' short/nothing
echo deep >file; mv file long/d*/e*/f*/; echo name >long/$(printf 'n%.0s' $(seq 250)); echo tab >"long/$(printf 'a\tb\nü')"
ln -s $(printf 't%.0s' $(seq 300)) long/target; ln long/d*/e*/f*/file long/link
touch -d '2001-02-03 04:05:06.789' long/target -h; touch -d '2002-02-02' short short/private
"#;

fn shell(directory: &Path, script: &str) {
    let seen = output(Command::new("sh").args(["-c", script]).current_dir(directory));
    assert_eq!(seen.code, Some(0), "{script}: {}", seen.stderr);
}

/// All that is known of what is below a directory. Hard links are told by the first name of their file.
fn state(top: &Path) -> BTreeMap<String, String> {
    let mut names = vec![String::new()];
    let (mut found, mut first_names) = (BTreeMap::new(), BTreeMap::new());
    while let Some(name) = names.pop() {
        let path = top.join(&name);
        let known = fs::symlink_metadata(&path).unwrap();
        let kind = known.file_type();
        if kind.is_dir() {
            let mut entries: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            entries.sort();
            names.extend(
                entries
                    .iter()
                    .rev()
                    .map(|entry| format!("{name}/{}", entry.to_str().unwrap()))
                    .map(|name| name.trim_start_matches('/').to_owned()),
            );
        }
        if name.is_empty() {
            continue;
        }
        let bytes = match kind {
            _ if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            _ if kind.is_file() => fs::read(&path).unwrap(),
            _ => Vec::new(),
        };
        let (size, links) = if kind.is_dir() { (0, 0) } else { (known.size(), known.nlink()) };
        let first: &String = first_names.entry(known.ino()).or_insert_with(|| name.clone());
        let (modified, part) = (known.mtime(), known.mtime_nsec());
        let owner = (known.uid(), known.gid());
        let sum: u64 = bytes.iter().fold(0, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let told = format!(
            "{:o} {owner:?} {size} {links} {modified}.{part} {first} {} {sum} {}",
            known.mode(),
            bytes.len(),
            kind.is_fifo()
        );
        found.insert(name, told);
    }
    found
}

#[test]
fn members_are_as_tar_unpacks_them() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_rules(RULES);
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("sample")).unwrap();
    shell(&scratch.path("sample"), SAMPLE);
    for (name, end, format, pack, members) in [
        ("gnu", "tar", "gnu", "cat", "."),
        ("pax", "tar", "posix", "cat", "."),
        ("ustar", "tar", "ustar", "cat", "--exclude=nothing short"),
        ("old", "tar", "v7", "cat", "-C short hello large private one"),
        ("packed", "tar.gz", "posix", "gzip -c", "./short ./long"),
        ("zstd", "tar.zst", "gnu", "zstd -qc", "."),
        ("xz", "tar.xz", "gnu", "xz -0c", "."),
    ] {
        let archive = mount.source(&format!("{name}.{end}"));
        let pack = format!("tar --format={format} -cf - {members} | {pack} >'{}'", archive.display());
        shell(&scratch.path("sample"), &pack);
        fs::create_dir(scratch.path(name)).unwrap();
        shell(&scratch.path(name), &format!("tar --same-owner -xpf '{}'", archive.display()));
        let (shown, unpacked) = (state(&mount.at(name)), state(&scratch.path(name)));
        assert!(unpacked.len() >= 4, "{unpacked:?}");
        for (path, known) in &unpacked {
            assert_eq!(shown.get(path), Some(known), "{name}: {path}: {}", mount.log());
        }
        assert_eq!(shown.len(), unpacked.len(), "{name}");
    }
    assert_eq!(mount.names(""), ["gnu", "old", "packed", "pax", "ustar", "xz", "zstd"]);
    assert_eq!(mount.log(), "");
    // The directory has the permissions of the archive.
    fs::set_permissions(mount.source("gnu.tar"), fs::Permissions::from_mode(0o640)).unwrap();
    common::wait_for("the permissions", || fs::metadata(mount.at("gnu")).unwrap().mode() == 0o40_550);
}

/// Members by name, type and target.
const MAKE: &str = "import sys, tarfile, io
archive = tarfile.open(sys.argv[1], 'w', format=tarfile.GNU_FORMAT)
for word in sys.argv[2:]:
    name, kind, target = (word.split('|') + ['', ''])[:3]
    member = tarfile.TarInfo(name)
    member.type, member.linkname = {'': b'0', 'dir': b'5', 'sym': b'2', 'hard': b'1', 'odd': b'Q'}[kind], target
    body = name.encode() if kind == '' else b''
    member.size = len(body)
    archive.addfile(member, io.BytesIO(body))
archive.close()";

fn make(archive: &Path, members: &[&str]) {
    let seen = output(Command::new("python3").args(["-c", MAKE]).arg(archive).args(members));
    assert_eq!(seen.code, Some(0), "{}", seen.stderr);
}

#[test]
fn no_member_leads_out_of_the_directory() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_rules(RULES);
    let members = [
        "../out",
        "in/../../out",
        "/absolute",
        "ok",
        "up|sym|/",
        "up/etc",
        "bad|hard|../../source/a.tar",
        "odd|odd",
        "..",
        "./here/./it",
    ];
    make(&mount.source("a.tar"), &members);
    assert_eq!(mount.names("a"), ["absolute", "here", "ok", "up"]);
    assert_eq!(fs::read(mount.at("a/absolute")).unwrap(), b"/absolute");
    assert_eq!(fs::read(mount.at("a/here/it")).unwrap(), b"./here/./it");
    assert_eq!(fs::read_link(mount.at("a/up")).unwrap(), Path::new("/"));
    assert_eq!(mount.names("a"), ["absolute", "here", "ok", "up"]);
    let log = mount.log();
    for remark in [
        "3 members left out: '..' leads out of the directory; the first is '../out'",
        "1 member with absolute names shown inside the directory; the first is '/absolute'",
        "1 member left out: in what is no directory; the first is 'up/etc'",
        "1 member left out: hard links of what is not there; the first is 'bad'",
        "1 member left out: of a type that is not known; the first is 'odd'",
    ] {
        assert_eq!(log.matches(remark).count(), 1, "{remark}: {log}");
    }
    assert_eq!(log.lines().count(), 5, "{log}");
}

#[test]
fn damaged_archives_are_errors_and_told_once() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_rules(RULES);
    make(&mount.source("good.tar"), &["first", "second", "third"]);
    let good = fs::read(mount.source("good.tar")).unwrap();
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    let size = |text: &'static [u8]| {
        damaged(&|bytes| {
            // The checksum of the third header has to fit.
            bytes[2048 + 124..2048 + 124 + text.len()].copy_from_slice(text);
            bytes[2048 + 148..2048 + 156].fill(b' ');
            let sum: u32 = bytes[2048..2560].iter().map(|&byte| u32::from(byte)).sum();
            bytes[2048 + 148..2048 + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        })
    };
    let gzip = mounting::piped("gzip", &["-c"], &good);
    let cases = [
        ("text.tar", vec![b'x'; 5000], "tar: at byte 0 of the archive: it is no tar archive"),
        (
            "header.tar",
            damaged(&|bytes| bytes[1024] ^= 1),
            "at byte 1024 of the archive: the archive is corrupt: the checksum",
        ),
        ("cut.tar", good[..1500].to_vec(), "at byte 1500 of the archive: the archive ends too early"),
        ("inside.tar", good[..2562].to_vec(), "at byte 2564 of the archive: the archive ends too early"),
        ("size.tar", size(b"00000777777\0"), "the archive ends too early: the file is truncated"),
        ("huge.tar", size(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"), "the size of a member is corrupt"),
        ("minus.tar", size(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "a member of -1 bytes cannot be"),
        ("packed.tar.gz", gzip[..gzip.len() - 9].to_vec(), "gunzip: at byte"),
    ];
    for (name, bytes, told) in &cases {
        fs::write(mount.source(name), bytes).unwrap();
        let directory = mount.at(name.split('.').next().unwrap());
        // What is beside it can be listed, and it has attributes.
        assert!(fs::metadata(&directory).unwrap().is_dir());
        let before = mount.log().lines().count();
        assert_eq!(fs::read_dir(&directory).unwrap_err().raw_os_error(), Some(5), "EIO: {name}");
        assert_eq!(fs::read(directory.join("first")).unwrap_err().raw_os_error(), Some(5), "EIO: {name}");
        let log = mount.log();
        let new: Vec<&str> = log.lines().skip(before).collect();
        assert!(new[0].contains(told), "{name}: {log}");
        let is_format = name.ends_with(".tar");
        assert!(!is_format || new.len() == 1, "{name}: {log}");
    }
    assert_eq!(mount.names("good"), ["first", "second", "third"]);
    // Without its mark an archive is whole, or cut between two members.
    fs::write(mount.source("unmarked.tar"), &good[..2048]).unwrap();
    assert_eq!(mount.names("unmarked"), ["first", "second"]);
    assert!(mount.log().contains("no mark at its end"), "{}", mount.log());
    fs::write(mount.source("empty.tar"), b"").unwrap();
    assert_eq!(mount.names("empty"), [""; 0]);
}

#[test]
fn corrupt_bytes_of_a_member_are_errors() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_rules(RULES);
    let scratch = Scratch::new();
    shell(&scratch.path(""), "head -c 3000000 /dev/urandom >noise; echo a >a; tar -cf noise.tar a noise");
    let frame = |part: &[u8]| {
        let size = format!("--stream-size={}", part.len());
        mounting::piped("zstd", &["-qc", "--check", &size], part)
    };
    let bytes = fs::read(scratch.path("noise.tar")).unwrap();
    let mut frames: Vec<Vec<u8>> = bytes.chunks(500_000).map(frame).collect();
    fs::write(mount.source("whole.tar.zst"), frames.concat()).unwrap();
    assert!(fs::read(mount.at("whole/noise")).unwrap() == fs::read(scratch.path("noise")).unwrap());
    frames[3][250_000] ^= 1;
    fs::write(mount.source("hurt.tar.zst"), frames.concat()).unwrap();
    // Frames without members are not even read.
    assert_eq!(mount.names("hurt"), ["a", "noise"]);
    assert_eq!(fs::read(mount.at("hurt/a")).unwrap(), b"a\n");
    assert_eq!(fs::read(mount.at("hurt/noise")).unwrap_err().raw_os_error(), Some(5), "EIO");
    assert!(mount.log().contains("hurt.tar.zst: unzstd: at byte"), "{}", mount.log());
}

#[test]
fn changed_archive_is_read_again() {
    if mounting::is_forbidden() {
        return;
    }
    for (name, network) in [("a.tar", "cat"), ("a.tar.gz", "gzip -c")] {
        let mount = Mounted::with_rules(RULES);
        let scratch = Scratch::new();
        let pack = |members: &[&str]| {
            make(&scratch.path("new.tar"), members);
            shell(&scratch.path(""), &format!("{network} <new.tar >new"));
            fs::read(scratch.path("new")).unwrap()
        };
        fs::write(mount.source(name), pack(&["one", "two", "sub/three"])).unwrap();
        assert_eq!(mount.names("a"), ["one", "sub", "two"]);
        let open = File::open(mount.at("a/two")).unwrap();
        // In place.
        fs::write(mount.source(name), pack(&["two", "four", "sub/five"])).unwrap();
        common::wait_for("the new members", || mount.names("a") == ["four", "sub", "two"]);
        common::wait_for("the new directory", || mount.names("a/sub") == ["five"]);
        assert_eq!(fs::read(mount.at("a/two")).unwrap(), b"two");
        assert_eq!(fs::read(mount.at("a/one")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        assert_eq!(open.read_at(&mut [0; 3], 0).unwrap_err().raw_os_error(), Some(5), "EIO: {}", mount.log());
        assert!(mount.log().contains("was changed by another program; open the file again"), "{}", mount.log());
        // By another file.
        fs::write(mount.source("new"), pack(&["six"])).unwrap();
        fs::rename(mount.source("new"), mount.source(name)).unwrap();
        common::wait_for("the new file", || mount.names("a") == ["six"]);
        fs::remove_file(mount.source(name)).unwrap();
        common::wait_for("its end", || !mount.at("a").exists());
    }
}

#[test]
fn nothing_in_an_archive_can_be_changed() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_rules(RULES);
    make(&mount.source("a.tar"), &["file", "dir/file"]);
    let before = fs::read(mount.source("a.tar")).unwrap();
    let at = |name: &str| mount.at(name);
    let results = [
        ("create", File::create(at("a/new")).map(drop)),
        ("create below", File::create(at("a/dir/new")).map(drop)),
        ("write", fs::OpenOptions::new().write(true).open(at("a/file")).map(drop)),
        ("truncate", File::create(at("a/file")).map(drop)),
        ("mkdir", fs::create_dir(at("a/new"))),
        ("mkdir below", fs::create_dir(at("a/dir/new"))),
        ("symlink", symlink("x", at("a/dir/new"))),
        ("unlink", fs::remove_file(at("a/file"))),
        ("rmdir", fs::remove_dir(at("a/dir"))),
        ("rmdir of the archive", fs::remove_dir(at("a"))),
        ("rename", fs::rename(at("a/file"), at("a/other"))),
        ("chmod", fs::set_permissions(at("a/file"), fs::Permissions::from_mode(0o600))),
        ("chmod of the archive", fs::set_permissions(at("a"), fs::Permissions::from_mode(0o700))),
    ];
    for (what, result) in results {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(30), "EROFS: {what}");
    }
    fs::create_dir(at("real")).unwrap();
    assert_eq!(fs::rename(at("real"), at("a")).unwrap_err().raw_os_error(), Some(39), "ENOTEMPTY");
    assert_eq!(fs::read(mount.source("a.tar")).unwrap(), before);
    let attributes = output(
        Command::new("python3").args(["-c", "import os, sys; print(os.listxattr(sys.argv[1]))"]).arg(at("a/file")),
    );
    assert_eq!(attributes.stdout, "[]\n");
    // Copies of it can.
    for (from, to) in [("a/file", "copy"), ("a", "tree")] {
        shell(&mount.at(""), &format!("cp -r {from} {to}"));
    }
    assert_eq!(
        (fs::read(at("copy")).unwrap(), fs::read(at("tree/dir/file")).unwrap()),
        (b"file".into(), b"dir/file".into())
    );
    shell(&mount.at(""), "rm -r copy tree");
    // Its name is that of the file.
    fs::rename(at("a"), at("b")).unwrap();
    assert_eq!(mount.source_names(), ["b.tar", "real"]);
    assert_eq!(mount.names("b"), ["dir", "file"]);
    assert_eq!(mount.names("b/dir"), ["file"]);
    assert_eq!(fs::read(at("b/dir/file")).unwrap(), b"dir/file");
    assert_eq!(mount.log(), "");
}

#[test]
fn sparse_members_have_zeros_between_their_extents() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_rules(RULES);
    let scratch = Scratch::new();
    let sparse = File::create(scratch.path("sparse")).unwrap();
    for place in 0..60_u64 {
        sparse.write_all_at(&[place as u8 + 1; 5000], place * 65_536 + 8192).unwrap();
    }
    sparse.set_len(5_000_000).unwrap();
    File::create(scratch.path("hole")).unwrap().set_len(1_000_000).unwrap();
    let expected = fs::read(scratch.path("sparse")).unwrap();
    for (name, options) in [
        ("gnu", "--format=gnu"),
        ("pax", "--format=posix"),
        ("pax0", "--format=posix --sparse-version=0.0"),
        ("pax1", "--format=posix --sparse-version=0.1"),
    ] {
        let archive = mount.source(&format!("{name}.tar"));
        shell(&scratch.path(""), &format!("tar -S {options} -cf '{}' sparse hole", archive.display()));
        assert!(fs::metadata(&archive).unwrap().len() < 1_000_000, "{name}");
        assert_eq!(mount.names(name), ["hole", "sparse"], "{}", mount.log());
        let file = File::open(mount.at(&format!("{name}/sparse"))).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 5_000_000);
        for at in (0..5_000_000_usize).step_by(77_777) {
            let mut piece = vec![0; 9000.min(expected.len() - at)];
            file.read_exact_at(&mut piece, at as u64).unwrap();
            assert!(piece == expected[at..at + piece.len()], "{name} at {at}");
        }
        assert!(fs::read(mount.at(&format!("{name}/sparse"))).unwrap() == expected, "{name}");
        assert_eq!(fs::read(mount.at(&format!("{name}/hole"))).unwrap(), vec![0; 1_000_000]);
    }
    assert_eq!(mount.log(), "");
}

#[test]
fn generated_files_are_what_their_networks_make() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_rules(
        "[[generate]]\nname = 'numbers'\nread = 'exec seq 100000'\n\
         [[generate]]\nname = 'sub/time'\nread = 'exec date +%s.%N | upper'\n\
         [[generate]]\nname = 'fails'\nread = 'exec sh -c \"echo a; exit 3\"'\n\
         [[generate]]\nname = 'hangs'\nread = 'exec sleep 600'\ntimeout = '200ms'\n\
         [[generate]]\nname = 'nothing'\nread = 'upper'\n",
    );
    fs::create_dir_all(mount.source("sub/sub")).unwrap();
    fs::write(mount.source("hangs"), b"a file of that name wins").unwrap();
    assert_eq!(mount.names(""), ["fails", "hangs", "nothing", "numbers", "sub"]);
    assert_eq!((mount.names("sub"), mount.names("sub/sub")), (vec!["sub".into(), "time".into()], vec![]));
    let numbers: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(fs::read_to_string(mount.at("numbers")).unwrap() == numbers);
    assert_eq!(fs::metadata(mount.at("numbers")).unwrap().len(), 0);
    // Anywhere: what is behind is skipped, what is before is made again.
    let file = File::open(mount.at("numbers")).unwrap();
    for at in [200_000, 400_000, 100, 101, 588_890, 600_000, 0] {
        let mut piece = [0; 50];
        let count = file.read_at(&mut piece, at).unwrap();
        let at = (at as usize).min(numbers.len());
        assert_eq!(piece[..count], numbers.as_bytes()[at..(at + 50).min(numbers.len())], "at {at}");
    }
    let time = || fs::read_to_string(mount.at("sub/time")).unwrap();
    assert_ne!(time(), time());
    assert_eq!(fs::read(mount.at("nothing")).unwrap(), b"");
    assert_eq!(fs::read(mount.at("fails")).unwrap_err().raw_os_error(), Some(5), "EIO");
    assert!(mount.log().contains("fails: exec sh -c"), "{}", mount.log());
    assert_eq!(fs::read(mount.at("hangs")).unwrap(), b"a file of that name wins");
    fs::remove_file(mount.at("hangs")).unwrap();
    common::wait_for("the generated file", || fs::read(mount.at("hangs")).is_err());
    assert!(mount.log().contains("hangs: exec sleep 600"), "{}", mount.log());
    let error = fs::OpenOptions::new().write(true).open(mount.at("numbers")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(30), "EROFS");
    assert_eq!(fs::remove_file(mount.at("numbers")).unwrap_err().raw_os_error(), Some(1), "EPERM");
    fs::write(mount.at("new"), b"new").unwrap();
    fs::rename(mount.at("new"), mount.at("numbers")).unwrap();
    common::wait_for("the file in its place", || fs::read(mount.at("numbers")).is_ok_and(|bytes| bytes == b"new"));
}

#[test]
fn directories_have_links_of_what_networks_make() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&[]);
    fs::create_dir(mount.source("dir")).unwrap();
    let link = |arguments: &[&str]| {
        let mut command = common::millstream(["link"]);
        command.arg(mount.source("dir")).args(arguments);
        output(&mut command)
    };
    let made = link(&["numbers", "exec seq 3"]);
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""));
    assert_eq!(link(&[]).stdout, "numbers  exec seq 3\n");
    assert_eq!(mount.names("dir"), ["numbers"]);
    assert_eq!(fs::read(mount.at("dir/numbers")).unwrap(), b"1\n2\n3\n");
    let written = link(&["other", "upper", "--write", "upper"]);
    assert_eq!(written.code, Some(1));
    assert!(written.stderr.contains("without a source cannot be written: leave '--write' out"), "{}", written.stderr);
    fs::write(mount.source("dir/taken"), b"").unwrap();
    let taken = link(&["taken", "exec date"]);
    assert!(taken.code == Some(1) && taken.stderr.contains("dir/taken' exists already"), "{}", taken.stderr);
    assert_eq!(link(&["bad", "exek date"]).code, Some(1));
    // Only the user of the mount says what runs.
    shell(&mount.source(""), "chown 1234 dir");
    common::wait_for("the link to go", || fs::read(mount.at("dir/numbers")).is_err());
    shell(&mount.source(""), "chown 0 dir");
    common::wait_for("the link", || fs::read(mount.at("dir/numbers")).is_ok());
    // All that may write a directory can set its attributes.
    shell(&mount.source(""), "chmod g+w dir");
    common::wait_for("the link to go", || fs::read(mount.at("dir/numbers")).is_err());
    common::wait_for("its name to go", || mount.names("dir") == ["taken"]);
    let refused = link(&["other", "exec date"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("its links run no commands: chmod go-w"));
    assert_eq!(link(&["harmless", "upper"]).code, Some(0));
    common::wait_for("the other link", || mount.names("dir") == ["harmless", "taken"]);
    assert_eq!(link(&["--remove", "harmless"]).code, Some(0));
    shell(&mount.source(""), "chmod g-w dir");
    common::wait_for("the link", || fs::read(mount.at("dir/numbers")).is_ok());
    fs::remove_file(mount.at("dir/numbers")).unwrap();
    assert_eq!(mount.names("dir"), ["taken"]);
    assert_eq!(link(&[]).stdout, "");
    assert_eq!(mount.log(), "");
}

//! `millstream mount`: what programs see of a directory that is mounted.

mod common;
mod mounting;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::Duration;

use common::{millstream, output};
use mounting::Mounted;

/// Without printing all of them.
fn assert_same(found: &[u8], expected: &[u8]) {
    let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let sizes = (found.len(), expected.len());
    assert!(found == expected, "{sizes:?} bytes, the first difference is at {same}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    mounting::piped("gzip", &["-c"], bytes)
}

fn text(lines: usize) -> Vec<u8> {
    (0..lines)
        .flat_map(|line| format!("{line}\tthe {} of\tthe x{}\n", line * 7919 % 1000, line % 13).into_bytes())
        .collect()
}

#[test]
fn unbound_files_are_as_their_sources() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&[]);
    fs::write(mount.source("a"), b"hello").unwrap();
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"hello");
    fs::write(mount.at("b"), b"there").unwrap();
    assert_eq!(fs::read(mount.source("b")).unwrap(), b"there");
    fs::create_dir(mount.at("dir")).unwrap();
    fs::rename(mount.at("b"), mount.at("dir/c")).unwrap();
    symlink("dir/c", mount.at("link")).unwrap();
    assert_eq!(fs::read(mount.at("link")).unwrap(), b"there");
    fs::hard_link(mount.at("a"), mount.at("dir/a")).unwrap();
    assert_eq!(fs::metadata(mount.at("a")).unwrap().nlink(), 2);
    fs::set_permissions(mount.at("a"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(mount.source("dir/a")).unwrap().mode() & 0o777, 0o640);
    // The program's umask decides, not the daemon's.
    let made = "umask 0; mkdir wide; umask 077; mkdir narrow; : >narrow/file; stat -c %a wide narrow narrow/file; rm -r wide narrow";
    assert_eq!(output(Command::new("sh").args(["-c", made]).current_dir(mount.at(""))).stdout, "777\n700\n600\n");
    assert_eq!(mount.names(""), ["a", "dir", "link"]);
    fs::remove_file(mount.at("dir/a")).unwrap();
    fs::remove_file(mount.at("dir/c")).unwrap();
    fs::remove_dir(mount.at("dir")).unwrap();
    assert!(!mount.source("dir").exists());
    let sparse = File::create(mount.at("sparse")).unwrap();
    sparse.write_at(b"end", 1 << 20).unwrap();
    assert_eq!(fs::metadata(mount.source("sparse")).unwrap().len(), (1 << 20) + 3);
}

#[test]
fn compressed_files_appear_plain() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    let plain = text(40_000);
    fs::write(mount.source("a.gz"), gzip(&plain)).unwrap();
    fs::write(mount.source("b"), b"unbound").unwrap();
    assert_eq!(mount.names(""), ["a", "b"]);
    assert_eq!(fs::metadata(mount.at("a")).unwrap().len(), plain.len() as u64);
    assert_same(&fs::read(mount.at("a")).unwrap(), &plain);
    assert_eq!(fs::read(mount.at("b")).unwrap(), b"unbound");
    assert_eq!(File::open(mount.at("a.gz")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    // Any piece, in any order, also as mapped memory.
    let file = File::open(mount.at("a")).unwrap();
    for offset in [900_000, 3, 500_001, plain.len() - 7] {
        let mut piece = [0; 7];
        file.read_exact_at(&mut piece, offset as u64).unwrap();
        assert_eq!(piece, plain[offset..offset + 7]);
    }
    let mapped = output(Command::new("python3").args(["-c", MAPPED]).arg(mount.at("a"))).stdout;
    assert_eq!(mapped, String::from_utf8(plain[70_000..70_020].to_vec()).unwrap());
}

const MAPPED: &str = "import mmap, sys\nwith open(sys.argv[1]) as f:\n m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)\n sys.stdout.write(m[70000:70020].decode())";

#[test]
fn written_files_are_compressed_when_they_are_closed() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    let plain = text(30_000);
    let mut file = File::create(mount.at("a")).unwrap();
    for piece in plain.chunks(10_007) {
        file.write_all(piece).unwrap();
    }
    assert_eq!(fs::metadata(mount.at("a")).unwrap().len(), plain.len() as u64);
    drop(file);
    assert_same(&mounting::piped("gzip", &["-dc"], &fs::read(mount.source("a.gz")).unwrap()), &plain);
    assert_same(&fs::read(mount.at("a")).unwrap(), &plain);
    // At the end: another member.
    OpenOptions::new().append(true).open(mount.at("a")).unwrap().write_all(b"more\n").unwrap();
    let both = [&plain[..], b"more\n"].concat();
    assert_same(&mounting::piped("gzip", &["-dc"], &fs::read(mount.source("a.gz")).unwrap()), &both);
    assert_same(&fs::read(mount.at("a")).unwrap(), &both);
    // In the middle, and read back before it is closed.
    let mut file = OpenOptions::new().read(true).write(true).open(mount.at("a")).unwrap();
    file.write_all_at(b"MIDDLE", 1000).unwrap();
    file.set_len(2000).unwrap();
    let mut seen = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut seen).unwrap();
    let mut expected = both[..2000].to_vec();
    expected[1000..1006].copy_from_slice(b"MIDDLE");
    assert_same(&seen, &expected);
    // Until then the source is the old one.
    assert_same(&mounting::piped("gzip", &["-dc"], &fs::read(mount.source("a.gz")).unwrap()), &both);
    file.sync_all().unwrap();
    assert_same(&mounting::piped("gzip", &["-dc"], &fs::read(mount.source("a.gz")).unwrap()), &expected);
    drop(file);
    // Nothing at all is a file of the format too.
    drop(File::create(mount.at("empty")).unwrap());
    assert_eq!(mounting::piped("gzip", &["-dc"], &fs::read(mount.source("empty.gz")).unwrap()), b"");
    assert_eq!(mount.source_names(), ["a.gz", "empty.gz"]);
}

#[test]
fn new_version_keeps_owner_permissions_and_set_times() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    fs::write(mount.source("a.gz"), gzip(b"old")).unwrap();
    fs::set_permissions(mount.source("a.gz"), fs::Permissions::from_mode(0o604)).unwrap();
    let mut file = File::create(mount.at("a")).unwrap();
    file.write_all(b"new").unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o606)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.set_modified(time).unwrap();
    drop(file);
    let metadata = fs::metadata(mount.source("a.gz")).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.modified().unwrap()), (0o606, time));
    assert_eq!(fs::metadata(mount.at("a")).unwrap().modified().unwrap(), time);
}

#[test]
fn in_place_networks_are_read_and_written_anywhere() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["rot13"]);
    fs::write(mount.source("a"), b"Hello, world").unwrap();
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"Uryyb, jbeyq");
    let file = OpenOptions::new().write(true).open(mount.at("a")).unwrap();
    file.write_all_at(b"JBE", 7).unwrap();
    file.write_all_at(b"raq", 20).unwrap();
    drop(file);
    assert_eq!(fs::read(mount.source("a")).unwrap(), b"Hello, WORld\0\0\0\0\0\0\0\0end");
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"Uryyb, JBEyq\0\0\0\0\0\0\0\0raq");
    // Zeros as programs see them, whatever the network makes of them.
    let mount = Mounted::new(&["increment"]);
    let file = File::create(mount.at("b")).unwrap();
    file.set_len(3).unwrap();
    assert_eq!(fs::read(mount.source("b")).unwrap(), [255; 3]);
    assert_eq!(fs::read(mount.at("b")).unwrap(), [0; 3]);
}

#[test]
fn networks_without_an_inverse_cannot_be_written() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["upper"]);
    fs::write(mount.source("a"), b"hello").unwrap();
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"HELLO");
    let error = OpenOptions::new().write(true).open(mount.at("a")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(95), "EOPNOTSUPP: {error}");
    let error = File::create(mount.at("new")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(95), "EOPNOTSUPP: {error}");
    assert_eq!(mount.source_names(), ["a"]);
}

#[test]
fn rules_give_many_views_of_one_file() {
    if mounting::is_forbidden() {
        return;
    }
    let rules = "[[rule]]\nmatch = '*.txt'\nas = '*.upper'\nread = 'upper'\nshow_source = true\n\
                 [[rule]]\nmatch = '*.txt'\nas = '*.rot13'\nread = 'rot13'\nshow_source = true\n\
                 [[rule]]\nmatch = '*.log'\nas = '*.errors'\nread = 'grep ERROR'\nsize = 'unknown'\n";
    let mount = Mounted::with_rules(rules);
    fs::write(mount.source("a.txt"), b"Hello").unwrap();
    fs::write(mount.source("x.log"), b"one\nERROR two\nthree\n").unwrap();
    assert_eq!(mount.names(""), ["a.rot13", "a.txt", "a.upper", "x.errors"]);
    assert_eq!(fs::read(mount.at("a.upper")).unwrap(), b"HELLO");
    fs::write(mount.at("a.rot13"), b"Wbyyl").unwrap();
    assert_eq!(fs::read(mount.at("a.txt")).unwrap(), b"Jolly");
    assert_eq!(fs::read(mount.at("a.upper")).unwrap(), b"JOLLY");
    assert_eq!(fs::metadata(mount.at("x.errors")).unwrap().len(), 0);
    assert_eq!(output(Command::new("cat").arg(mount.at("x.errors"))).stdout, "ERROR two\n");
}

#[test]
fn renamed_files_keep_their_view() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    fs::write(mount.at("a"), b"first").unwrap();
    fs::rename(mount.at("a"), mount.at("b")).unwrap();
    assert_eq!(mount.source_names(), ["b.gz"]);
    // Over a file that is not compressed: it is gone, and the name leads to the new one.
    fs::write(mount.source("c"), b"plain").unwrap();
    assert_eq!(fs::read(mount.at("c")).unwrap(), b"plain");
    fs::rename(mount.at("b"), mount.at("c")).unwrap();
    assert_eq!(mount.source_names(), ["c.gz"]);
    assert_eq!(fs::read(mount.at("c")).unwrap(), b"first");
    fs::remove_file(mount.at("c")).unwrap();
    assert_eq!(mount.source_names(), [""; 0]);
}

#[test]
fn corrupt_and_truncated_sources_are_errors_and_told() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    let packed = gzip(&text(20_000));
    fs::write(mount.source("short.gz"), &packed[..packed.len() / 2]).unwrap();
    fs::write(mount.source("text.gz"), b"this is no gzip file").unwrap();
    for name in ["short", "text"] {
        let error = fs::read(mount.at(name)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "EIO: {error}");
    }
    let log = mount.log();
    assert!(log.contains("short.gz: gunzip: at byte") && log.contains("truncated"), "{log}");
    assert!(log.contains("text.gz: gunzip: at byte") && log.contains("corrupt"), "{log}");
}

#[test]
fn changed_source_is_seen_when_it_is_opened_again() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    fs::write(mount.source("a.gz"), gzip(b"old content")).unwrap();
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"old content");
    fs::write(mount.source("a.gz"), gzip(b"the new one")).unwrap();
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"the new one");
    fs::write(mount.source("new.gz"), gzip(b"by another file")).unwrap();
    fs::rename(mount.source("new.gz"), mount.source("a.gz")).unwrap();
    common::wait_for("the name leads to the new file", || fs::read(mount.at("a")).unwrap() == b"by another file");
}

#[test]
fn links_are_kept_in_the_file() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&[]);
    fs::write(mount.source("a"), b"hello").unwrap();
    let link = |arguments: &[&str]| {
        let mut command = millstream(["link"]);
        command.args(arguments).current_dir(mount.source(""));
        output(&mut command)
    };
    let made = link(&["a", "A", "upper"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert_eq!(link(&["a", "r", "rot13"]).code, Some(0));
    assert_eq!(link(&["a"]).stdout, "A  upper\nr  rot13\n");
    assert_eq!(mount.names(""), ["A", "a", "r"]);
    assert_eq!(fs::read(mount.at("A")).unwrap(), b"HELLO");
    fs::write(mount.at("r"), b"uryyb gurer").unwrap();
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"hello there");
    assert_eq!(link(&["--remove", "a", "r"]).code, Some(0));
    let missing = link(&["--remove", "a", "r"]);
    assert_eq!((missing.code, missing.stderr.contains("has no link 'r'")), (Some(1), true), "{}", missing.stderr);
    // Removing the name in the mount removes the link, not the file.
    fs::remove_file(mount.at("A")).unwrap();
    assert_eq!(mount.names(""), ["a"]);
    for (arguments, code, told) in [
        (&["a", "b/c", "upper"][..], 1, "no name of a file"),
        (&["a", "a", "upper"], 1, "exists already"),
        (&["a", "b", "uppper"], 1, "did you mean"),
        (&["missing", "b", "upper"], 1, "cannot open 'missing'"),
        (&["a", "b"], 2, "NETWORK"),
    ] {
        let seen = link(arguments);
        assert_eq!(seen.code, Some(code), "{arguments:?}: {}", seen.stderr);
        assert!(seen.stderr.contains(told), "{arguments:?}: {}", seen.stderr);
    }
}

#[test]
fn stages_are_pushed_on_open_files_and_popped() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["rot13"]);
    fs::write(mount.source("a"), b"hello").unwrap();
    let file = File::open(mount.at("a")).unwrap();
    let read = || {
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let stage = |words: &[&str]| {
        let mut command = millstream([words[0]]);
        command.arg(mount.at("a")).args(&words[1..]);
        output(&mut command)
    };
    assert_eq!(read(), *b"uryyb");
    assert_eq!(stage(&["push", "upper"]).code, Some(0));
    common::wait_for("capitals", || read() == *b"URYYB");
    assert_eq!(stage(&["push", "rot13"]).code, Some(0));
    common::wait_for("turned back", || read() == *b"HELLO");
    assert_eq!(stage(&["pop"]).code, Some(0));
    assert_eq!(stage(&["pop"]).code, Some(0));
    common::wait_for("as before", || read() == *b"uryyb");
    let empty = stage(&["pop"]);
    assert_eq!((empty.code, empty.stderr.contains("no stage was pushed")), (Some(1), true), "{}", empty.stderr);
    let elsewhere = output(&mut millstream(["push", "/dev/null", "upper"]));
    assert!(elsewhere.stderr.contains("not in a directory that millstream has mounted"), "{}", elsewhere.stderr);
}

#[test]
fn mounts_are_listed_with_their_counters() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["rot13"]);
    fs::write(mount.source("a"), b"hello").unwrap();
    fs::read(mount.at("a")).unwrap();
    let listed = output(&mut millstream(["mounts"])).stdout;
    let line = listed.lines().find(|line| line.contains(mount.at("").to_str().unwrap().trim_end_matches('/')));
    assert!(line.is_some_and(|line| line.contains("5 ")), "{listed}");
    let json = output(&mut millstream(["mounts", "--stats=json"])).stdout;
    assert!(json.contains("\"bytes_read\": 5"), "{json}");
}

#[test]
fn daemon_ends_on_signals_and_when_it_is_unmounted() {
    if mounting::is_forbidden() {
        return;
    }
    let mut mount = Mounted::new(&["gunzip"]);
    fs::write(mount.at("a"), b"kept").unwrap();
    mount.signal("TERM");
    assert_eq!(mount.wait().code(), Some(0), "{}", mount.log());
    assert_eq!(mounting::piped("gzip", &["-dc"], &fs::read(mount.source("a.gz")).unwrap()), b"kept");
    let mut mount = Mounted::new(&["gunzip"]);
    assert!(Command::new("umount").arg(mount.at("")).status().unwrap().success());
    assert_eq!(mount.wait().code(), Some(0), "{}", mount.log());
    // In the background: the command returns when the directory is there.
    let mount = Mounted::in_background(&["gunzip"]);
    fs::write(mount.at("a"), b"kept").unwrap();
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"kept");
}

#[test]
fn more_files_than_descriptors_are_served() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::with_descriptors(400);
    for directory in 0..3 {
        fs::create_dir(mount.source(&directory.to_string())).unwrap();
        for file in 0..1000 {
            fs::write(mount.source(&format!("{directory}/{file}")), format!("{directory} {file}")).unwrap();
        }
    }
    let all = output(Command::new("sh").args(["-c", "cat */* | wc -c"]).current_dir(mount.at("")));
    assert_eq!((all.stdout.trim(), all.stderr.as_str()), ("14670", ""), "{}", mount.log());
    // Those that are open stay.
    let open: Vec<File> = (0..100).map(|file| File::open(mount.at(&format!("0/{file}"))).unwrap()).collect();
    assert_eq!(mount.names("2").len(), 1000);
    for (number, mut file) in open.into_iter().enumerate() {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("0 {number}"));
    }
}

#[test]
fn renamed_file_keeps_what_is_written_to_it() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    let content = |name: &str| mounting::piped("gzip", &["-dc"], &fs::read(mount.source(name)).unwrap());
    // What logrotate does.
    let mut log = File::create(mount.at("log")).unwrap();
    log.write_all(b"first ").unwrap();
    fs::rename(mount.at("log"), mount.at("log.1")).unwrap();
    fs::write(mount.at("log"), b"other").unwrap();
    log.write_all(b"second").unwrap();
    drop(log);
    assert_eq!((content("log.1.gz"), content("log.gz")), (b"first second".to_vec(), b"other".to_vec()));
    // So does a directory.
    fs::create_dir(mount.at("old")).unwrap();
    let mut file = File::create(mount.at("old/a")).unwrap();
    file.write_all(b"moved").unwrap();
    fs::rename(mount.at("old"), mount.at("new")).unwrap();
    symlink("/tmp", mount.at("old")).unwrap();
    drop(file);
    assert_eq!(content("new/a.gz"), b"moved");
    // Without a name it is there as long as it is open.
    let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(mount.at("gone")).unwrap();
    fs::remove_file(mount.at("gone")).unwrap();
    file.write_all_at(b"hello", 0).unwrap();
    file.sync_all().unwrap();
    let mut bytes = [0; 5];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, *b"hello");
    drop(file);
    assert_eq!(mount.source_names(), ["log.1.gz", "log.gz", "new", "old"]);
}

#[test]
fn views_do_not_take_their_source_with_them() {
    if mounting::is_forbidden() {
        return;
    }
    let rules = "[[rule]]\nmatch = '*.log'\nas = '*.errors'\nread = 'grep E'\nsize = 'unknown'\nshow_source = true\n";
    let mount = Mounted::with_rules(rules);
    fs::write(mount.source("a.log"), b"E\n").unwrap();
    fs::write(mount.source("new"), b"x").unwrap();
    assert_eq!(fs::remove_file(mount.at("a.errors")).unwrap_err().raw_os_error(), Some(1), "EPERM");
    assert_eq!(fs::rename(mount.at("new"), mount.at("a.errors")).unwrap_err().raw_os_error(), Some(18), "EXDEV");
    assert_eq!(mount.source_names(), ["a.log", "new"]);
    // Where a file hides another, a third does not replace the hidden one.
    let mount = Mounted::new(&["gunzip"]);
    fs::write(mount.at("b"), b"b").unwrap();
    fs::write(mount.source("a"), b"own").unwrap();
    fs::write(mount.source("a.gz"), gzip(b"precious")).unwrap();
    assert!(fs::rename(mount.at("b"), mount.at("a")).is_err());
    assert_eq!(mounting::piped("gzip", &["-dc"], &fs::read(mount.source("a.gz")).unwrap()), b"precious");
}

#[test]
fn other_users_cannot_choose_networks() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::for_others(&["rot13"]);
    fs::write(mount.source("a"), b"hello").unwrap();
    fs::set_permissions(mount.source(""), fs::Permissions::from_mode(0o777)).unwrap();
    let other = |script: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script, common::program()]);
        output(command.current_dir(mount.at("")))
    };
    let pushed = other("cat a; \"$0\" push a upper");
    assert!(pushed.stdout == "uryyb" && pushed.stderr.contains("only root and the user of the mount"), "{pushed:?}");
    let linked = other("echo mine >own && \"$0\" link own L 'exec id'");
    assert!(linked.stderr.contains("cannot set the attribute"), "{linked:?}");
    // Nor in the source: what runs is what the mount's own user has linked.
    let mut direct = Command::new("setpriv");
    direct.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(common::program());
    let direct = output(direct.args(["link", "own", "L", "exec id"]).current_dir(mount.source("")));
    assert!(direct.code == Some(0) || direct.stderr.contains("cannot set the attribute"), "{direct:?}");
    assert!(!mount.at("L").exists());
    assert_eq!(mount.names(""), ["a", "own"]);
}

#[test]
fn wrong_use_is_told_in_a_sentence() {
    let scratch = common::Scratch::new();
    let (source, point) = (scratch.path("source"), scratch.path("point"));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&point).unwrap();
    fs::write(scratch.path("rules"), "[[rule]]\nmatch = '*'\nread = 'gunzap'\n").unwrap();
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    for (arguments, code, told) in [
        (vec![path("missing"), path("point")], 125, "cannot open"),
        (vec![path("source"), path("missing")], 125, "cannot open"),
        (vec![path("source"), path("rules")], 125, "is no directory"),
        (vec![path("source"), path("source")], 125, "elsewhere"),
        (vec![path("source"), path("point"), "gunzap".into()], 2, "there is no transform 'gunzap'"),
        (vec![path("source"), path("point"), "--rules".into(), path("rules")], 2, "rule 1"),
        (vec![path("source"), path("point"), "--rules".into(), path("missing")], 2, "cannot read"),
        (vec![path("source")], 2, "MNT"),
    ] {
        let seen = output(millstream(["mount"]).args(&arguments));
        assert_eq!(seen.code, Some(code), "{arguments:?}: {}", seen.stderr);
        assert!(seen.stderr.contains(told), "{arguments:?}: {}", seen.stderr);
        assert_eq!(seen.stderr.lines().count(), 1, "{arguments:?}: {}", seen.stderr);
    }
}

#[test]
fn file_of_killed_daemon_is_removed_by_next_mount() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    fs::create_dir(mount.source("inner")).unwrap();
    // No process has a number as large as that (`proc_sys_kernel(5)`, pid_max).
    let (gone, living) = (".millstream-4194305-0", format!(".millstream-{}-0", std::process::id()));
    for directory in ["", "inner/"] {
        for name in [gone, &living, "file"] {
            fs::write(mount.source(&format!("{directory}{name}")), "x").unwrap();
        }
    }
    assert_eq!(mount.names("inner"), [&*living, "file"]);
    assert_eq!(mount.names(""), [&*living, "file", "inner"]);
    assert_eq!(mount.source_names(), [&*living, "file", "inner"]);
}

#[test]
fn hanging_command_is_ended_after_its_timeout() {
    if mounting::is_forbidden() {
        return;
    }
    let rule = |name: &str, read: &str| {
        format!("[[rule]]\nmatch = '{name}'\nread = \"exec {read}\"\nsize = 'unknown'\ntimeout = '300ms'\n")
    };
    let rules = [
        rule("asleep", "sleep 1000"),
        // It reads, and gives nothing.
        rule("silent", "sh -c 'cat >/dev/null; exec sleep 1000'"),
        // It has given everything, and does not end.
        rule("endless", "sh -c 'cat; exec >&-; exec sleep 1000'"),
        rule("fine", "cat"),
    ];
    let mount = Mounted::with_rules(&rules.concat());
    let bytes = vec![b'x'; 3_000_000];
    for name in ["asleep", "silent", "endless", "fine"] {
        fs::write(mount.source(name), &bytes).unwrap();
    }
    for (count, name) in ["asleep", "silent", "endless"].into_iter().enumerate() {
        let error = fs::read(mount.at(name)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "{name}: {error}");
        let log = mount.log();
        let line = log.lines().last().unwrap();
        assert!(line.contains(name) && line.contains("gave nothing for 300ms"), "{log}");
        assert_eq!(log.lines().count(), count + 1, "{log}");
    }
    // A program that reads slowly is not the command's fault.
    let mut file = File::open(mount.at("fine")).unwrap();
    let mut first = vec![0; 1000];
    file.read_exact(&mut first).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(first.len() + rest.len(), bytes.len());
}

#[test]
fn hanging_command_fails_the_writer_that_closes() {
    if mounting::is_forbidden() {
        return;
    }
    let rules = "[[rule]]\nmatch = '*'\nread = 'identity'\nwrite = 'exec sleep 1000'\ntimeout = '300ms'\n";
    let mount = Mounted::with_rules(rules);
    fs::write(mount.source("file"), "old").unwrap();
    let written = Command::new("sh").args(["-c", "echo new >\"$0\""]).arg(mount.at("file")).output().unwrap();
    assert!(mount.log().contains("gave nothing for 300ms"), "{written:?}: {}", mount.log());
    assert_eq!(fs::read(mount.source("file")).unwrap(), b"old");
}

#[test]
fn digest_is_that_of_what_programs_see() {
    if mounting::is_forbidden() {
        return;
    }
    let rules = "[[rule]]\nmatch = '*.gz'\nas = '*'\nread = 'gunzip'\ndigest = true\n\
                 [[rule]]\nmatch = '*.iso'\ndigest = true\n";
    let mount = Mounted::with_rules(rules);
    let sum =
        |bytes: &[u8]| String::from_utf8(mounting::piped("sha256sum", &[], bytes)).unwrap()[..64].to_owned() + "\n";
    let read = |name: &str| fs::read_to_string(mount.at(name)).unwrap();
    let bytes = text(20_000);
    fs::write(mount.source("text.gz"), gzip(&bytes)).unwrap();
    fs::write(mount.source("disk.iso"), &bytes).unwrap();
    fs::write(mount.source("none.gz"), "").unwrap();
    fs::write(mount.source("corrupt.gz"), &gzip(&bytes)[..5000]).unwrap();
    let all =
        ["corrupt", "corrupt.digest", "disk.iso", "disk.iso.digest", "none", "none.digest", "text", "text.digest"];
    assert_eq!(mount.names(""), all);
    assert_eq!(fs::metadata(mount.at("text.digest")).unwrap().len(), 65);
    assert_eq!(
        (read("text.digest"), read("disk.iso.digest"), read("none.digest")),
        (sum(&bytes), sum(&bytes), sum(b""))
    );
    assert_eq!(fs::read(mount.at("corrupt.digest")).unwrap_err().raw_os_error(), Some(5));
    // It follows the file, a second later at most, and cannot be changed by itself.
    fs::write(mount.at("text"), "other").unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!((read("text.digest"), read("text")), (sum(b"other"), "other".into()));
    assert!(fs::write(mount.at("text.digest"), "x").is_err() && fs::remove_file(mount.at("text.digest")).is_err());
    assert!(fs::rename(mount.at("text.digest"), mount.at("moved.digest")).is_err());
    fs::rename(mount.at("text"), mount.at("moved")).unwrap();
    assert_eq!(read("moved.digest"), sum(b"other"));
    fs::remove_file(mount.at("moved")).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    assert!(!mount.source("moved.gz").exists() && !mount.at("moved.digest").exists());
}

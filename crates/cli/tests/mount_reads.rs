//! Any piece of a file that a mount shows is that piece of the whole transformed stream, whatever the format and the order.

mod common;
mod mounting;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use common::{millstream, output};
use mounting::Mounted;

/// 5 MB: several blocks, checkpoints and frames.
fn sample() -> Vec<u8> {
    (0..200_000_u32).flat_map(|line| format!("{line}\t{}\n", line.wrapping_mul(2_654_435_761)).into_bytes()).collect()
}

fn bgzip(bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(60_000).chain([&[][..]]);
    blocks
        .flat_map(|block| {
            let mut packed = mounting::piped("gzip", &["-nc"], block);
            // The header says that extra fields follow, one of two bytes: the length of the block.
            packed[3] = 4;
            let len = (packed.len() + 8 - 1) as u16;
            let extra = [6, 0, b'B', b'C', 2, 0, len.to_le_bytes()[0], len.to_le_bytes()[1]];
            packed.splice(10..10, extra);
            packed
        })
        .collect()
}

/// Pieces from the end to the beginning, across the borders of blocks, behind the end, and in no order.
fn compare(mount: &Mounted, name: &str, expected: &[u8]) {
    let path = mount.at(name);
    let file = File::open(&path).unwrap();
    let mut random = 88_172_645_463_325_252_u64;
    let mut places: Vec<(usize, usize)> =
        vec![(expected.len() - 10, 100), (expected.len(), 10), (expected.len() + 99, 10), (131_000, 200), (0, 1)];
    for _ in 0..150 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        places.push((random as usize % expected.len(), (random >> 40) as usize % 300_000));
    }
    for (at, len) in places {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while filled < len {
            let read = file.read_at(&mut bytes[filled..], (at + filled) as u64);
            match read.unwrap_or_else(|error| panic!("{name}: {error}: {}", mount.log())) {
                0 => break,
                count => filled += count,
            }
        }
        let slice = &expected[at.min(expected.len())..(at + len).min(expected.len())];
        assert!(bytes[..filled] == *slice, "{name}: {len} bytes at {at}: {filled} came");
    }
    assert!(fs::read(&path).unwrap() == expected, "{name}: read in order");
    assert_eq!(fs::metadata(&path).unwrap().len(), expected.len() as u64, "{name}");
}

#[test]
fn every_piece_of_every_format_is_right() {
    if mounting::is_forbidden() {
        return;
    }
    let plain = sample();
    let halves = plain.split_at(plain.len() / 3);
    let members = [mounting::piped("gzip", &["-1c"], halves.0), mounting::piped("gzip", &["-9c"], halves.1)].concat();
    let frames = [mounting::piped("zstd", &["-qc"], halves.0), mounting::piped("zstd", &["-q9c"], halves.1)].concat();
    let seekable = common::fed(millstream(["net", "zstd -s 256K"]), &plain).0;
    let pieces = common::fed(millstream(["net", "zstd"]), &plain).0;
    let streams = [mounting::piped("xz", &["-0c"], halves.0), mounting::piped("xz", &["-0c"], halves.1)].concat();
    for (network, name, packed) in [
        ("gunzip", "one.gz", mounting::piped("gzip", &["-6c"], &plain)),
        ("gunzip", "stored.gz", common::fed(millstream(["net", "gzip -0"]), &plain).0),
        ("gunzip", "members.gz", members),
        ("gunzip", "bgzip.gz", bgzip(&plain)),
        ("unzstd", "one.zst", mounting::piped("zstd", &["-qc"], &plain)),
        ("unzstd", "frames.zst", frames),
        ("unzstd", "seekable.zst", seekable),
        ("unzstd", "pieces.zst", pieces),
        ("unxz", "one.xz", mounting::piped("xz", &["-0c"], &plain)),
        ("unxz", "blocks.xz", mounting::piped("xz", &["-0c", "--block-size=400000"], &plain)),
        ("unxz", "streams.xz", streams),
        ("unlz4", "one.lz4", common::fed(millstream(["net", "lz4"]), &plain).0),
        ("unlz4", "sized.lz4", mounting::piped("lz4", &["-cq", "--content-size"], &plain)),
        ("unbrotli", "one.br", common::fed(millstream(["net", "brotli -1"]), &plain).0),
    ] {
        let mount = Mounted::new(&[network]);
        fs::write(mount.source(name), packed).unwrap();
        compare(&mount, name.rsplit_once('.').unwrap().0, &plain);
    }
}

#[test]
fn every_piece_of_a_network_is_right() {
    if mounting::is_forbidden() {
        return;
    }
    let plain = sample();
    for line in
        ["gunzip | rot13 | increment", "gunzip | grep 7", "gunzip | hex", "gunzip | exec tr 0-4 5-9", "gunzip | base64"]
    {
        let mount = Mounted::new(&[line]);
        fs::write(mount.source("a.gz"), mounting::piped("gzip", &["-1c"], &plain)).unwrap();
        let (expected, seen) = common::fed(millstream(["net", line]), &fs::read(mount.source("a.gz")).unwrap());
        assert_eq!(seen.code, Some(0), "{line}: {}", seen.stderr);
        compare(&mount, "a", &expected);
    }
}

/// Members begin at no border of a block of the stream.
#[test]
fn every_piece_of_a_member_is_right() {
    if mounting::is_forbidden() {
        return;
    }
    let plain = sample();
    let mut holes = vec![0; 3_000_000];
    for at in (0..holes.len()).step_by(300_000) {
        holes[at + 10_000..at + 90_000].copy_from_slice(&plain[at..at + 80_000]);
    }
    let scratch = common::Scratch::new();
    fs::write(scratch.path("first"), &plain[..777_777]).unwrap();
    fs::write(scratch.path("second"), &plain).unwrap();
    fs::write(scratch.path("holes"), &holes).unwrap();
    let tar = |options: &[&str]| {
        let mut command = Command::new("tar");
        command.args(["-C"]).arg(scratch.path("")).args(options).args(["-cf", "-", "first", "second", "holes"]);
        command.output().unwrap().stdout
    };
    // Where there are zeros, the file system is to have nothing.
    let dug = Command::new("fallocate").arg("--dig-holes").arg(scratch.path("holes")).status().unwrap();
    assert!(dug.success());
    let (gnu, pax) = (tar(&["-S"]), tar(&["-S", "--format=posix"]));
    for (network, name, packed) in [
        ("identity", "gnu", gnu.clone()),
        ("identity", "pax", pax.clone()),
        ("gunzip", "gzip", mounting::piped("gzip", &["-1c"], &gnu)),
        ("gunzip", "bgzip", bgzip(&pax)),
        ("unzstd", "zstd", mounting::piped("zstd", &["-qc"], &gnu)),
        ("unzstd", "pieces", common::fed(millstream(["net", "zstd -s 256K"]), &pax).0),
        ("unxz", "blocks", mounting::piped("xz", &["-0c", "--block-size=400000"], &gnu)),
        ("unhex | exec cat", "hex", common::fed(millstream(["net", "hex"]), &gnu).0),
    ] {
        let rules = format!("[[rule]]\nmatch = '*'\nread = '{network}'\narchive = 'tar'\n");
        let mount = Mounted::with_rules(&rules);
        fs::write(mount.source(name), packed).unwrap();
        compare(&mount, &format!("{name}/first"), &plain[..777_777]);
        compare(&mount, &format!("{name}/second"), &plain);
        compare(&mount, &format!("{name}/holes"), &holes);
        assert_eq!(mount.log(), "", "{name}");
    }
}

/// A gzip file, a directory for its index, and mounts of it one after the other.
struct Kept {
    scratch: common::Scratch,
}

impl Kept {
    fn new(packed: &[u8]) -> Kept {
        let scratch = common::Scratch::new();
        fs::create_dir(scratch.path("logs")).unwrap();
        fs::write(scratch.path("logs/a.gz"), packed).unwrap();
        Kept { scratch }
    }

    fn mounted(&self) -> Mounted {
        let index = self.scratch.path("index");
        Mounted::of_source(&self.scratch.path("logs"), &["gunzip", "--index-cache", index.to_str().unwrap()])
    }

    /// The index, once it is there and the daemon writes no newer one.
    fn index(&self) -> std::path::PathBuf {
        let files = || -> Vec<_> {
            fs::read_dir(self.scratch.path("index")).unwrap().map(|entry| entry.unwrap().path()).collect()
        };
        let is_index = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "checkpoints");
        common::wait_for("one index and nothing beside it", || matches!(&files()[..], [only] if is_index(only)));
        files().remove(0)
    }

    /// Writes into the file, which has its size and its times as before.
    fn change(&self, bytes: &[u8], at: u64) {
        let path = self.scratch.path("logs/a.gz");
        let (before, file) = (fs::metadata(&path).unwrap(), fs::OpenOptions::new().write(true).open(&path).unwrap());
        file.write_all_at(bytes, at).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
        assert_eq!(file.metadata().unwrap().len(), before.len());
    }
}

#[test]
fn kept_index_lets_the_next_mount_begin_in_the_middle() {
    if mounting::is_forbidden() {
        return;
    }
    let plain = sample();
    let kept = Kept::new(&mounting::piped("gzip", &["-1c"], &plain));
    assert!(fs::read(kept.mounted().at("a")).unwrap() == plain);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(kept.index()).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    compare(&kept.mounted(), "a", &plain);
    // Of a file whose beginning is damaged, a mount with the index reads the end, and one without cannot.
    kept.change(&[0xff; 100], 1000);
    let end = plain.len() as u64 - 1000;
    let read = |mount: &Mounted, at| {
        let mut piece = vec![0; 1000];
        File::open(mount.at("a")).unwrap().read_exact_at(&mut piece, at).map(|()| piece)
    };
    let mount = kept.mounted();
    assert!(read(&mount, end).unwrap() == plain[end as usize..]);
    assert_eq!(read(&mount, 5000).unwrap_err().raw_os_error(), Some(5), "EIO");
    let mount = Mounted::of_source(&kept.scratch.path("logs"), &["gunzip"]);
    assert_eq!(read(&mount, end).unwrap_err().raw_os_error(), Some(5), "EIO");
}

#[test]
fn kept_index_is_not_believed() {
    if mounting::is_forbidden() {
        return;
    }
    let plain = sample();
    let other: Vec<u8> = plain.iter().map(u8::to_ascii_uppercase).rev().collect();
    let stored = |bytes: &[u8]| common::fed(millstream(["net", "gzip -0"]), bytes).0;
    let kept = Kept::new(&stored(&plain));
    compare(&kept.mounted(), "a", &plain);
    let good = fs::read(kept.index()).unwrap();
    // Damaged: it is made again.
    for damage in [&|bytes: &mut Vec<u8>| bytes[5000] ^= 1, &|bytes: &mut Vec<u8>| bytes.truncate(10)]
        as [&dyn Fn(&mut Vec<u8>); 2]
    {
        let mut bytes = good.clone();
        damage(&mut bytes);
        fs::write(kept.index(), bytes).unwrap();
        let mount = kept.mounted();
        compare(&mount, "a", &plain);
        common::wait_for("the index to be made again", || fs::read(kept.index()).unwrap() == good);
        assert_eq!(mount.log(), "");
    }
    // Of a file with the same size, inode and time.
    kept.change(&stored(&other), 0);
    let mount = kept.mounted();
    compare(&mount, "a", &other);
    assert_eq!(mount.log(), "");
}

#[test]
fn index_that_cannot_be_kept_does_no_harm() {
    if mounting::is_forbidden() {
        return;
    }
    let plain = sample();
    let kept = Kept::new(&mounting::piped("gzip", &["-1c"], &plain));
    let mount = kept.mounted();
    fs::remove_dir(kept.scratch.path("index")).unwrap();
    for _ in 0..3 {
        compare(&mount, "a", &plain);
    }
    common::wait_for("a line in the log", || mount.log().contains("cannot keep its index"));
    assert_eq!(mount.log().lines().count(), 1, "{}", mount.log());
    let point = kept.scratch.path("point");
    fs::create_dir(&point).unwrap();
    let mut command = millstream(["mount", "--foreground"]);
    command.arg(kept.scratch.path("logs")).arg(&point).args(["gunzip", "--index-cache"]);
    let seen = output(command.arg(point.join("index")));
    assert_eq!(seen.code, Some(125));
    assert!(seen.stderr.contains("where the files will be: keep indexes elsewhere"), "{}", seen.stderr);
}

const ATTRIBUTES: &str = "import os, sys\nfor name in os.listxattr(sys.argv[1]): print(name, os.getxattr(sys.argv[1], name).decode(), sep='=')";

#[test]
fn size_is_kept_until_the_source_changes() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    let attributes = || output(Command::new("python3").args(["-c", ATTRIBUTES]).arg(mount.source("a.gz"))).stdout;
    fs::write(mount.source("a.gz"), mounting::piped("gzip", &["-c"], b"hello")).unwrap();
    assert_eq!(fs::metadata(mount.at("a")).unwrap().len(), 5);
    let kept = attributes();
    assert!(kept.contains("user.millstream.size.") && kept.contains("=5 "), "{kept}");
    fs::write(mount.source("a.gz"), mounting::piped("gzip", &["-c"], b"hello there")).unwrap();
    common::wait_for("the new size", || fs::metadata(mount.at("a")).unwrap().len() == 11);
    assert!(attributes().contains("=11 "), "{}", attributes());
    // What is about the source is not shown as the view's.
    let shown = output(Command::new("python3").args(["-c", ATTRIBUTES]).arg(mount.at("a"))).stdout;
    assert_eq!(shown, "");
}

#[test]
fn failing_transforms_are_errors_and_others_go_on() {
    if mounting::is_forbidden() {
        return;
    }
    let rules = "[[rule]]\nmatch = 'a'\nas = 'hangs'\nread = 'exec sleep 600'\nsize = 'unknown'\nshow_source = true\n\
                 [[rule]]\nmatch = 'a'\nas = 'dies'\nread = 'exec sh -c \"head -c 3; kill -9 $$\"'\nsize = 'unknown'\nshow_source = true\n\
                 [[rule]]\nmatch = 'a'\nas = 'faults'\nread = 'error 3'\nshow_source = true\n\
                 [[rule]]\nmatch = 'a'\nas = 'fine'\nread = 'upper'\nshow_source = true\n";
    let mut mount = Mounted::with_rules(rules);
    fs::write(mount.source("a"), b"hello").unwrap();
    let path = mount.at("hangs");
    let hanging = std::thread::spawn(move || fs::read(path));
    for name in ["dies", "faults"] {
        let error = fs::read(mount.at(name)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "EIO: {name}: {error}");
    }
    assert_eq!(fs::read(mount.at("fine")).unwrap(), b"HELLO");
    let log = mount.log();
    assert!(log.contains("a: exec sh") && log.contains("killed by signal 9"), "{log}");
    assert!(log.contains("a: error 3: at byte"), "{log}");
    // The first signal waits for programs that have files open, the second does not.
    mount.signal("TERM");
    common::wait_for("unmounted", || !mount.is_there());
    mount.signal("TERM");
    assert_eq!(mount.wait().code(), Some(0));
    assert!(hanging.join().unwrap().is_err());
}

#[test]
fn damaged_sources_are_never_read_to_their_end() {
    if mounting::is_forbidden() {
        return;
    }
    let mut packed = mounting::piped("gzip", &["-1c"], &sample());
    let last = packed.len() - 6;
    packed[last] ^= 1;
    let rules = "[[rule]]\nmatch = '*.gz'\nas = '*'\nread = 'gunzip'\nsize = 'unknown'\n";
    let mount = Mounted::with_rules(rules);
    fs::write(mount.source("a.gz"), packed).unwrap();
    for _ in 0..3 {
        assert_eq!(fs::read(mount.at("a")).unwrap_err().raw_os_error(), Some(5), "EIO");
    }
    assert!(mount.log().contains("the checksum is wrong"), "{}", mount.log());
    // Where programs are told no size, what is appended still goes to the end.
    fs::write(mount.at("b"), b"hello ").unwrap();
    let mut end = fs::OpenOptions::new().append(true).open(mount.at("b")).unwrap();
    std::io::Write::write_all(&mut end, b"there").unwrap();
    drop(end);
    assert_eq!(mounting::piped("gzip", &["-dc"], &fs::read(mount.source("b.gz")).unwrap()), b"hello there");
}

#[test]
fn source_that_changes_while_it_is_read_is_an_error() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["gunzip"]);
    let plain = sample();
    fs::write(mount.source("a.gz"), mounting::piped("gzip", &["-1c"], &plain)).unwrap();
    let file = File::open(mount.at("a")).unwrap();
    file.read_exact_at(&mut [0; 10], 0).unwrap();
    fs::write(mount.source("a.gz"), mounting::piped("gzip", &["-1c"], &vec![b'B'; plain.len()])).unwrap();
    common::wait_for("the change to be seen", || {
        let _ = fs::metadata(mount.at("a"));
        let mut byte = [0];
        file.read_exact_at(&mut byte, plain.len() as u64 - 5).is_err()
    });
    assert_eq!(fs::read(mount.at("a")).unwrap(), vec![b'B'; plain.len()]);
}

#[test]
fn full_disk_leaves_the_old_version() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::over_a_small_disk(&["gunzip"]);
    fs::write(mount.at("a"), b"old").unwrap();
    let noise = mounting::piped("head", &["-c", "4000000", "/dev/urandom"], b"");
    let written = File::create(mount.at("a")).and_then(|mut file| {
        std::io::Write::write_all(&mut file, &noise)?;
        millstream_sys::written::close_copy(&file)
    });
    assert_eq!(written.unwrap_err().raw_os_error(), Some(5));
    assert!(mount.log().contains("No space left on device"), "{}", mount.log());
    assert_eq!(mounting::piped("gzip", &["-dc"], &fs::read(mount.source("a.gz")).unwrap()), b"old");
    assert_eq!(fs::read(mount.at("a")).unwrap(), b"old");
    assert_eq!(mount.source_names(), ["a.gz"]);
}

/// The protocol cannot raise it, and with the kernel's own 128 KiB a reader waits for each piece.
#[test]
fn kernel_reads_further_ahead_where_root_mounts() {
    if mounting::is_forbidden() {
        return;
    }
    let mount = Mounted::new(&["identity"]);
    let device = std::os::unix::fs::MetadataExt::dev(&fs::metadata(mount.at("")).unwrap());
    let setting = format!("/sys/class/bdi/{}:{}/read_ahead_kb", major(device), minor(device));
    if fs::OpenOptions::new().write(true).open(&setting).is_err() {
        return common::skip("mount: /sys cannot be written");
    }
    assert_eq!(fs::read_to_string(setting).unwrap().trim(), "512");
}

/// As the C library packs device numbers.
fn major(device: u64) -> u64 {
    (device >> 8) & 0xfff | (device >> 32) & !0xfff
}

fn minor(device: u64) -> u64 {
    device & 0xff | (device >> 12) & !0xff
}

/// More than the kernel reads ahead at once, from programs at several places side by side.
#[test]
fn readers_at_several_places_get_their_own_bytes() {
    if mounting::is_forbidden() {
        return;
    }
    let bytes = [sample(), sample(), sample()].concat();
    let mount = Mounted::new(&["unzstd"]);
    fs::write(mount.source("text.zst"), mounting::piped("zstd", &["-qc"], &bytes)).unwrap();
    let path = mount.at("text");
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (path, bytes, mount) = (&path, &bytes, &mount);
            scope.spawn(move || {
                let file = File::open(path).unwrap();
                let mut at = reader * bytes.len() / 5;
                let mut piece = vec![0; 300_001];
                while at < bytes.len() {
                    let count = file.read_at(&mut piece, at as u64).unwrap();
                    assert!(count > 0 && piece[..count] == bytes[at..at + count], "{count} at {at}: {}", mount.log());
                    at += count;
                }
            });
        }
    });
    assert_eq!(mount.log(), "");
}

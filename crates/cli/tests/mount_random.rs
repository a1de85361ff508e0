//! Random calls on a file of a mount, compared with the same calls on bytes in memory: what `fsx` does.

mod common;
mod mounting;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

use mounting::Mounted;

/// For each file. `MILLSTREAM_RANDOM_SECONDS=120` makes ten minutes of five networks (`make check-mount`).
fn length() -> Duration {
    let seconds = std::env::var("MILLSTREAM_RANDOM_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(3.0))
}

/// Files of one mount that are called at once: a minute of calls on all files of all networks.
const FILES: u64 = 4;

/// Runs, so that there is something to compress.
fn runs(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        bytes.extend(std::iter::repeat_n(random.u8(..), random.usize(1..=60)));
    }
    bytes.truncate(len);
    bytes
}

/// Sizes of the file, at most.
const MOST: usize = 600_000;

/// What was done lately, for the message of a failure.
type Done = Vec<String>;

/// Gives the bytes of a source as programs see them.
type Unpack = dyn Fn(&[u8]) -> Vec<u8> + Sync;

/// Calls on several files at once. `source_end`: behind the name of each source.
fn compared(network: &[&str], source_end: &str, unpack: &Unpack) {
    let seed = seed();
    let mount = Mounted::new(network);
    std::thread::scope(|scope| {
        for file in 0..FILES {
            let mount = &mount;
            scope.spawn(move || compare_file(mount, &format!("file{file}"), source_end, unpack, seed + file));
        }
    });
    let is_hidden = |name: &String| name.starts_with('.');
    assert!(mount.log().is_empty() && !mount.source_names().iter().any(is_hidden), "seed {seed}: {}", mount.log());
}

fn seed() -> u64 {
    let given = std::env::var("MILLSTREAM_SEED");
    given.map_or_else(|_| fastrand::u64(..u64::MAX / 2), |seed| seed.parse().expect("a number"))
}

fn compare_file(mount: &Mounted, name: &str, source_end: &str, unpack: &Unpack, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let (path, source) = (mount.at(name), mount.source(&format!("{name}{source_end}")));
    let mut model: Vec<u8> = Vec::new();
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    let mut file = open();
    let mut other: Option<File> = None;
    let (begun, mut done, mut calls) = (Instant::now(), Done::new(), 0);
    while begun.elapsed() < length() || calls < 200 {
        calls += 1;
        let at = random.usize(..=model.len() + model.len() / 8).min(MOST);
        let len = random.usize(..40_000).min(MOST - at);
        match random.u8(..20) {
            0..=6 => {
                done.push(format!("read {len} at {at}"));
                let mut bytes = vec![0; len];
                let reader = other.as_ref().unwrap_or(&file);
                let mut filled = 0;
                while filled < len {
                    match reader.read_at(&mut bytes[filled..], (at + filled) as u64).unwrap() {
                        0 => break,
                        count => filled += count,
                    }
                }
                let expected = &model[at.min(model.len())..(at + len).min(model.len())];
                check(&bytes[..filled], expected, &done, seed);
            }
            7..=12 => {
                done.push(format!("write {len} at {at}"));
                let bytes = runs(&mut random, len);
                file.write_all_at(&bytes, at as u64).unwrap();
                if len > 0 {
                    model.resize(model.len().max(at + len), 0);
                    model[at..at + len].copy_from_slice(&bytes);
                }
            }
            13 => {
                done.push(format!("truncate to {at}"));
                file.set_len(at as u64).unwrap();
                model.resize(at, 0);
            }
            14 => {
                done.push("append".into());
                let bytes = runs(&mut random, len.min(MOST - model.len().min(MOST)));
                file.write_all_at(&bytes, model.len() as u64).unwrap();
                model.extend_from_slice(&bytes);
            }
            15 => {
                done.push("fsync".into());
                file.sync_all().unwrap();
                check(&unpack(&fs::read(&source).unwrap()), &model, &done, seed);
            }
            16 | 17 => {
                done.push("close and open".into());
                drop(file);
                file = open();
                assert_eq!(file.metadata().unwrap().len(), model.len() as u64, "{done:?}");
            }
            18 => {
                done.push("another reader".into());
                other = if other.is_some() { None } else { Some(File::open(&path).unwrap()) };
            }
            _ => {
                done.push("size".into());
                assert_eq!(fs::metadata(&path).unwrap().len(), model.len() as u64, "seed {seed}: {done:?}");
            }
        }
        let surplus = done.len().saturating_sub(30);
        done.drain(..surplus);
    }
    drop((file, other));
    check(&fs::read(&path).unwrap(), &model, &done, seed);
    check(&unpack(&fs::read(source).unwrap()), &model, &done, seed);
    println!("{name}{source_end}: {calls} calls");
}

fn check(found: &[u8], expected: &[u8], done: &Done, seed: u64) {
    if found != expected {
        let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
        let sizes = (found.len(), expected.len());
        panic!("seed {seed}: {sizes:?} bytes, the first difference is at {same}: {done:#?}");
    }
}

#[test]
fn unbound_file_does_what_a_file_does() {
    if mounting::is_forbidden() {
        return;
    }
    compared(&[], "", &|bytes| bytes.to_vec());
}

/// Every call goes through the daemon.
#[test]
fn identity_does_what_a_file_does() {
    if mounting::is_forbidden() {
        return;
    }
    compared(&["identity"], "", &|bytes| bytes.to_vec());
}

#[test]
fn in_place_network_does_what_a_file_does() {
    if mounting::is_forbidden() {
        return;
    }
    compared(&["increment | rot13"], "", &|bytes| {
        let plus_one: Vec<u8> = bytes.iter().map(|byte| byte.wrapping_add(1)).collect();
        plus_one.iter().map(|&byte| turned(byte)).collect()
    });
}

fn turned(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => b'a' + (byte - b'a' + 13) % 26,
        b'A'..=b'Z' => b'A' + (byte - b'A' + 13) % 26,
        other => other,
    }
}

#[test]
fn compressed_file_does_what_a_file_does() {
    if mounting::is_forbidden() {
        return;
    }
    compared(&["gunzip"], ".gz", &|bytes| mounting::piped("gzip", &["-dc"], bytes));
}

#[test]
fn zstd_and_a_transform_in_place_do_what_a_file_does() {
    if mounting::is_forbidden() {
        return;
    }
    compared(&["unzstd | rot13"], ".zst", &|bytes| {
        let plain = mounting::piped("zstd", &["-dcq"], bytes);
        plain.iter().map(|&byte| turned(byte)).collect()
    });
}

/// Random members of an archive, of which some are sparse, read anywhere through a few open files.
fn compared_members(pack: &[&str], end: &str, network: &str) {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let scratch = common::Scratch::new();
    let members: Vec<Vec<u8>> = (0..random.usize(1..12)).map(|_| member(&mut random)).collect();
    for (number, bytes) in members.iter().enumerate() {
        fs::create_dir_all(scratch.path(&format!("tree/{}", number % 3))).unwrap();
        fs::write(scratch.path(&format!("tree/{}/{number}", number % 3)), bytes).unwrap();
        let file = scratch.path(&format!("tree/{}/{number}", number % 3));
        assert!(Command::new("fallocate").arg("--dig-holes").arg(file).status().unwrap().success());
    }
    let format = if random.bool() { "--format=gnu" } else { "--format=posix" };
    let tar = Command::new("tar").args(["-S", format, "-cf", "-", "-C"]).arg(scratch.path("tree")).arg(".").output();
    let rules = format!(
        "index_cache = '{}'\n[[rule]]\nmatch = '*.{end}'\nas = '*'\nread = '{network}'\narchive = 'tar'\n",
        scratch.path("index").display()
    );
    let mount = Mounted::with_rules(&rules);
    fs::write(mount.source(&format!("a.{end}")), mounting::piped(pack[0], &pack[1..], &tar.unwrap().stdout)).unwrap();
    let path = |number: usize| mount.at(&format!("a/{}/{number}", number % 3));
    let mut open: Vec<(usize, File)> = Vec::new();
    let (begun, mut done, mut calls) = (Instant::now(), Done::new(), 0);
    while begun.elapsed() < length() || calls < 200 {
        calls += 1;
        let number = random.usize(..members.len());
        match random.u8(..10) {
            0 if open.len() < 8 => open.push((number, File::open(path(number)).unwrap())),
            1 if !open.is_empty() => drop(open.swap_remove(random.usize(..open.len()))),
            2 => assert_eq!(fs::metadata(path(number)).unwrap().len(), members[number].len() as u64, "seed {seed}"),
            3 => check(&fs::read(path(number)).unwrap(), &members[number], &done, seed),
            _ if open.is_empty() => {}
            _ => {
                let (number, file) = &open[random.usize(..open.len())];
                let model = &members[*number];
                let (at, len) = (random.usize(..=model.len() + 10), random.usize(..300_000));
                done.push(format!("read {len} at {at} of {number}"));
                let (mut bytes, mut filled) = (vec![0; len], 0);
                while filled < len {
                    match file.read_at(&mut bytes[filled..], (at + filled) as u64).unwrap() {
                        0 => break,
                        count => filled += count,
                    }
                }
                let expected = &model[at.min(model.len())..(at + len).min(model.len())];
                check(&bytes[..filled], expected, &done, seed);
            }
        }
        let surplus = done.len().saturating_sub(30);
        done.drain(..surplus);
    }
    assert_eq!(mount.log(), "", "seed {seed}");
    println!("{network}: {calls} calls on {} members", members.len());
}

/// Runs, with holes between some of them.
fn member(random: &mut fastrand::Rng) -> Vec<u8> {
    let len = random.usize(..MOST * 3);
    let mut bytes = runs(random, len);
    for _ in 0..random.usize(..6) {
        let (start, end) = (random.usize(..=len), random.usize(..=len));
        bytes[start.min(end)..start.max(end)].fill(0);
    }
    bytes
}

#[test]
fn members_of_a_plain_archive_are_what_was_packed() {
    if mounting::is_forbidden() {
        return;
    }
    compared_members(&["cat"], "tar", "identity");
}

#[test]
fn members_of_a_compressed_archive_are_what_was_packed() {
    if mounting::is_forbidden() {
        return;
    }
    compared_members(&["gzip", "-1c"], "tar.gz", "gunzip");
}

//! `millstream bench file`: what it writes, what it leaves out aloud, and that it leaves nothing. No test here asserts a time.

mod common;
mod mounting;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Scratch, cells, millstream, output, wait_for};
use serde_json::Value;

/// What need not be installed.
const RIVALS: [&str; 6] = ["passthrough_ll", "bgzip", "ratarmount", "fuse-archive", "squashfuse", "gocryptfs"];

/// A size that is a multiple of nothing, and temporary files in the scratch directory.
fn bench(scratch: &Scratch, pairs: &str, arguments: &[&str]) -> Command {
    let temporary = scratch.path("temporary");
    fs::create_dir_all(&temporary).unwrap();
    let options = ["bench", "file", "--size", "300001", "--no-history", "--pairs", pairs];
    let mut command = millstream([&options, arguments].concat());
    command.env("TMPDIR", temporary);
    command
}

fn is_nothing_left(scratch: &Scratch) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let temporary = scratch.path("temporary");
    fs::read_dir(&temporary).unwrap().count() == 0 && !mounts.contains(temporary.to_str().unwrap())
}

fn workload(cell: &Value) -> &str {
    cell["params"]["workload"].as_str().unwrap()
}

#[test]
fn each_row_is_measured_and_compared() {
    if mounting::is_forbidden() {
        return;
    }
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let seen = output(&mut bench(&scratch, "5", &["--files", "30", "--json", json.to_str().unwrap()]));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let is_left_out = |line: &str| RIVALS.iter().any(|rival| line.contains(&format!("left out: {rival}: ")));
    assert!(seen.stderr.lines().all(is_left_out), "{}", seen.stderr);
    let cells = cells(&json);
    let rows: BTreeSet<&str> = cells.iter().map(workload).collect();
    let mut all = vec!["unbound", "identity", "increment", "gunzip", "zstd", "zstd-write", "open", "tar", "archive"];
    all.extend(["encrypted", "random-gzip", "memory-gzip", "random-zstd", "memory-zstd"]);
    if !seen.stderr.contains("left out: bgzip") {
        all.extend(["random-bgzip", "memory-bgzip"]);
    }
    assert_eq!(rows, all.iter().copied().collect());
    for cell in &cells {
        assert_eq!((&cell["valid"], &cell["n"]), (&true.into(), &5.into()), "{cell}");
        assert!(cell["median"].as_f64().unwrap() > 0.0, "{cell}");
    }
    for row in all {
        let of_row: Vec<&Value> = cells.iter().filter(|cell| workload(cell) == row).collect();
        let ours: Vec<&&Value> = of_row.iter().filter(|cell| cell["transport"] == "millstream").collect();
        let stages: Vec<u64> = ours.iter().filter_map(|cell| cell["params"]["stages"].as_u64()).collect();
        let expected: &[u64] = match row {
            "increment" => &[1, 2, 4, 8, 16],
            "open" => &[0, 1, 5, 25],
            _ => &[],
        };
        assert_eq!((stages.as_slice(), ours.len()), (expected, expected.len().max(1)), "{row}");
        let is_compared = |cell: &&Value| cell["ratio"].as_f64().is_some();
        assert!(row.starts_with("memory") || ours.iter().all(|cell| is_compared(cell)), "{row}");
        assert!(seen.stdout.contains(row), "{row}: {}", seen.stdout);
    }
    assert!(seen.stdout.contains("at most 20 ms") && seen.stdout.contains("0.90x zstd"), "{}", seen.stdout);
    assert!(is_nothing_left(&scratch));
}

/// A directory with nothing but these programs.
fn directory_of(scratch: &Scratch, programs: &[&str]) -> PathBuf {
    let directory = scratch.path("bin");
    fs::create_dir_all(&directory).unwrap();
    for program in programs {
        let found = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(|place| Path::new(place).join(program));
        symlink(found.iter().find(|path| path.exists()).expect(program), directory.join(program)).unwrap();
    }
    directory
}

#[test]
fn missing_program_is_left_out_aloud() {
    if mounting::is_forbidden() {
        return;
    }
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let mut command = bench(&scratch, "5", &["--only", "gunzip,zstd,zstd-write", "--json", json.to_str().unwrap()]);
    command.env("PATH", directory_of(&scratch, &["sh", "cat", "gzip", "umount"]));
    let seen = output(&mut command);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    for row in ["zstd", "zstd-write"] {
        assert!(seen.stderr.contains(&format!("left out: {row}: zstd is not installed")), "{}", seen.stderr);
    }
    assert!(cells(&json).iter().all(|cell| workload(cell) == "gunzip") && !cells(&json).is_empty());
}

#[test]
fn signal_leaves_no_mount_and_no_file() {
    if mounting::is_forbidden() {
        return;
    }
    let scratch = Scratch::new();
    let mut bench = bench(&scratch, "10000", &["--only", "unbound,identity"]);
    let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("mounts", || !is_nothing_left(&scratch));
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(Command::new("kill").arg(bench.id().to_string()).status().unwrap().success());
    assert!(!bench.wait().unwrap().success());
    assert!(is_nothing_left(&scratch));
}

#[test]
fn wrong_values_are_refused() {
    for (arguments, says) in [
        (["--only", "pigeon"], "pigeon"),
        (["--size", "63"], "a size is 64 to 4G"),
        (["--files", "0"], "--files"),
        (["--pairs", "4"], "--pairs"),
    ] {
        let seen = output(&mut millstream([&["bench", "file"], &arguments[..]].concat()));
        assert!(seen.code == Some(2) && seen.stderr.contains(says), "{arguments:?}: {seen:?}");
    }
}

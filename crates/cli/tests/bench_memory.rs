//! `millstream bench lat_mem_rd`, `bw_file_rd`, `bw_mmap_rd`, `memcpy` and `cache_to_cache`: what they write, what they check,
//! and how they refuse. No test here asserts a time.

mod common;

use std::fs;
use std::process::Command;

use common::{Scratch, Seen, bench, cells, millstream, output, program};
use serde_json::Value;

/// Runs with `--json`; every cell must be valid, with its figures.
fn measured(arguments: &[&str]) -> (Seen, Vec<Value>) {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let seen = bench(&[arguments, &["--rounds", "5", "--json", json.to_str().unwrap()]].concat());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    assert!(seen.stdout.contains("CPUs, Linux"), "{seen:?}");
    let cells = cells(&json);
    for cell in &cells {
        assert_eq!(cell["method"], arguments[0]);
        assert_eq!((&cell["valid"], &cell["why_invalid"], &cell["n"]), (&true.into(), &Value::Null, &5.into()));
        assert!(cell["median"].as_f64().unwrap() > 0.0 && cell["ratio"].is_null(), "{cell}");
    }
    (seen, cells)
}

fn params<'a>(cells: &'a [Value], name: &str) -> Vec<&'a Value> {
    cells.iter().map(|cell| &cell["params"][name]).collect()
}

#[test]
fn every_pattern_and_stride_that_is_asked_for_is_walked() {
    let arguments = ["lat_mem_rd", "--size", "16k,4k,16k", "--stride", "64,8k", "--pages", "4k", "--seed", "7"];
    let (seen, cells) = measured(&arguments);
    // In 4 KiB there is neither a second page nor a second place 8 KiB away.
    assert_eq!(cells.len(), 2 + 5);
    assert_eq!(params(&cells[..2], "workload"), ["random", "sequential"]);
    assert_eq!(params(&cells[2..], "workload"), ["random", "random", "tlb", "sequential", "sequential"]);
    assert_eq!(params(&cells[2..], "stride"), [64, 8192, 4096, 64, 8192]);
    assert_eq!(params(&cells[2..], "seed"), [&7.into(), &7.into(), &7.into(), &Value::Null, &Value::Null]);
    assert!(cells.iter().all(|cell| cell["unit"] == "ns" && cell["params"]["pages"] == 4096));
    assert!(seen.stdout.contains("random/64/4k") && seen.stdout.contains("seq/8k/4k"), "{seen:?}");
}

/// Huge pages are a matter of the machine's settings and of free memory: either they are there, or the cell says why not.
#[test]
fn missing_huge_pages_give_no_number() {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let arguments = ["lat_mem_rd", "--size", "8m", "--pattern", "random,tlb", "--pages", "2m", "--rounds", "5"];
    let seen = bench(&[&arguments[..], &["--json", json.to_str().unwrap()]].concat());
    let cells = cells(&json);
    assert_eq!(params(&cells, "pages"), [2 << 20, 2 << 20]);
    for cell in &cells {
        let why = cell["why_invalid"].as_str();
        assert_eq!(cell["median"].is_null(), why.is_some(), "{cell}");
        assert!(why.is_none_or(|why| why.contains("pages of 2 MiB") || why.contains("huge pages")), "{cell}");
    }
    let is_valid = cells.iter().all(|cell| cell["valid"] == true);
    assert_eq!(seen.code, Some(if is_valid { 0 } else { 3 }), "{seen:?}");
}

#[test]
fn the_study_is_repeated_with_its_parameters_and_its_averages() {
    let (seen, cells) = measured(&["lat_mem_rd", "--seed-faithful"]);
    // 14 sizes by 13 strides, without those that are not twice the stride.
    assert_eq!(cells.len(), 14 * 13 - (1..=6).sum::<usize>());
    assert!(cells.iter().all(|cell| cell["params"]["summary"] == "average"));
    assert!(seen.stdout.contains("averages as in the study"), "{seen:?}");
    assert!(seen.stdout.contains("Stride 8192 bytes, 8m, "), "{seen:?}");
}

#[test]
fn missing_memory_makes_its_cell_invalid() {
    // The limit of an address space is the same to a program as a machine without memory.
    let limited = format!(
        "ulimit -v 200000; exec {} bench lat_mem_rd --size 4k,256m --pattern random --pages 4k --rounds 5",
        program()
    );
    let seen = output(Command::new("bash").args(["-c", &limited]));
    assert_eq!(seen.code, Some(3), "{seen:?}");
    let line = seen.stdout.lines().find(|line| line.starts_with("not valid: lat_mem_rd random/64/4k 256m")).unwrap();
    assert!(line.contains("memory") && !line.contains("signal"), "{line}");
    assert_eq!(seen.stdout.matches("not valid").count(), 1, "{seen:?}");
}

#[test]
fn a_cached_file_is_read_and_mapped() {
    let (_, read) = measured(&["bw_file_rd", "--seed-faithful"]);
    assert_eq!(params(&read, "workload"), ["io_only", "open2close"]);
    assert_eq!(params(&read, "size"), [8_388_608, 8_388_608]);
    assert_eq!(params(&read, "transfer"), [65536, 65536]);
    let (_, mapped) = measured(&["bw_mmap_rd"]);
    assert_eq!(params(&mapped, "workload"), ["mmap_only", "open2close"]);
    assert!(read.iter().chain(&mapped).all(|cell| cell["unit"] == "MB/s" && cell["placement"] == "1cpu"));
}

#[test]
fn own_file_is_measured_and_no_file_is_left() {
    let scratch = Scratch::new();
    let text = scratch.file("text", &"0123456\n".repeat(10_000));
    for method in ["bw_file_rd", "bw_mmap_rd"] {
        let (_, cells) = measured(&[method, "--file", &text, "--workload", "open2close"]);
        assert!(cells.iter().all(|cell| cell["params"]["size"] == 80_000));
        let empty = scratch.path(method);
        fs::create_dir(&empty).unwrap();
        let seen = output(millstream(["bench", method, "--rounds", "5"]).env("TMPDIR", &empty));
        assert_eq!((seen.code, fs::read_dir(&empty).unwrap().count()), (Some(0), 0), "{seen:?}");
    }
}

#[test]
fn a_copy_and_a_line_have_their_bounds() {
    let (_, cells) = measured(&["memcpy", "--size", "1000,64k"]);
    assert_eq!(params(&cells, "size"), [1000, 65536]);
    let (_, cells) = measured(&["cache_to_cache", "--size", "16k"]);
    assert_eq!(params(&cells, "workload"), ["ping_pong", "read"]);
    assert_eq!((&cells[0]["unit"], &cells[1]["unit"]), (&"ns".into(), &"MB/s".into()));
    assert!(cells.iter().all(|cell| cell["placement"] == "2cpu"));
}

#[test]
fn a_line_needs_two_cpus() {
    let arguments = ["bench", "cache_to_cache", "--workload", "ping_pong", "--rounds", "5"];
    let seen = output(Command::new("taskset").args(["-c", "0", program()]).args(arguments));
    assert_eq!(seen.code, Some(3), "{seen:?}");
    assert!(seen.stdout.contains("this process may use only one CPU"), "{seen:?}");
}

#[test]
fn wrong_use_fails_with_one_sentence() {
    let scratch = Scratch::new();
    let short = scratch.file("short", "abc");
    for (arguments, code, says) in [
        (&["lat_mem_rd", "--size", "256"][..], 2, "a size is 512 to 4G"),
        (&["lat_mem_rd", "--size", "5G"], 2, "a size is 512 to 4G"),
        (&["lat_mem_rd", "--stride", "12"], 2, "a stride is a multiple of 8 bytes"),
        (&["lat_mem_rd", "--pattern", "backwards"], 2, "backwards"),
        (&["lat_mem_rd", "--pages", "1g"], 2, "1g"),
        (&["lat_mem_rd", "--seed-faithful", "--size", "4k"], 2, "cannot be used with"),
        (&["lat_mem_rd", "--size", "4k", "--stride", "8k", "--pattern", "sequential"], 2, "nothing was measured"),
        (&["bw_file_rd", "--file", "/nonexistent"], 125, "cannot measure over '/nonexistent'"),
        (&["bw_mmap_rd", "--file", &short], 125, "less than 8 bytes"),
        (&["bw_file_rd", "--transfer", "10"], 2, "a read is a multiple of 8 bytes"),
        (&["memcpy", "--size", "3G"], 2, "a copy is at most 2G"),
        (&["cache_to_cache", "--size", "65M"], 2, "at most 64M"),
        (&["memcpy", "--rounds", "4"], 2, "--rounds"),
    ] {
        let seen = bench(arguments);
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(code), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says), "{says:?} in {seen:?}");
    }
}

//! Programs that move bytes by `splice`, `sendfile`, `readv` and `writev`: their pipes are attached as those of `read` and `write` are,
//! and every byte arrives.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use common::{Scratch, can_attach, mostly, output, statistics};
use over_ring::{ENDS, MANY, Programs, over_ring_with, said};

static PROGRAMS: LazyLock<Programs> =
    LazyLock::new(|| Programs::built(&[("E", ENDS, &[]), ("M", include_str!("other_calls/mover.c"), &[])]));

/// Runs a pipeline between two programs that check every byte. Returns what share of all bytes was in shared memory.
fn share_of(options: &[&str], between: &str) -> f64 {
    let scratch = Scratch::new();
    let stats = scratch.path("stats.json");
    let options = [options, &["--stats=json", "--stats-file", stats.to_str().unwrap()]].concat();
    let script = format!("$E write {MANY} call | {between} | $E read 0 call; echo ${{PIPESTATUS[@]}}");
    let seen = output(&mut over_ring_with(&options, &script));
    assert_eq!(said(&seen, "read"), [MANY], "{between}: {seen:?}");
    assert!(seen.stdout.split_whitespace().all(|status| status == "0"), "{between}: {seen:?}");
    let stats = statistics(&stats);
    for pipe in stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["origin"] == "pipe") {
        assert_eq!(pipe["bytes"], MANY, "{between}: {pipe}");
    }
    in_ring(&stats) as f64 / sum(&stats, |pipe| pipe["bytes"].as_u64()) as f64
}

fn in_ring(stats: &Value) -> u64 {
    sum(stats, |pipe| pipe["written"]["ring"]["bytes"].as_u64())
}

fn sum(stats: &Value, of: fn(&Value) -> Option<u64>) -> u64 {
    stats["pipes"].as_array().unwrap().iter().filter_map(of).sum()
}

#[test]
fn pipes_of_programs_that_splice_are_attached() {
    for between in ["$M splice", "$M vector", "$M splice | $M vector | $M splice", "$M splice | cat | $M splice"] {
        let is_shared = mostly(|| share_of(&[], between) > 0.5);
        assert_eq!(is_shared, can_attach(), "{between}");
    }
}

#[test]
fn signals_interrupt_moved_bytes_without_loss() {
    for way in ["splice", "vector"] {
        let between = format!("$M signals {way} | $M {way} | $M signals {way}");
        for options in [&[][..], &["--ring-after", "1"]] {
            for _ in 0..3 {
                share_of(options, &between);
            }
        }
    }
}

#[test]
fn spliced_bytes_come_from_files() {
    let scratch = Scratch::new();
    let content: Vec<u8> = (0..MANY).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    fs::write(scratch.path("in"), &content).unwrap();
    let stats = scratch.path("stats.json");
    for way in ["splice", "sendfile"] {
        let is_shared = mostly(|| {
            let script = format!("cd {}; $M {way} <in | cat >out", scratch.path("").display());
            let options = ["--ring-after", "4M", "--stats=json", "--stats-file", stats.to_str().unwrap()];
            let seen = output(&mut over_ring_with(&options, &script));
            assert_eq!(seen.code, Some(0), "{seen:?}");
            assert!(fs::read(scratch.path("out")).unwrap() == content, "{way}");
            in_ring(&statistics(&stats)) > MANY / 2
        });
        assert_eq!(is_shared, can_attach(), "{way}");
    }
}

/// The kernel hands on the pages of the file: memory would copy them twice.
#[test]
fn pipe_filled_from_a_file_by_splice_stays_with_the_kernel() {
    let scratch = Scratch::new();
    let stats = scratch.path("stats.json");
    for way in ["splice", "sendfile"] {
        let script =
            format!("cd {}; head -c {MANY} /dev/zero >in; $M {way} <in | cat >out", scratch.path("").display());
        let seen = output(&mut over_ring_with(&["--stats=json", "--stats-file", stats.to_str().unwrap()], &script));
        assert_eq!((seen.code, fs::metadata(scratch.path("out")).unwrap().len()), (Some(0), MANY), "{seen:?}");
        let stats = statistics(&stats);
        assert_eq!((in_ring(&stats), sum(&stats, |pipe| pipe["written"]["bytes"].as_u64())), (0, MANY), "{stats}");
    }
}

/// libgcc, which each of them loads, has the code of a return from a signal handler among its constants.
#[test]
fn program_in_cpp_is_attached() {
    let scratch = Scratch::new();
    let source = "#include <iostream>\n#include <vector>\n#include <unistd.h>\nint main() {\n\
                  std::vector<char> room(65536);\nssize_t got;\n\
                  while ((got = read(0, room.data(), room.size())) > 0)\n\
                  if (!std::cout.write(room.data(), got)) return 1;\nreturn got < 0 || !std::cout.flush();\n}";
    let program = scratch.compile("g++", "copy.cc", source, &[]);
    let loaded = output(std::process::Command::new("ldd").arg(&program)).stdout;
    assert!(loaded.contains("libgcc_s"), "{loaded}");
    assert_eq!(mostly(|| share_of(&[], &program) > 0.5), can_attach());
}

/// The kernel splices to a file, and says whether it can: to one that appends it cannot, and nothing is moved then.
#[test]
fn splice_to_a_file_is_the_kernels() {
    let scratch = Scratch::new();
    let out = scratch.path("out");
    let script = |to: &str| {
        let before = "head -c 20000000 /dev/zero | (head -c 4194304 >/dev/null; exec $M splice";
        format!("{before} {to}{}); echo ${{PIPESTATUS[1]}}", out.display())
    };
    for options in [&[][..], &["--ring-after", "1"]] {
        let seen = output(&mut over_ring_with(options, &script(">")));
        let len = fs::metadata(&out).unwrap().len();
        assert!(seen.stdout == "0\n" && len > 15_000_000 && len <= 15_805_696, "{len} {seen:?}");
        fs::write(&out, "").unwrap();
        let seen = output(&mut over_ring_with(options, &script(">>")));
        assert_eq!((seen.stdout.as_str(), fs::metadata(&out).unwrap().len()), ("1\n", 0), "{seen:?}");
    }
}

/// A reader of the run that stops reads nothing; a signal ends a program that splices to it all the same.
#[test]
fn signal_ends_a_splice_to_a_full_pipe() {
    let script = "yes | timeout -s TERM 1 $M splice | (sleep 3; wc -c >/dev/null); echo ${PIPESTATUS[1]}";
    for options in [&[][..], &["--ring-after", "1"]] {
        let began = std::time::Instant::now();
        let seen = output(&mut over_ring_with(options, script));
        assert_eq!(seen.stdout, "124\n", "{seen:?} after {:?}", began.elapsed());
    }
}

#[test]
fn splice_without_its_reader_ends_by_sigpipe() {
    let script = "head -c 20000000 /dev/zero | $M splice | head -c 3000000 | wc -c; echo ${PIPESTATUS[@]}";
    for options in [&[][..], &["--ring-after", "1"]] {
        let seen = output(&mut over_ring_with(options, script));
        assert_eq!(seen.stdout, "3000000\n141 141 0 0\n", "{seen:?}");
    }
}

//! `millstream bench grep`: what it writes, what it checks, and how it refuses. No test here asserts a time.

mod common;

use std::fs;

use common::{Scratch, Seen, cells, millstream, output};

fn bench(arguments: &[&str]) -> Seen {
    output(&mut millstream([&["bench", "grep"], arguments].concat()))
}

/// Big enough to fill a pipe several times.
fn text(scratch: &Scratch) -> String {
    scratch.file("text", &"the quick brown fox\n".repeat(50_000))
}

#[test]
fn every_cell_has_its_figures_and_its_raw_samples() {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let seen = bench(&["--file", &text(&scratch), "--pairs", "5", "--json", json.to_str().unwrap()]);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    let cells = cells(&json);
    // Two transports for each of three pipelines at two placements, and grep on the file itself.
    assert_eq!(cells.len(), 14);
    for cell in &cells {
        assert_eq!(
            (&cell["method"], &cell["unit"], &cell["valid"], &cell["n"]),
            (&"grep".into(), &"ms".into(), &true.into(), &5.into())
        );
        assert_eq!(cell["samples"].as_array().unwrap().len(), 5);
        assert_eq!(cell["params"]["size"], 1_000_000);
        let median = cell["median"].as_f64().unwrap();
        let interval: Vec<f64> = cell["ci95"].as_array().unwrap().iter().map(|bound| bound.as_f64().unwrap()).collect();
        assert!(median > 0.0 && interval[0] <= median && median <= interval[1]);
        let is_baseline = cell["transport"] == "pipe";
        assert_eq!(cell["ratio"].is_null(), is_baseline);
        assert_eq!(cell["ratio_ci95"].is_null(), is_baseline);
    }
    for workload in ["grep", "cat-cat", "cat-wc"] {
        for placement in ["1cpu", "2cpu"] {
            for transport in ["pipe", "millstream"] {
                let matching = cells.iter().filter(|cell| {
                    cell["params"]["workload"] == workload
                        && cell["placement"] == placement
                        && cell["transport"] == transport
                });
                assert_eq!(matching.count(), 1, "{workload} {placement} {transport}");
            }
        }
    }
    for shown in ["cat FILE | grep ABSENT", "+165 %", "95 % interval", "1 MB"] {
        assert!(seen.stdout.contains(shown), "{shown}: {}", seen.stdout);
    }
}

#[test]
fn pattern_that_occurs_makes_its_cells_invalid() {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let seen = bench(&[
        "--file",
        &text(&scratch),
        "--pairs",
        "5",
        "--pattern",
        "brown",
        "--workload",
        "grep",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!(seen.code, Some(3));
    assert!(seen.stdout.contains("the pattern occurs in the text"), "{seen:?}");
    for cell in cells(&json) {
        assert_eq!(
            (&cell["valid"], &cell["median"], &cell["ratio"]),
            (&false.into(), &serde_json::Value::Null, &serde_json::Value::Null)
        );
        assert!(cell["why_invalid"].as_str().unwrap().contains("the pattern occurs"));
    }
}

#[test]
fn missing_cpus_are_not_measured() {
    let scratch = Scratch::new();
    let text = text(&scratch);
    let arguments = ["bench", "grep", "--no-history", "--file", &text, "--pairs", "5", "--workload", "cat-wc"];
    let seen = output(std::process::Command::new("taskset").args(["-c", "0", common::program()]).args(arguments));
    assert_eq!(seen.code, Some(3), "{seen:?}");
    assert!(
        seen.stdout.contains("not valid: cat-wc over millstream at 2cpu: this process may use only one CPU"),
        "{seen:?}"
    );
}

/// A `cat` that drops its last bytes must not become a fast cell.
#[test]
fn lost_bytes_of_a_stage_are_found() {
    let scratch = Scratch::new();
    let text = text(&scratch);
    scratch.executable("cat", "#!/bin/sh\n[ $# = 0 ] && exec /bin/cat\nhead -c -500 -- \"$2\"\n");
    let path = format!("{}:/usr/bin:/bin", scratch.path("").display());
    for workload in ["cat-cat", "cat-wc", "grep"] {
        let arguments = ["bench", "grep", "--file", &text, "--pairs", "5", "--workload", workload];
        let seen = output(millstream(arguments).env("PATH", &path));
        assert_eq!(seen.code, Some(3), "{workload}: {seen:?}");
        assert!(seen.stdout.contains("999500 of 1000000 bytes"), "{workload}: {seen:?}");
    }
}

#[test]
fn unprivileged_user_can_measure() {
    let scratch = Scratch::new();
    let text = text(&scratch);
    let program = scratch.installed();
    let seen = output(
        std::process::Command::new("setpriv")
            .args(["--reuid", "64125", "--regid", "64125", "--clear-groups"])
            .arg(program)
            .args(["bench", "grep", "--no-history", "--file", &text, "--pairs", "5"])
            .env("PATH", "/usr/bin:/bin"),
    );
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
}

#[test]
fn text_is_collected_once_and_kept() {
    let scratch = Scratch::new();
    let cache = scratch.path("cache");
    let run = || {
        let seen = output(
            millstream(["bench", "grep", "--pairs", "5", "--workload", "cat-cat", "--placement", "1cpu"])
                .env("XDG_CACHE_HOME", &cache),
        );
        assert_eq!(seen.code, Some(0), "{seen:?}");
        fs::metadata(cache.join("millstream/text-50MB")).unwrap()
    };
    let (first, second) = (run(), run());
    assert_eq!(first.len(), 50_000_000);
    assert_eq!(first.modified().unwrap(), second.modified().unwrap());
    assert_eq!(fs::read_dir(cache.join("millstream")).unwrap().count(), 1, "nothing half-written is left");
}

#[test]
fn wrong_use_fails_with_one_sentence() {
    let scratch = Scratch::new();
    let empty = scratch.file("empty", "");
    for (arguments, code, says) in [
        (&["--file", "/nonexistent"][..], 125, "cannot measure over '/nonexistent'"),
        (&["--file", &empty], 125, "the text is empty"),
        (&["--json", "/nonexistent/out.json"], 2, "cannot write '/nonexistent/out.json'"),
        (&["--pairs", "4"], 2, "--pairs"),
        (&["--workload", "tac"], 2, "tac"),
        (&["--placement", "3cpu"], 2, "3cpu"),
    ] {
        let seen = bench(arguments);
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(code), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says), "{says:?} in {seen:?}");
    }
}

#[test]
fn full_disk_for_the_json_is_an_error() {
    let scratch = Scratch::new();
    let seen = bench(&[
        "--file",
        &text(&scratch),
        "--pairs",
        "5",
        "--workload",
        "cat-cat",
        "--placement",
        "1cpu",
        "--json",
        "/dev/full",
    ]);
    assert_eq!(seen.code, Some(125), "{seen:?}");
    assert!(seen.stderr.contains("cannot write '/dev/full'"), "{seen:?}");
}

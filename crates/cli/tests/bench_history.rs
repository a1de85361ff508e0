//! `millstream bench history`, and what a measurement leaves: files, the standard output, the history. No test here
//! asserts a time.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Scratch, Seen, millstream, output, set_mode, wait_for};
use serde_json::Value;

/// The smallest measurement.
const SMALL: [&str; 9] =
    ["bench", "bw_pipe", "--transfer", "4k", "--placement", "1cpu", "--transport", "pipe,millstream", "--rounds=5"];

fn with_data(data: &Path, arguments: &[&str]) -> Command {
    let mut command = millstream(arguments);
    command.env("XDG_DATA_HOME", data);
    command
}

fn measure(data: &Path, more: &[&str]) -> Seen {
    output(&mut with_data(data, &[&SMALL[..], more].concat()))
}

fn history(data: &Path, arguments: &[&str]) -> Seen {
    output(&mut with_data(data, &[&["bench", "history"], arguments].concat()))
}

fn listed(data: &Path, arguments: &[&str]) -> Vec<Value> {
    let seen = history(data, &[arguments, &["--json"]].concat());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    serde_json::from_str(&seen.stdout).unwrap()
}

fn database(data: &Path) -> PathBuf {
    data.join("millstream/bench.db")
}

/// Runs SQL with another program's SQLite.
fn sql(data: &Path, statement: &str) -> String {
    let script =
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute(sys.argv[2]).fetchall()); c.commit()";
    let seen = output(Command::new("python3").args(["-c", script]).arg(database(data)).arg(statement));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    seen.stdout
}

#[test]
fn run_is_kept_with_all_its_samples_and_listed() {
    let scratch = Scratch::new();
    let (data, json) = (scratch.path("data"), scratch.path("out.json"));
    assert_eq!(history(&data, &[]).stdout, "No run was kept yet.\n");
    assert!(!data.exists(), "looking makes nothing");
    let first = measure(&data, &["--json", json.to_str().unwrap()]);
    assert_eq!((first.code, first.stderr.as_str()), (Some(0), ""), "{first:?}");
    assert_eq!(measure(&data, &["--no-history"]).code, Some(0));
    assert_eq!(measure(&data, &[]).code, Some(0));

    let runs = listed(&data, &[]);
    let numbers: Vec<_> = runs.iter().map(|run| run["number"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [2, 1]);
    assert_eq!((&runs[0]["methods"], &runs[0]["cells"]), (&serde_json::json!(["bw_pipe"]), &2.into()));
    let shown = history(&data, &["show", "1", "--json"]).stdout;
    assert_eq!(shown, fs::read_to_string(&json).unwrap());
    assert_eq!(history(&data, &["show", "1"]).stdout, first.stdout);
    assert!(history(&data, &[]).stdout.contains("bw_pipe"));
    assert_eq!(sql(&data, "SELECT run, count(*), count(median) FROM cells GROUP BY run"), "[(1, 2, 2), (2, 2, 2)]\n");

    let fingerprint = runs[0]["fingerprint"].as_str().unwrap();
    assert_eq!((fingerprint.len(), runs[1]["fingerprint"].as_str()), (16, Some(fingerprint)));
    for (arguments, count) in [
        (&["--machine"][..], 2),
        (&[&*format!("--machine={fingerprint}")], 2),
        (&["--machine=0123456789abcdef"], 0),
        (&["--method", "bw_pipe"], 2),
        (&["--method", "grep"], 0),
        (&["--limit", "1"], 1),
    ] {
        assert_eq!(listed(&data, arguments).len(), count, "{arguments:?}");
    }
    assert_eq!(history(&data, &["prune", "--keep", "1"]).stdout, "1 runs forgotten.\n");
    assert_eq!(listed(&data, &[])[0]["number"], 2);
    assert_eq!(sql(&data, "SELECT DISTINCT run FROM cells"), "[(2,)]\n");
    let gone = history(&data, &["show", "1"]);
    assert_eq!(gone.code, Some(2));
    assert!(gone.stderr.contains("there is no run 1 in the history"), "{gone:?}");
}

#[test]
fn a_row_for_each_cell_goes_to_a_file_or_the_standard_output() {
    let scratch = Scratch::new();
    let (data, csv) = (scratch.path("data"), scratch.path("out.csv"));
    let seen = measure(&data, &["--csv", csv.to_str().unwrap(), "--json", "-"]);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    let document: Value = serde_json::from_str(&seen.stdout).unwrap();
    let text = fs::read_to_string(&csv).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("began,machine,method,transport,placement,params,unit,median,"), "{text}");
    let median = document["cells"][1]["median"].to_string();
    assert!(
        lines[2].contains(&format!(
            ",bw_pipe,millstream,1cpu,\"{{\"\"transfer\"\":4096,\"\"workload\"\":\"\"hot\"\"}}\",MB/s,{median},"
        )),
        "{text}"
    );

    let seen = measure(&data, &["--csv", "-", "--no-history"]);
    assert_eq!((seen.stdout.lines().count(), seen.stderr.as_str()), (3, ""), "nothing but rows: {seen:?}");
    for (arguments, says) in [
        (&["--csv", "-", "--json", "-"][..], "cannot both be -"),
        (&["--csv", "/nonexistent/out.csv"], "cannot write '/nonexistent/out.csv'"),
    ] {
        let seen = measure(&data, arguments);
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(2), 1), "{seen:?}");
        assert!(seen.stderr.contains(says), "{seen:?}");
    }
}

#[test]
fn runs_that_end_together_are_all_kept() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    let start = || with_data(&data, &SMALL).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for run in Vec::from_iter((0..4).map(|_| start())) {
        let seen = Seen::from(run.wait_with_output().unwrap());
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    }
    assert_eq!(listed(&data, &[]).len(), 4);
}

/// What is lost is the history, never the measurement.
fn assert_only_warned(seen: &Seen, says: &str) {
    assert_eq!((seen.code, seen.stderr.lines().count()), (Some(0), 1), "{seen:?}");
    assert!(seen.stdout.starts_with("GB/s"), "{seen:?}");
    assert!(seen.stderr.contains(says) && seen.stderr.contains("the run was measured but not kept"), "{seen:?}");
}

#[test]
fn unwritable_history_causes_a_warning() {
    let scratch = Scratch::new();
    let no_home = output(millstream(SMALL).env_remove("XDG_DATA_HOME").env_remove("HOME"));
    assert_only_warned(&no_home, "neither XDG_DATA_HOME nor HOME is set");
    let relative = output(millstream(SMALL).env("XDG_DATA_HOME", "here").env_remove("HOME"));
    assert_only_warned(&relative, "neither XDG_DATA_HOME nor HOME is set");

    let file = PathBuf::from(scratch.file("file", "in the way"));
    assert_only_warned(&measure(&file, &[]), "cannot make the history");

    let broken = scratch.path("broken");
    fs::create_dir_all(broken.join("millstream")).unwrap();
    fs::write(database(&broken), "no database at all, but long enough to be looked at".repeat(100)).unwrap();
    assert_only_warned(&measure(&broken, &[]), "file is not a database");
    assert_eq!(history(&broken, &[]).code, Some(125));

    let full = scratch.path("full");
    assert_eq!(measure(&full, &[]).code, Some(0));
    // A disk that is full for this process: no file may grow beyond a page, and the journal of a change is larger than that.
    // The kernel's pipe alone, because shared memory is a file too.
    let limited = "ulimit -f 4; trap '' XFSZ; exec \"$@\"";
    let mut shell = Command::new("bash");
    shell.args(["-c", limited, "bash", common::program()]).args([
        "bench",
        "bw_pipe",
        "--transfer",
        "4k",
        "--placement",
        "1cpu",
    ]);
    shell.args(["--transport", "pipe", "--rounds=5"]).env("XDG_DATA_HOME", &full);
    let seen = output(&mut shell);
    assert_only_warned(&seen, "cannot write the history");
    assert_eq!(listed(&full, &[]).len(), 1, "what was there is still there");
}

/// Another user, because root may write everywhere.
#[test]
fn unreadable_directory_causes_a_warning() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o555);
    let seen = output(
        Command::new("setpriv")
            .args(["--reuid", "64127", "--regid", "64127", "--clear-groups"])
            .arg(scratch.installed())
            .args(SMALL)
            .env("XDG_DATA_HOME", &data),
    );
    assert_only_warned(&seen, "cannot make the history");
}

#[test]
fn history_of_a_newer_program_is_left_alone() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    assert_eq!(measure(&data, &[]).code, Some(0));
    sql(&data, "PRAGMA user_version = 7");
    assert_only_warned(&measure(&data, &[]), "has format 7, and this millstream knows none after 1");
    let seen = history(&data, &[]);
    assert_eq!((seen.code, seen.stderr.lines().count()), (Some(125), 1), "{seen:?}");
    assert!(seen.stderr.contains("update millstream"), "{seen:?}");
    assert_eq!(sql(&data, "SELECT count(*) FROM runs"), "[(1,)]\n");
}

#[test]
fn history_waits_for_another_writer() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    assert_eq!(measure(&data, &[]).code, Some(0));
    let ready = scratch.path("ready");
    let hold = "import sqlite3, sys, time\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\nc.execute('BEGIN EXCLUSIVE')\n\
                open(sys.argv[2], 'w').close()\ntime.sleep(2)\nc.execute('COMMIT')";
    let mut holder = Command::new("python3").args(["-c", hold]).arg(database(&data)).arg(&ready).spawn().unwrap();
    wait_for("the lock", || ready.exists());
    let seen = measure(&data, &[]);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    holder.wait().unwrap();
    assert_eq!(listed(&data, &[]).len(), 2);
}

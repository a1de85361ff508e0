//! `millstream bench corpus`: what it says of pipelines, and that it leaves nothing. No test here asserts a time.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Scratch, Seen, millstream, output, wait_for};
use serde_json::Value;

const BRIEF: [&str; 4] = ["--size", "512K", "--pairs", "5"];
const SHORT: [&str; 6] = ["--size", "512K", "--pairs", "5", "--placement", "1cpu"];

fn corpus(scratch: &Scratch, list: &str, arguments: &[&str]) -> Seen {
    let list = scratch.file("list.txt", list);
    output(&mut command(scratch, &[&["--corpus", &list], arguments].concat()))
}

fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = millstream([&["bench", "corpus"], arguments].concat());
    command.env("XDG_CACHE_HOME", scratch.path("cache"));
    command
}

/// What has been measured. Whether something was slower depends on the machine's mood.
fn report(scratch: &Scratch, list: &str) -> Value {
    report_with(scratch, list, &SHORT)
}

fn report_with(scratch: &Scratch, list: &str, options: &[&str]) -> Value {
    let json = scratch.path("out.json");
    let seen = corpus(scratch, list, &[options, &["--json", json.to_str().unwrap()]].concat());
    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    let expected = match report["outcome"].as_str().unwrap() {
        "fine" => 0,
        "slower" | "failed" => 1,
        outcome => panic!("{outcome}: {seen:?}"),
    };
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(expected), ""), "{seen:?}");
    report
}

#[test]
fn report_has_bytes_and_times_of_each_pipeline() {
    let scratch = Scratch::new();
    let list = "[own]\nclass: text\ndata: own-data\ncat \"$DATA/own-data\" | tr a-z A-Z | wc -c\n\n\
                [data own-data]\ndata: text\nhead -c 400000 \"$DATA/text\" >\"$OUT\"\n";
    // What nothing above makes is not there.
    let seen = corpus(&scratch, list, &SHORT);
    assert!(seen.code == Some(2) && seen.stderr.contains("'own' reads 'own-data'"), "{seen:?}");
    let (pipeline, data) = list.split_once("\n\n").unwrap();
    let report = report(&scratch, &format!("{data}\n{pipeline}\n"));
    assert_eq!(report["schema"], "millstream bench corpus 1");
    let row = &report["rows"][0];
    assert_eq!((&row["name"], &row["class"], &row["error"]), (&"own".into(), &"text".into(), &Value::Null));
    assert!(row["bytes"].as_u64().unwrap() >= 800_000, "{row}");
    let placed = &row["placements"][0];
    assert_eq!(placed["placement"], "1cpu");
    for side in ["bare", "run"] {
        let times = placed[side].as_array().unwrap();
        assert!(times.len() == 5 && times.iter().all(|time| time.as_f64().unwrap() > 0.0), "{placed}");
    }
    assert_eq!(report["bytes"], row["bytes"]);
}

/// The CPUs of one placement are not those of the next.
#[test]
fn report_has_both_placements_of_several_pipelines() {
    let scratch = Scratch::new();
    let report = report_with(&scratch, "[first]\necho a | wc -c\n[second]\necho b | wc -c\n", &BRIEF);
    for row in report["rows"].as_array().unwrap() {
        let placements = row["placements"].as_array().unwrap().iter().map(|placed| placed["placement"].as_str());
        assert!(placements.eq([Some("2cpu"), Some("1cpu")]) && row["error"].is_null(), "{row}");
    }
    assert_eq!(report["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn report_counts_bytes_in_shared_memory() {
    if !common::can_attach() {
        return;
    }
    let scratch = Scratch::new();
    let report = report(&scratch, "[own]\nclass: text\nhead -c 30000000 /dev/zero | tr x y | wc -c\n");
    let row = &report["rows"][0];
    let [shared, bytes] = ["shared_bytes", "bytes"].map(|key| row[key].as_u64().unwrap());
    assert!(bytes >= 60_000_000 && shared > bytes / 4 && shared <= bytes, "{row}");
}

#[test]
fn report_fails_when_output_differs() {
    let scratch = Scratch::new();
    let report = report(&scratch, "[other]\necho \"$LD_PRELOAD$MILLSTREAM_RUN\" | wc -c\n[same]\necho a | wc -c\n");
    assert_eq!(report["outcome"], "failed");
    assert!(report["rows"][0]["error"].as_str().unwrap().contains("prints something else"), "{report}");
    assert_eq!(report["rows"][1]["error"], Value::Null);
}

#[test]
fn run_that_hangs_is_ended_and_fails() {
    let scratch = Scratch::new();
    let list =
        "[always]\nexec sleep 1235.5\n[under-run]\n[ -z \"$MILLSTREAM_RUN\" ] || exec sleep 1235.5\necho a | wc -c\n";
    let report = report_with(&scratch, list, &[&SHORT[..], &["--limit", "1"]].concat());
    assert_eq!(report["outcome"], "failed");
    assert!(report["left_out"].to_string().contains("by itself it did not end within 1 s"), "{report}");
    let row = &report["rows"][0];
    let error = "under 'millstream run' it did not end within 1 s";
    assert_eq!((&row["name"], &row["error"]), (&"under-run".into(), &error.into()), "{report}");
    assert_eq!(output(Command::new("pgrep").args(["-f", "^sleep 1235.5"])).stdout, "");
}

/// The first pipeline of each kind in the program's own list works, with little data. What is not installed is left out.
#[test]
fn own_list_works_for_each_kind_of_pipeline() {
    let scratch = Scratch::new();
    let listed = output(&mut command(&scratch, &["--list"])).stdout;
    let mut chosen: Vec<(&str, &str)> = Vec::new();
    for line in listed.lines().filter(|line| !line.contains("not installed")) {
        let mut words = line.split_whitespace();
        let (name, class) = (words.next().unwrap(), words.next().unwrap());
        if chosen.iter().all(|&(_, other)| other != class) {
            chosen.push((name, class));
        }
    }
    let names: Vec<&str> = chosen.iter().map(|&(name, _)| name).collect();
    assert!(names.len() >= 10, "{names:?}");
    let json = scratch.path("out.json");
    let options = ["--only", &names.join(","), "--json", json.to_str().unwrap()];
    let seen = output(&mut command(&scratch, &[&SHORT[..], &options].concat()));
    let report: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    println!("{} pipelines of the own list: {names:?}", names.len());
    let works = |row: &Value| row["error"].is_null() && row["placements"].as_array().unwrap().len() == 1;
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() == names.len() && rows.iter().all(works), "{seen:?}: {report}");
}

#[test]
fn report_names_what_is_left_out() {
    let scratch = Scratch::new();
    let list = "[absent]\nneeds: no-such-command cat\ncat | wc\n[broken]\necho it is broken >&2; exit 3\n\
                [data none]\necho no room >&2; exit 1\n[dataless]\ndata: none\ncat\n";
    let seen = corpus(&scratch, list, &SHORT);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(3), ""), "{seen:?}");
    for says in [
        "0 pipelines",
        "left out: absent: not installed: no-such-command",
        "left out: broken: fails by itself: exit status: 3: it is broken",
        "left out: dataless: cannot make",
        "no room",
    ] {
        assert!(seen.stdout.contains(says), "{says}: {seen:?}");
    }
}

#[test]
fn list_shows_chosen_pipelines() {
    let scratch = Scratch::new();
    let seen = output(&mut command(&scratch, &["--list"]));
    assert!(seen.code == Some(0) && seen.stdout.lines().count() >= 60, "{seen:?}");
    let seen = output(&mut command(&scratch, &["--list", "--only", "seq-wc,dd-dd"]));
    let names: Vec<_> = seen.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["seq-wc", "dd-dd"]);
}

#[test]
fn signal_ends_processes_and_removes_directory() {
    let scratch = Scratch::new();
    let list = scratch.file("list.txt", "[long]\necho >\"$DATA/began\"; exec sleep 1234.5\n");
    let store = scratch.path("cache/millstream/corpus-1-524288");
    let sleeps = || output(Command::new("pgrep").args(["-f", "^sleep 1234.5"])).stdout;
    for signal in ["-TERM", "-INT", "-HUP"] {
        let _ = fs::remove_file(store.join("began"));
        let mut child =
            command(&scratch, &["--corpus", &list, "--size", "512K"]).stdout(Stdio::null()).spawn().unwrap();
        wait_for("the pipeline", || store.join("began").exists() && !sleeps().is_empty());
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        assert!(!child.wait().unwrap().success(), "{signal}");
        wait_for("the end of all processes", || sleeps().is_empty());
        assert!(!has_run_directory(&store), "{signal}");
    }
    // What was killed without a word has left a directory, which the next one removes.
    fs::create_dir(store.join("run.4194305")).unwrap();
    assert_eq!(corpus(&scratch, "[short]\necho a | wc -c\n", &SHORT).stderr, "");
    assert!(!has_run_directory(&store));
}

fn has_run_directory(store: &Path) -> bool {
    fs::read_dir(store).unwrap().any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("run."))
}

#[test]
fn wrong_use_fails_with_one_sentence() {
    let scratch = Scratch::new();
    for (arguments, says) in [
        (&["--only", "no-such-pipeline"][..], "no pipeline 'no-such-pipeline'"),
        (&["--corpus", "/no/such/list"], "cannot use '/no/such/list'"),
        (&["--size", "1K"], "from 256K to 4G"),
        (&["--pairs", "2"], "2 is not in 5"),
        (&["--limit", "0"], "0 is not in 1"),
        (&["--json", "/no/such/directory/file"], "cannot write"),
    ] {
        let seen = output(&mut command(&scratch, arguments));
        assert_eq!((seen.code, seen.stdout.as_str()), (Some(2), ""), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says) && seen.stderr.lines().count() == 1, "{arguments:?}: {seen:?}");
    }
    let seen = output(command(&scratch, &["--only", "seq-wc"]).env_remove("XDG_CACHE_HOME").env_remove("HOME"));
    assert!(seen.code == Some(125) && seen.stderr.contains("XDG_CACHE_HOME"), "{seen:?}");
}

//! `millstream bench compare`: what it finds, what it does not, and its exit statuses. No test here asserts a time: where
//! one run must be slower than another, its samples are changed by hand.

mod common;

use std::fs;
use std::path::Path;

use common::{Scratch, Seen, millstream, output};
use serde_json::Value;

fn with_data(scratch: &Scratch, arguments: &[&str]) -> Seen {
    output(millstream(arguments).env("XDG_DATA_HOME", scratch.path("data")))
}

/// Over five transports, or those that `more` names.
fn measured(scratch: &Scratch, name: &str, more: &[&str]) -> String {
    let five = ["--transport", "pipe,pipe-1m,millstream,spsc-bare,memcpy-twice"];
    let more = if more.contains(&"--transport") { more } else { &[&five[..], more].concat() };
    let path = scratch.path(name).to_str().unwrap().to_owned();
    let arguments = ["bench", "bw_pipe", "--transfer", "4k", "--placement", "1cpu", "--json", &path];
    let seen = with_data(scratch, &[&arguments[..], more].concat());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    path
}

fn compare(scratch: &Scratch, arguments: &[&str]) -> Seen {
    with_data(scratch, &[&["bench", "compare"], arguments].concat())
}

fn report(scratch: &Scratch, arguments: &[&str]) -> (Value, Option<i32>) {
    let seen = compare(scratch, &[arguments, &["--json"]].concat());
    assert_eq!(seen.stderr, "", "{seen:?}");
    (serde_json::from_str(&seen.stdout).unwrap(), seen.code)
}

/// A measurement with something changed.
fn planted(scratch: &Scratch, from: &str, name: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut document: Value = serde_json::from_str(&fs::read_to_string(from).unwrap()).unwrap();
    change(&mut document);
    scratch.file(name, &document.to_string())
}

fn cell<'a>(document: &'a mut Value, transport: &str) -> &'a mut Value {
    document["cells"].as_array_mut().unwrap().iter_mut().find(|cell| cell["transport"] == transport).unwrap()
}

/// Samples around `speed` that differ by less than a percent, as those of a quiet machine.
fn quiet(document: &mut Value, transport: &str, speed: f64) {
    let cell = cell(document, transport);
    let count = cell["samples"].as_array().unwrap().len();
    let samples: Vec<f64> = (0..count).map(|i| speed * (1.0 + 0.001 * (i * 7 % 11) as f64)).collect();
    cell["samples"] = samples.into();
    cell["noise_ci95"] = vec![0.99, 1.01].into();
    cell["median"] = speed.into();
}

fn quiet_machine(document: &mut Value) {
    for (transport, speed) in [("pipe", 3000.0), ("pipe-1m", 3200.0), ("millstream", 9000.0), ("spsc-bare", 9500.0)] {
        quiet(document, transport, speed);
    }
    quiet(document, "memcpy-twice", 20_000.0);
}

#[test]
fn run_compared_with_itself_is_never_worse() {
    let scratch = Scratch::new();
    let (a, b) = (measured(&scratch, "a.json", &[]), measured(&scratch, "b.json", &[]));
    let (itself, code) = report(&scratch, &[&a, &a]);
    assert!(code == Some(0) || code == Some(2), "{itself}");
    for change in itself["changes"].as_array().unwrap() {
        assert_eq!((&change["change"], &change["absolute"]), (&1.0.into(), &1.0.into()));
        assert!(change["verdict"] == "same" || change["verdict"] == "inconclusive", "{change}");
    }
    let (other, _) = report(&scratch, &[&a, &b]);
    assert_eq!(other["schema"], "millstream bench compare 1");
    assert_eq!(other["changes"].as_array().unwrap().len(), 5);
    let table = compare(&scratch, &[&a, &b]).stdout;
    assert!(table.contains("millstream") && table.contains(&format!("{b} against {a}: ")), "{table}");
}

#[test]
fn loss_of_a_tenth_is_found() {
    let scratch = Scratch::new();
    let real = measured(&scratch, "real.json", &[]);
    let a = planted(&scratch, &real, "a.json", quiet_machine);
    let b = planted(&scratch, &a, "b.json", |document| {
        for sample in cell(document, "millstream")["samples"].as_array_mut().unwrap() {
            *sample = (sample.as_f64().unwrap() / 1.1).into();
        }
    });
    let (found, code) = report(&scratch, &[&a, &b]);
    assert_eq!((code, &found["outcome"]), (Some(1), &"worse".into()), "{found}");
    for change in found["changes"].as_array().unwrap() {
        let is_slowed = change["transport"] == "millstream";
        assert_eq!(change["verdict"], if is_slowed { "worse" } else { "same" }, "{change}");
    }
    let seen = compare(&scratch, &[&a, &b]);
    let first = seen.stdout.lines().nth(1).unwrap();
    assert!(first.trim_start().starts_with("worse") && first.contains("-9.1 %"), "{seen:?}");
    assert_eq!(report(&scratch, &[&b, &a]).1, Some(0), "the other way round it is better");
}

#[test]
fn failed_cell_makes_comparison_invalid() {
    let scratch = Scratch::new();
    let real = measured(&scratch, "real.json", &[]);
    let broken = planted(&scratch, &real, "broken.json", |document| {
        let cell = cell(document, "millstream");
        cell["valid"] = false.into();
        cell["median"] = Value::Null;
        cell["why_invalid"] = "a byte was lost".into();
    });
    for arguments in [[&real, &broken], [&broken, &real]] {
        let seen = compare(&scratch, &arguments.map(String::as_str));
        assert_eq!(seen.code, Some(3), "{seen:?}");
        assert!(seen.stdout.contains("a byte was lost"), "{seen:?}");
    }
}

#[test]
fn other_parameters_are_listed_and_other_machines_are_refused() {
    let scratch = Scratch::new();
    let a = measured(&scratch, "a.json", &["--transport", "pipe,millstream", "--rounds=5"]);
    let b =
        planted(&scratch, &a, "b.json", |document| cell(document, "millstream")["params"]["transfer"] = 8192.into());
    let seen = compare(&scratch, &[&a, &b]);
    assert!(seen.stdout.contains("bw_pipe 8192 hot over millstream at 1cpu"), "{seen:?}");
    let nothing = planted(&scratch, &a, "none.json", |document| document["cells"] = Value::Array(Vec::new()));
    let seen = compare(&scratch, &[&a, &nothing]);
    assert_eq!(seen.code, Some(3), "{seen:?}");
    assert!(seen.stdout.contains("no cell is on both sides"), "{seen:?}");

    let far = planted(&scratch, &a, "far.json", |document| document["machine"]["cpus"] = 64.into());
    let seen = compare(&scratch, &[&a, &far]);
    assert_eq!((seen.code, seen.stderr.lines().count()), (Some(3), 1), "{seen:?}");
    assert!(seen.stderr.contains("different machines") && seen.stderr.contains("--across-machines"), "{seen:?}");
    assert_ne!(compare(&scratch, &[&a, &far, "--across-machines"]).code, Some(3));
}

#[test]
fn the_history_is_compared_by_number_and_by_word() {
    let scratch = Scratch::new();
    let seen = compare(&scratch, &[]);
    assert_eq!(seen.code, Some(3));
    assert!(seen.stderr.contains("no run was kept yet"), "{seen:?}");
    let small = ["--transport", "pipe,millstream", "--rounds=5"];
    let first = measured(&scratch, "1.json", &small);
    let seen = compare(&scratch, &[]);
    assert_eq!(seen.code, Some(3), "a run is no baseline of itself: {seen:?}");
    assert!(seen.stderr.contains("no valid run on this machine from before"), "{seen:?}");
    measured(&scratch, "2.json", &small);
    let third = measured(&scratch, "3.json", &small);
    for (arguments, runs) in [
        (&[][..], 2),
        (&["baseline", "last"], 2),
        (&["--runs", "1"], 1),
        (&["1", "3"], 1),
        (&["2", "last"], 1),
        (&["baseline", &third], 2),
        (&[&first, "last"], 1),
    ] {
        let (report, _) = report(&scratch, arguments);
        assert_eq!(report["a"]["runs"], runs, "{arguments:?}");
        assert_eq!(report["changes"].as_array().unwrap().len(), 2, "{arguments:?}");
    }
}

#[test]
fn unreadable_results_fail_with_one_sentence() {
    let scratch = Scratch::new();
    let a = measured(&scratch, "a.json", &["--transport", "pipe,millstream", "--rounds=5"]);
    let old = planted(&scratch, &a, "old.json", |document| document["schema"] = "millstream bench 1".into());
    let broken = planted(&scratch, &a, "broken.json", |document| document["cells"] = 5.into());
    let placeless = planted(&scratch, &a, "placeless.json", |document| {
        cell(document, "millstream")["params"].as_object_mut().unwrap().remove("transfer");
    });
    let text = scratch.file("text", "no JSON");
    for (arguments, says, code) in [
        (&[&*a, "/nonexistent.json"][..], "cannot read '/nonexistent.json'", 3),
        (&[&a, &text], "is not JSON", 3),
        (&[&a, &old], "was written by an older millstream", 3),
        (&[&a, &broken], "is damaged", 3),
        (&[&a, &placeless], "cell 2, of bw_pipe, has no number 'transfer'", 3),
        (&[&a, "77"], "there is no run 77 in the history", 3),
        (&["baseline", "baseline"], "not with itself", 2),
        (&[&a, &a, &a], "unexpected argument", 2),
    ] {
        let seen = compare(&scratch, arguments);
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(code), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says), "{says:?} in {seen:?}");
    }
}

/// So that the statistics are asked about more than one machine's noise: real runs, the second scaled.
#[test]
fn half_the_speed_is_worse_or_inconclusive_and_never_the_same() {
    let scratch = Scratch::new();
    let a = measured(&scratch, "a.json", &[]);
    let b = planted(&scratch, &a, "b.json", |document| {
        for sample in cell(document, "millstream")["samples"].as_array_mut().unwrap() {
            *sample = (sample.as_f64().unwrap() / 2.0).into();
        }
    });
    let (found, code) = report(&scratch, &[&a, &b]);
    assert!(Path::new(&a).exists() && (code == Some(1) || code == Some(2)), "{found}");
}

//! `millstream bench seeds`: the table, what it is made of, and how it refuses. No test here asserts a time.

mod common;

use std::collections::BTreeSet;
use std::fs;

use common::{Scratch, Seen, millstream, output};
use serde_json::Value;

fn bench(arguments: &[&str]) -> Seen {
    output(&mut millstream([&["bench", "seeds"], arguments].concat()))
}

#[test]
fn the_table_has_a_row_for_each_cell_of_the_study_with_its_figures() {
    let scratch = Scratch::new();
    let (json, text) = (scratch.path("out.json"), scratch.path("text"));
    fs::write(&text, "nothing to be found here\n".repeat(200_000)).unwrap();
    let short = ["--rounds", "5", "--transfer", "64k,2k", "--seconds", "0.01", "--file", text.to_str().unwrap()];
    let seen = bench(&[&short[..], &["--json", json.to_str().unwrap()]].concat());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");

    let document: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let cells = document["cells"].as_array().unwrap();
    assert!(cells.iter().all(|cell| cell["valid"] == true && cell["median"].as_f64().unwrap() > 0.0), "{document}");
    let texts = |key: &str| cells.iter().map(|cell| cell[key].as_str().unwrap()).collect::<BTreeSet<_>>();
    assert_eq!(texts("method"), BTreeSet::from(["bw_pipe", "grep", "pipeflex"]));
    assert_eq!(texts("placement"), BTreeSet::from(["1cpu", "2cpu"]));

    // Above each placement's rows the title and the columns, first the two CPUs as in the study.
    let rows: Vec<Vec<&str>> = seen.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let of = |first: &str| rows.iter().filter(|row| row.first() == Some(&first)).collect::<Vec<_>>();
    let (grep, bw_pipe, pipeflex) = (of("grep"), of("bw_pipe"), of("pipeflex"));
    assert_eq!((grep.len(), bw_pipe.len(), pipeflex.len()), (2, 4, 4), "{}", seen.stdout);
    let ends_with = |row: &[&str], figures: &str| assert!(row.join(" ").ends_with(figures), "{row:?} not {figures}");
    ends_with(grep[0], "+165 % +40 % +203 %");
    ends_with(grep[1], "-3 % -53 % -3 %");
    ends_with(bw_pipe[0], "+4 % +54 % +102 %");
    ends_with(bw_pipe[3], "-35 % +27 % +26 %");
    ends_with(pipeflex[1], "+276 % -15 % +338 %");
    assert!(seen.stdout.contains("on other hardware"), "{}", seen.stdout);
}

#[test]
fn parts_of_the_table_can_be_chosen() {
    let chosen = ["--method", "bw_pipe", "--transfer", "4k", "--placement", "1cpu", "--rounds", "5"];
    let seen = bench(&chosen);
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let words = |first: &str| seen.stdout.lines().filter(|line| line.trim_start().starts_with(first)).count();
    assert_eq!((words("bw_pipe"), words("pipeflex"), words("grep")), (1, 0, 0), "{seen:?}");
    assert!(seen.stdout.contains("integrated") && !seen.stdout.contains("own CPU"), "{seen:?}");
}

#[test]
fn wrong_use_fails_with_one_sentence() {
    for (arguments, says) in [
        (&["--method", "lat_pipe"][..], "lat_pipe"),
        (&["--transfer", "17M"], "at most 16M"),
        (&["--seconds", "0"], "0.01 to 600 seconds"),
        (&["--rounds", "4"], "--rounds"),
        (&["--json", "/nonexistent/out.json"], "cannot write '/nonexistent/out.json'"),
    ] {
        let seen = bench(arguments);
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(2), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says), "{says:?} in {seen:?}");
    }
    let seen = bench(&["--method", "grep", "--file", "/nonexistent"]);
    assert!(seen.code == Some(125) && seen.stderr.contains("cannot measure over '/nonexistent'"), "{seen:?}");
}

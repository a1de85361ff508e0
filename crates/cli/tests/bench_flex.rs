//! `millstream bench pipeflex`, `fifo_grid` and `increment`: what they write, what they check, and how they refuse. No test here
//! asserts a time.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use common::{Scratch, bench, cells, children, kill, millstream, output, program, wait_for};
use serde_json::Value;

/// Runs with `--json`; every cell must be valid. Returns the cells and the table.
fn measured(arguments: &[&str]) -> (Vec<Value>, String) {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let seen = bench(&[arguments, &["--json", json.to_str().unwrap()]].concat());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    let cells = cells(&json);
    for cell in &cells {
        assert_eq!((&cell["valid"], &cell["why_invalid"]), (&true.into(), &Value::Null), "{cell}");
        assert!(cell["median"].as_f64().unwrap() > 0.0);
        for launch in cell["launches"].as_array().unwrap() {
            assert!(launch["operations"].as_u64().unwrap() > 0, "{launch}");
        }
    }
    (cells, seen.stdout)
}

fn texts(cells: &[Value], key: &str) -> BTreeSet<String> {
    cells.iter().map(|cell| cell[key].as_str().unwrap().to_owned()).collect()
}

fn numbers(cells: &[Value], parameter: &str) -> BTreeSet<u64> {
    cells.iter().map(|cell| cell["params"][parameter].as_u64().unwrap()).collect()
}

fn set<T: Ord, const N: usize>(items: [T; N]) -> BTreeSet<T> {
    BTreeSet::from(items)
}

#[test]
fn pipeflex_takes_the_options_of_the_study() {
    let options = "-c 4 -t 0.02 -x 30 -y 5 -w 512 -r 4k,2k,4K -o 0 -m 0";
    let arguments: Vec<&str> = ["pipeflex", "--rounds", "5"].into_iter().chain(options.split(' ')).collect();
    let (cells, table) = measured(&arguments);
    assert_eq!(cells.len(), 2 * 3 * 2, "two reads, three transports, two placements");
    assert_eq!(texts(&cells, "transport"), set(["pipe", "pipe-1m", "millstream"].map(str::to_owned)));
    assert_eq!((texts(&cells, "unit"), numbers(&cells, "transfer")), (set(["MB/s".into()]), set([2048, 4096])));
    for (parameter, value) in [("processes", 4), ("reader_us", 30), ("writer_us", 5), ("size", 512), ("seed", 2002)] {
        assert_eq!(numbers(&cells, parameter), set([value]), "{parameter}");
    }
    for cell in &cells {
        assert_eq!((&cell["params"]["workload"], &cell["params"]["seconds"]), (&"own".into(), &0.02.into()));
        let pids: BTreeSet<u64> = cell["launches"][0]["telemetry"]["pids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pid| pid.as_u64().unwrap())
            .collect();
        assert_eq!(pids.len(), 4);
    }
    assert!(table.contains("launches of 0.02 s") && !table.contains("2002,"), "{table}");
}

#[test]
fn pipeflex_has_the_shapes_of_pipelines_and_the_study_s_runs() {
    let short = ["-t", "0.01", "--rounds", "5", "--placement", "1cpu", "--transport", "pipe,millstream"];
    let (cells, table) = measured(&[&["pipeflex"], &short[..]].concat());
    let workload = |cell: &Value| cell["params"]["workload"].as_str().unwrap().to_owned();
    let workloads: Vec<String> = cells.iter().map(workload).collect();
    let count = |name: &str| workloads.iter().filter(|workload| *workload == name).count();
    assert_eq!(["study", "grep", "cat-wc", "cat-sort", "gunzip-tar", "no-compute"].map(count), [20, 2, 2, 2, 2, 6]);
    assert!(table.contains("LP+ZC") && table.contains("on other hardware"), "{table}");
    let (cells, _) = measured(&[&["pipeflex", "--workload", "grep,cat-wc"], &short[..]].concat());
    assert_eq!(cells.iter().map(workload).collect::<BTreeSet<_>>(), set(["grep".into(), "cat-wc".into()]));
}

#[test]
fn pipeflex_is_faithful_in_all_but_its_duration() {
    let arguments = ["pipeflex", "--seed-faithful", "--placement", "1cpu", "--transport", "pipe", "--rounds", "5"];
    let (cells, _) = measured(&arguments);
    assert_eq!(numbers(&cells, "transfer"), set([2, 4, 6, 8, 12, 16, 24, 32, 64, 128].map(|kib| kib << 10)));
    for (parameter, value) in [("processes", 2), ("reader_us", 500), ("writer_us", 0), ("size", 512)] {
        assert_eq!(numbers(&cells, parameter), set([value]), "{parameter}");
    }
    assert!(cells.iter().all(|cell| cell["params"]["seconds"] == 0.1));
}

/// Each launch is killed at once, so that no test waits for minutes: what it was asked for is in its cell.
#[test]
fn pipeflex_of_the_study_s_duration_takes_20_seconds_for_each_sample() {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let mut command = millstream(["bench", "pipeflex", "--seed-faithful", "--exact-duration", "--transport", "pipe"]);
    let mut bench = command.arg("--json").arg(&json).stdout(Stdio::null()).spawn().unwrap();
    wait_for("the end of the measurement", || {
        children(bench.id()).into_iter().for_each(kill);
        bench.try_wait().unwrap().is_some()
    });
    assert_eq!(bench.wait().unwrap().code(), Some(3));
    let cells = cells(&json);
    assert_eq!(cells.len(), 2 * 10);
    for cell in &cells {
        assert_eq!((&cell["params"]["seconds"], &cell["valid"]), (&20.0.into(), &false.into()), "{cell}");
    }
}

#[test]
fn fifo_grid_gives_every_repetition_of_every_transport() {
    let grid = ["--size", "64,3000,64", "--messages", "7,100", "--repetitions", "3", "--rounds", "5"];
    let (cells, table) = measured(&[&["fifo_grid"], &grid[..]].concat());
    assert_eq!(cells.len(), 2 * 2 * 5 * 2, "sizes, counts, transports, placements");
    let transports = ["fifo", "pipe", "unix", "millstream", "millstream-fifo"];
    assert_eq!(texts(&cells, "transport"), set(transports.map(str::to_owned)));
    assert_eq!(texts(&cells, "placement"), set(["1cpu", "2cpu"].map(str::to_owned)));
    assert_eq!((numbers(&cells, "size"), numbers(&cells, "messages")), (set([64, 3000]), set([7, 100])));
    for cell in &cells {
        assert_eq!((&cell["unit"], &cell["n"]), (&"us".into(), &15.into()));
        let messages = cell["params"]["messages"].as_u64().unwrap();
        let launches = cell["launches"].as_array().unwrap();
        assert!(launches.iter().all(|launch| launch["operations"] == 3 * messages && launch["samples"] == 3));
        assert_eq!(cell["ratio"].is_null(), cell["transport"] == "fifo");
    }
    assert!(table.contains("15 repetitions in 5 launches") && table.contains("% faster than fifo"), "{table}");
}

#[test]
fn increment_gives_every_way_of_every_number_of_stages() {
    let small = ["--size", "300001", "--stages", "0,3,1,3", "--rounds", "5"];
    let (cells, table) = measured(&[&["increment"], &small[..]].concat());
    assert_eq!(cells.len(), 3 * 5 * 2, "numbers of stages, ways, placements");
    let ways = ["pipe", "pipe-tight", "millstream", "millstream-net-1", "millstream-net"];
    assert_eq!(texts(&cells, "transport"), set(ways.map(str::to_owned)));
    assert_eq!(texts(&cells, "placement"), set(["1cpu", "2cpu"].map(str::to_owned)));
    assert_eq!((numbers(&cells, "stages"), numbers(&cells, "size")), (set([0, 1, 3]), set([300_001])));
    for cell in &cells {
        assert_eq!((&cell["unit"], &cell["n"], &cell["valid"]), (&"ms".into(), &5.into(), &true.into()), "{cell:?}");
        let stages = cell["params"]["stages"].as_u64().unwrap();
        let processes = match cell["transport"].as_str().unwrap() {
            "pipe" | "millstream" => stages + 2,
            "pipe-tight" => stages.max(1),
            _ => 1,
        };
        let pids = cell["launches"][0]["telemetry"]["pids"].as_array().unwrap();
        assert_eq!(pids.len() as u64, processes, "{cell:?}");
    }
    assert!(table.contains("a + b N, the line of least squares"), "{table}");
}

#[test]
fn fifo_grid_leaves_no_name_behind() {
    let scratch = Scratch::new();
    let mut command = millstream(["bench", "fifo_grid", "--size", "64", "--messages", "10", "--transport", "fifo"]);
    let seen = output(command.args(["--rounds", "5"]).env("TMPDIR", scratch.path("")));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 0);
}

#[test]
fn fifo_that_cannot_be_made_is_not_measured() {
    let mut command = millstream(["bench", "fifo_grid", "--size", "64", "--messages", "10", "--placement", "1cpu"]);
    let seen = output(command.args(["--rounds", "5"]).env("TMPDIR", "/nonexistent"));
    assert_eq!(seen.code, Some(3), "{seen:?}");
    for transport in ["fifo", "millstream-fifo"] {
        let why = format!(
            "not valid: 10 messages of 64 bytes over {transport} at 1cpu: cannot make the directory '/nonexistent/"
        );
        assert!(seen.stdout.contains(&why), "{seen:?}");
    }
    assert_eq!(seen.stdout.matches("not valid").count(), 2, "{seen:?}");
}

#[test]
fn missing_cpus_are_not_measured() {
    for arguments in
        [&["pipeflex", "--workload", "grep", "-t", "0.01"][..], &["fifo_grid", "--size", "64", "--messages", "9"]]
    {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", program(), "bench"]).args(arguments).args([
            "--rounds",
            "5",
            "--transport",
            "millstream",
        ]);
        let seen = output(&mut command);
        assert_eq!(seen.code, Some(3), "{seen:?}");
        assert!(seen.stdout.contains("over millstream at 2cpu: this process may use only one CPU"), "{seen:?}");
        assert_eq!(seen.stdout.matches("not valid").count(), 1, "{seen:?}");
    }
}

#[test]
fn wrong_use_fails_with_one_sentence() {
    for (arguments, says) in [
        (&["pipeflex", "-c", "3"][..], "an even number from 2 to 64"),
        (&["pipeflex", "-c", "0"], "an even number from 2 to 64"),
        (&["pipeflex", "-c", "66"], "an even number from 2 to 64"),
        (&["pipeflex", "-c", "many"], "an even number from 2 to 64"),
        (&["pipeflex", "-t", "0"], "0.01 to 600 seconds"),
        (&["pipeflex", "-t", "NaN"], "0.01 to 600 seconds"),
        (&["pipeflex", "-t", "601"], "0.01 to 600 seconds"),
        (&["pipeflex", "-x", "1000001"], "1000001"),
        (&["pipeflex", "-y", "-1"], "-1"),
        (&["pipeflex", "-r", "0"], "invalid value '0' for '--read <BYTES>'"),
        (&["pipeflex", "-r", "4k,17M"], "at most 16M"),
        (&["pipeflex", "-w", "0"], "invalid value '0' for '--write <BYTES>'"),
        (&["pipeflex", "-o", "1"], "nothing else can be done"),
        (&["pipeflex", "-m", "x"], "nothing else can be done"),
        (&["pipeflex", "--workload", "sed"], "sed"),
        (&["pipeflex", "--workload", "grep", "-x", "5"], "cannot be used with"),
        (&["pipeflex", "--seed-faithful", "-c", "4"], "cannot be used with"),
        (&["pipeflex", "--exact-duration"], "--seed-faithful"),
        (&["pipeflex", "--transport", "fifo"], "fifo"),
        (&["increment", "--size", "63"], "a size is 64 to 4G"),
        (&["increment", "--stages", "65"], "--stages"),
        (&["increment", "--way", "pigeon"], "pigeon"),
        (&["fifo_grid", "--size", "0"], "invalid value '0' for '--size <BYTES>'"),
        (&["fifo_grid", "--size", "17M"], "at most 16M"),
        (&["fifo_grid", "--messages", "0"], "--messages"),
        (&["fifo_grid", "--messages", "10000001"], "--messages"),
        (&["fifo_grid", "--repetitions", "0"], "--repetitions"),
        (&["fifo_grid", "--seed-faithful", "--size", "64"], "cannot be used with"),
        (&["fifo_grid", "--transport", "pigeon"], "pigeon"),
        (&["fifo_grid", "--rounds", "4"], "--rounds"),
        (&["fifo_grid", "--json", "/nonexistent/out.json"], "cannot write '/nonexistent/out.json'"),
    ] {
        let seen = bench(arguments);
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(2), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says), "{says:?} in {seen:?}");
    }
}

/// Measurements that go on for longer than their test.
const ENDLESS: [&[&str]; 2] = [
    &["bench", "pipeflex", "-c", "4", "-r", "4k", "--rounds", "10000", "--placement", "2cpu"],
    &["bench", "fifo_grid", "--size", "64", "--messages", "100000", "--repetitions", "10000", "--placement", "2cpu"],
];

#[test]
fn killed_measurement_leaves_no_process() {
    for arguments in ENDLESS {
        let mut command = millstream(arguments);
        let mut bench = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
        wait_for("its processes", || children(bench.id()).len() >= 2);
        let processes = children(bench.id());
        kill(bench.id());
        bench.wait().unwrap();
        let is_alive = |pid: &u32| common::state(*pid).is_some_and(|state| state != 'Z');
        wait_for("their end", || !processes.iter().any(is_alive));
    }
}

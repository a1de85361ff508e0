//! `millstream bench bw_*` and `lat_*`: what they write, what they check, and what they leave behind. No test here
//! asserts a time.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use common::{Scratch, bench, cells, children, kill, millstream, output, program, wait_for};
use serde_json::Value;

/// Runs with `--json`, sees to it that every cell is valid and has its figures, and returns what tells the cells apart.
fn measured(arguments: &[&str], method: &str, unit: &str, parameter: &str) -> BTreeSet<(String, String, String)> {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let seen = bench(&[arguments, &["--rounds", "5", "--json", json.to_str().unwrap()]].concat());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    assert!(seen.stdout.contains("CPUs, Linux"), "{seen:?}");
    let cells = cells(&json);
    for cell in &cells {
        assert_eq!((&cell["method"], &cell["unit"]), (&method.into(), &unit.into()));
        assert_eq!((&cell["valid"], &cell["why_invalid"], &cell["n"]), (&true.into(), &Value::Null, &5.into()));
        assert_eq!(cell["samples"].as_array().unwrap().len(), 5);
        let bounds: Vec<f64> = cell["ci95"].as_array().unwrap().iter().map(|bound| bound.as_f64().unwrap()).collect();
        let median = cell["median"].as_f64().unwrap();
        assert!(0.0 < bounds[0] && bounds[0] <= median && median <= bounds[1]);
        let is_baseline = cell["transport"] == cell["baseline"] || cell["baseline"].is_null();
        assert_eq!((cell["ratio"].is_null(), cell["ratio_ci95"].is_null()), (is_baseline, is_baseline));
    }
    let text = |cell: &Value, key: &str| cell[key].as_str().unwrap().to_owned();
    let key = |cell: &Value| (cell["params"][parameter].to_string(), text(cell, "placement"), text(cell, "transport"));
    let keys: BTreeSet<_> = cells.iter().map(key).collect();
    assert_eq!(keys.len(), cells.len(), "each cell once");
    keys
}

fn combined(parameters: &[&str], placement: &str, transports: &[&str]) -> BTreeSet<(String, String, String)> {
    let all = parameters.iter().flat_map(|parameter| {
        transports.iter().map(|transport| ((*parameter).into(), placement.into(), (*transport).into()))
    });
    all.collect()
}

/// What `bw_pipe` measures where nothing else is asked for, but for the copies within one process.
const BETWEEN_PROCESSES: [&str; 9] =
    ["pipe", "pipe-1m", "vmsplice", "unix", "tcp", "posix-mq", "process_vm_readv", "millstream", "spsc-bare"];

#[test]
fn bandwidth_on_two_cpus() {
    let seen = measured(&["bw_pipe", "--transfer", "4k", "--placement", "2cpu"], "bw_pipe", "MB/s", "transfer");
    assert_eq!(seen, combined(&["4096"], "2cpu", &BETWEEN_PROCESSES));
}

/// Transfers that divide nothing and that no ring holds, each asked for once however often it is named.
#[test]
fn bandwidth_on_one_cpu_of_odd_transfers() {
    let arguments = ["bw_pipe", "--transfer", "1000,1M,1000", "--transfer", "1024k", "--placement", "1cpu"];
    let seen = measured(&arguments, "bw_pipe", "MB/s", "transfer");
    let transports = [&BETWEEN_PROCESSES[..], &["memcpy-twice"]].concat();
    assert_eq!(seen, combined(&["1000", "1048576"], "1cpu", &transports));
}

#[test]
fn bandwidth_of_sockets_with_every_variant() {
    for (method, baseline) in [("bw_unix", "unix"), ("bw_tcp", "tcp")] {
        let arguments = [method, "--transfer", "64k", "--placement", "1cpu", "--variant", "summed,fresh,hot"];
        let seen = measured(&arguments, method, "MB/s", "workload");
        let workloads = ["\"hot\"", "\"fresh\"", "\"summed\""];
        assert_eq!(seen, combined(&workloads, "1cpu", &[baseline, "pipe", "millstream"]));
    }
}

#[test]
fn figures_of_the_studies_are_averaged_as_there() {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let arguments = ["bw_pipe", "--seed-faithful", "--transfer", "64k,128k", "--placement", "2cpu", "--rounds", "5"];
    let seen = bench(&[&arguments[..], &["--json", json.to_str().unwrap()]].concat());
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{seen:?}");
    assert!(seen.stdout.contains("As the studies printed it: averages in MB/s"), "{seen:?}");
    let row = seen.stdout.lines().filter(|line| line.trim_start().starts_with("128k")).nth(1).unwrap();
    assert!(row.split_whitespace().collect::<Vec<_>>().ends_with(&["-23", "+30", "+27"]), "{seen:?}");
    for cell in cells(&json) {
        assert_eq!(cell["params"]["bytes"], 50_000_000);
    }
}

#[test]
fn fault_in_one_transport_spoils_no_other() {
    // No message queue fits a limit of 1 byte; the others do not need one.
    let mut command = Command::new("prlimit");
    command.args(["--msgqueue=1", program(), "bench", "bw_pipe", "--transfer", "64k", "--placement", "1cpu"]);
    let seen = output(command.args(["--transport", "pipe,posix-mq", "--rounds", "5"]));
    assert_eq!(seen.code, Some(3), "{seen:?}");
    assert!(seen.stdout.contains("over posix-mq at 1cpu: cannot make a queue of"), "{seen:?}");
    assert_eq!(seen.stdout.matches("not valid").count(), 1, "{seen:?}");
}

#[test]
fn more_megabytes_a_second_are_faster() {
    let scratch = Scratch::new();
    let json = scratch.path("out.json");
    let arguments = ["bw_pipe", "--transfer", "64k", "--placement", "1cpu", "--transport", "pipe,spsc-bare"];
    let seen = bench(&[&arguments[..], &["--rounds", "5", "--json", json.to_str().unwrap()]].concat());
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let cells = cells(&json);
    let median = |index: usize| cells[index]["median"].as_f64().unwrap();
    let ratio = cells[1]["ratio"].as_f64().unwrap();
    assert!((ratio - median(1) / median(0)).abs() < 1e-9 * ratio, "{cells:?}");
}

#[test]
fn round_trips_running_and_asleep() {
    let all = ["pipe", "millstream", "millstream-block", "spsc-bare"];
    for placement in ["1cpu", "2cpu"] {
        let seen = measured(&["lat_pipe", "--placement", placement], "lat_pipe", "us", "waiting");
        let mut wanted = combined(&["\"running\""], placement, &all);
        wanted.extend(combined(&["\"asleep\""], placement, &all[..3]));
        assert_eq!(seen, wanted);
    }
}

#[test]
fn round_trips_over_fifos_and_sockets() {
    for (method, baseline) in [("lat_fifo", "fifo"), ("lat_unix", "unix")] {
        let seen = measured(&[method, "--placement", "2cpu"], method, "us", "waiting");
        let waitings = ["\"running\"", "\"asleep\""];
        assert_eq!(seen, combined(&waitings, "2cpu", &[baseline, "pipe", "millstream"]));
    }
}

#[test]
fn round_trips_over_everything() {
    let arguments = ["lat_pipe", "--transport", "all", "--waiting", "running", "--placement", "1cpu"];
    let seen = measured(&arguments, "lat_pipe", "us", "waiting");
    let all = [&BETWEEN_PROCESSES[..], &["fifo", "millstream-fifo", "millstream-block", "millstream-loan"]].concat();
    assert_eq!(seen, combined(&["\"running\""], "1cpu", &all));
}

#[test]
fn missing_cpus_are_not_measured() {
    for (method, row) in [("bw_pipe", "bw_pipe 4k"), ("lat_pipe", "lat_pipe running")] {
        let mut arguments = vec!["bench", method, "--no-history", "--rounds", "5", "--transport", "pipe,millstream"];
        arguments.extend(if method == "bw_pipe" { ["--transfer", "4k"] } else { ["--waiting", "running"] });
        let seen = output(Command::new("taskset").args(["-c", "0", program()]).args(&arguments));
        assert_eq!(seen.code, Some(3), "{seen:?}");
        let why = format!("not valid: {row} over millstream at 2cpu: this process may use only one CPU");
        assert!(seen.stdout.contains(&why), "{seen:?}");
        assert_eq!(seen.stdout.matches("not valid").count(), 2, "one CPU is enough for 1cpu: {seen:?}");
    }
}

#[test]
fn wrong_use_fails_with_one_sentence() {
    for (arguments, says) in [
        (&["bw_pipe", "--transfer", "0"][..], "invalid value '0' for '--transfer <BYTES>'"),
        (&["bw_pipe", "--transfer", "17M"], "a transfer is at most 16M"),
        (&["bw_pipe", "--transfer", "4G"], "a transfer is at most 16M"),
        (&["bw_pipe", "--transfer", "4k,lots"], "'lots'"),
        (&["bw_pipe", "--transfer", ""], "--transfer"),
        (&["bw_pipe", "--transport", "pigeon"], "pigeon"),
        (&["bw_pipe", "--transport", "memcpy-twice", "--placement", "2cpu"], "no placement but 1cpu"),
        (&["bw_pipe", "--placement", "3cpu"], "3cpu"),
        (&["bw_pipe", "--rounds", "4"], "--rounds"),
        (&["bw_pipe", "--json", "/nonexistent/out.json"], "cannot write '/nonexistent/out.json'"),
        (&["lat_pipe", "--waiting", "dead"], "dead"),
        (&["lat_pipe", "--transport", "memcpy-twice"], "memcpy-twice"),
        (&["bw_pipe", "--variant", "lukewarm"], "lukewarm"),
        (&["bw_unix", "--transport", "carrier-pigeon"], "carrier-pigeon"),
        (&["lat_fifo", "--waiting", "dead"], "dead"),
        (&["lat_pipe", "--transport", "spsc-bare", "--waiting", "asleep"], "measured running only"),
    ] {
        let seen = bench(arguments);
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(2), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(says), "{says:?} in {seen:?}");
    }
}

/// Leaves its user's quota room for small pipes and none for one of 1 MiB, then runs its arguments.
const HOARD: &str = r#"
import os, fcntl, subprocess, sys
held = []
while True:
    held.append(os.pipe())
    try: fcntl.fcntl(held[-1][0], 1031, 1 << 20)
    except PermissionError: break
    assert len(held) < 9000
for end in held.pop(0): os.close(end)
fcntl.fcntl(held[-1][0], 1031, 1 << 19)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"#;

#[test]
fn refused_pipe_size_is_not_measured() {
    let scratch = Scratch::new();
    let seen = output(
        Command::new("setpriv")
            .args(["--reuid", "64126", "--regid", "64126", "--clear-groups", "python3", "-c", HOARD])
            .arg(scratch.installed())
            .args(["bench", "bw_pipe", "--transfer", "4k", "--placement", "1cpu", "--rounds", "5", "--no-history"])
            .args(["--transport", "pipe,pipe-1m,vmsplice,millstream"])
            .env("PATH", "/usr/bin:/bin"),
    );
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(3), ""), "{seen:?}");
    assert!(seen.stdout.contains("over pipe-1m at 1cpu: the kernel grants no pipe of 1048576 bytes"), "{seen:?}");
    assert_eq!(seen.stdout.matches("not valid").count(), 1, "{seen:?}");
}

/// A measurement that goes on for longer than its test, in a process group of its own.
fn endless(arguments: &[&str]) -> Child {
    let mut command = millstream(["bench", "bw_pipe", "--rounds", "10000", "--transfer", "4k", "--placement", "2cpu"]);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap()
}

#[test]
fn killed_measurement_leaves_no_process() {
    for transport in ["pipe", "millstream", "spsc-bare"] {
        let mut bench = endless(&["--transport", transport]);
        wait_for("both processes", || children(bench.id()).len() == 2);
        kill(bench.id());
        bench.wait().unwrap();
        wait_for("their end", || alive_in_group(bench.id()).is_empty());
    }
}

/// Processes of a group, without those that only wait to be reaped.
fn alive_in_group(group: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path().join("stat"));
    let stats = processes.filter_map(|stat| fs::read_to_string(stat).ok());
    let is_alive_member = |stat: &String| {
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[2] == group.to_string() && fields[0] != "Z"
    };
    stats.filter(is_alive_member).collect()
}

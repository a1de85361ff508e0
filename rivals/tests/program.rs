//! `millstream-rivals`: what it writes, and what it leaves behind. No test here asserts a time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_millstream-rivals"))
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

#[test]
fn every_rival_is_measured_by_both_methods_at_both_placements() {
    let json = scratch("rivals.json");
    let seen = run(&["--quick", "--transfer", "3000", "--json", json.to_str().unwrap()]);
    let stdout = String::from_utf8(seen.stdout).unwrap();
    assert!(seen.status.success(), "{stdout}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    std::fs::remove_file(json).unwrap();
    let mut cells = BTreeSet::new();
    for cell in document["cells"].as_array().unwrap() {
        assert_eq!((&cell["valid"], &cell["n"]), (&true.into(), &5.into()), "{cell}");
        let text = |key: &str| cell[key].as_str().unwrap().to_owned();
        cells.insert((text("method"), text("placement"), text("transport")));
    }
    for rival in millstream_rivals::RIVALS {
        for method in ["bw_pipe", "lat_pipe"] {
            for placement in ["1cpu", "2cpu"] {
                let cell = (method.to_owned(), placement.to_owned(), rival.transport.name().to_owned());
                assert!(cells.contains(&cell), "{cell:?} of {cells:?}");
            }
        }
        let version = format!("{} {}", rival.transport.name(), (rival.version)());
        assert!(stdout.contains(&version), "{version} in {stdout}");
    }
}

#[test]
fn mistakes_are_told() {
    for (arguments, says) in [
        (&["--transport", "pigeon"][..], "pigeon"),
        (&["--transfer", "0"], "a transfer is"),
        (&["--transfer", "17M"], "at most 16M"),
        (&["--rounds", "4"], "--rounds"),
        (&["--quick", "--rounds", "9"], "--quick"),
        (&["--json", "/nonexistent/out.json"], "cannot write '/nonexistent/out.json'"),
    ] {
        let seen = run(arguments);
        assert_eq!(seen.status.code(), Some(2), "{arguments:?}");
        let stderr = String::from_utf8(seen.stderr).unwrap();
        assert!(stderr.contains(says), "{says} in {stderr}");
    }
}

/// Processes with the mark in their environment, and names of the program in shared memory.
fn left_behind(mark: &str, program: u32) -> Vec<String> {
    let marked = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let environment = std::fs::read(path.join("environ")).ok()?;
        let is_marked = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes());
        is_marked.then(|| path.display().to_string())
    });
    let prefix = format!("millstream-rivals-{program}-");
    let names = std::fs::read_dir("/dev/shm").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    marked.chain(names.filter(|name| name.starts_with(&prefix))).collect()
}

#[test]
fn nothing_is_left_of_a_program_that_was_killed() {
    for rival in millstream_rivals::RIVALS {
        for pause_ms in [30, 200, 700] {
            let name = rival.transport.name();
            let mark = format!("MILLSTREAM_RIVALS_TEST={}-{name}-{pause_ms}", std::process::id());
            let (key, value) = mark.split_once('=').unwrap();
            let mut running = program()
                .args(["--method", "lat_pipe", "--rounds", "10000", "--transport", name])
                .env(key, value)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(pause_ms));
            running.kill().unwrap();
            running.wait().unwrap();
            // A watchdog, not a measurement: on a busy machine the last of them may have to wait for a CPU.
            let deadline = Instant::now() + Duration::from_secs(60);
            while !left_behind(&mark, running.id()).is_empty() {
                assert!(Instant::now() < deadline, "{name}: {:?}", left_behind(&mark, running.id()));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

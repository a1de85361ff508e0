//! `millstream top`: what it says of pipelines that it has not started.

mod common;

use std::process::{Child, Command, Stdio};

use common::{Seen, millstream, output};
use serde_json::Value;

/// A pipeline of a shell, ended with all its processes when the test ends.
struct Running(Child);

impl Running {
    fn new(pipeline: &str) -> Running {
        use std::os::unix::process::CommandExt;
        let mut shell = Command::new("bash");
        shell.args(["-c", pipeline]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Running(shell.spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

fn top(arguments: &[&str]) -> Seen {
    output(&mut millstream([&["top"], arguments].concat()))
}

/// The one pipeline of this process, when it has been looked at long enough and `is_so` holds of it.
fn seen_until(pid: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..60 {
        let seen = top(&["--once", "--interval", "0.4", "--json", pid]);
        assert_eq!(seen.code, Some(0), "{seen:?}");
        let mut all: Value = serde_json::from_str(&seen.stdout).unwrap();
        // At first its programs have not begun.
        last = all["pipelines"].get_mut(0).map(Value::take).unwrap_or_default();
        if !last.is_null() && is_so(&last) {
            return last;
        }
    }
    panic!("it was never so: {last}");
}

fn names(pipeline: &Value) -> Vec<&str> {
    pipeline["programs"].as_array().unwrap().iter().map(|program| program["name"].as_str().unwrap()).collect()
}

#[test]
fn slow_reader_is_the_bound_and_programs_stand_in_order() {
    // It reads a line a second, so both pipes before it are full.
    let running = Running::new("yes | cat | (while read -r line; do sleep 1; done)");
    let pipeline = seen_until(&running.pid(), |pipeline| {
        pipeline["pipes"].as_array().unwrap().len() == 2
            && pipeline["pipes"].as_array().unwrap().iter().all(|pipe| pipe["full"].as_u64() > Some(0))
    });
    let names = names(&pipeline);
    let place =
        |name: &str| names.iter().position(|other| *other == name).unwrap_or_else(|| panic!("no {name}: {names:?}"));
    assert!(place("yes") < place("cat") && place("cat") < place("bash"), "{names:?}");
    let pid = |name: &str| &pipeline["programs"][place(name)]["pid"];
    assert_eq!((&pipeline["pipes"][0]["writers"][0], &pipeline["pipes"][0]["readers"][0]), (pid("yes"), pid("cat")));
}

#[test]
fn busy_program_is_the_bound_and_rates_are_told() {
    let running = Running::new("yes | bash -c 'while :; do read -r line; done'");
    // On a machine whose CPUs others have, it is the CPUs, for which this program queues.
    let is_bash = |bound: &str| bound.starts_with("bash ") || bound.starts_with("the CPUs bounded it: bash ");
    let pipeline = seen_until(&running.pid(), |pipeline| is_bash(pipeline["bound"].as_str().unwrap()));
    assert!(pipeline["bound"].as_str().unwrap().contains("bounded it"), "{pipeline}");

    let running = Running::new("yes | cat >/dev/null");
    let pipeline = seen_until(&running.pid(), |pipeline| pipeline["pipes"][0]["bytes_per_second"].as_f64() > Some(1e6));
    assert_eq!(names(&pipeline), ["yes", "cat"]);
    // A process in it stands for all of it.
    let cat = pipeline["programs"][1]["pid"].to_string();
    assert_eq!(names(&seen_until(&cat, |_| true)), ["yes", "cat"]);
}

#[test]
fn table_has_a_line_for_each_program_and_pipe_and_ends_with_the_bound() {
    let running = Running::new("sleep 1000 | cat");
    seen_until(&running.pid(), |pipeline| names(pipeline) == ["sleep", "cat"]);
    let seen = top(&["--count", "2", "--interval", "0.5", &running.pid()]);
    let blocks: Vec<&str> = seen.stdout.split("\n\n").collect();
    assert_eq!(blocks.len(), 2, "{seen:?}");
    let lines: Vec<&str> = blocks[1].lines().collect();
    assert!(lines[0].contains("PROGRAM") && lines[1].contains("sleep") && lines[2].contains("cat"), "{lines:?}");
    assert!(lines[3].starts_with("pipe 1 (sleep > cat): -, full 0 %, empty "), "{lines:?}");
    assert!(lines[4].starts_with("sleep ") && lines[4].contains("bounded it: it waited for a time"), "{lines:?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{lines:?}");
}

#[test]
fn explanation_names_programs_pipes_the_bound_and_what_would_help() {
    let running = Running::new("sleep 1000 | cat | cat");
    let pipeline = seen_until(&running.pid(), |pipeline| names(pipeline) == ["sleep", "cat", "cat"]);
    let pid = |place: usize| pipeline["programs"][place]["pid"].to_string();
    let seen = output(&mut millstream(["explain", "--interval", "0.5", &running.pid()]));
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""));
    assert!(seen.stdout.lines().all(|line| line.chars().count() <= 80 && !line.starts_with(' ')), "{}", seen.stdout);
    let text = seen.stdout.replace('\n', " ");
    for said in [
        format!(
            "sleep {} writes to cat {} (pipe 1), cat {} writes to cat {} (pipe 2).",
            pid(0),
            pid(1),
            pid(1),
            pid(2)
        ),
        "Pipe 1 was empty all the time.".into(),
        format!("cat {} slept in a read of a pipe all the time", pid(1)),
        format!("sleep {} bounded it: it waited for a time, a disk, a network or a lock", pid(0)),
        "What would help: ".into(),
    ] {
        assert!(text.contains(&said), "{said}: {text}");
    }
}

#[test]
fn explanation_of_what_is_no_pipeline_is_refused() {
    let running = Running::new("exec sleep 1000");
    let pid = running.pid();
    for (arguments, status, sentence) in [
        (&["explain"][..], 2, "<PID>"),
        (&["explain", "4194304"], 1, "there is no process 4194304"),
        (&["explain", "--interval", "0", &pid], 2, "an interval is 0.1 to 3600 seconds"),
        (&["explain", "--interval", "0.1", &pid], 1, "no pipe goes from one program to another at process"),
    ] {
        let seen = output(&mut millstream(arguments));
        assert_eq!((seen.code, seen.stderr.lines().count(), seen.stdout.as_str()), (Some(status), 1, ""), "{seen:?}");
        assert!(seen.stderr.contains(sentence), "{arguments:?}: {seen:?}");
    }
}

#[test]
fn wrong_use_is_told_in_one_sentence() {
    for (arguments, status, sentence) in [
        (&["4194304"][..], 1, "there is no process 4194304"),
        (&["--interval", "0.01"], 2, "an interval is 0.1 to 3600 seconds"),
        (&["--once", "--count", "3"], 2, "cannot be used with"),
        (&["x"], 2, "invalid value 'x'"),
    ] {
        let seen = top(arguments);
        assert_eq!((seen.code, seen.stderr.lines().count()), (Some(status), 1), "{arguments:?}: {seen:?}");
        assert!(seen.stderr.contains(sentence), "{arguments:?}: {seen:?}");
    }
}

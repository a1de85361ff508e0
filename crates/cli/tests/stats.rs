//! `--stats`: what it shows, where it goes, and that it disturbs nothing.

mod common;

use std::fs;
use std::process::Command;

use common::{Scratch, can_attach, millstream, output, run};

fn json_of(arguments: &[&str]) -> serde_json::Value {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let file = file.to_str().unwrap();
    let seen = run(&[&["--stats=json", "--stats-file", file], arguments].concat());
    assert_eq!(seen.stderr, "", "nothing else is written");
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn each_pipe_has_its_maker_its_size_and_its_bytes() {
    let stats = json_of(&[
        "--pipe-size",
        "256K",
        "--shell",
        "dash",
        "-c",
        "head -c 3000000 /dev/zero | cat | tail -c 1 >/dev/null",
    ]);
    assert_eq!(stats["schema"], "millstream run stats 1");
    assert_eq!((&stats["exit_status"], &stats["signal"]), (&0.into(), &serde_json::Value::Null));
    assert_eq!(stats["pipe_size"], 262_144);
    let pipes: Vec<_> = stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["origin"] == "pipe").collect();
    assert_eq!(pipes.len(), 2);
    for (pipe, reader) in pipes.iter().zip(["cat", "tail"]) {
        assert_eq!(pipe["made_by"]["name"], "dash");
        assert!(pipe["made_by"]["pid"].as_u64().unwrap() > 1);
        assert_eq!((&pipe["size"], &pipe["bytes"]), (&262_144.into(), &3_000_000.into()));
        assert_eq!((&pipe["read"]["bytes"], &pipe["read"]["by"]["name"]), (&3_000_000.into(), &reader.into()));
    }
    assert_eq!(pipes[1]["written"]["bytes"], 3_000_000, "cat uses write");
}

#[test]
fn uncounted_bytes_are_not_guessed() {
    let scratch = Scratch::new();
    let copy = scratch.c_program(
        "copy",
        "#include <unistd.h>\nint main(void) { char b[70000]; ssize_t n; while ((n = read(0, b, sizeof b)) > 0) write(1, b, n); return 0; }\n",
        &["-static", "-w"],
    );
    let stats = json_of(&["--shell", "dash", "-c", &format!("echo hello | {copy} | {copy} >/dev/null")]);
    let pipes = stats["pipes"].as_array().unwrap();
    let unseen = pipes.iter().filter(|pipe| pipe["origin"] == "pipe").nth(1).unwrap();
    assert_eq!(
        (&unseen["bytes"], &unseen["written"]["bytes"], &unseen["read"]["by"]),
        (&serde_json::Value::Null, &serde_json::Value::Null, &serde_json::Value::Null)
    );
}

#[test]
fn every_call_that_moves_bytes_is_counted() {
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/sendfile.h>
        #include <sys/uio.h>
        #include <unistd.h>
        static char bytes[8192];
        int main(void) {
            int a[2], b[2], null = open("/dev/null", O_WRONLY), zero = open("/etc/passwd", O_RDONLY);
            struct iovec parts[2] = {{bytes, 100}, {bytes + 100, 11}};
            pipe(a); pipe(b);
            write(a[1], bytes, 1000);                              /* a +1000 */
            writev(a[1], parts, 2);                                /* a +111 */
            vmsplice(a[1], parts, 1, 0);                           /* a +100 */
            sendfile(a[1], zero, 0, 7);                            /* a +7 = 1218 */
            tee(a[0], b[1], 500, 0);                               /* b +500 */
            splice(a[0], 0, b[1], 0, 200, 0);                      /* a -200, b +200 */
            read(a[0], bytes, 18);                                 /* a -18 */
            readv(a[0], parts, 2);                                 /* a -111 */
            splice(a[0], 0, null, 0, 40, 0);                       /* a -40 = 369 */
            return 0;
        }"#;
    let scratch = Scratch::new();
    let program = scratch.c_program("moves", source, &["-w"]);
    let stats = json_of(&["--", &program]);
    let pipes: Vec<_> = stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["origin"] == "pipe").collect();
    assert_eq!((&pipes[0]["written"]["bytes"], &pipes[0]["read"]["bytes"]), (&1218.into(), &369.into()));
    assert_eq!((&pipes[1]["written"]["bytes"], &pipes[1]["read"]["bytes"]), (&700.into(), &serde_json::Value::Null));
    assert_eq!(pipes[0]["written"]["by"]["name"], "moves");
}

#[test]
fn pipes_made_inside_popen_and_standing_ones_are_listed_as_such() {
    let script = format!(
        "echo in | {} run --stats=json --stats-file /dev/stderr -- python3 -c \
         'import os, ctypes; c = ctypes.CDLL(None); c.popen.restype = ctypes.c_void_p; c.popen(b\"true\", b\"r\"); os.read(0, 9); os.write(1, b\"out\")' | cat >/dev/null",
        common::program()
    );
    let seen = output(Command::new("sh").args(["-c", &script]));
    let stats: serde_json::Value = serde_json::from_str(&seen.stderr).unwrap();
    let of = |origin: &str| {
        stats["pipes"].as_array().unwrap().iter().find(|pipe| pipe["origin"] == origin).cloned().unwrap()
    };
    assert_eq!((&of("stdin")["read"]["bytes"], &of("stdin")["made_by"]), (&3.into(), &serde_json::Value::Null));
    assert_eq!(of("stdout")["written"]["bytes"], 3);
    assert_eq!(of("popen")["made_by"]["name"], "python3");
}

#[test]
fn the_table_goes_to_stderr_and_never_into_the_output() {
    let seen = run(&["--stats", "--shell", "dash", "-c", "head -c 100000 /dev/zero | wc -c"]);
    assert_eq!(seen.stdout, "100000\n");
    assert!(seen.stderr.starts_with("millstream: "), "{seen:?}");
    for shown in ["exit status 0", "made by", "dash ", "100000"] {
        assert!(seen.stderr.contains(shown), "{shown:?} in {}", seen.stderr);
    }
}

#[test]
fn statistics_of_a_run_that_was_killed_are_complete() {
    let stats =
        json_of(&["--shell", "bash", "-c", "head -c 50000 /dev/zero | cat | { wc -c >/dev/null; kill -9 $$; }"]);
    assert_eq!((&stats["signal"], &stats["exit_status"]), (&9.into(), &serde_json::Value::Null));
    assert_eq!(stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["bytes"] == 50_000).count(), 2);
}

#[test]
fn a_full_disk_costs_the_statistics_and_not_the_result() {
    let seen = run(&["--stats", "--stats-file", "/dev/full", "--", "sh", "-c", "echo result; exit 5"]);
    assert_eq!((seen.stdout.as_str(), seen.code), ("result\n", Some(5)));
    assert!(seen.stderr.contains("cannot write the statistics to '/dev/full'"), "{seen:?}");
}

#[test]
fn a_signal_to_the_supervisor_alone_reaches_the_command() {
    for (signal, expected) in [("TERM", "got TERM\n"), ("USR1", "got USR1\n"), ("HUP", "got HUP\n")] {
        let script = format!("trap 'echo got {signal}; exit 0' {signal}; echo ready; while :; do sleep 0.01; done");
        let mut child = millstream(["run", "--stats", "--stats-file", "/dev/null", "--", "sh", "-c", &script])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line, "ready\n");
        // From another process group, as `kill` in a shell is.
        output(Command::new("setsid").args(["kill", &format!("-{signal}"), &child.id().to_string()]));
        line.clear();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line, expected);
        assert!(child.wait().unwrap().success());
    }
}

/// Runs a Python program with the supervised command line in `sys.argv[1:]`.
fn python(script: &str, command: &[&str]) -> common::Seen {
    let supervised = [common::program(), "run", "--stats", "--stats-file", "/dev/null", "--"];
    output(Command::new("python3").args(["-c", script]).args(supervised).args(command))
}

/// As from `subprocess.terminate()`: nearly every parent is in the process group of its children.
#[test]
fn a_signal_from_the_same_process_group_reaches_the_command() {
    let script = "import subprocess, sys, time\np = subprocess.Popen(sys.argv[1:]); time.sleep(0.3); p.terminate(); print(p.wait(60))";
    assert_eq!(python(script, &["sleep", "1000"]).stdout, "-15\n");
}

#[test]
fn an_alarm_that_was_set_before_ends_the_command() {
    let script = "import os, signal, sys\nsignal.alarm(1); os.execv(sys.argv[1], sys.argv[1:])";
    assert_eq!(python(script, &["sleep", "1000"]).signal, Some(14));
}

#[test]
fn a_hangup_of_the_terminal_ends_the_command() {
    let script = "import os, pty, sys, time\npid, screen = pty.fork()\nif pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
                  os.read(screen, 9); os.close(screen); print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    assert_eq!(python(script, &["sh", "-c", "echo ready; exec sleep 1000"]).stdout, "-1\n");
}

#[test]
fn a_command_that_closes_its_output_has_closed_it() {
    let script = "import subprocess, sys\np = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
                  print(p.stdout.read()); p.stdin.close(); print(p.wait(60))";
    let seen = python(script, &["sh", "-c", "echo request; exec >&-; read reply; exit 4"]);
    assert_eq!(seen.stdout, "b'request\\n'\n4\n");
}

#[test]
fn a_command_that_is_stopped_and_continued_by_others_goes_on() {
    let seen = run(&[
        "--stats",
        "--stats-file",
        "/dev/null",
        "--",
        "sh",
        "-c",
        "(until grep -q '^State:.T' /proc/$$/status; do sleep 0.01; done; kill -CONT $$) & kill -STOP $$; echo resumed",
    ]);
    assert_eq!((seen.stdout.as_str(), seen.code), ("resumed\n", Some(0)));
}

#[test]
fn a_run_inside_a_run_that_counts_is_counted() {
    let inner =
        format!("{} run --shell dash -c 'head -c 70000 /dev/zero | cat | tail -c 1 >/dev/null'", common::program());
    let stats = json_of(&["--shell", "dash", "-c", &inner]);
    assert_eq!(stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["bytes"] == 70_000).count(), 2, "{stats}");
    let counting = format!(
        "{} run --stats=json --stats-file /dev/stdout --shell dash -c 'head -c 70000 /dev/zero | cat >/dev/null'",
        common::program()
    );
    let seen = run(&["--shell", "dash", "-c", &counting]);
    let stats: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["bytes"] == 70_000).count(), 1, "{stats}");
}

/// A signal that comes with the command's end, for which no process waits any more, costs no statistics.
#[test]
fn a_signal_at_the_end_of_the_command_costs_no_statistics() {
    for _ in 0..20 {
        let seen = run(&["--stats", "--", "sh", "-c", "kill -TERM $PPID; kill -40 $PPID; exit 3"]);
        assert!(seen.stderr.contains("millstream: "), "{seen:?}");
    }
}

#[test]
fn statistics_into_a_file_that_is_open_already_are_appended() {
    let scratch = Scratch::new();
    let log = scratch.file("log", "what was there\n");
    let script = format!("{} run --stats --stats-file /dev/stderr -- true 2>>{log}", common::program());
    output(Command::new("sh").args(["-c", &script]));
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("what was there\nmillstream: "), "{text}");
}

/// A parent that ignores SIGCHLD hands that on, and a process with SIGCHLD ignored finds no children to wait for.
#[test]
fn a_parent_that_ignores_sigchld_changes_nothing() {
    let show = "import signal, subprocess; print(signal.getsignal(signal.SIGCHLD).name); exit(6)";
    let outer =
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])";
    for options in [&["run"][..], &["run", "--stats", "--stats-file", "/dev/null"]] {
        let words = [&[common::program()], options, &["--", "python3", "-c", show]].concat();
        let seen = output(Command::new("python3").args(["-c", outer]).args(words));
        assert_eq!((seen.stdout.as_str(), seen.code), ("SIG_IGN\n", Some(6)), "{options:?}: {seen:?}");
    }
}

#[test]
fn a_real_time_signal_to_the_supervisor_reaches_the_command() {
    let script = "import signal, sys\nsignal.pthread_sigmask(signal.SIG_BLOCK, [40])\nprint('ready', flush=True)\nprint(signal.sigwait([40]), flush=True)";
    let mut child = millstream(["run", "--stats", "--stats-file", "/dev/null", "--", "python3", "-c", script])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    output(Command::new("setsid").args(["kill", "-40", &child.id().to_string()]));
    assert_eq!(lines.next().unwrap().unwrap(), "40");
    assert!(child.wait().unwrap().success());
}

#[test]
fn killing_the_supervisor_kills_the_command() {
    let mut child = millstream(["run", "--stats", "--", "sh", "-c", "echo $$; exec sleep 1000"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    common::wait_for("the command to die", || matches!(common::state(pid), None | Some('Z')));
}

#[test]
fn a_program_of_another_user_in_the_tree_runs_uncounted() {
    let seen = run(&[
        "--stats=json",
        "--stats-file",
        "/dev/stderr",
        "--shell",
        "bash",
        "-c",
        "echo x | setpriv --reuid 65534 cat | tail -c 5",
    ]);
    assert_eq!((seen.stdout.as_str(), seen.code), ("x\n", Some(0)));
    let stats: serde_json::Value = serde_json::from_str(&seen.stderr).unwrap();
    let pipes = stats["pipes"].as_array().unwrap();
    let made: Vec<_> = pipes.iter().filter(|pipe| pipe["origin"] == "pipe").collect();
    assert_eq!(made.len(), 2);
    // The other user's cat read the first and wrote the second.
    assert!(made[0]["read"]["by"].is_null() && made[1]["written"]["by"].is_null(), "{stats}");
    assert_eq!(made[1]["read"]["bytes"], 2);
}

/// The text that `check` accepts, from a run that lasts longer each time: on a busy machine the supervisor may not get to
/// look at a short one.
fn seen_in_time(run_for: impl Fn(&str) -> String, check: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    for seconds in ["0.5", "2", "8", "30"] {
        text = run_for(seconds);
        if check(&text) {
            return text;
        }
    }
    panic!("never seen: {text}");
}

/// `yes` finds the pipe full while no process reads, and `cat` finds the second pipe empty.
fn slow_script(seconds: &str) -> String {
    format!("yes | (sleep {seconds}; head -c 1) | cat")
}

/// What `--explain` says of a script that lasts so many seconds.
fn explained(script: impl Fn(&str) -> String, check: impl Fn(&str) -> bool) -> String {
    let run_for = |seconds: &str| run(&["--explain", "--shell", "bash", "-c", &script(seconds)]).stderr;
    seen_in_time(run_for, check)
}

#[test]
fn a_reader_that_sleeps_is_what_bounded_the_run() {
    let full_and_empty = |line: &str| -> Option<(u32, u32)> {
        let words = line.split_whitespace().collect::<Vec<_>>();
        let mut percents =
            words.windows(2).filter(|pair| pair[1].starts_with('%')).map(|pair| pair[0].parse().unwrap());
        percents.next().zip(percents.next())
    };
    explained(slow_script, |text| {
        let of_pipe = |name: &str| text.lines().find(|line| line.contains(name)).and_then(full_and_empty);
        let verdict = text.lines().last().unwrap_or_default();
        of_pipe("(yes > ").is_some_and(|(full, empty)| full > empty)
            && of_pipe("> cat)").is_some_and(|(full, empty)| empty > full)
            && verdict.starts_with("  sleep ")
            && verdict.contains(" bounded it: it waited for a time, a disk")
    });
}

#[test]
fn a_writer_that_sleeps_is_what_bounded_the_run() {
    let bounded = |text: &str| {
        let verdict = text.lines().last().unwrap_or_default();
        verdict.starts_with("  sleep ") && verdict.contains(", while pipe ") && verdict.ends_with(" was empty")
    };
    explained(|seconds| format!("(sleep {seconds}; echo) | cat"), bounded);
}

#[test]
fn process_outside_of_the_run_is_named_as_such() {
    let script = |seconds: &str| format!("sleep {seconds} | {} run --explain -- cat", common::program());
    let run_for = |seconds: &str| output(Command::new("bash").args(["-c", &script(seconds)])).stderr;
    seen_in_time(run_for, |text| {
        text.contains("outside of the run") && text.ends_with("the writer of pipe 1, which was empty\n")
    });
}

/// On a machine with other work the same loop is bounded by the CPUs; nothing else may be said.
#[test]
fn a_program_that_computes_is_what_bounded_the_run_or_the_cpus_are() {
    let computes = |seconds: &str| {
        let loops = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): pass";
        format!("yes | (python3 -c '{loops}' {seconds}; head -c 1)")
    };
    explained(computes, |text| {
        let verdict = text.lines().last().unwrap_or_default();
        verdict.starts_with("  the CPUs bounded it: ")
            || verdict.starts_with("  python3 ") && verdict.contains("always busy")
    });
}

#[test]
fn a_run_too_short_to_explain_says_so() {
    // On a busy machine even this one may last long enough to be explained, but not each time.
    let says_so = |text: &str| text.lines().last().is_some_and(|verdict| verdict.contains("too short a run"));
    assert!((0..10).any(|_| says_so(&run(&["--explain", "--", "true"]).stderr)));
}

#[test]
fn programs_without_the_library_are_told_with_the_reason() {
    let scratch = Scratch::new();
    let source = "#include <unistd.h>\nint main(void) { char b[99]; while (read(0, b, sizeof b) > 0) {} return 0; }\n";
    let fixed = scratch.c_program("fixed", source, &["-static"]);
    let small = scratch.c_program("small", source, &["-m32"]);
    let run_for = |seconds: &str| {
        let script = format!("sleep {seconds} | {fixed}; sleep {seconds} | {small}; sleep {seconds} | env -i cat");
        json_of(&["--shell", "bash", "-c", &script]).to_string()
    };
    let has = |text: &str, name: &str, why: &serde_json::Value| {
        let stats: serde_json::Value = serde_json::from_str(text).unwrap();
        let pipes = stats["pipes"].as_array().unwrap();
        let mut readers = pipes.iter().flat_map(|pipe| pipe["read"]["seen"].as_array().unwrap());
        readers.any(|reader| reader["name"] == name && &reader["not_reached"] == why)
    };
    seen_in_time(run_for, |text| {
        has(text, "fixed", &"static".into())
            && has(text, "small", &"foreign".into())
            && has(text, "cat", &"environment".into())
    });
    let reached = |seconds: &str| json_of(&["--shell", "bash", "-c", &format!("sleep {seconds} | cat")]).to_string();
    seen_in_time(reached, |text| has(text, "cat", &serde_json::Value::Null));
}

#[test]
fn unobserved_values_are_null() {
    let stats = json_of(&["--no-ring", "--shell", "dash", "-c", "head -c 3000000 /dev/zero | cat >/dev/null"]);
    let pipe = stats["pipes"].as_array().unwrap().iter().find(|pipe| pipe["bytes"] == 3_000_000).unwrap();
    assert_eq!((&stats["ring"], &stats["ring_off"]), (&false.into(), &"asked".into()));
    assert_eq!(pipe["path"], "kernel");
    for end in ["written", "read"] {
        let end = &pipe[end];
        assert_eq!(
            (&end["joined"], &end["why_not"], &end["ring"]),
            (&false.into(), &"off".into(), &serde_json::Value::Null)
        );
    }
    // Too short for a rate, unless the machine was busy meanwhile.
    let rate = &pipe["bytes_per_second"];
    assert!(rate.is_null() || rate.as_f64().unwrap() >= 0.0, "{rate}");
    assert!(pipe["watched"].is_null() || pipe["watched"]["looks"].as_u64().unwrap() > 0);
}

/// Copies its input to its output with system calls of its own, as programs do that do not use the C library for them.
const OWN_CALLS: &str = r#"
static long call(long number, long fd, void *bytes, long count) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(fd), "S"(bytes), "d"(count) : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = fd, x2 __asm__("x2") = count;
    register void *x1 __asm__("x1") = bytes;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#endif
}
#include <sys/syscall.h>
int main(void) {
    static char bytes[65536];
    long got;
    while ((got = call(SYS_read, 0, bytes, sizeof bytes)) > 0) if (call(SYS_write, 1, bytes, got) != got) return 1;
    return 0;
}
"#;

#[test]
fn calls_past_the_c_library_are_told_as_the_reason() {
    let scratch = Scratch::new();
    let copy = scratch.c_program("copy", OWN_CALLS, &[]);
    let stats = json_of(&["--shell", "dash", "-c", &format!("head -c 9000000 /dev/zero | {copy} | {copy} >/dev/null")]);
    let pipes: Vec<_> = stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["origin"] == "pipe").collect();
    let [first, second] = pipes[..] else { panic!("{stats}") };
    let end = |pipe: &serde_json::Value, end: &str| (pipe[end]["bytes"].as_u64(), pipe[end]["why_not"].clone());
    // The stdio of a C library that attaches no pipe is not counted, and some 'head' writes by it.
    assert!(!can_attach() || end(first, "written").0 == Some(9_000_000), "{stats}");
    for uncounted in [end(first, "read"), end(second, "written"), end(second, "read")] {
        assert_eq!(uncounted, (None, "uncounted".into()), "{stats}");
    }
}

#[test]
fn a_rate_is_told_of_what_was_watched() {
    let script = |seconds: &str| format!("(while :; do echo; done) | (timeout {seconds} cat >/dev/null)");
    let rate_of = |seconds: &str| {
        let stats = json_of(&["--shell", "bash", "-c", &script(seconds)]);
        let pipe = stats["pipes"].as_array().unwrap().iter().find(|pipe| pipe["origin"] == "pipe").cloned();
        pipe.map_or(String::new(), |pipe| pipe["bytes_per_second"].to_string())
    };
    seen_in_time(rate_of, |rate| rate.parse::<f64>().is_ok_and(|rate| rate > 0.0));
}

/// The second stage goes on when the meter has shown that the first waits for it.
#[test]
fn progress_is_lines_where_there_is_no_terminal() {
    use std::io::{BufRead, Write};
    let script = "exec 3<&0; yes | (read -r _ <&3; head -c 1) | cat";
    let mut run = millstream(["run", "--progress", "--shell", "bash", "-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut stdin = run.stdin.take();
    // To its end, or the meter writes into a pipe without a reader.
    let is_shown = lines.take(10_000).fold(false, |is_shown, line| {
        assert!(line.starts_with("millstream: ") && !line.contains('\r'), "{line:?}");
        let is_it = line.contains(" yes > ") && line.ends_with(", full");
        if is_it && let Some(mut stdin) = stdin.take() {
            stdin.write_all(b"\n").unwrap();
        }
        is_shown || is_it
    });
    let seen = common::Seen::from(run.wait_with_output().unwrap());
    assert!(is_shown);
    assert_eq!((seen.stdout.as_str(), seen.code), ("y", Some(0)));
}

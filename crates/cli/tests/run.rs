//! `millstream run`: how it is used, what it does to pipes, and how it fails.

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use common::{PIPE_SIZES, Scratch, Seen, millstream, output, run, set_mode};

const PYTHON_PIPE_SIZE: &str = "import os, fcntl; r, w = os.pipe2(0); print(fcntl.fcntl(r, 1032))";

fn exited(seen: &Seen) -> Option<i32> {
    assert_eq!(seen.signal, None, "{seen:?}");
    seen.code
}

/// One line, from us, and it names the way out.
fn assert_one_sentence(seen: &Seen, says: &str) {
    assert_eq!(seen.stderr.lines().count(), 1, "{seen:?}");
    assert!(seen.stderr.starts_with("millstream: "), "{seen:?}");
    assert!(seen.stderr.contains(says), "{says:?} in {seen:?}");
    assert_eq!(seen.stdout, "");
}

#[test]
fn a_pipe_of_an_unmodified_program_is_large() {
    let size: usize = run(&["--", "python3", "-c", PYTHON_PIPE_SIZE]).stdout.trim().parse().unwrap();
    assert!(size >= 262_144, "{size}");
}

#[test]
fn the_size_can_be_given() {
    for (asked, granted) in
        [("128K", "131072"), ("100000", "131072"), ("1M", "1048576"), ("4096", "4096"), ("1", "4096")]
    {
        assert_eq!(
            run(&["--pipe-size", asked, "--", "python3", "-c", PYTHON_PIPE_SIZE]).stdout.trim(),
            granted,
            "{asked}"
        );
    }
}

#[test]
fn where_the_kernel_refuses_the_run_goes_on_with_what_it_gives() {
    // Above pipe-max-size without CAP_SYS_RESOURCE: half, and half of that, until it is granted.
    let limit = fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap();
    let script = format!("{PYTHON_PIPE_SIZE}; print('went on')");
    let seen =
        output(
            std::process::Command::new("setpriv")
                .args(["--bounding-set", "-sys_resource", "--inh-caps", "-all"])
                .args([common::program(), "run", "--pipe-size", "2G", "--", "python3", "-c", &script]),
        );
    assert_eq!(seen.stdout, format!("{}\nwent on\n", limit.trim()), "{seen:?}");
}

#[test]
fn a_script_runs_in_the_users_shell_or_the_one_that_is_given() {
    let script = "echo $0 $1 ${BASH_VERSION:+bash}";
    let shell_of = |arguments: &[&str], variable: Option<&str>| {
        let mut command = millstream(arguments);
        command.env_remove("SHELL");
        variable.map(|shell| command.env("SHELL", shell));
        output(&mut command).stdout
    };
    assert_eq!(shell_of(&["run", "-c", script, "name", "one"], Some("/bin/bash")), "name one bash\n");
    assert_eq!(shell_of(&["run", "-c", script, "name", "one"], Some("/bin/dash")), "name one\n");
    assert_eq!(shell_of(&["run", "--shell", "bash", "-c", script, "name"], Some("/bin/dash")), "name bash\n");
    assert_eq!(shell_of(&["run", "-c", "echo ran"], None), "ran\n");
}

#[test]
fn pipes_standing_on_stdin_and_stdout_become_large_and_chosen_sizes_stay() {
    let scratch = Scratch::new();
    // Static: no process but the run itself can have enlarged them.
    let sizes = scratch.c_program("sizes", PIPE_SIZES, &["-static"]);
    let mut child = millstream(["run", "--pipe-size", "512K", "--", &sizes, "0", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdin.take());
    assert_eq!(Seen::from(child.wait_with_output().unwrap()).stdout, "524288\n524288\n");

    let script = format!(
        "import os, fcntl, subprocess; r, w = os.pipe(); fcntl.fcntl(r, 1031, 8192); \
         subprocess.run(['{}', 'run', '--', '{sizes}', '0'], stdin=r)",
        common::program()
    );
    assert_eq!(output(std::process::Command::new("python3").args(["-c", &script])).stdout, "8192\n");
}

/// `os.pipe` is `pipe2` with `O_CLOEXEC`.
#[test]
fn pipe_of_a_program_is_enlarged_when_another_program_gets_it() {
    let sizes = "import os, subprocess, fcntl\n\
                 r, w = os.pipe()\n\
                 print(fcntl.fcntl(r, 1032), flush=True)\n\
                 subprocess.run(['python3', '-c', 'import fcntl; print(fcntl.fcntl(0, 1032))'], stdin=r)";
    let said = |options: &[&str]| {
        let seen = run(&[options, &["--", "python3", "-c", sizes]].concat());
        seen.stdout.lines().map(|line| line.parse().unwrap()).collect::<Vec<u32>>()
    };
    for ring in ["--ring", "--no-ring"] {
        let [alone, shared] = said(&[ring])[..] else { panic!("{ring}") };
        assert!(alone == 65_536 && shared >= 262_144, "{ring}: {alone} {shared}");
        assert_eq!(said(&[ring, "--pipe-size", "1M"]), [1 << 20, 1 << 20], "{ring}");
    }
}

#[test]
fn what_waits_in_a_standing_pipe_is_not_lost() {
    let script = format!("(seq 5000; sleep 0.2; seq 5000) | {} run -- cat | cksum", common::program());
    let with = output(std::process::Command::new("sh").args(["-c", &script])).stdout;
    let without = output(std::process::Command::new("sh").args(["-c", "(seq 5000; seq 5000) | cksum"])).stdout;
    assert_eq!(with, without);
}

#[test]
fn exit_statuses_are_the_commands_own() {
    for code in [0, 1, 7, 125, 255] {
        for stats in [&[][..], &["--stats"]] {
            let script = format!("exit {code}");
            let seen = run(&[stats, &["--", "sh", "-c", &script]].concat());
            assert_eq!(exited(&seen), Some(code), "{stats:?}");
        }
    }
}

#[test]
fn death_by_a_signal_is_passed_on_as_death_by_that_signal() {
    for signal in [1, 2, 6, 9, 11, 13, 15, 34, 64] {
        for stats in [&[][..], &["--stats"]] {
            let script = format!("kill -{signal} $$");
            let seen = run(&[stats, &["--", "sh", "-c", &script]].concat());
            assert_eq!((seen.code, seen.signal), (None, Some(signal)), "{stats:?}");
        }
    }
    let shell = format!("{} run --stats -- sh -c 'kill -TERM $$' 2>/dev/null; echo $?", common::program());
    assert_eq!(output(std::process::Command::new("bash").args(["-c", &shell])).stdout, "143\n");
}

#[test]
fn what_cannot_be_found_is_127() {
    let scratch = Scratch::new();
    let file = scratch.file("file", "");
    for (command, says) in [
        ("no-such-command-anywhere", "no directory in PATH has it"),
        ("/nonexistent/command", "there is no such file"),
        (&format!("{file}/command"), "not a directory"),
        ("", "the name of the command is empty"),
    ] {
        for stats in [&[][..], &["--stats"]] {
            let seen = run(&[stats, &["--", command]].concat());
            assert_eq!(exited(&seen), Some(127), "{command}");
            assert_one_sentence(&seen, says);
        }
    }
}

#[test]
fn what_is_found_and_cannot_run_is_126() {
    let scratch = Scratch::new();
    let script = scratch.file("unreadable", "#!/bin/sh\necho never\n");
    set_mode(&scratch.path("unreadable"), 0);
    let orphan = scratch.executable("orphan", "#!/nonexistent/interpreter\n");
    let directory = scratch.path("").to_str().unwrap().to_owned();
    for (command, says) in [(script, "is it executable?"), (orphan, "interpreter"), (directory, "it is a directory")] {
        for stats in [&[][..], &["--stats"]] {
            let seen = run(&[stats, &["--", &command]].concat());
            assert_eq!(exited(&seen), Some(126), "{command}");
            assert_one_sentence(&seen, says);
        }
    }
}

#[test]
fn wrong_use_is_one_sentence_and_2() {
    for (arguments, says) in [
        (&["--no-such-option"][..], "--no-such-option"),
        (&["--stat", "--", "true"], "--stats"),
        (&["--pipe-size", "12x", "--", "true"], "a size is a number"),
        (&["--pipe-size", "0", "--", "true"], "a size is a number"),
        (&["--pipe-size", "3G", "--", "true"], "limit for a pipe is 2G"),
        (&["--pipe-size"], "--pipe-size"),
        (&["--stats=xml", "--", "true"], "xml"),
        (&["--shell", "bash", "--", "true"], "-c"),
        (&["--stats-file", "/nonexistent/file", "--", "true"], "cannot write the statistics to '/nonexistent/file'"),
        (&[], "no command"),
        (&["--"], "no command"),
    ] {
        let seen = run(arguments);
        assert_eq!(exited(&seen), Some(2), "{arguments:?}: {seen:?}");
        assert_one_sentence(&seen, says);
    }
    let nothing = output(&mut millstream::<_, &str>([]));
    assert_eq!(nothing.code, Some(2));
    assert_one_sentence(&nothing, "--help");
}

#[test]
fn options_of_the_command_are_its_own() {
    assert_eq!(run(&["echo", "--stats", "-c", "--help"]).stdout, "--stats -c --help\n");
    assert_eq!(run(&["--", "echo", "--", "x"]).stdout, "-- x\n");
}

#[test]
fn arguments_and_environment_need_not_be_utf8() {
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let output = millstream(["run", "--", "sh", "-c", "printf %s \"$1$ODD\" | od -An -tx1", "sh"])
        .arg(odd)
        .env("ODD", odd)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "63 61 66 e9 63 61 66 e9");
}

#[test]
fn no_process_of_ours_stays_without_stats() {
    let mut child = millstream(["run", "--", "sh", "-c", "echo $$"]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(text.trim(), pid.to_string(), "the command has the process number of the run");
}

#[test]
fn help_has_examples_and_every_command_has_help() {
    for (arguments, shows) in [
        (&["--help"][..], "bench"),
        (&["run", "--help"], "Examples:"),
        (&["bench", "--help"], "grep"),
        (&["bench", "grep", "--help"], "Examples:"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let seen = output(&mut millstream(arguments));
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""), "{arguments:?}");
        assert!(seen.stdout.contains(shows), "{arguments:?}");
    }
}

#[test]
fn help_into_a_closed_pipe_is_no_error() {
    let script = format!("{} run --help | true; echo ${{PIPESTATUS[0]}}", common::program());
    for _ in 0..20 {
        let seen = output(std::process::Command::new("bash").args(["-c", &script]));
        assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), ("0\n", ""));
    }
}

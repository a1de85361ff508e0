//! `exec`: a command as a stage, the same bytes as in a pipeline, and nothing left of it however it ends.

mod common;

use std::fs;
use std::io::{BufRead, Write};
use std::process::{Command, Stdio};

use common::{Scratch, Seen, millstream, output};

fn net(line: &str) -> Seen {
    output(&mut millstream(["net", line]))
}

/// Writes exactly this and nothing else.
fn assert_writes(line: &str, expected: &str) {
    let seen = net(line);
    assert_eq!((seen.code, &*seen.stdout, &*seen.stderr), (Some(0), expected, ""), "{line}");
}

/// Numbers, a megabyte and a half of them: more than all buffers on the way hold.
fn numbers(scratch: &Scratch) -> String {
    let text: String = (0..220_000).map(|number| format!("{number}\n")).collect();
    scratch.file("numbers", &text)
}

#[test]
fn a_command_writes_what_it_writes_in_a_pipeline() {
    let scratch = Scratch::new();
    let input = numbers(&scratch);
    for (stages, pipeline) in [
        ("exec tr 0-9 a-j", "tr 0-9 a-j"),
        ("exec sort -r", "sort -r"),
        ("upper | exec sed 's/1$/x y/' | grep x | exec sort -n | count", "sed 's/1$/x y/' | grep x | sort -n | wc"),
        ("exec sh -c 'gzip | cat' | gunzip | exec md5sum", "md5sum"),
        // Writes a lot before it reads, a lot while it does, and a lot afterwards.
        (
            "exec sh -c 'head -c 3000000 /dev/zero; sed p; head -c 3000000 /dev/zero' | sha256 | exec cksum",
            "(head -c 3000000 /dev/zero; sed p; head -c 3000000 /dev/zero) | cksum",
        ),
        ("exec echo 'does not  read'", "echo 'does not  read'"),
        ("exec head -n 3", "head -n 3"),
        ("exec cat | head -n 3", "head -n 3"),
        ("exec true", "true"),
    ] {
        let expected =
            output(Command::new("bash").args(["-c", &format!("cat '{input}' | {pipeline}")]).env("LC_ALL", "C"));
        let mut command = millstream(["net", &format!("read '{input}' | {stages}")]);
        let seen = output(command.env("LC_ALL", "C"));
        assert_eq!(seen.code, Some(0), "{stages}: {}", seen.stderr);
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
        let is_same = if stages.ends_with("count") {
            words(&seen.stdout) == words(&expected.stdout)
        } else {
            seen.stdout == expected.stdout
        };
        assert!(is_same, "{stages}: {} and {} bytes", seen.stdout.len(), expected.stdout.len());
    }
}

#[test]
fn a_command_that_reads_no_more_ends_an_endless_source() {
    assert_writes("read /dev/zero | exec head -c 5 | hex", "0000000000");
    assert_writes("read /dev/zero | exec cat | head -c 5 | hex", "0000000000");
    assert_writes("read /dev/zero | exec cat | exec cat | exec head -c 2 | hex", "0000");
    // Closes its input and goes on.
    assert_writes("read /dev/zero | exec sh -c 'exec <&-; sleep 0.1; echo done'", "done\n");
}

#[test]
fn what_comes_of_a_command_goes_on_at_once() {
    let mut child =
        millstream(["net", "exec cat | upper"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = std::io::BufReader::new(stdout).lines();
    for line in ["ab", "xbx"] {
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), line.to_uppercase());
    }
    drop(stdin);
    assert!(lines.next().is_none() && child.wait().unwrap().success());
}

#[test]
fn a_command_that_fails_is_an_error_with_its_status_and_its_words() {
    let scratch = Scratch::new();
    let input = scratch.file("in", "0123456789\n");
    let old = scratch.file("out", "old");
    for (stage, status, says) in [
        ("exec false", 1, "the command ended with status 1"),
        ("exec sh -c 'cat; exit 3'", 3, "at byte 11 of its input: the command ended with status 3"),
        (
            "exec sh -c 'cat >&2; echo oops >&2; exit 4'",
            4,
            "at byte 11 of its input: the command ended with status 4; it said last: oops",
        ),
        ("exec sh -c 'cat; kill -9 $$'", 137, "at byte 11 of its input: the command was killed by signal 9 (SIGKILL)"),
        ("exec sh -c 'cat; kill -TERM $$'", 143, "the command was killed by signal 15 (SIGTERM)"),
        (
            "exec millstream-nowhere",
            127,
            "at byte 0 of its input: cannot run 'millstream-nowhere': no directory in PATH has it",
        ),
        ("exec ./nowhere", 127, "cannot run './nowhere': there is no such file"),
        ("exec /etc/passwd", 126, "cannot run '/etc/passwd': permission denied; is it executable?"),
        ("exec true | exec false", 1, "exec false: at byte 0 of its input: the command ended with status 1"),
    ] {
        let seen = net(&format!("read '{input}' | {stage} | write '{old}'"));
        let last = seen.stderr.lines().last().unwrap_or_default();
        assert!(
            seen.code == Some(status) && last.starts_with("millstream: exec ") && last.contains(says),
            "{stage}: {seen:?}"
        );
        assert_eq!(fs::read_to_string(&old).unwrap(), "old", "{stage}");
    }
    // What it says when all is well is its own business.
    let seen = net(&format!("read '{input}' | exec sh -c 'echo by the way >&2; cat'"));
    assert_eq!((seen.code, &*seen.stdout, &*seen.stderr), (Some(0), "0123456789\n", "by the way\n"));
}

/// Processes that have this word among their arguments.
fn processes_with(word: &str) -> usize {
    let has_it = |entry: &fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    fs::read_dir("/proc").unwrap().flatten().filter(|entry| has_it(entry)).count()
}

#[test]
fn nothing_is_left_of_a_command_when_the_network_fails() {
    let scratch = Scratch::new();
    let (input, out) = (numbers(&scratch), scratch.path("out"));
    let word = format!("millstream-exec-{}", std::process::id());
    // Neither reads, writes nor ends. The word is for us to find it.
    let idle = format!("exec python3 -c 'import time; time.sleep(1000)' {word}");
    for (stages, status) in [
        (format!("error 100 | {idle}"), 1),
        (format!("gzip | error 5000 | gunzip | {idle} | gzip"), 1),
        (format!("exec sh -c 'exit 5' | {idle}"), 5),
        // Some do not even start.
        (format!("{idle} | exec millstream-nowhere"), 127),
        (format!("exec millstream-nowhere | {idle}"), 127),
        // Something behind it fails while it has more to say, and before it goes on reading.
        (format!("exec python3 -c 'import time; print(1, flush=True); time.sleep(1000)' {word} | error 0"), 1),
    ] {
        let seen = net(&format!("read '{input}' | {stages} | write '{}'", out.display()));
        assert_eq!(seen.code, Some(status), "{stages}: {seen:?}");
        assert_eq!(processes_with(&word), 0, "{stages}");
        assert!(!out.exists(), "{stages}");
    }
}

#[test]
fn exit_status_is_that_of_the_command_that_failed_first() {
    let scratch = Scratch::new();
    let input = numbers(&scratch);
    for (stages, status, says) in [
        // What stands behind gets no end of the stream: it does not fail as well, though it would.
        ("exec sh -c 'head -c 9; exit 3' | exec sh -c 'cat; exit 4' | exec sh -c 'cat; exit 5'", 3, "exit 3'"),
        ("exec cat | exec sh -c 'cat; exit 4' | exec sh -c 'cat; exit 5'", 4, "exit 4'"),
        ("exec cat | exec cat | exec sh -c 'cat; exit 5'", 5, "exit 5'"),
        // What stands in front is ended by SIGPIPE, which is no failure of its own.
        ("exec cat | exec cat | exec sh -c 'exit 6'", 6, "exit 6'"),
        ("exec cat | exec sh -c 'cat; kill -SEGV $$' | exec cat", 139, "signal 11"),
        // Statuses that mean something else of our own are handed on too.
        ("exec cat | exec sh -c 'exit 2'", 2, "exit 2'"),
        ("exec cat | exec sh -c 'exit 255'", 255, "exit 255'"),
    ] {
        let seen = net(&format!("read '{input}' | {stages} | exec wc -c"));
        assert!(seen.code == Some(status) && seen.stderr.contains(says), "{stages}: {seen:?}");
    }
}

#[test]
fn a_command_does_not_outlive_a_network_that_is_killed() {
    let scratch = Scratch::new();
    let word = format!("millstream-killed-{}", std::process::id());
    let line = format!(
        "exec python3 -c 'import time; print(1, flush=True); time.sleep(1000)' '{word}' | write '{}'",
        scratch.path("out").display()
    );
    let mut child = millstream(["net", &line]).stdin(Stdio::piped()).spawn().unwrap();
    // Ours has the word within a longer argument.
    common::wait_for("the command", || processes_with(&word) == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    common::wait_for("its end", || processes_with(&word) == 0);
}

#[test]
fn what_a_command_has_started_is_not_waited_for_when_the_network_fails() {
    let scratch = Scratch::new();
    let input = numbers(&scratch);
    let mark = scratch.path("mark");
    fs::write(&mark, "").unwrap();
    // It holds the command's output and what it says open. It ends when the mark is gone, with the directory at the latest:
    // a mark that is made just before the directory goes may never be seen.
    let other = format!("while [ -e {} ]; do sleep 0.05; done", mark.display());
    let seen = net(&format!("read '{input}' | exec sh -c '({other}) & cat' | error 100 | write /dev/null"));
    fs::remove_file(&mark).unwrap();
    assert!(seen.code == Some(1) && seen.stderr.contains("error 100: at byte 100"), "{seen:?}");
}

#[test]
fn both_notations_and_everything_about_them_know_commands() {
    let scratch = Scratch::new();
    let file = scratch.file(
        "n.toml",
        "[nodes.in]\nread = '-'\n[nodes.a]\nfrom = 'in'\ndo = \"exec tr a-z 'n-za-m' | upper\"\n[nodes.out]\nfrom = 'a'\nwrite = '-'\n\
         [[test]]\nname = 'rot13'\ninput.in = \"hello\\n\"\noutput.out = \"URYYB\\n\"\n",
    );
    let seen = output(&mut millstream(["net", "test", &file]));
    assert_eq!((seen.code, &*seen.stdout), (Some(0), "ok      rot13\n"), "{seen:?}");
    let line = "exec sh -c 'cat; echo \"a|b\"' | gzip";
    let seen = output(&mut millstream(["net", "check", line]));
    let printed = seen.stdout.trim_end().to_owned();
    assert_eq!(output(&mut millstream(["net", "check", &printed])).stdout, seen.stdout, "{seen:?}");
    let toml = scratch.file("again.toml", &output(&mut millstream(["net", "check", "--toml", line])).stdout);
    assert_eq!(output(&mut millstream(["net", "check", &toml])).stdout, seen.stdout);
    let seen = output(&mut millstream(["net", "explain", "exec cat | upper"]));
    assert!(seen.stdout.contains("two copies, into a pipe and out of another"), "{seen:?}");
    let seen = output(&mut millstream(["net", "inverse", "exec cat"]));
    assert!(seen.code == Some(2) && seen.stderr.contains("nothing undoes 'exec'"), "{seen:?}");
}

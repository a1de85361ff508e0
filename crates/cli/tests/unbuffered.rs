//! `millstream run --unbuffered`: each line leaves each program at once, while the programs go on.

mod common;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Scratch, can_attach, millstream, output, wait_for};

/// A run that goes on, whose lines are read as they come. It ends with all its processes when the test ends.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Running {
    fn new(mut command: Command) -> Running {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, lines) = channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Running { child, input, lines }
    }

    /// A script under `run --unbuffered`.
    fn script(options: &[&str], script: &str) -> Running {
        let run = ["run", "--unbuffered", "--shell", "/bin/bash"];
        Running::new(millstream([&run, options, &["-c", script]].concat()))
    }

    fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line, though no program has ended. The time only bounds how long a failure takes.
    #[track_caller]
    fn expect(&self, line: &str) {
        let seen = self.lines.recv_timeout(Duration::from_secs(60));
        assert_eq!(seen.as_deref(), Ok(line), "the line was not shown while the programs ran");
    }

    /// Each of three lines comes out before the next is written.
    #[track_caller]
    fn passes_each_line(&mut self, shown: impl Fn(&str) -> String) {
        for line in ["first line", "second line", "third line"] {
            self.write(line);
            self.expect(&shown(line));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ =
            Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

#[test]
fn each_line_of_a_file_that_grows_is_shown_at_once() {
    let scratch = Scratch::new();
    for (at, options) in [
        &[][..],
        &["--no-ring"],
        // Shared memory from the first byte, so the small records go through the ring.
        &["--ring-after", "1"],
        &["--stats", "--stats-file", "/dev/null"],
    ]
    .into_iter()
    .enumerate()
    {
        let log = scratch.file(&format!("log{at}"), "");
        let stages = ["grep --invert-match bot", "sed 's/ /, /'", "gawk '{ print NR \": \" $0 }'"];
        let running = Running::script(options, &format!("tail -n +1 -f {log} | {}", stages.join(" | ")));
        let mut log = OpenOptions::new().append(true).open(&log).unwrap();
        for number in 1..=20 {
            writeln!(log, "a bot\nline {number}").unwrap();
            running.expect(&format!("{number}: line, {number}"));
        }
    }
}

/// Otherwise the test above would not have seen small records in shared memory.
#[test]
fn lines_go_through_shared_memory_one_by_one() {
    if !can_attach() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.path("stats");
    let options = ["--ring-after", "1", "--stats=json", "--stats-file", file.to_str().unwrap()];
    let goes_through_ring = || {
        let mut running = Running::script(&options, "grep . | sed p -n | sed p -n | cat");
        for number in 0..30 {
            running.write(&format!("line {number}"));
            running.expect(&format!("line {number}"));
        }
        drop(running.input.take());
        assert_eq!(running.child.wait().unwrap().code(), Some(0));
        let stats = common::statistics(&file);
        stats["pipes"].as_array().unwrap().iter().any(|pipe| pipe["path"] == "ring")
    };
    assert!((0..10).any(|_| goes_through_ring()), "no line went through shared memory");
}

#[test]
fn tools_without_a_use_for_pipes_flush_too() {
    for options in [&[][..], &["--no-ring"]] {
        for stage in ["cut -c 1-", "tr -d X", "uniq", "paste -", "sed -n p", "grep .", "head -n 9"] {
            Running::script(options, &format!("{stage} | cat")).passes_each_line(str::to_owned);
        }
    }
    // Several of them, of which the second starts after the first has been brief.
    let script = "for i in 1 2 3; do echo a | cut -c 1 | cat; done; cut -c 1- | tr l L | cat";
    let mut running = Running::script(&[], script);
    (0..3).for_each(|_| running.expect("a"));
    running.passes_each_line(|line| line.replace('l', "L"));
}

#[test]
fn languages_with_buffers_of_their_own_flush() {
    for stage in [
        "python3 -c 'import sys\nfor line in sys.stdin: print(line, end=\"\")'",
        "perl -ne 'print'",
        "ruby -ne 'print'",
        // Below a shell and `env`, as in scripts.
        "env A=1 sh -c 'perl -pe 1'",
        "bash -c 'python3 -c \"while True: print(input())\"; :'",
    ] {
        Running::script(&[], &format!("{stage} | cat")).passes_each_line(str::to_owned);
    }
}

#[test]
fn options_of_the_user_for_perl_and_ruby_hold() {
    let script = "perl -e 'print \"$^W $|\"'; ruby -e 'print \" #{$VERBOSE} #{$stdout.sync}\"'";
    let mut run = millstream(["run", "--unbuffered", "-c", script]);
    let seen = output(run.env("PERL5OPT", "-w").env("RUBYOPT", "-W2"));
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.code), ("1 1 true true", "", Some(0)));
}

#[test]
fn children_of_children_and_streams_to_commands_flush() {
    let scratch = Scratch::new();
    let copy = scratch.c_program(
        "copy",
        "#include <stdio.h>\nint main(void) { char l[99]; while (fgets(l, 99, stdin)) printf(\"%s\", l); return 0; }\n",
        &[],
    );
    let parent = scratch.c_program(
        "parent",
        &format!(
            "#include <sys/wait.h>\n#include <unistd.h>\n\
             int main(void) {{ if (fork() == 0) {{ execl(\"{copy}\", \"copy\", (char *)0); _exit(9); }} return wait(0) < 0; }}\n"
        ),
        &[],
    );
    let to_command = scratch.c_program(
        "command",
        r#"
        #include <stdio.h>
        int main(void) {
            char line[99];
            FILE *command = popen("exec cat", "w");
            while (fgets(line, sizeof line, stdin)) fputs(line, command);
            return pclose(command);
        }"#,
        &["-w"],
    );
    for stage in [copy.as_str(), &parent, &to_command, &format!("timeout 600 {parent}"), "gawk '{ print | \"cat\" }'"] {
        Running::script(&[], &format!("{stage} | cat")).passes_each_line(str::to_owned);
    }
}

#[test]
fn last_program_flushes_into_a_file() {
    let scratch = Scratch::new();
    let file = scratch.file("shown", "");
    let mut running = Running::script(&[], &format!("cat | sed s/line/LINE/ >{file}"));
    running.write("a line");
    wait_for("the line in the file", || fs::read_to_string(&file).unwrap() == "a LINE\n");
}

#[test]
fn run_inside_a_run_flushes_as_well() {
    let run = format!("{} run", common::program());
    for inner in [format!("{run} -- cut -c 1-"), format!("{run} --stats --stats-file /dev/null -- cut -c 1-")] {
        Running::script(&[], &format!("{inner} | cat")).passes_each_line(str::to_owned);
    }
}

/// What comes out, and how it ends, is what it was.
#[test]
fn results_stay_the_same() {
    let script = "seq 20000 | grep 7 | sed 's/7/x/' | sort -r | gawk '{ n += length($0) } END { print n; exit 3 }'";
    let seen =
        |options: &[&str]| output(millstream(["run"]).args(options).args(["--shell", "/bin/bash", "-c", script]));
    let bare = output(Command::new("/bin/bash").args(["-c", script]).stdin(Stdio::null()));
    assert_eq!(bare.code, Some(3));
    for options in [&["--unbuffered"][..], &["--unbuffered", "--ring-after", "1"]] {
        assert_eq!(seen(options), bare, "{options:?}");
    }
    let wrong = output(&mut millstream(["run", "--unbuffered=lines", "-c", ":"]));
    assert_eq!((wrong.code, wrong.stderr.lines().count()), (Some(2), 1), "{wrong:?}");
}

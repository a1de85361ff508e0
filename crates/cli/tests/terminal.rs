//! At a terminal: keys, job control, standard input from a pty.
//!
//! A Python program plays the terminal: it opens a pty, starts a command as the session's foreground job, types, and
//! prints what the screen showed and how the command ended.

mod common;

use std::process::Command;

use common::{Seen, output, program};

/// `terminal SCRIPT COMMAND...`; SCRIPT is Python with `wait(text)`, `key(bytes)`, and `pid`.
const TERMINAL: &str = r#"
import os, pty, select, signal, sys, time
script, command = sys.argv[1], sys.argv[2:]
pid, screen = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
shown = b''
def pump():
    global shown
    if select.select([screen], [], [], 0.05)[0]:
        try: shown += os.read(screen, 65536)
        except OSError: return False
    return True
def wait(text):
    limit = time.monotonic() + 60
    while text not in shown:
        assert pump() or text in shown, (text, shown)
        assert time.monotonic() < limit, ('waited in vain for', text, shown)
def key(bytes):
    os.write(screen, bytes)
exec(script)
while pump(): pass
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(shown)
print('ended:', os.waitstatus_to_exitcode(status))
"#;

fn terminal(script: &str, command: &[&str]) -> Seen {
    let seen = output(Command::new("python3").args(["-c", TERMINAL, script]).args(command));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    seen
}

/// Bare, under `run`, and under `run --stats`: the same screen and the same end. But for the echo of a key that ends the command: the
/// terminal hangs up with it, and the echo may be lost.
fn same_everywhere(script: &str, command: &[&str]) -> String {
    let shown = |words: &[&str]| {
        let seen = terminal(script, words);
        Seen { stdout: seen.stdout.replace("^C", "").replace("^\\", ""), ..seen }
    };
    let bare = shown(command);
    for options in [&["run"][..], &["run", "--stats", "--stats-file", "/dev/null"]] {
        let words = [&[program()], options, &["--"], command].concat();
        assert_eq!(bare, shown(&words), "{options:?}");
    }
    bare.stdout
}

#[test]
fn ctrl_c_ends_the_whole_group() {
    let screen = same_everywhere("wait(b'ready'); key(b'\\x03')", &["sh", "-c", "sleep 1000 | (echo ready; cat)"]);
    assert!(screen.ends_with("ended: -2\n"), "{screen}");
}

#[test]
fn ctrl_c_that_the_program_handles_ends_nothing() {
    let script = "trap 'echo handled; exit 7' INT; echo ready; while :; do sleep 0.01; done";
    let screen = same_everywhere("wait(b'ready'); key(b'\\x03')", &["sh", "-c", script]);
    assert!(screen.contains("handled") && screen.ends_with("ended: 7\n"), "{screen}");
}

#[test]
fn ctrl_backslash_is_death_by_sigquit() {
    let screen = same_everywhere("wait(b'ready'); key(b'\\x1c')", &["sh", "-c", "echo ready; exec sleep 1000"]);
    assert!(screen.ends_with("ended: -3\n"), "{screen}");
}

#[test]
fn standard_input_is_a_terminal_and_can_be_read() {
    let screen = same_everywhere(
        "wait(b'name?'); key(b'mill\\n')",
        &["sh", "-c", "test -t 0 && test -t 1 && echo name?; read x; echo hello $x | cat"],
    );
    assert!(screen.contains("hello mill"), "{screen}");
}

#[test]
fn the_size_of_the_window_is_seen_and_its_change_is_told() {
    let resize = "import fcntl, termios, struct\nwait(b'ready\\r\\n')\nfcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 77, 0, 0))";
    let python = "import os, signal, time\nsignal.signal(signal.SIGWINCH, lambda *a: (print(tuple(os.get_terminal_size())), os._exit(0)) if os.get_terminal_size()[0] == 77 else 0)\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)";
    let screen = same_everywhere(resize, &["python3", "-u", "-c", python]);
    assert!(screen.contains("(77, 33)"), "{screen}");
}

/// An interactive shell with job control starts the run, stops it with Ctrl-Z, and continues it.
#[test]
fn a_run_can_be_stopped_and_continued_from_a_shell() {
    for options in ["run", "run --stats --stats-file /dev/null"] {
        let command = format!("{} {options} -- sh -c 'echo rea\"\"dy; read x; echo got $x | cat'", program());
        let script = format!(
            "wait(b'bash-'); key({:?}.encode() + b'\\n'); wait(b'ready'); key(b'\\x1a'); wait(b'Stopped'); \
             key(b'fg\\n'); time.sleep(0.1); key(b'again\\n'); wait(b'got again'); key(b'exit 0\\n')",
            command
        );
        let seen = terminal(&script, &["bash", "--norc", "--noprofile", "-i"]);
        assert!(seen.stdout.contains("got again") && seen.stdout.ends_with("ended: 0\n"), "{options}: {seen:?}");
    }
}

/// The supervisor must not lose the terminal to the shell that it runs.
#[test]
fn an_interactive_shell_runs_inside_a_run() {
    let script = "wait(b'bash-'); key(b'echo one | cat; (exit 3)\\n'); wait(b'one'); key(b'exit 9\\n')";
    for options in [&["run"][..], &["run", "--stats", "--stats-file", "/dev/null"]] {
        let words = [&[program()], options, &["--", "bash", "--norc", "--noprofile", "-i"]].concat();
        let seen = terminal(script, &words);
        assert!(seen.stdout.ends_with("ended: 9\n"), "{options:?}: {seen:?}");
    }
}

#[test]
fn statistics_follow_the_output_on_the_screen() {
    let seen = terminal("", &[program(), "run", "--stats", "--", "sh", "-c", "echo shown | cat"]);
    let (output, statistics) = seen.stdout.split_once("millstream: ").unwrap();
    assert!(output.contains("shown") && statistics.contains("made by"), "{seen:?}");
}

/// The key reaches the supervisor too, and must not end it before it has reported.
#[test]
fn statistics_are_shown_after_ctrl_c() {
    for _ in 0..10 {
        let command = [program(), "run", "--stats", "--", "sh", "-c", "echo ready; exec sleep 1000"];
        let seen = terminal("wait(b'ready'); key(b'\\x03')", &command);
        assert!(seen.stdout.contains("killed by signal 2") && seen.stdout.ends_with("ended: -2\n"), "{seen:?}");
    }
}

#[test]
fn progress_is_drawn_on_a_terminal_and_erased() {
    let scratch = common::Scratch::new();
    let text = scratch.file("text", &"some text\n".repeat(1000));
    let seen = terminal(
        "",
        &[program(), "bench", "grep", "--file", &text, "--pairs", "5", "--workload", "cat-cat", "--placement", "1cpu"],
    );
    let last_progress = seen.stdout.rfind(" s left").expect("progress");
    assert!(seen.stdout[last_progress..].contains("\r\u{1b}[K"), "{seen:?}");
}

#[test]
fn progress_of_a_run_is_one_line_on_a_terminal_and_erased() {
    let script = "yes | (read -r _ </dev/tty; head -c 1) | cat";
    let seen = terminal("wait(b'yes > '); key(b'\\n')", &[program(), "run", "--progress", "--", "bash", "-c", script]);
    let last = seen.stdout.rfind("yes > ").unwrap();
    assert!(seen.stdout[last..].contains("\r\u{1b}[K"), "{seen:?}");
    assert!(seen.stdout.ends_with("ended: 0\n"), "{seen:?}");
}

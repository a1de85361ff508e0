//! The examples do what they say.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Built beside the tests: `cargo test -p millstream-pipe` makes the examples too.
fn example(name: &str) -> Command {
    let tests = std::env::current_exe().unwrap();
    let path: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(path.exists(), "{}: build it with 'cargo build --examples -p millstream-pipe'", path.display());
    Command::new(path)
}

/// What it prints. One that hangs is ended, and fails.
fn printed(name: &str, arguments: &[&str]) -> String {
    let mut child = example(name).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Sanitizers skip them by this name: what they run is built without one.
mod examples {
    use super::*;

    #[test]
    fn hello_prints_what_was_written() {
        assert_eq!(printed("hello", &[]), "hello from the other end\n");
    }

    #[test]
    fn child_process_answers_over_a_second_pipe() {
        assert_eq!(printed("child_process", &["millstream"]), "MILLSTREAM (exit status: 0)\n");
    }

    #[test]
    fn event_loop_reads_every_pipe_to_its_end() {
        // "pipe N, line N\n" has 15 bytes while N is a digit.
        assert_eq!(printed("event_loop", &["9"]), format!("{} bytes from 9 pipes\n", 9 * 3 * 15));
    }

    #[test]
    fn reserve_commit_loses_no_record() {
        let squares: u128 = (0..100_000u128).map(|number| number * number).sum();
        assert_eq!(printed("reserve_commit", &["100000"]), format!("100000 records, sum {squares}\n"));
    }

    #[test]
    fn fifo_carries_lines_of_another_program() {
        assert_eq!(printed("fifo", &[]), "1: oats\n2: rye\n3: wheat\n");
    }
}

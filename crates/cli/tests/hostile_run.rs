//! The memory of a pipe under `run` is shared with the program at its other end. Whatever that writes there, and however it then
//! dies: its peer ends too, and not of a fault.
//!
//! What fails names the seed of its round.

mod common;

use std::process::Command;

use common::{Scratch, can_attach, output, statistics};

const ROUNDS: u64 = 60;
/// Seconds: far more than an end waits for a peer that lives.
const PATIENCE: &str = "60";
/// As the shell tells them: what a victim may end with. 141: SIGPIPE.
const ENDS: [&str; 3] = ["0", "1", "141"];

/// The status of the victim, and whether the pipe was in memory when the other began.
fn round(scratch: &Scratch, hostile: &str, seed: u64) -> (String, bool) {
    let (script, victim) = match hostile {
        "writer" => (format!("./hostile hostile writer {seed} | ./hostile victim reader"), 1),
        _ => (format!("./hostile victim writer | ./hostile hostile reader {seed}"), 0),
    };
    let stats = scratch.path("stats.json");
    let seen = output(
        Command::new("timeout")
            .args([
                "-s",
                "KILL",
                PATIENCE,
                common::program(),
                "run",
                "--ring-after",
                "1",
                "--stats=json",
                "--stats-file",
            ])
            .arg(&stats)
            .args(["--", "bash", "-c", &format!("{script}; echo ${{PIPESTATUS[{victim}]}} >&2")])
            .env_remove("LD_PRELOAD")
            .current_dir(scratch.path("")),
    );
    assert_eq!(seen.code, Some(0), "{hostile}, seed {seed}: hung: {seen:?}");
    statistics(&stats);
    let is_in_memory = !seen.stderr.contains("kernel");
    (seen.stderr.lines().last().unwrap_or_default().to_owned(), is_in_memory)
}

fn victims_end(hostile: &str) {
    if !can_attach() {
        return;
    }
    let scratch = Scratch::new();
    scratch.c_program("hostile", include_str!("hostile_run/hostile.c"), &["-O1"]);
    let mut in_memory = 0;
    for seed in 0..ROUNDS {
        let (status, is_in_memory) = round(&scratch, hostile, seed);
        assert!(ENDS.contains(&status.as_str()), "{hostile}, seed {seed}: the victim ended with {status}");
        in_memory += u64::from(is_in_memory);
    }
    assert!(in_memory > ROUNDS / 2, "only {in_memory} of {ROUNDS} pipes were in memory");
}

#[test]
fn reader_outlives_hostile_writer() {
    victims_end("writer");
}

#[test]
fn writer_outlives_hostile_reader() {
    victims_end("reader");
}

//! The soak in short, and that it finds what is wrong. `make soak` runs it for ten minutes:
//!
//! ```text
//! make soak MINUTES=60
//! target/release/millstream-soak --seed 1000172 --lanes 1 --lives 1    the life that a failure named, once more
//! ```

use std::collections::HashSet;
use std::process::{Command, Output};

fn soak(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream-soak")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Soaks for twenty seconds, which leave every byte accounted for; returns what has not happened in them.
fn never_in_twenty_seconds() -> HashSet<String> {
    let seen = soak(&["--seconds", "20"]);
    let (stdout, stderr) = (text(&seen.stdout), text(&seen.stderr));
    assert!(seen.status.success(), "{stdout}{stderr}");
    assert!(stdout.contains("every byte is accounted for, nothing is left"), "{stdout}");
    // Whether a reader finds an offer is up to the scheduler: on a slow machine none may in so short a time.
    let depends = |line: &str| line.contains("straight from the writer's memory");
    let counted: Vec<&str> = stdout.lines().filter(|line| line.starts_with("  ") && !depends(line)).collect();
    assert!(counted.len() > 15, "{stdout}");
    let is_nothing = |line: &&str| line.ends_with(": 0") || line.contains(": 0 ");
    counted.into_iter().filter(is_nothing).map(|line| line.split(": ").next().unwrap().to_owned()).collect()
}

#[test]
fn twenty_seconds_in_which_everything_happens_leave_every_byte_accounted_for() {
    let mut never = never_in_twenty_seconds();
    // A busy machine lives too few lives in that time for all that is rare: what has not happened is to happen in other lives.
    for _ in 0..9 {
        if never.is_empty() {
            break;
        }
        let again = never_in_twenty_seconds();
        never.retain(|what| again.contains(what));
    }
    assert_eq!(never, HashSet::new(), "has not happened");
}

#[test]
fn a_byte_that_is_lost_doubled_or_swapped_is_found() {
    let is_found = |mistake: &str| {
        let seen = soak(&["--seconds", "60", "--plant", &format!("{mistake}:10000000")]);
        let (stdout, stderr) = (text(&seen.stdout), text(&seen.stderr));
        assert_eq!(seen.status.code(), Some(1), "{mistake}: {stdout}{stderr}");
        assert!(stdout.contains("FAILED") && stderr.contains("of writer") || stderr.contains("unit"), "{stderr}");
        assert!(stderr.contains("the same again: --seed"), "{stderr}");
    };
    std::thread::scope(|scope| {
        for mistake in ["lost", "doubled", "swapped"] {
            scope.spawn(move || is_found(mistake));
        }
    });
}

#[test]
fn the_same_seed_plans_the_same_lives() {
    let plan = |seed| text(&soak(&["--plan", "--lives", "20", "--seed", seed]).stdout);
    assert_eq!(plan("77").lines().count(), 60);
    assert_eq!(plan("77"), plan("77"));
    assert_ne!(plan("77"), plan("78"));
}

#[test]
fn mistakes_in_its_options_are_told() {
    for (arguments, says) in [
        (&["--minutes", "1"][..], "there is no such option"),
        (&["--seconds"], "is missing"),
        (&["--seed", "x"], "x is no number"),
        (&["--plant", "lost:1"], "no number from 2 on"),
        (&["--plant", "found:10"], "none of lost, doubled, swapped"),
    ] {
        let seen = soak(arguments);
        assert_eq!(seen.status.code(), Some(2), "{seen:?}");
        assert!(text(&seen.stderr).contains(says), "{seen:?}");
    }
}

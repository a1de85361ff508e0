//! The storm in short, and that it finds what is wrong. `make storm` has it storm for two minutes:
//!
//! ```text
//! make storm STORM_SECONDS=600
//! target/release/millstream-storm --seed 17 --plain 50
//! ```

use std::process::{Command, Output};

fn storm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream-storm")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_accounted_for(arguments: &[&str]) -> String {
    let seen = storm(arguments);
    let (stdout, stderr) = (text(&seen.stdout), text(&seen.stderr));
    assert!(seen.status.success(), "{arguments:?}: {stdout}{stderr}");
    assert!(stdout.contains("every record is accounted for, nothing is left"), "{stdout}");
    stdout
}

/// What has been counted under this name.
fn counted(stdout: &str, name: &str) -> u64 {
    let line = stdout.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{name} is missing: {stdout}")).parse().unwrap()
}

#[test]
fn every_record_of_a_storm_of_ours_is_accounted_for() {
    let stdout = is_accounted_for(&["--seconds", "3", "--plain", "0"]);
    for what in ["records read", "bytes of ours through the ring", "killed"] {
        assert!(counted(&stdout, what) > 0, "{stdout}");
    }
}

#[test]
fn every_record_of_a_mixed_storm_is_accounted_for() {
    for percent in ["25", "75"] {
        let stdout = is_accounted_for(&["--seconds", "2", "--plain", percent]);
        for what in ["records read", "bytes of ours through the kernel", "killed"] {
            assert!(counted(&stdout, what) > 0, "{stdout}");
        }
    }
}

#[test]
fn every_record_of_a_storm_of_plain_programs_is_accounted_for() {
    let stdout = is_accounted_for(&["--seconds", "1", "--plain", "100"]);
    assert!(counted(&stdout, "records read") > 0, "{stdout}");
}

#[test]
fn a_record_that_is_lost_doubled_swapped_or_torn_is_found_and_so_is_a_process_that_is_left() {
    for (mistake, says) in [
        ("lost", "records were lost"),
        ("doubled", " came "),
        ("swapped", " came "),
        ("torn", "record"),
        ("left", "left behind"),
    ] {
        // Without kills, since a killed process could have taken the record along.
        let seen = storm(&["--seconds", "3", "--side", "8", "--plain", "50", "--kill", "never", "--plant", mistake]);
        let (stdout, stderr) = (text(&seen.stdout), text(&seen.stderr));
        assert_eq!(seen.status.code(), Some(1), "{mistake}: {stdout}{stderr}");
        assert!(stdout.contains("FAILED") && stderr.contains(says), "{mistake}: {stderr}");
        assert!(stderr.contains("much the same again: --seed"), "{stderr}");
    }
}

#[test]
fn mistakes_in_its_options_are_told() {
    for (arguments, says) in [
        (&["--minutes", "1"][..], "there is no such option"),
        (&["--seconds"], "is missing"),
        (&["--seed", "x"], "x is no number"),
        (&["--plant", "found"], "found is none of lost"),
        (&["--kill", "us"], "us is not"),
    ] {
        let seen = storm(arguments);
        assert_eq!(seen.status.code(), Some(2), "{seen:?}");
        assert!(text(&seen.stderr).contains(says), "{seen:?}");
    }
}

//! `scripts/check-advisories`: no silence where nothing was checked.

mod common;

use std::fs;
use std::process::Command;

use common::{Scratch, Seen, output};

/// With a cargo that says what it was asked for and ends with the status.
fn check(scratch: &Scratch, status: u8) -> Seen {
    let cargo = scratch.executable("cargo", &format!("#!/bin/sh\necho \"$@\"\nexit {status}\n"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/check-advisories");
    output(Command::new(script).arg(cargo).env("CARGO_HOME", scratch.path("home")))
}

#[test]
fn check_warns_without_database() {
    let scratch = Scratch::new();
    for left_by_a_failed_fetch in [false, true] {
        if left_by_a_failed_fetch {
            fs::create_dir_all(scratch.path("home/advisory-dbs/db-1")).unwrap();
        }
        let seen = check(&scratch, 1);
        assert_eq!((seen.code, seen.stdout.as_str()), (Some(0), ""), "{seen:?}");
        assert!(seen.stderr.contains("NOT CHECKED"), "{seen:?}");
    }
}

#[test]
fn check_reports_status_with_database() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("home/advisory-dbs/db-1/crates")).unwrap();
    for status in [0, 1] {
        let seen = check(&scratch, status);
        assert_eq!(seen.stdout, "deny --offline check advisories\n");
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(status.into()), ""));
    }
}

//! The scripts that check the sources: each finds what it looks for, and does not pass where it checked nothing.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scratch, Seen, output};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name)
}

/// With a cargo that says what it was asked for and ends with the status.
fn check_advisories(scratch: &Scratch, status: u8) -> Seen {
    let cargo = scratch.executable("cargo", &format!("#!/bin/sh\necho \"$@\"\nexit {status}\n"));
    output(Command::new(script("check-advisories")).arg(cargo).env("CARGO_HOME", scratch.path("home")))
}

#[test]
fn advisories_warn_without_database() {
    let scratch = Scratch::new();
    for left_by_a_failed_fetch in [false, true] {
        if left_by_a_failed_fetch {
            fs::create_dir_all(scratch.path("home/advisory-dbs/db-1")).unwrap();
        }
        let seen = check_advisories(&scratch, 1);
        assert_eq!((seen.code, seen.stdout.as_str()), (Some(0), ""), "{seen:?}");
        assert!(seen.stderr.contains("NOT CHECKED"), "{seen:?}");
    }
}

#[test]
fn advisories_report_status_with_database() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("home/advisory-dbs/db-1/crates")).unwrap();
    for status in [0, 1] {
        let seen = check_advisories(&scratch, status);
        assert_eq!(seen.stdout, "deny --offline check advisories\n");
        assert_eq!((seen.code, seen.stderr.as_str()), (Some(status.into()), ""));
    }
}

type Sources<'a> = &'a [(&'a str, &'a str)];

/// Puts the sources of a crate below a directory.
fn plant(scratch: &Scratch, name: &str, sources: Sources<'_>) -> PathBuf {
    let directory = scratch.path(name);
    fs::create_dir_all(&directory).unwrap();
    for (file, text) in sources {
        let path = directory.join("src").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

/// What the check says of a crate with these sources.
fn check_cycles(sources: Sources<'_>) -> Seen {
    let scratch = Scratch::new();
    let directory = plant(&scratch, "planted", sources);
    let mut seen = output(Command::new(script("check-cycles")).arg(&directory));
    let prefix = format!("{}/src/", directory.canonicalize().unwrap().display());
    seen.stdout = seen.stdout.replace(&prefix, "");
    seen
}

#[track_caller]
fn assert_cycle(sources: Sources<'_>, lines: &[&str]) {
    let seen = check_cycles(sources);
    let printed: Vec<&str> = seen.stdout.lines().skip(1).map(|line| line.split(" (").next().unwrap()).collect();
    assert_eq!(printed, lines, "{seen:?}");
    assert_eq!(seen.code, Some(1), "{seen:?}");
}

#[track_caller]
fn assert_no_cycle(sources: Sources<'_>) {
    let seen = check_cycles(sources);
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.as_str()), (Some(0), "", ""));
}

#[test]
fn cycle_is_found_through_each_kind_of_path() {
    for used in [
        "use crate::b;",
        "use crate::b::B;",
        "pub use crate::{c, b::{self, B as Other}};",
        "use super::{b::*};",
        "pub(crate) use self::super::b::B;",
        "use crate::{\n    c::C, // },\n    b::B,\n};",
        "fn f() -> crate::b::B { loop {} }",
        "fn f() { let _ = '\"'; super::b::g() }",
        "fn f<'a>(x: &'a str) { use super::*; crate::b::g::<'a>(x) }",
        "mod inner { use super::super::b::B; }",
        "mod inner { mod deeper { pub(in crate::c) use crate::b::B; } }",
        "use crate::c; fn f() { println!(\"{}\", crate::b::B) }",
        "#[cfg(not(test))] use crate::b::B;",
        "#[cfg(any(test, loom))] use crate::b::B;",
        "#[cfg(test)] use crate::c::{C, D}; use crate::b::B;",
        "#[cfg(test)] fn f<A, B>(_: [A; 2]) -> B { } use crate::b::B;",
        "struct S { #[cfg(test)] x: V<u8, u8>, y: crate::b::B }",
        "macro_rules! m { () => { $crate::b::B } }",
        "macro_rules! n { ($x:ident) => { use crate::c::{$x, y}; use $x::z; } } use crate::{b::B};",
        "const T: &str = r#\"// \" \"#; use crate::b::B; /* */",
    ] {
        let root = ("lib.rs", "mod a;\nmod b;\nmod c;\n");
        assert_cycle(
            &[root, ("a.rs", used), ("b.rs", "use crate::a;"), ("c.rs", "")],
            &["a.rs -> b.rs", "b.rs -> a.rs"],
        );
    }
}

#[test]
fn cycle_is_found_between_parent_and_child() {
    // The parent names its child without 'crate' or 'self'.
    for calling in ["child::f()", "{ use child::f; f() }", "g(child::T)"] {
        let parent = format!("mod child; pub struct Shared; fn f() {{ {calling} }}");
        let planted = [("main.rs", "mod parent;"), ("parent.rs", &*parent), ("parent/child.rs", "use super::Shared;")];
        assert_cycle(&planted, &["parent/child.rs -> parent.rs", "parent.rs -> parent/child.rs"]);
    }
    let renamed = ("parent.rs", "use crate::parent::child as other; mod child; fn f() { other::f() }");
    assert_cycle(
        &[("lib.rs", "mod parent;"), renamed, ("parent/child.rs", "super::X")],
        &["parent/child.rs -> parent.rs", "parent.rs -> parent/child.rs"],
    );
}

#[test]
fn cycle_of_three_is_found_in_each_program() {
    let [b, c, d] = [("bin/b.rs", "use crate::c;"), ("bin/c.rs", "use crate::d;"), ("bin/d/mod.rs", "use crate::b;")];
    let library = ("lib.rs", "");
    let program = ("bin/tool.rs", "mod b; mod c; mod d;");
    let lines = ["bin/b.rs -> bin/c.rs", "bin/c.rs -> bin/d/mod.rs", "bin/d/mod.rs -> bin/b.rs"];
    // Each file of 'bin' is also the root of a program, whose paths lead nowhere.
    assert_cycle(&[library, program, b, c, d], &lines);
}

#[test]
fn order_of_reading_is_no_cycle() {
    assert_no_cycle(&[
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::{B, nested::N};"),
        ("a.rs", "pub(crate) mod b; pub(in crate::b) struct A; fn f() { b::f(); ::b::f() } // crate::b"),
        ("a/b.rs", "/// [`crate::a::A`] /* \" */\npub struct B { text: &str = \"super::A\" }"),
        ("b.rs", "use crate::a::{self, b}; mod nested { use super::N; } fn b() { self::nested::f(); std::b::f() }"),
    ]);
}

#[test]
fn code_that_only_tests_compile_makes_no_cycle() {
    for test in [
        "#[cfg(test)]\nmod tests { use crate::b::B; }",
        "#[cfg(all(test, not(loom)))]\n#[allow(unused)]\npub(crate) mod tests { mod deeper { use crate::b::B; } }",
        "#[cfg(all(not(loom), test))] fn f(b: crate::b::B) -> crate::b::B { crate::b::B }",
        "#[cfg(test)] pub(crate) use crate::b::{B, c};",
        "#[cfg(test)] mod tests;",
    ] {
        assert_no_cycle(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", test),
            ("a/tests.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a;"),
        ]);
    }
}

#[test]
fn crate_without_sources_is_refused() {
    for sources in [&[][..], &[("a.rs", "use crate::b;")], &[("lib.rs", "mod missing;")]] {
        let seen = check_cycles(sources);
        let is_refused = seen.code == Some(1) && seen.stdout.is_empty() && seen.stderr.starts_with("check-cycles: ");
        assert!(is_refused, "{seen:?}");
        assert_eq!(seen.stderr.contains("'mod missing;'"), sources.len() == 1 && sources[0].0 == "lib.rs", "{seen:?}");
    }
}

/// The check in a repository of its own, where the crate that may have cycles is `exempt`.
fn check_repository(scratch: &Scratch, fewest_files: usize) -> Seen {
    let text = fs::read_to_string(script("check-cycles")).unwrap();
    let (head, rest) = text.split_once("FEWEST_FILES = ").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    let (between, rest) = rest.split_once("NOT_OPENED = ").unwrap();
    let (_, rest) = rest.split_once(".split()").unwrap();
    let text = format!("{head}FEWEST_FILES = {fewest_files}\n{between}NOT_OPENED = ['exempt']{rest}");
    fs::create_dir_all(scratch.path("scripts")).unwrap();
    output(&mut Command::new(scratch.executable("scripts/check-cycles", &text)))
}

#[test]
fn list_of_exempt_crates_may_only_become_shorter() {
    let scratch = Scratch::new();
    let cycle = [("lib.rs", "mod a; fn f() { a::g() }"), ("a.rs", "fn g() { crate::f() }")];
    plant(&scratch, "crates/exempt", &cycle);
    plant(&scratch, "crates/other", &[("lib.rs", "")]);
    let seen = check_repository(&scratch, 3);
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.as_str()), (Some(0), "", ""));

    plant(&scratch, "crates/other", &cycle);
    let seen = check_repository(&scratch, 3);
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert!(seen.stdout.contains("crates/other/src/a.rs -> crates/other/src/lib.rs (line 1: crate::f)"), "{seen:?}");
    assert!(!seen.stdout.contains("exempt"), "{seen:?}");

    plant(&scratch, "crates/exempt", &[("a.rs", "")]);
    plant(&scratch, "crates/other", &[("a.rs", "")]);
    let seen = check_repository(&scratch, 3);
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert_eq!(seen.stdout, "crates/exempt has no cycle: take 'exempt' out of NOT_OPENED\n");

    fs::remove_dir_all(scratch.path("crates/exempt")).unwrap();
    let seen = check_repository(&scratch, 2);
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert!(seen.stderr.contains("'exempt' in NOT_OPENED is no crate"), "{seen:?}");
}

#[test]
fn repository_without_files_is_refused() {
    let scratch = Scratch::new();
    plant(&scratch, "crates/exempt", &[("lib.rs", "mod a; fn f() { a::g() }"), ("a.rs", "fn g() { crate::f() }")]);
    let seen = check_repository(&scratch, 3);
    assert_eq!(seen.code, Some(1), "{seen:?}");
    assert_eq!(seen.stderr, "check-cycles: only 2 files were found, 3 are expected\n");
}

//! A library between the C library and millstream's, with bytes that would be a system call if they were executed. They are data, so its
//! programs are attached; and a program that executes them all the same goes on through the kernel, with every byte.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::sync::LazyLock;

use serde_json::Value;

use common::{Scratch, can_attach, output};
use over_ring::{Programs, over_ring_with, told_with};

/// What passes before the constants are touched.
const BEFORE: u64 = 16 << 20;

static LIBRARIES: LazyLock<[(Scratch, String); 2]> = LazyLock::new(|| {
    ["-DPLAIN", "-DWRITABLE"].map(|kind| {
        let scratch = Scratch::new();
        let options = ["-shared", "-fPIC", kind];
        let library = scratch.c_program("libconstants.so", include_str!("fenced/constants.c"), &options);
        (scratch, library)
    })
});

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    let [plain, writable] = LIBRARIES.each_ref().map(|(_, library)| {
        let directory = library.rsplit_once('/').unwrap().0;
        ["-pthread", "-Wl,--no-as-needed", library]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("-Wl,-rpath,{directory}")])
    });
    let [plain, writable]: [Vec<String>; 2] = [plain.collect(), writable.collect()];
    let [plain, writable]: [Vec<&str>; 2] =
        [&plain, &writable].map(|options| options.iter().map(String::as_str).collect());
    let source = include_str!("fenced/user.c");
    Programs::built(&[("U", source, &plain), ("W", source, &writable)])
});

/// What is told of the pipe between a writer and a reader that do this, after an attempt in which it was attached before.
fn attached(writer: &str, reader: &str) -> Value {
    let script = format!("set -o pipefail; $U write {writer} | $U read {reader}");
    let attempts = (0..8).map(|_| told_with(&["--ring-after", "1"], &script).remove(0));
    let is_attached = |pipe: &Value| pipe["written"]["ring"]["bytes"].as_u64() > Some(BEFORE / 8);
    let pipe = attempts.into_iter().find(is_attached);
    pipe.unwrap_or_else(|| panic!("{writer} | {reader} was attached in none of 8 attempts"))
}

#[test]
fn constants_that_are_not_executed_leave_the_pipe_attached() {
    if !can_attach() {
        return;
    }
    for (writer, reader) in [("read", "nothing"), ("nothing", "read")] {
        let pipe = attached(writer, reader);
        let why_not = |end: &str| pipe[end]["why_not"].as_str().unwrap_or("").to_owned();
        assert!(!["written", "read"].iter().any(|end| why_not(end) == "code"), "{pipe}");
        assert!(pipe["written"]["ring"]["bytes"].as_u64() > Some(BEFORE), "{pipe}");
    }
}

#[test]
fn executed_constants_detach_the_pipe_without_loss() {
    if !can_attach() {
        return;
    }
    for what in ["execute", "handler", "thread"] {
        let pipe = attached(what, "nothing");
        assert_eq!(pipe["written"]["why_not"], "code", "{what}: {pipe}");
        let pipe = attached("nothing", what);
        assert_eq!(pipe["read"]["why_not"], "code", "{what}: {pipe}");
    }
}

#[test]
fn child_executes_constants_of_its_parent() {
    if !can_attach() {
        return;
    }
    attached("child", "nothing");
    attached("nothing", "child");
}

#[test]
fn programs_that_cannot_be_fenced_lose_no_byte() {
    for (writer, reader) in [
        ("$U write blocked", "$U read nothing"),
        ("$U write nothing", "$U read blocked"),
        ("$W write write-there", "$W read write-there"),
        ("$U write for-ever", "$U read for-ever"),
        ("$U write prefix", "$U read nothing"),
        ("$U write nothing", "$U read prefix"),
    ] {
        for options in [&[][..], &["--ring-after", "1"]] {
            for _ in 0..4 {
                let script = format!("set -o pipefail; {writer} | {reader}");
                let seen = output(&mut over_ring_with(options, &script));
                assert_eq!((seen.code, &*seen.stderr), (Some(0), ""), "{script} {options:?}");
            }
        }
    }
}

//! A library between the C library and millstream's, with bytes that would be a system call if they were executed. They are data, so its
//! programs are attached; and a program that executes them all the same goes on through the kernel, with every byte.

mod common;
#[path = "common/over_ring.rs"]
mod over_ring;

use std::sync::LazyLock;

use serde_json::Value;

use common::{Scratch, can_join};
use over_ring::{Programs, told_with};

/// What passes before the constants are touched.
const BEFORE: u64 = 16 << 20;

static LIBRARY: LazyLock<(Scratch, String)> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let library = scratch.c_program("libconstants.so", include_str!("fenced/constants.c"), &["-shared", "-fPIC"]);
    (scratch, library)
});

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    let library = &*LIBRARY.1;
    let directory = library.rsplit_once('/').unwrap().0;
    let path = format!("-Wl,-rpath,{directory}");
    Programs::built(&[("U", include_str!("fenced/user.c"), &["-pthread", "-Wl,--no-as-needed", library, &path])])
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
    if !can_join() {
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
    if !can_join() {
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
    if !can_join() {
        return;
    }
    attached("child", "nothing");
    attached("nothing", "child");
}

//! Every call by which a program could do something with an attached pipe that shared memory cannot carry, on either side of one: the
//! pipe was attached before the call, what the call says is so, what the statistics say afterwards is what the documents say, and no
//! byte is lost, doubled or changed.
//!
//! The calls are in `calls/calls.c`. One by itself: `MILLSTREAM_SCRIPT=name`.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

use common::{Scratch, Seen, can_attach, millstream, output, statistics};

/// Bytes before the call, and in all at the least.
const BEFORE: u64 = 4_000_000;
const ALL: u64 = 5_000_000;
/// They wait for each other, and some sleep.
const AT_ONCE: usize = 4;
/// So often a pipeline is run until the pipe was attached before the call. Which process runs when decides that, not the call.
const ATTEMPTS: usize = 8;

/// Guarded functions without a call of their own, and why.
const NOT_CALLED: [(&str, &str); 10] = [
    ("dlclose", "it passes; in programs with threads it is called in threads.rs"),
    ("close", "of another descriptor it passes, of the end it is the end: `close`, and the end of every stream"),
    ("fcntl", "by its commands: F_DUPFD and others"),
    ("ioctl", "by its requests: FIONREAD and others"),
    ("longjmp", "as siglongjmp"),
    ("writev", "at the writing end of readv"),
    ("sigpause", "as sigsuspend"),
    ("eventfd_read", "of another descriptor with eventfd_write, of an end in interposed.rs"),
    ("pidfd_spawn", "since glibc 2.39"),
    ("pidfd_spawnp", "since glibc 2.39"),
];

/// Further names of functions that are called.
const ALIASES: [&str; 32] = [
    "__close",
    "__fcntl",
    "fcntl64",
    "__poll",
    "__select",
    "sendfile64",
    "aio_read64",
    "aio_write64",
    "aio_fsync64",
    "lio_listio64",
    "__backtrace_symbols_fd",
    "__dprintf_chk",
    "vdprintf",
    "__vdprintf_chk",
    "__dup2",
    "_IO_fdopen",
    "lockf64",
    "__vfork",
    "__clone",
    "_IO_popen",
    "setrlimit64",
    "prlimit64",
    "__sigaction",
    "bsd_signal",
    "ssignal",
    "__sysv_signal",
    "__sigpause",
    "__xpg_sigpause",
    "__sigsuspend",
    "_longjmp",
    "__longjmp_chk",
    "pthread_mutexattr_setrobust_np",
];

static PROGRAM: LazyLock<(Scratch, String)> = LazyLock::new(|| compiled(&[]));
/// Its calls are instructions of its own.
static OWN_CODE: LazyLock<(Scratch, String)> = LazyLock::new(|| compiled(&["-DOWN_CODE"]));

fn compiled(options: &[&str]) -> (Scratch, String) {
    let scratch = Scratch::new();
    let path = scratch.c_program("calls", include_str!("calls/calls.c"), &[&["-pthread", "-w"], options].concat());
    (scratch, path)
}

/// Name, and what becomes of the pipe.
fn table(program: &str) -> Vec<(String, String)> {
    let wanted = std::env::var("MILLSTREAM_SCRIPT").unwrap_or_default();
    let listed = output(std::process::Command::new(program).arg("list")).stdout;
    let lines = listed.lines().map(|line| line.split_once(' ').unwrap());
    lines.filter(|(name, _)| name.contains(&wanted)).map(|(name, then)| (name.to_owned(), then.to_owned())).collect()
}

/// What a side said, as a number.
fn said(seen: &Seen, word: &str) -> Option<u64> {
    seen.stderr.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

/// One pipeline, every byte checked. Returns the pipe's statistics.
fn run(program: &str, name: &str, side: &str) -> Result<Value, String> {
    let scratch = Scratch::new();
    let stats = scratch.path("stats.json");
    let [writer, reader] = if side == "write" { [name, "-"] } else { ["-", name] };
    let script = format!("$C write {writer} | $C read {reader}; echo ${{PIPESTATUS[@]}}");
    let options = ["run", "--ring-after", "1", "--stats=json", "--stats-file", stats.to_str().unwrap()];
    let mut command = millstream(options);
    let seen = output(command.args(["--shell", "/bin/bash", "-c", &script]).env("C", program));
    // A reader that leaves is the end of its writer.
    let leaves = name == "pthread_exit" && side == "read";
    let (status, read) = (if leaves { "141 0\n" } else { "0 0\n" }, said(&seen, "read "));
    let is_complete =
        leaves || (read == said(&seen, "wrote ") && read >= Some(if name == "pthread_exit" { BEFORE } else { ALL }));
    if seen.stdout != status || read < Some(BEFORE) || !is_complete {
        return Err(format!("{seen:?}"));
    }
    let stats = statistics(&stats);
    let pipes = stats["pipes"].as_array().unwrap();
    pipes.iter().max_by_key(|pipe| pipe["bytes"].as_u64()).cloned().ok_or_else(|| "no pipe".to_owned())
}

/// Whether the pipe was attached when the call came, and if so whether it went on as it should.
fn judge(then: &str, side: &str, pipe: &Value) -> Option<Result<(), String>> {
    let end = &pipe[if side == "write" { "written" } else { "read" }];
    let in_ring = end["ring"]["bytes"].as_u64().unwrap_or(0);
    let (readers, writers) = then.split_once('/').unwrap_or((then, then));
    let then = if side == "read" { readers } else { writers };
    let stays = then == "stays";
    // A pipe that came to shared memory so early was there before the call; it has some millions of bytes before it.
    if in_ring < BEFORE / 8 {
        return None;
    }
    let why_not = end["why_not"].as_str().unwrap_or("");
    // One that was attached late and stayed may have been so in all that came before the call, and not in what came after it.
    if stays && in_ring <= BEFORE && why_not.is_empty() {
        return None;
    }
    let is_as_said = match then {
        _ if stays => in_ring > BEFORE && !why_not.starts_with("called"),
        // The successor begins anew, and may be attached again.
        "anew" => true,
        "code" | "nowhere" => why_not == then,
        called => {
            // From the first thread on that is what is told.
            let has_threads = ["pthread", "thrd", "aio_"].iter().any(|word| called.contains(word));
            why_not == format!("called {called}") || (has_threads && why_not == "threads")
        }
    };
    Some(if is_as_said { Ok(()) } else { Err(format!("expected {then}: {pipe}")) })
}

/// Both sides of one call. Returns how many of them were attached before it.
fn check(program: &str, name: &str, then: &str) -> Result<usize, String> {
    let mut attached = 0;
    for side in ["write", "read"] {
        let about = |what: String| format!("{name}, {side}: {what}");
        for _ in 0..ATTEMPTS {
            let pipe = run(program, name, side).map_err(about)?;
            if let Some(verdict) = judge(then, side, &pipe) {
                verdict.map_err(about)?;
                attached += 1;
                break;
            }
        }
    }
    Ok(attached)
}

#[test]
fn every_call_at_an_attached_end_loses_no_byte() {
    check_all(&PROGRAM.1);
}

#[test]
fn calls_of_the_programs_own_code_lose_no_byte() {
    assert!(std::env::var_os("MILLSTREAM_SCRIPT").is_some() || table(&OWN_CODE.1).len() >= 16);
    check_all(&OWN_CODE.1);
}

fn check_all(program: &str) {
    let table = table(program);
    let (next, attached, failures) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((name, then)) = table.get(next.fetch_add(1, Relaxed)) {
                    match check(program, name, then) {
                        Ok(sides) if sides == 2 || !can_attach() => drop(attached.fetch_add(sides, Relaxed)),
                        Ok(sides) => failures.lock().unwrap().push(format!("{name}: {sides} of 2 sides were attached")),
                        Err(failure) => failures.lock().unwrap().push(failure),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    println!("joined {} pipes", attached.load(Relaxed));
    assert!(failures.is_empty(), "{} of {} calls\n{}", failures.len(), table.len(), failures.join("\n"));
}

#[test]
fn every_guarded_function_is_called() {
    if std::env::var_os("MILLSTREAM_SCRIPT").is_some() {
        return;
    }
    let table = table(&PROGRAM.1);
    for function in millstream_sys::fate::guarded().map(|name| name.to_str().unwrap()) {
        let is_called =
            table.iter().any(|(name, then)| name == function || then.split('/').any(|told| told == function));
        let is_excused = NOT_CALLED.iter().any(|(name, _)| *name == function) || ALIASES.contains(&function);
        assert!(is_called || is_excused, "{function} is guarded, and nothing here calls it");
    }
    assert!(table.len() >= 110, "{}", table.len());
}

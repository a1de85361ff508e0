//! The pipe contract with writer and reader in two processes, over pipes that are attached when each idea begins: bare, as users start
//! it, without shared memory, and attached at the first bytes, which the statistics must confirm.
//!
//! The ideas are in `apart/apart.c`. One by itself: `MILLSTREAM_SCRIPT=name`.

mod common;
#[path = "common/watched.rs"]
mod watched;

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

use common::{Scratch, can_attach, millstream, output, statistics};

/// They sleep, and wait for each other.
const AT_ONCE: usize = 4;
/// What each idea begins with, by both sides.
const WARM: u64 = 2_000_000;
/// So often an idea is tried until its pipe was attached before it began.
const ATTEMPTS: usize = 6;
const WAYS: [&[&str]; 4] =
    [&["run", "--"], &["run", "--no-ring", "--"], &["run", "--stats-file", "/dev/null", "--stats", "--"], &[]];

static PROGRAM: LazyLock<(Scratch, String)> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let path = scratch.c_program("apart", include_str!("apart/apart.c"), &["-pthread", "-w"]);
    (scratch, path)
});

fn ideas() -> Vec<String> {
    let wanted = std::env::var("MILLSTREAM_SCRIPT").unwrap_or_default();
    let listed = output(Command::new(&PROGRAM.1).arg("list")).stdout;
    listed.lines().filter(|name| name.contains(&wanted)).map(str::to_owned).collect()
}

/// Runs an idea to its end: it says nothing, and nothing of it stays.
fn holds(mut command: Command, scratch: &Scratch) -> Result<(), String> {
    command.env_remove("LD_PRELOAD").env_remove("MILLSTREAM_RUN");
    let ended = watched::watch(command, &scratch.path(""), |_| ())?;
    match (ended.code, ended.stdout.len(), ended.stderr.len()) {
        (Some(0), 0, 0) => Ok(()),
        _ => Err(format!("ended with {:?}: {}", (ended.code, ended.signal), String::from_utf8_lossy(&ended.stderr))),
    }
}

/// Whether the pipe was in shared memory before the idea began, at both sides.
fn is_attached(name: &str) -> Result<bool, String> {
    let scratch = Scratch::new();
    let file = scratch.path("stats.json");
    let mut command = millstream(["run", "--ring-after", "1", "--stats=json", "--stats-file"]);
    command.arg(&file).args(["--", &PROGRAM.1, name]);
    holds(command, &scratch)?;
    let stats = statistics(&file);
    let pipes = stats["pipes"].as_array().unwrap();
    let pipe = pipes.iter().max_by_key(|pipe| pipe["bytes"].as_u64()).ok_or("no pipe")?;
    Ok(["written", "read"].iter().all(|end| pipe[end]["ring"]["bytes"].as_u64() > Some(WARM / 4)))
}

fn check(name: &str) -> Result<(), String> {
    for way in WAYS {
        let scratch = Scratch::new();
        let mut command = if way.is_empty() { Command::new(&PROGRAM.1) } else { millstream(way) };
        if !way.is_empty() {
            command.arg(&PROGRAM.1);
        }
        command.arg(name);
        holds(command, &scratch).map_err(|error| format!("with {way:?}: {error}"))?;
    }
    for _ in 0..ATTEMPTS {
        if is_attached(name).map_err(|error| format!("over shared memory: {error}"))? {
            return Ok(());
        }
    }
    if can_attach() { Err("its pipe was never attached".to_owned()) } else { Ok(()) }
}

#[test]
fn contract_holds_between_two_processes_over_attached_pipes() {
    let ideas = ideas();
    assert!(ideas.len() >= 27 || std::env::var_os("MILLSTREAM_SCRIPT").is_some(), "only {}", ideas.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(name) = ideas.get(next.fetch_add(1, Relaxed)) {
                    if let Err(failure) = check(name) {
                        failures.lock().unwrap().push(format!("{name}: {failure}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} ideas\n{}", failures.len(), ideas.len(), failures.join("\n"));
}

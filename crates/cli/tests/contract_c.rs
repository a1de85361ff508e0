//! What a pipe does, as plain C programs that know nothing of millstream: each checks one idea of `pipe(7)`, `fifo(7)` and
//! the calls around them, and must pass by itself, under `millstream run`, and under `run --stats`; over pipes that it
//! makes, over one that it inherits, and over FIFOs. A shell starts them, so that they are not the run's first program.
//!
//! The programs are in `contract-c` beside this file; what they share is in `check.h` there. One by itself:
//! `MILLSTREAM_SCRIPT=name`.

mod common;
#[path = "common/watched.rs"]
mod watched;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::Scratch;

/// They sleep, wait for each other, and are compiled.
const AT_ONCE: usize = 4;
/// As most programs are built; what the functions of `_FORTIFY_SOURCE` need is in the program that is about them. They
/// ignore what calls return, and pass what a compiler warns of.
const OPTIONS: [&str; 4] = ["-std=gnu11", "-O1", "-w", "-pthread"];

/// Where the pipe of a program comes from.
const KINDS: [&str; 3] = ["made", "inherited", "fifo"];
const WAYS: [&[&str]; 6] = [
    &[],
    &["run", "--"],
    &["run", "--stats", "--stats-file", "/dev/null", "--"],
    &["run", "--no-ring", "--"],
    &["run", "--no-ring", "--stats", "--stats-file", "/dev/null", "--"],
    &["run", "--ring-after", "1", "--"],
];

fn sources() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract-c");
    let wanted = std::env::var("MILLSTREAM_SCRIPT").unwrap_or_default();
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_program = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "c");
    let mut sources: Vec<PathBuf> = entries.filter(is_program).collect();
    sources.retain(|path| name_of(path) != "launch" && name_of(path).contains(&wanted));
    sources.sort();
    assert!(sources.len() >= 40 || !wanted.is_empty(), "only {} programs", sources.len());
    sources
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn compile(source: &Path, to: &Path) -> Result<(), String> {
    let seen = common::output(Command::new("cc").args(OPTIONS).arg(source).arg("-o").arg(to));
    if seen.code == Some(0) { Ok(()) } else { Err(seen.stderr) }
}

fn check(source: &Path, launch: &Path, scratch: &Scratch) -> Result<(), String> {
    let program = scratch.path(&name_of(source));
    compile(source, &program)?;
    for kind in KINDS {
        // Not by exec: the shell stays their parent.
        let script = match kind {
            "inherited" => format!("{} {}; exit $?", launch.display(), program.display()),
            _ => format!("{}; exit $?", program.display()),
        };
        for way in WAYS {
            let words = [way, &["sh", "-c", &script]].concat();
            let mut command = match way {
                [] => Command::new("sh"),
                _ => Command::new(common::program()),
            };
            command.args(if way.is_empty() { &words[1..] } else { &words[..] });
            command.env("CONTRACT_KIND", kind).env_remove("LD_PRELOAD").env_remove("MILLSTREAM_RUN");
            let about = |what: String| format!("{} over a pipe that is {kind}, with {way:?}: {what}", name_of(source));
            let ended = watched::watch(command, &scratch.path(""), |_| ()).map_err(about)?;
            if (ended.code, ended.stdout.len(), ended.stderr.len()) != (Some(0), 0, 0) {
                let said = String::from_utf8_lossy(&ended.stderr).into_owned();
                return Err(about(format!("ended with {:?}: {said}", (ended.code, ended.signal))));
            }
        }
    }
    Ok(())
}

#[test]
fn the_contract_in_c_holds_under_run() {
    let (sources, shared) = (sources(), Scratch::new());
    let launch = shared.path("launch");
    compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract-c/launch.c"), &launch).unwrap();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(source) = sources.get(next.fetch_add(1, Relaxed)) {
                    if let Err(failure) = check(source, &launch, &Scratch::new()) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} programs\n{}", failures.len(), sources.len(), failures.join("\n"));
}

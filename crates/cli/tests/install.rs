//! Where the program and its library find each other, and what a run needs of the machine: no directory to write to.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Scratch, Seen, millstream, output, program};

const PIPE_SIZE: &str = "import os, fcntl; print(fcntl.fcntl(os.pipe2(0)[0], 1032) > 65536)";

fn make(arguments: &[&str]) -> Seen {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // `-o build`: what is tested is what stands there; building it again beside running tests would replace it.
    let seen =
        output(Command::new("make").args(["-o", "build", "-C"]).arg(root).args(arguments).env_remove("MAKEFLAGS"));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    seen
}

#[test]
fn installed_programs_find_each_other_and_are_removed() {
    let scratch = Scratch::new();
    let prefix = format!("PREFIX={}", scratch.path("prefix").display());
    make(&["install", &prefix]);
    let program = scratch.path("prefix/bin/millstream");
    let seen = output(Command::new(&program).args(["run", "--", "python3", "-c", PIPE_SIZE]).env_remove("LD_PRELOAD"));
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), ("True\n", ""));
    // By a link from elsewhere, as people put programs into their PATH.
    let link = scratch.path("link");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    assert_eq!(output(Command::new(&link).args(["run", "--", "python3", "-c", PIPE_SIZE])).stdout, "True\n");
    let installed = || files_below(&scratch.path("prefix/share"));
    for file in ["man/man1/millstream.1", "man/man1/millstream-run.1", "man/man1/millstream-bench-grep.1"] {
        let page = scratch.path("prefix/share").join(file);
        let shown = output(Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(&page));
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{file}");
    }
    let run = fs::read_to_string(scratch.path("prefix/share/man/man1/millstream-run.1")).unwrap();
    assert!(
        run.contains(".SH EXAMPLES") && run.contains(".SH \"EXIT STATUS\"") && run.contains("pipe\\-size"),
        "{run}"
    );
    assert!(installed() > 30, "{} pages and completions", installed());
    let completions = scratch.path("prefix/share/bash-completion/completions/millstream");
    assert_eq!(output(Command::new("bash").arg("-n").arg(&completions)).code, Some(0));
    make(&["uninstall", &prefix]);
    assert_eq!(installed(), 0);
    assert!(!program.exists() && !scratch.path("prefix/lib/millstream").exists());
}

fn files_below(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { files_below(&path) } else { 1 }).sum()
}

#[test]
fn unknown_manual_page_is_an_error() {
    for (arguments, sentence) in [
        (&["man", "walk"][..], "there is no command 'walk': run, fifo, "),
        (&["man", "gc", "x"], "'gc' has no command 'x'"),
        (&["man", "--all", "/nonexistent"], "cannot write '/nonexistent/millstream.1': No such file"),
        (&["completions", "sh"], "possible values: bash, "),
    ] {
        let seen = output(&mut millstream(arguments));
        assert!(seen.stderr.lines().count() == 1 && seen.stderr.contains(sentence), "{arguments:?}: {seen:?}");
    }
}

#[test]
fn packages_are_staged_with_destdir() {
    let scratch = Scratch::new();
    make(&["install", "PREFIX=/usr", &format!("DESTDIR={}", scratch.path("stage").display())]);
    assert!(scratch.path("stage/usr/bin/millstream").exists());
    for file in ["libmillstream_preload.so", "unbuffered.rb"] {
        assert!(scratch.path("stage/usr/lib/millstream").join(file).exists(), "{file}");
    }
}

/// A measurement that takes no time to speak of.
const MEMCPY: [&str; 6] = ["memcpy", "--size", "8k", "--rounds", "5", "--no-history"];

#[test]
fn database_and_page_are_in_the_program_that_measures_alone() {
    let beside = |name: &str| fs::read(Path::new(program()).with_file_name("lib/millstream").join(name)).unwrap();
    let (main, bench) = (beside("millstream"), beside("millstream-bench"));
    for words in ["SQLite format 3", "Content-Security-Policy"] {
        let has = |program: &[u8]| program.windows(words.len()).any(|window| window == words.as_bytes());
        assert!(has(&bench) && !has(&main), "{words}");
    }
}

#[test]
fn missing_bench_program_is_an_error_and_its_help_is_there() {
    let scratch = Scratch::new();
    let program = scratch.installed();
    let missing = scratch.path("lib/millstream/millstream-bench");
    fs::remove_file(&missing).unwrap();
    let seen = output(Command::new(&program).arg("bench").args(MEMCPY));
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.lines().count()), (Some(125), "", 1), "{seen:?}");
    for words in ["is missing", missing.to_str().unwrap(), "make install", "cargo install --path crates/bench"] {
        assert!(seen.stderr.contains(words), "{words}: {seen:?}");
    }
    for help in [&["bench", "memcpy", "--help"][..], &["help", "bench", "memcpy"], &["man", "bench", "memcpy"]] {
        let seen = output(Command::new(&program).args(help));
        assert!(
            seen.code == Some(0) && seen.stdout.contains("64k,1m,64m") && seen.stderr.is_empty(),
            "{help:?}: {seen:?}"
        );
    }
    // A file that is no program.
    fs::write(&missing, "").unwrap();
    let seen = output(Command::new(&program).arg("bench").args(MEMCPY));
    assert!(seen.code == Some(125) && seen.stderr.contains("cannot run '"), "{seen:?}");
}

/// As 'cargo install' puts them: all in one directory.
#[test]
fn programs_in_one_directory_find_each_other() {
    let scratch = Scratch::new();
    let parts = Path::new(program()).with_file_name("lib/millstream");
    let copied = Command::new("cp").arg("-r").arg(parts.join(".")).arg(scratch.path("")).status().unwrap();
    assert!(copied.success());
    let seen = output(Command::new(scratch.path("millstream")).arg("bench").args(MEMCPY));
    assert!(seen.code == Some(0) && seen.stdout.contains("8k"), "{seen:?}");
    let grep = ["grep", "--pairs", "5", "--workload", "cat-cat", "--placement", "1cpu", "--no-history", "--file"];
    let text = scratch.file("text", &"a line\n".repeat(1000));
    let seen = output(Command::new(scratch.path("millstream-bench")).args(grep).arg(&text).env_remove("LD_PRELOAD"));
    assert!(seen.code == Some(0) && seen.stdout.contains("cat FILE | cat"), "{seen:?}");
    // By itself it has nothing to measure pipelines with, and says what is missing.
    fs::remove_file(scratch.path("millstream")).unwrap();
    let seen = output(Command::new(scratch.path("millstream-bench")).args(grep).arg(&text));
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.lines().count()), (Some(125), "", 1), "{seen:?}");
    assert!(seen.stderr.contains("there is no 'millstream' that belongs to '"), "{seen:?}");
}

#[test]
fn bench_program_refuses_what_the_main_one_refuses() {
    let bench = Path::new(program()).with_file_name("lib/millstream/millstream-bench");
    for wrong in [&["grap"][..], &["memcpy", "--size", "3G"], &["--quick", "--full"], &["bw_pipe", "--transfr", "1"]] {
        let directly = output(Command::new(&bench).args(wrong));
        assert_eq!(directly, output(&mut millstream([&["bench"], wrong].concat())), "{wrong:?}");
        assert_eq!((directly.code, directly.stderr.lines().count()), (Some(2), 1), "{wrong:?}: {directly:?}");
    }
    for help in [&["--help"][..], &["memcpy", "--help"], &["help", "history", "show"]] {
        let directly = output(Command::new(&bench).args(help));
        let main = output(&mut millstream([&["bench"], help].concat()));
        assert!(directly.stdout.contains("\nUsage: millstream bench"), "{directly:?}");
        // It has '--version' besides.
        let lines: Vec<&str> = directly.stdout.lines().collect();
        assert!(main.stdout.lines().all(|line| lines.contains(&line)), "{help:?}: {main:?} {directly:?}");
    }
    assert_eq!(output(Command::new(&bench).arg("--version")).stdout.split(' ').next(), Some("millstream-bench"));
}

#[test]
fn missing_library_is_an_error_and_nothing_runs() {
    let scratch = Scratch::new();
    let program = scratch.installed();
    fs::remove_dir_all(scratch.path("lib")).unwrap();
    let seen = output(Command::new(&program).args(["run", "-c", "echo ran"]));
    assert_eq!((seen.code, seen.stdout.as_str()), (Some(125), ""));
    assert!(seen.stderr.contains("its library is missing") && seen.stderr.contains("make install"), "{seen:?}");
}

#[test]
fn path_that_the_loader_cannot_take_is_an_error() {
    let scratch = Scratch::new();
    scratch.installed();
    for name in ["with space", "with:colon", "with$dollar"] {
        let place = scratch.path(name);
        fs::create_dir(&place).unwrap();
        assert_eq!(
            output(Command::new("cp").arg("-r").arg(scratch.path("bin")).arg(scratch.path("lib")).arg(&place)).code,
            Some(0)
        );
        let seen = output(Command::new(place.join("bin/millstream")).args(["run", "-c", "echo ran"]));
        assert_eq!((seen.code, seen.stdout.as_str()), (Some(125), ""), "{name}");
        assert!(seen.stderr.contains("install millstream elsewhere"), "{seen:?}");
    }
}

/// Another user, without a directory of its own, and directories that are not there.
#[test]
fn a_run_needs_no_directory_to_write_to() {
    let scratch = Scratch::new();
    let program = scratch.installed();
    let as_nobody = |arguments: &[&str]| {
        output(
            Command::new("setpriv")
                .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
                .arg(&program)
                .args(arguments)
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("SHELL", "/bin/sh")
                .env("TMPDIR", "/nonexistent")
                .env("XDG_RUNTIME_DIR", "/nonexistent")
                .env("XDG_CACHE_HOME", "/proc")
                .env("HOME", "/nonexistent")
                .current_dir("/"),
        )
    };
    let seen = as_nobody(&["run", "-c", "seq 100000 | cat | tail -n 1"]);
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str(), seen.code), ("100000\n", "", Some(0)));
    let seen = as_nobody(&["run", "--stats", "-c", "seq 100000 | cat | tail -n 1"]);
    assert_eq!((seen.stdout.as_str(), seen.code), ("100000\n", Some(0)));
    assert!(seen.stderr.contains("made by"), "{seen:?}");
    // The measurement needs a text, and says how to go on without a place to keep one.
    let seen = as_nobody(&["bench", "grep", "--pairs", "5"]);
    assert_eq!((seen.code, seen.stderr.lines().count()), (Some(125), 1), "{seen:?}");
    assert!(seen.stderr.contains("cannot gather a text") && seen.stderr.contains("--file"), "{seen:?}");
}

#[test]
fn nothing_is_left_behind() {
    let scratch = Scratch::new();
    let (temp, runtime) = (scratch.path("temp"), scratch.path("runtime"));
    fs::create_dir(&temp).unwrap();
    fs::create_dir(&runtime).unwrap();
    let shared = || {
        fs::read_dir("/dev/shm")
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("millstream"))
            .count()
    };
    let before = shared();
    for script in ["seq 100000 | wc -l", "kill -9 $$", "yes | head -n 1"] {
        for options in [&["run"][..], &["run", "--stats"]] {
            output(
                millstream([options, &["-c", script]].concat()).env("TMPDIR", &temp).env("XDG_RUNTIME_DIR", &runtime),
            );
        }
    }
    assert_eq!(fs::read_dir(&temp).unwrap().count() + fs::read_dir(&runtime).unwrap().count(), 0);
    assert_eq!(shared(), before);
}

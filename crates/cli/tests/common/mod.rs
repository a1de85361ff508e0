//! What the black-box tests share: the program as it was built, scratch directories, C programs, and waiting.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test; `make build` puts its library beside it. `make test` names the one that is installed, so that
/// what is tested is what is installed; otherwise it is the one that was built with the tests.
pub(crate) fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        std::env::var("MILLSTREAM_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_millstream").to_owned())
    });
    let program = PROGRAM.as_str();
    let library = Path::new(program).with_file_name("lib/millstream/libmillstream_preload.so");
    assert!(library.exists(), "{} is missing: run the tests with 'make test'", library.display());
    program
}

/// `millstream ARGUMENTS`, with nothing of an outer run in its environment.
pub(crate) fn millstream<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null());
    for name in [
        "LD_PRELOAD",
        "MILLSTREAM_RUN",
        "MILLSTREAM_PROGRAM",
        "MILLSTREAM_JOINED_LOG",
        "MILLSTREAM_SKIPPED_LOG",
        "MILLSTREAM_NO_RING_HERE",
    ] {
        command.env_remove(name);
    }
    command.env("XDG_DATA_HOME", data_home()).env("XDG_CONFIG_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/config"));
    command
}

/// Where tests keep runs that they do not look at, so that the history of the user that runs the tests stays as it is.
pub(crate) fn data_home() -> &'static str {
    concat!(env!("CARGO_TARGET_TMPDIR"), "/data")
}

/// Runs to the end and returns what it left.
pub(crate) fn output(command: &mut Command) -> Seen {
    Seen::from(command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// Runs to the end with this standard input; what it wrote is there as bytes too.
pub(crate) fn fed(mut command: Command, input: &[u8]) -> (Vec<u8>, Seen) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A program that stops early does not read all of it.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    (output.stdout.clone(), Seen::from(output))
}

/// `millstream run ARGUMENTS`, to the end.
pub(crate) fn run(arguments: &[&str]) -> Seen {
    output(&mut millstream([&["run"], arguments].concat()))
}

/// `millstream bench ARGUMENTS`, to the end.
pub(crate) fn bench(arguments: &[&str]) -> Seen {
    output(&mut millstream([&["bench"], arguments].concat()))
}

/// What `--json` wrote.
pub(crate) fn cells(path: &Path) -> Vec<Value> {
    let document: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(document["schema"], "millstream bench 2");
    assert!(document["machine"]["cpus"].as_u64().unwrap() >= 1);
    document["cells"].as_array().unwrap().clone()
}

/// What a finished command left behind, easy to compare and to read in a failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

impl From<Output> for Seen {
    fn from(output: Output) -> Seen {
        Seen {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
            signal: output.status.signal(),
        }
    }
}

/// What `--stats=json` wrote. Pipes that were attached are counted in the file that `MILLSTREAM_JOINED_LOG` names: `make test` requires
/// a number of them.
pub(crate) fn statistics(path: &Path) -> Value {
    let stats: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let joined = stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["path"] == "ring").count();
    if let Some(log) = std::env::var_os("MILLSTREAM_JOINED_LOG") {
        let log = fs::OpenOptions::new().append(true).create(true).open(log);
        // One write, which is not mixed with those of other processes.
        log.unwrap().write_all(format!("{joined}\n").as_bytes()).unwrap();
    }
    stats
}

/// Says why this system does not let a test do its work, and says it to `make test`, which counts it.
pub(crate) fn skip(why: &str) {
    println!("skipped: {why}");
    if let Some(log) = std::env::var_os("MILLSTREAM_SKIPPED_LOG") {
        let log = fs::OpenOptions::new().append(true).create(true).open(log);
        // One write, which is not mixed with those of other processes.
        log.and_then(|mut log| log.write_all(format!("{why}\n").as_bytes())).expect("the log of what is skipped");
    }
}

/// A directory that is gone after the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Readable by all users, so that tests can use it as another one.
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        loop {
            let name = format!("millstream-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                // Of one with the same number, which was killed.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                made => made.unwrap(),
            }
            set_mode(&path, 0o755);
            return Scratch(path);
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes a file that can be executed and returns its path. By another process: while this one had it open for writing, a test
    /// beside this one might fork, and what is open for writing anywhere cannot be executed (`ETXTBSY`).
    pub(crate) fn executable(&self, name: &str, content: &str) -> String {
        let path = self.path(name).to_str().unwrap().to_owned();
        let mut install = Command::new("install");
        install.args(["-m", "755", "/dev/stdin", &path]);
        let (_, seen) = fed(install, content.as_bytes());
        assert_eq!(seen.code, Some(0), "{seen:?}");
        path
    }

    /// Compiles a C program and returns its path.
    pub(crate) fn c_program(&self, name: &str, source: &str, options: &[&str]) -> String {
        self.compile("cc", name, source, options)
    }

    pub(crate) fn compile(&self, compiler: &str, name: &str, source: &str, options: &[&str]) -> String {
        let source = self.file(&format!("{name}.c"), source);
        let program = self.path(name);
        let mut compile = Command::new(compiler);
        // Before glibc 2.34 what has dlsym is a library of its own.
        let seen = output(compile.arg("-O1").args(options).arg(source).arg("-ldl").arg("-o").arg(&program));
        assert_eq!(seen.code, Some(0), "{compiler}: {}", seen.stderr);
        program.to_str().unwrap().to_owned()
    }

    /// The program and its library as `make install` lays them out, for tests that run it as another user.
    pub(crate) fn installed(&self) -> PathBuf {
        let (bin, lib) = (self.path("bin"), self.path("lib/millstream"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        // By another process, as above.
        let copied = Command::new("cp").arg(program()).arg(bin.join("millstream")).status().unwrap();
        assert!(copied.success());
        let ours = Path::new(program()).with_file_name("lib/millstream");
        assert!(Command::new("cp").arg("-r").arg(ours.join(".")).arg(&lib).status().unwrap().success());
        bin.join("millstream")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Whether pipes are attached on this machine, asked of the program itself. On x86-64 they must be, or every suite that uses shared
/// memory would pass without it; where they really cannot, `MILLSTREAM_NO_RING_HERE=1` says so.
pub(crate) fn can_attach() -> bool {
    static ANSWER: LazyLock<bool> = LazyLock::new(|| {
        if !cfg!(target_arch = "x86_64")
            || std::env::var_os("MILLSTREAM_NO_RING_HERE").is_some_and(|value| value == "1")
        {
            println!("no pipe is attached on this machine: its tests see kernel pipes that work");
            return false;
        }
        let mut last = Value::Null;
        let is_joined = (0..10).any(|_| {
            last = plain_pipeline();
            last["path"] == "ring"
        });
        assert!(is_joined, "no pipe is attached here (MILLSTREAM_NO_RING_HERE=1 if that is right): {last}");
        true
    });
    *ANSWER
}

/// What the statistics say of the simplest pipeline.
fn plain_pipeline() -> Value {
    let scratch = Scratch::new();
    let stats = scratch.path("stats.json");
    let options = ["run", "--ring-after", "1", "--stats=json", "--stats-file", stats.to_str().unwrap()];
    let mut command = millstream(options);
    let seen = output(command.args(["--shell", "/bin/sh", "-c", "head -c 20000000 /dev/zero | cat >/dev/null"]));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let stats = statistics(&stats);
    let pipes = stats["pipes"].as_array().unwrap();
    pipes.iter().max_by_key(|pipe| pipe["bytes"].as_u64()).cloned().unwrap_or_default()
}

/// Whether it happens in most of a few tries, and prints in how many. Whether two programs meet, and when, depends on which of them
/// runs when; that they meet seldom does not.
#[track_caller]
pub(crate) fn mostly(mut attempt: impl FnMut() -> bool) -> bool {
    const WANTED: usize = 8;
    const MISSES: usize = 5;
    let (mut hits, mut misses) = (0, 0);
    while hits < WANTED && misses < MISSES {
        if attempt() {
            hits += 1;
        } else {
            misses += 1;
        }
    }
    println!("{}: {hits} of {}", std::panic::Location::caller(), hits + misses);
    hits == WANTED
}

/// Waits until `condition` holds. A watchdog, not a measurement: the time only bounds how long a failure takes.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The state letter of a process (`proc(5)`), or `None` when it is gone.
pub(crate) fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// The processes that a process has started, the oldest first, until they are reaped.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// Kills a process, which may be gone already.
pub(crate) fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Prints the capacity of each pipe on a descriptor that is given as an argument.
pub(crate) const PIPE_SIZES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments) {
    for (int i = 1; i < count; i++) printf("%d\n", fcntl(atoi(arguments[i]), F_GETPIPE_SZ));
    return 0;
}
"#;

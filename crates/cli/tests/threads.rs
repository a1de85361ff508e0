//! Programs with several threads under `millstream run`: whatever their threads do at attached pipes, no byte is lost, doubled or
//! changed, no call fails that succeeds bare, and none waits for ever. Every program passes bare first.
//!
//! The programs are in `threads`. One way by itself: `MILLSTREAM_SCRIPT=name`.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use common::{Scratch, Seen, can_attach, millstream, output, statistics, wait_for};

/// They wait for each other, and some sleep.
const AT_ONCE: usize = 4;
/// So often a pipeline is run until its pipes were attached. Which process runs when decides that.
const ATTEMPTS: usize = 8;
/// Much longer than any of these takes.
const LIMIT_S: &str = "120";
/// A pipe that has carried so much in memory before a call was attached when it came.
const LONG_BEFORE: u64 = 384_000;
/// As a user would say it, and a program that runs on one CPU.
const WAYS: [(&str, &str); 2] = [("1", ""), ("200000", "taskset -c 0 ")];

struct Programs {
    _scratch: Scratch,
    threads: String,
    own_code: String,
    asleep: String,
    asleep_own: String,
    lives: String,
    lives_own: String,
}

static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
    let scratch = Scratch::new();
    let shared = format!("-I{}", Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/threads").display());
    let options = ["-pthread", "-w", &shared];
    let own = [&options[..], &["-DOWN_CODE"]].concat();
    let [threads, asleep, lives] =
        [include_str!("threads/threads.c"), include_str!("threads/asleep.c"), include_str!("threads/lives.c")];
    Programs {
        threads: scratch.c_program("threads", threads, &options),
        own_code: scratch.c_program("own_code", threads, &own),
        asleep: scratch.c_program("asleep", asleep, &options),
        asleep_own: scratch.c_program("asleep_own", asleep, &own),
        lives: scratch.c_program("lives", lives, &options),
        lives_own: scratch.c_program("lives_own", lives, &own),
        _scratch: scratch,
    }
});

/// A pipeline.
struct Case {
    script: String,
    variables: Vec<(&'static str, String)>,
    /// So many bytes of each pipe between the programs must have passed through memory in one of some attempts.
    attached: u64,
    /// What its writer says that it wrote is what was read.
    is_counted: bool,
}

impl Case {
    fn new(script: String) -> Case {
        Case { script, variables: Vec::new(), attached: 1, is_counted: false }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Case {
        self.variables.push((name, value.to_string()));
        self
    }

    fn attached(mut self, least: u64) -> Case {
        self.attached = least;
        self
    }

    fn seen(&self, mut command: Command, prefix: &str) -> Result<(), String> {
        let Programs { threads, own_code, asleep, asleep_own, .. } = &*PROGRAMS;
        let scratch = Scratch::new();
        let script = format!("{}; echo ${{PIPESTATUS[@]}}", self.script);
        for (name, program) in [("T", threads), ("O", own_code), ("A", asleep), ("B", asleep_own)] {
            command.env(name, format!("{prefix}{program}"));
        }
        command.args(["-c", &script]).env("DIR", scratch.path("")).stdin(Stdio::null());
        let seen = output(command.envs(self.variables.iter().map(|(name, value)| (name, value))));
        let is_whole = seen.stdout.split_whitespace().all(|status| status == "0") && seen.code == Some(0);
        let is_counted = !self.is_counted || (count(&seen, "wrote ") == count(&seen, "read "));
        if is_whole && is_counted { Ok(()) } else { Err(format!("{seen:?}")) }
    }

    fn bare(&self) -> Result<(), String> {
        let mut command = with_limit();
        command.arg("bash");
        self.seen(command, "").map_err(|seen| format!("bare: {seen}"))
    }

    /// Whether its pipes were attached.
    fn over_ring(&self, (after, prefix): (&str, &str)) -> Result<bool, String> {
        let scratch = Scratch::new();
        let stats = scratch.path("stats.json");
        let mut command =
            run_with_limit(&["--ring-after", after, "--stats=json", "--stats-file", stats.to_str().unwrap()]);
        command.args(["--shell", "/bin/bash"]);
        self.seen(command, prefix).map_err(|seen| format!("after {after}, {prefix}: {seen}"))?;
        let stats = statistics(&stats);
        let pipes = stats["pipes"].as_array().unwrap();
        let bytes = |pipe: &&Value| pipe["bytes"].as_u64().unwrap_or(0);
        let most = pipes.iter().map(|pipe| bytes(&pipe)).max().unwrap_or(0);
        // What a program makes of its own, and what carries little, may stay with the kernel.
        Ok(pipes.iter().filter(|pipe| bytes(pipe) * 4 > most * 3).all(|pipe| in_ring(pipe) >= self.attached))
    }

    fn check(&self) -> Result<bool, String> {
        self.bare()?;
        let mut is_attached = false;
        for attempt in 0..ATTEMPTS {
            is_attached |= self.over_ring(WAYS[attempt % WAYS.len()])?;
            if attempt + 1 >= WAYS.len() && (is_attached || self.attached == 0) {
                break;
            }
        }
        let is_as_wanted = is_attached || self.attached == 0 || !can_attach();
        if is_as_wanted { Ok(is_attached) } else { Err(format!("never attached in {ATTEMPTS} attempts")) }
    }
}

/// What hangs is killed, with all that it has started.
fn with_limit() -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", LIMIT_S]);
    command
}

/// `millstream run` so.
fn run_with_limit(options: &[&str]) -> Command {
    let run = millstream([&["run"], options].concat());
    let mut command = with_limit();
    command.arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn in_ring(pipe: &Value) -> u64 {
    let of = |end: &str| pipe[end]["ring"]["bytes"].as_u64().unwrap_or(0);
    of("written").min(of("read"))
}

/// How many records a side has said.
fn count(seen: &Seen, word: &str) -> Option<u64> {
    let line = seen.stderr.lines().find_map(|line| line.strip_prefix(word))?;
    line.strip_suffix(" records")?.parse().ok()
}

fn check_all(cases: Vec<Case>) {
    let wanted = std::env::var("MILLSTREAM_SCRIPT").unwrap_or_default();
    let cases: Vec<_> = cases.into_iter().filter(|case| case.script.contains(&wanted)).collect();
    assert!(!cases.is_empty() || !wanted.is_empty());
    let (next, attached, failures) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let fails = |case: &Case, why: String| {
        failures.lock().unwrap().push(format!("{} {:?}: {why}", case.script, case.variables));
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Relaxed)) {
                    match case.check() {
                        Ok(is_attached) => drop(attached.fetch_add(usize::from(is_attached), Relaxed)),
                        Err(why) => fails(case, why),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    println!("joined pipes of {} of {} pipelines", attached.load(Relaxed), cases.len());
    assert!(failures.is_empty(), "{} of {} pipelines\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// Lines of a program's list, as words.
fn list(program: &str) -> Vec<Vec<String>> {
    let listed = output(Command::new(program).arg("list")).stdout;
    listed.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

/// Ways in which a side of threads.c does something.
fn ways(program: &str, side: &str) -> Vec<String> {
    list(program).into_iter().filter(|words| words[0] == side).map(|words| words[1].clone()).collect()
}

/// The kernel reports a reader's death by its first thread, and glibc's own threads come past the library. While a library is loaded no
/// pipe attaches, nor where code that a program has made could call the kernel untrapped.
const NEED_NOT_ATTACH: [&str; 4] = ["first_ends", "ticks", "beside_loads", "by_made_code"];

#[test]
fn threads_move_every_byte_between_attached_pipes() {
    let ways = ways(&PROGRAMS.threads, "move");
    assert!(ways.len() >= 20, "{ways:?}");
    let case = |way: &String| {
        let case = Case::new(format!("$T write plain | $T move {way} | $T read plain"));
        case.attached(u64::from(!NEED_NOT_ATTACH.contains(&way.as_str())))
    };
    check_all(ways.iter().map(case).collect());
}

#[test]
fn instructions_of_threads_that_call_the_kernel_lose_no_byte() {
    let ways = ways(&PROGRAMS.own_code, "move");
    assert!(ways.iter().filter(|way| way.contains("own")).count() >= 3, "{ways:?}");
    let case = |way: &String| {
        let case = Case::new(format!("$O write plain | $O move {way} | $O read plain"));
        // Calls of threads that C11 has made, that are too many at once, or that hold the signal back, cannot be trapped.
        let are_untrapped =
            ["c11", "own_many"].contains(&way.as_str()) || (way.starts_with("own_masked") && !way.ends_with("_late"));
        case.attached(u64::from(!are_untrapped && !NEED_NOT_ATTACH.contains(&way.as_str())))
    };
    check_all(ways.iter().map(case).collect());
}

/// The second comes when the pipe is attached, or both are there from the beginning.
#[test]
fn two_threads_in_one_end_lose_no_record() {
    let mut cases = Vec::new();
    for size in [8, 24, 100, 512, 4096] {
        for (way, attached) in [("two", 0), ("two_later", 1)] {
            let case = Case::new(format!("$T write records | $T read {way}"));
            cases.push(case.with("SIZE", size).attached(attached));
        }
    }
    for (way, attached) in [("two", 0), ("two_later", 1), ("three", 0)] {
        cases.push(Case::new(format!("$T write {way} | $T read plain")).attached(attached));
    }
    check_all(cases);
}

#[test]
fn memory_that_is_not_there_is_refused_in_every_thread() {
    let mut cases = Vec::new();
    for way in ways(&PROGRAMS.threads, "read").iter().filter(|way| way.starts_with("bad_")) {
        for kind in 0..5 {
            for script in [format!("$T write plain | $T read {way}"), format!("$T write {way} | $T read plain")] {
                cases.push(Case::new(script).with("KIND", kind).attached(LONG_BEFORE));
            }
        }
    }
    assert_eq!(cases.len(), 40);
    check_all(cases);
}

#[test]
fn calls_beside_a_sleeping_thread_lose_no_byte() {
    check_beside_waiter("$A");
}

#[test]
fn calls_beside_a_sleeping_thread_of_own_code_lose_no_byte() {
    check_beside_waiter("$B");
}

fn check_beside_waiter(program: &str) {
    let things = list(&PROGRAMS.asleep);
    assert!(things.len() >= 110, "{}", things.len());
    let case = |words: &Vec<String>| {
        let [side, thing, peer] = &words[..] else { panic!("{words:?}") };
        let script = match side.as_str() {
            "read" => format!("$T write {peer} | {program} read {thing}"),
            _ => format!("{program} {side} {thing} | $T read {peer}"),
        };
        let is_counted = side == "write" && ["dup2_over", "close"].contains(&thing.as_str());
        Case { is_counted, ..Case::new(script).attached(LONG_BEFORE) }
    };
    check_all(things.iter().map(case).collect());
}

/// What lies in the directory of shared memory and has our name.
fn left_behind() -> BTreeSet<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains("millstream"))
        .collect()
}

/// A driver with its lives, and how many of them there were.
fn live(mut command: Command, first: usize, lives: usize) -> usize {
    let scratch = Scratch::new();
    command.args(["drive", &first.to_string(), &lives.to_string(), "60"]).env("DIR", scratch.path(""));
    let seen = output(command.stdin(Stdio::null()));
    let told: Vec<usize> = seen.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(seen.code == Some(0) && told.len() == 2 && told[1] * 2 > told[0], "from {first}, {command:?}: {seen:?}");
    told[0]
}

/// One life by itself, of those that a failure names: `MILLSTREAM_SEED=508 MILLSTREAM_RANDOM_SECONDS=1`; an hour of them:
/// `MILLSTREAM_RANDOM_SECONDS=3600`.
#[test]
fn random_lives_of_threads_lose_no_byte() {
    const LIVES: usize = 100;
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = variable("MILLSTREAM_RANDOM_SECONDS").unwrap_or(20);
    let first = variable("MILLSTREAM_SEED").unwrap_or(0) as usize;
    let (before, began) = (left_behind(), Instant::now());
    let (mut seed, mut attached, mut lives) = (first, 0, 0);
    while lives == 0 || began.elapsed() < Duration::from_secs(seconds) {
        let program = if (seed / LIVES).is_multiple_of(2) { &PROGRAMS.lives } else { &PROGRAMS.lives_own };
        let mut bare = with_limit();
        bare.arg(program);
        // The same of them that live over shared memory.
        live(bare, seed, LIVES / 5);
        let scratch = Scratch::new();
        let stats = scratch.path("stats.json");
        let (after, prefix) = [("1", ""), ("20000", ""), ("300000", ""), ("1", "taskset -c 0")][seed / LIVES / 2 % 4];
        let mut command =
            run_with_limit(&["--ring-after", after, "--stats=json", "--stats-file", stats.to_str().unwrap(), "--"]);
        command.args(prefix.split_whitespace()).arg(program);
        lives += live(command, seed, LIVES);
        let stats = statistics(&stats);
        attached += stats["pipes"].as_array().unwrap().iter().filter(|pipe| pipe["path"] == "ring").count();
        seed += LIVES;
    }
    println!("joined {attached} pipes in {lives} lives from seed {first}");
    assert_eq!(attached >= lives / 4, can_attach(), "{attached} pipes in {lives} lives");
    wait_for("nothing to be left in /dev/shm", || left_behind().is_subset(&before));
}

//! Pipelines and scripts from common practice do the same with and without `millstream run`: output, errors, exit status
//! and the files that they leave, byte for byte. Then stages of them are killed.
//!
//! The scripts are in `corpus` and `corpus-kills` beside this file; `common/script.rs` says what their comments mean.
//! One by itself: `MILLSTREAM_SCRIPT=name`. Other kills: `MILLSTREAM_SEED=number`, more of them: `MILLSTREAM_ROUNDS=number`.

mod common;
#[path = "common/script.rs"]
mod script;
#[path = "common/watched.rs"]
mod watched;

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::Scratch;
use script::{Script, Way};
use watched::Tree;

/// Most of them sleep and wait for each other: more than there are CPUs.
const AT_ONCE: usize = 4;

/// Runs all of them, some at once, and fails with what was found in any of them.
fn for_each(scripts: &[Script], check: impl Fn(&Script, &Scratch) -> Result<(), String> + Sync) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(script) = scripts.get(next.fetch_add(1, Relaxed)) {
                    let start = Instant::now();
                    if let Err(failure) = check(script, &Scratch::new()) {
                        failures.lock().unwrap().push(format!("{}: {failure}", script.name));
                    }
                    println!("{} {:.2} s", script.name, start.elapsed().as_secs_f64());
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} scripts\n{}", failures.len(), scripts.len(), failures.join("\n"));
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// `MILLSTREAM_SEED`, or another one each time.
fn seed() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
    number_from("MILLSTREAM_SEED").unwrap_or(now.into())
}

/// Numbers that follow from a seed (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014).
struct Random(Cell<u64>);

impl Random {
    /// One for each script, so that they do not depend on each other.
    fn new(seed: u64, name: &str) -> Random {
        let name = name.bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        Random(Cell::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ name))
    }

    fn below(&self, bound: u64) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        let mut word = self.0.get();
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (word ^ word >> 31) % bound
    }
}

#[test]
fn every_script_does_the_same_under_run() {
    let scripts = script::all("corpus");
    assert!(scripts.len() >= 60 || std::env::var_os("MILLSTREAM_SCRIPT").is_some(), "only {}", scripts.len());
    for_each(&scripts, |script, scratch| {
        let bare = script.left(Way::Bare, scratch, &[], |_| ())?;
        script.check_bare(&bare)?;
        for way in [Way::Run, Way::RunWithStatistics] {
            if let Some(difference) = script.left(way, scratch, &[], |_| ())?.difference(&bare) {
                return Err(format!("{way:?}:{difference}"));
            }
        }
        Ok(())
    });
}

/// A part of the corpus in which much is done to pipes while bytes are on their way, and in which pipes are attached.
const OVER_RING: [&str; 17] = [
    "gzip-chain",
    "jq-stream",
    "large-copy",
    "limits",
    "log-report",
    "parallel-compress",
    "python-producer-consumer",
    "python-subprocess",
    "shared-end",
    "sort-helpers",
    "tar-compressors",
    "tar-to-tar",
    "tee-readers",
    "text-chain",
    "tiny-writes",
    "word-frequency",
    "yes-head",
];

/// Each script over the ring runs so often, until pipes were attached: whether two programs meet is a matter of time too.
const ATTEMPTS: usize = 5;

#[test]
fn scripts_do_the_same_with_pipes_attached_at_once_or_never() {
    let mut scripts = script::all("corpus");
    scripts.retain(|script| {
        OVER_RING.iter().any(|name| script.name.split_once('.').is_some_and(|(stem, _)| stem == *name))
    });
    assert!(scripts.len() == OVER_RING.len() || std::env::var_os("MILLSTREAM_SCRIPT").is_some(), "{}", scripts.len());
    let can_attach = common::can_attach();
    for_each(&scripts, |script, scratch| {
        let bare = script.left(Way::Bare, scratch, &[], |_| ())?;
        let same = |way| match script.left(way, scratch, &[], |_| ())?.difference(&bare) {
            Some(difference) => Err(format!("{way:?}:{difference}")),
            None => Ok(()),
        };
        same(Way::RunOverRing)?;
        same(Way::RunWithoutRing)?;
        for _ in 0..ATTEMPTS {
            same(Way::RunOverRingWithStatistics)?;
            let stats = common::statistics(&scratch.path(script::OVER_RING_STATISTICS));
            if !can_attach || stats["pipes"].as_array().unwrap().iter().any(|pipe| pipe["path"] == "ring") {
                return Ok(());
            }
        }
        Err(format!("no pipe was joined in {ATTEMPTS} attempts"))
    });
}

/// Kills a stage that has written its process number into the file `victim`, so long after it has.
struct Killer {
    delay: Duration,
    seen: Option<Instant>,
    is_done: bool,
}

impl Killer {
    fn look(&mut self, scratch: &Scratch, tree: &Tree) {
        let text = std::fs::read_to_string(scratch.path("work/victim")).unwrap_or_default();
        let Some(pid) = text.strip_suffix('\n').and_then(|pid| pid.parse().ok()) else { return };
        let seen = *self.seen.get_or_insert_with(Instant::now);
        if !self.is_done && seen.elapsed() >= self.delay && tree.has(pid) {
            self.is_done = true;
            common::kill(pid);
        }
    }
}

/// Each script of `corpus-kills` names a stage that is killed, or kills it itself after so many bytes as `BYTES` says,
/// and ends in the same way wherever that happens.
#[test]
fn killed_stage_leaves_the_same_as_without_run() {
    let scripts = script::all("corpus-kills");
    assert!(scripts.len() >= 10 || std::env::var_os("MILLSTREAM_SCRIPT").is_some(), "only {}", scripts.len());
    let (seed, rounds) = (seed(), number_from("MILLSTREAM_ROUNDS").unwrap_or(3));
    for_each(&scripts, |script, scratch| {
        for round in 0..rounds {
            let random = Random::new(seed + round, &script.name);
            let delay = Duration::from_micros(random.below(30_000));
            let variables = [("BYTES", random.below(1 << random.below(24)).to_string())];
            let left = |way| {
                let mut killer = Killer { delay, seen: None, is_done: false };
                script.left(way, scratch, &variables, |tree| killer.look(scratch, tree))
            };
            let bare = left(Way::Bare)?;
            script.check_bare(&bare)?;
            for way in [Way::Run, Way::RunWithStatistics] {
                let failed = |what| format!("MILLSTREAM_SEED={} {variables:?} {delay:?} {way:?}: {what}", seed + round);
                if let Some(difference) = left(way).map_err(failed)?.difference(&bare) {
                    return Err(failed(difference));
                }
            }
        }
        Ok(())
    });
}

/// What is left then depends on the moment, also without `run`; but everything ends, and no process stays.
#[test]
fn scripts_whose_processes_are_killed_at_random_end() {
    let mut scripts = script::all("corpus");
    scripts.retain(|script| script.takes_random_kills);
    assert!(scripts.len() >= 20 || std::env::var_os("MILLSTREAM_SCRIPT").is_some(), "only {}", scripts.len());
    let (seed, rounds) = (seed(), number_from("MILLSTREAM_ROUNDS").unwrap_or(1));
    for_each(&scripts, |script, scratch| {
        for round in 0..rounds {
            let random = Random::new(seed + round, &script.name);
            let (start, delay) = (Instant::now(), Duration::from_micros(random.below(60_000)));
            let mut is_done = false;
            let kill_one = |tree: &Tree| {
                if is_done || start.elapsed() < delay {
                    return;
                }
                let processes = tree.processes();
                if !processes.is_empty() {
                    is_done = true;
                    common::kill(processes[random.below(processes.len() as u64) as usize]);
                }
            };
            let way = [Way::Run, Way::RunWithStatistics][random.below(2) as usize];
            script
                .left(way, scratch, &[], kill_one)
                .map_err(|error| format!("MILLSTREAM_SEED={} {error}", seed + round))?;
        }
        Ok(())
    });
}

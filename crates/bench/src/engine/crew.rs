//! Processes that measure together: each on its own CPU, watched by a parent that sleeps.
//!
//! ```text
//! parent ──fork──▶ writer, on its CPU ══ what is measured ══▶ reader, on its CPU
//!   │                └──── report ────┐                          │
//!   └── sleeps until both reported ◀──┴────────── report ────────┘
//! ```
//!
//! A process may spin for ever when the other is gone. That is why the parent takes no part: it notices the end of
//! either, or the time limit, and ends both. If the parent itself ends, the kernel ends them.
#![allow(unsafe_code)]

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use millstream_sys::fork::{self, Child, Side, wait_readable};
use millstream_sys::{Errno, cpu};
use serde::{Deserialize, Serialize};

use super::launch::{Launch, Telemetry, Watch};

/// For one sample. Longer than any that is worth having takes, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Held while a crew lives. A child of another thread inherits the write end of a report, and a report ends when no process
/// has its write end: the crew of a thread that forks meanwhile would be noticed only after the other one had ended.
static TURN: Mutex<()> = Mutex::new(());

/// When one has failed: for the other to say what it saw of it.
const GRACE: Duration = Duration::from_millis(200);

/// A process to be.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    /// For messages.
    pub name: &'static str,
    /// Where it must run.
    pub cpu: usize,
}

/// Runs `role` in a process for each post, with the post's index, and returns the samples that one of them took, with
/// what the kernel counted for all.
///
/// Until every process is started this one keeps what `role` owns, and each process has all of it: a role first drops
/// what belongs to the others.
///
/// # Errors
/// A sentence: what every process that failed says, which died of what, which ran on another CPU at its end or, where the
/// kernel keeps scheduler statistics, in between, which was silent for half a minute. No process is left.
pub fn run(posts: &[Post], role: impl FnOnce(usize) -> Result<Option<Launch>, String>) -> Result<Launch, String> {
    run_within(LIMIT, posts, role)
}

/// As [`run`], with a time limit.
pub(crate) fn run_within(
    limit: Duration,
    posts: &[Post],
    role: impl FnOnce(usize) -> Result<Option<Launch>, String>,
) -> Result<Launch, String> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut members = Vec::with_capacity(posts.len());
    for (index, &post) in posts.iter().enumerate() {
        let (reader, writer) = io::pipe().map_err(|error| format!("cannot make a pipe for reports: {error}"))?;
        // SAFETY: the child ends in `serve`. It allocates, makes system calls and writes to `writer`; should it wait for
        // a lock of a thread that it does not have, the time limit ends it.
        match unsafe { fork::fork() }.map_err(|error| format!("cannot start the {}: {error}", post.name))? {
            Side::Child => serve(post.cpu, writer, || role(index)),
            Side::Parent(child) => members.push(Member { post, child, report: reader }),
        }
    }
    drop(role);
    gather(members, limit)
}

/// What a process tells when it has done its part.
#[derive(Serialize, Deserialize)]
struct Report {
    telemetry: Telemetry,
    outcome: Result<Option<Launch>, String>,
}

fn serve(cpu: usize, mut report: impl Write, role: impl FnOnce() -> Result<Option<Launch>, String>) -> ! {
    /// Whatever happens, a panic included: nothing of the parent's own goes on in the child.
    struct Exit;
    impl Drop for Exit {
        fn drop(&mut self) {
            fork::exit_at_once(1);
        }
    }
    let _exit = Exit;
    let is_there = cpu::restrict_to(&[cpu]).map_err(|error| format!("cannot run on CPU {cpu}: {error}"));
    let watch = Watch::start(cpu);
    let outcome = is_there.and_then(|()| role());
    let said = Report { telemetry: watch.stop(), outcome };
    if let Ok(line) = serde_json::to_vec(&said) {
        // The parent that does not listen has given up on us.
        let _ = report.write_all(&line);
    }
    fork::exit_at_once(0)
}

struct Member {
    post: Post,
    child: Child,
    report: PipeReader,
}

impl Member {
    /// What it said, once its report can be read.
    fn hear(mut self) -> Result<(Option<Launch>, Telemetry), String> {
        let name = self.post.name;
        let mut line = Vec::new();
        // Its end closes with the process.
        let _ = self.report.read_to_end(&mut line);
        let status = self.child.wait().map_err(|error| format!("the {name} cannot be waited for: {error}"))?;
        if let Some(signal) = status.terminating_signal() {
            return Err(format!("the {name} was killed by signal {signal}"));
        }
        let report: Report = serde_json::from_slice(&line).map_err(|_| format!("the {name} ended without a report"))?;
        match report.outcome {
            Err(why) => Err(format!("the {name}: {why}")),
            Ok(_) if report.telemetry.cpus != [self.post.cpu] => {
                Err(format!("the {name} ran on CPU {:?} instead of {}", report.telemetry.cpus, self.post.cpu))
            }
            // Another program moved it away and back.
            Ok(_) if report.telemetry.migrations > 0 => {
                Err(format!("the {name} was moved from CPU to CPU, {} times", report.telemetry.migrations))
            }
            Ok(launch) => Ok((launch, report.telemetry)),
        }
    }
}

/// Waits for every report. Members that have not reported when it returns are killed and reaped.
fn gather(mut silent: Vec<Member>, limit: Duration) -> Result<Launch, String> {
    let (mut launch, mut telemetry, mut failures) = (None, Telemetry::default(), Vec::new());
    let mut deadline = Instant::now() + limit;
    while !silent.is_empty() {
        let descriptors: Vec<_> = silent.iter().map(|member| member.report.as_fd()).collect();
        let left = deadline.saturating_duration_since(Instant::now());
        let readable = match wait_readable(&descriptors, left) {
            Err(Errno::INTR) => continue,
            other => other.map_err(|error| format!("cannot wait for reports: {error}"))?,
        };
        if !readable.contains(&true) {
            break;
        }
        let mut readable = readable.into_iter();
        for member in silent.extract_if(.., |_| readable.next() == Some(true)) {
            match member.hear() {
                Ok((seen, part)) => {
                    launch = launch.or(seen);
                    telemetry.join(part);
                }
                Err(why) => failures.push(why),
            }
        }
        if !failures.is_empty() {
            deadline = deadline.min(Instant::now() + GRACE);
        }
    }
    if failures.is_empty() {
        let late = silent.iter().map(|member| format!("the {} said nothing for {limit:?}", member.post.name));
        failures.extend(late);
    }
    if !failures.is_empty() {
        return Err(failures.join("; "));
    }
    let launch = launch.ok_or("no process took a sample")?;
    Ok(Launch { telemetry, ..launch })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use millstream_sys::shared::Shared;

    use super::*;

    fn posts() -> [Post; 2] {
        let cpu = cpu::allowed().unwrap()[0];
        [Post { name: "writer", cpu }, Post { name: "reader", cpu }]
    }

    fn spin() -> Result<Option<Launch>, String> {
        loop {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_sample_of_one_is_the_sample_of_all() {
        let seen = run(&posts(), |index| Ok((index == 1).then(|| Launch::of(4.5)))).unwrap();
        assert_eq!((seen.samples, seen.telemetry.cpus.len()), (vec![4.5], 2));
        assert_ne!(seen.telemetry.pids[0], seen.telemetry.pids[1]);
        assert_eq!(run(&posts(), |_| Ok(None)).unwrap_err(), "no process took a sample");
    }

    #[test]
    fn each_runs_on_its_cpu() {
        let allowed = cpu::allowed().unwrap();
        for &cpu in &allowed {
            let seen = run(&[Post { name: "reader", cpu }], |_| Ok(Some(Launch::of(f64::from(cpu::current())))));
            assert_eq!(seen.unwrap().samples, [cpu as f64]);
        }
    }

    #[test]
    fn one_that_moved_away_is_found_out() {
        let allowed = cpu::allowed().unwrap();
        assert!(allowed.len() >= 2, "this test needs two CPUs");
        let post = Post { name: "reader", cpu: allowed[0] };
        let leave = || cpu::restrict_to(&[allowed[1]]).map_err(|error| error.to_string());
        let seen = run(&[post], |_| leave().map(|()| Some(Launch::of(1.0))));
        assert_eq!(seen.unwrap_err(), format!("the reader ran on CPU [{}] instead of {}", allowed[1], allowed[0]));
    }

    #[test]
    fn one_that_was_away_and_came_back_is_found_out() {
        let allowed = cpu::allowed().unwrap();
        assert!(allowed.len() >= 2, "this test needs two CPUs");
        let post = Post { name: "reader", cpu: allowed[0] };
        let go = |cpu| cpu::restrict_to(&[cpu]).map_err(|error| error.to_string());
        let seen = run(&[post], |_| go(allowed[1]).and_then(|()| go(allowed[0])).map(|()| Some(Launch::of(1.0))));
        assert_eq!(seen.unwrap_err(), "the reader was moved from CPU to CPU, 2 times");
    }

    #[test]
    fn a_death_ends_the_other_too() {
        let die = || millstream_sys::signals::raise_unblocked(9);
        let seen = run(&posts(), |index| {
            if index == 0 {
                die();
                Ok(None)
            } else {
                spin()
            }
        });
        assert_eq!(seen.unwrap_err(), "the writer was killed by signal 9");
    }

    #[test]
    fn silence_has_a_limit() {
        let one_spins = |index| if index == 0 { Ok(Some(Launch::of(1.0))) } else { spin() };
        let seen = run_within(Duration::from_secs(2), &posts(), one_spins);
        assert_eq!(seen.unwrap_err(), "the reader said nothing for 2s");
    }

    #[test]
    fn crews_of_two_threads_take_turns() {
        let alive = Shared::anonymous(8).unwrap();
        let alone = |_| {
            let before = alive.word(0).fetch_add(1, Relaxed);
            std::thread::sleep(Duration::from_millis(2));
            alive.word(0).fetch_sub(1, Relaxed);
            if before == 0 { Ok(Some(Launch::of(1.0))) } else { Err("another crew is alive".into()) }
        };
        let crews = || (0..20).try_for_each(|_| run(&posts()[..1], alone).map(drop));
        std::thread::scope(|scope| {
            let other = scope.spawn(crews);
            assert_eq!((crews(), other.join().unwrap()), (Ok(()), Ok(())));
        });
    }

    #[test]
    fn every_failed_process_is_reported() {
        let met = Shared::anonymous(8).unwrap();
        let seen = run(&posts(), |index| {
            // The parent does not wait for a report beyond the grace, and a busy machine may start one process long before
            // the other.
            met.word(0).fetch_add(1, Relaxed);
            while met.word(0).load(Relaxed) < 2 {
                std::thread::yield_now();
            }
            Err(format!("cannot {index}"))
        });
        let (mut said, seen) = (["the writer: cannot 0", "the reader: cannot 1"], seen.unwrap_err());
        said.sort_by_key(|part| seen.find(part));
        assert_eq!(seen, said.join("; "));
    }

    #[test]
    fn a_panic_stays_in_its_process() {
        let seen = run(&posts()[..1], |_| panic!("as this test wants"));
        let seen = seen.unwrap_err();
        assert!(seen == "the writer ended without a report" || seen == "the writer was killed by signal 6", "{seen}");
    }
}

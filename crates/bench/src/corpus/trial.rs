//! One pipeline after the other: whether it works, what it moves, how long it takes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use millstream_sys::{clock, cpu, memory};
use serde::Deserialize;

use super::data::Store;
use super::keeper::Keeper;
use super::list::{Corpus, Pipeline};
use super::report::{Placed, Report, Row};
use crate::cell::Verdict;
use crate::engine::placement::Placement;
use crate::engine::statistics::{ratio_of_medians, verdict};

/// What is measured, and with what.
pub struct Trial<'a> {
    /// `millstream`, as users start it.
    pub program: PathBuf,
    /// The list.
    pub corpus: &'a Corpus,
    /// Which of it; all, if there are none.
    pub only: Vec<String>,
    /// Where its data are.
    pub store: &'a Store,
    /// Where it runs.
    pub keeper: &'a Keeper,
    /// Interleaved pairs for each placement.
    pub pairs: usize,
    /// A run that takes longer is ended, and counts as one that hangs.
    pub limit: Duration,
    /// Which placements.
    pub placements: Vec<Placement>,
}

/// How far a trial is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Pipelines that are done.
    pub done: usize,
    /// Pipelines in all.
    pub total: usize,
    /// The one that is next, and what is done with it.
    pub name: &'a str,
    /// See [`name`](Self::name).
    pub doing: &'static str,
}

/// What carries the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Kernel,
    Millstream,
}

/// What came of one run.
struct Run {
    milliseconds: f64,
    status: ExitStatus,
    printed: Vec<u8>,
    complained: String,
}

impl Run {
    fn is_as(&self, other: &Run) -> bool {
        self.status == other.status && self.printed == other.printed
    }

    fn last_words(&self) -> String {
        let words = self.complained.trim().lines().last().unwrap_or_default();
        format!("{}{}{words}", self.status, if words.is_empty() { "" } else { ": " })
    }
}

fn restrict_to(cpus: &[usize; 2]) -> Result<(), String> {
    cpu::restrict_to(cpus).map_err(|error| format!("cannot choose the CPUs: {error}"))
}

impl Trial<'_> {
    /// Runs everything. What this machine lacks a command for, or what fails also bare, is left out.
    ///
    /// # Errors
    /// A sentence: the machine does not let anything be run or kept.
    pub fn run(&self, mut progress: impl FnMut(Progress<'_>)) -> Result<Report, String> {
        let allowed = cpu::allowed().map_err(|error| format!("cannot ask which CPUs are allowed: {error}"))?;
        // Before this process keeps itself to one of them, and so may use no other.
        let places = self.placements.iter().map(|&placement| Ok((placement, placement.cpus()?)));
        let places: Vec<(Placement, [usize; 2])> = places.collect::<Result<_, String>>()?;
        let is_wanted = |pipeline: &&Pipeline| self.only.is_empty() || self.only.contains(&pipeline.name);
        let pipelines: Vec<&Pipeline> = self.corpus.pipelines.iter().filter(is_wanted).collect();
        let mut report = Report::new(self.store.size(), self.pairs);
        for (done, pipeline) in pipelines.iter().enumerate() {
            let total = pipelines.len();
            let lacks = self.corpus.lacks(pipeline);
            if !lacks.is_empty() {
                report.leave_out(&pipeline.name, format!("not installed: {}", lacks.join(", ")));
                continue;
            }
            let outcome = self.measure(pipeline, &places, |doing| {
                progress(Progress { done, total, name: &pipeline.name, doing });
            });
            let _ = cpu::restrict_to(&allowed);
            match outcome? {
                Ok(row) => report.rows.push(row),
                Err(why) => report.leave_out(&pipeline.name, why),
            }
        }
        report.finish();
        Ok(report)
    }

    /// The inner error is the pipeline's own.
    fn measure(
        &self,
        pipeline: &Pipeline,
        places: &[(Placement, [usize; 2])],
        mut progress: impl FnMut(&'static str),
    ) -> Result<Result<Row, String>, String> {
        progress("its data are made");
        if let Err(why) = self.store.provide(self.corpus, &pipeline.data) {
            return Ok(Err(why));
        }
        progress("is tried");
        let expected = match self.launch(pipeline, Carrier::Kernel, None)? {
            Ok(run) if run.status.success() => run,
            Ok(run) => return Ok(Err(format!("fails by itself: {}", run.last_words()))),
            Err(why) => return Ok(Err(format!("by itself it {why}"))),
        };
        let mut row = Row::new(&pipeline.name, &pipeline.class);
        let mut carriers = (Carrier::Kernel, Carrier::Millstream);
        for &(placement, ref cpus) in places {
            progress(placement.title());
            restrict_to(cpus)?;
            let placed = match self.place(pipeline, placement, &expected, &mut carriers)? {
                // What seems slower is looked at once more: of two hundred looks some go wrong by chance.
                Ok(placed) if placed.verdict == Verdict::Worse => {
                    self.place(pipeline, placement, &expected, &mut carriers)?
                }
                other => other,
            };
            match placed {
                Ok(placed) => row.placements.push(placed),
                Err(Differs::UnderRun(why)) => {
                    row.error = Some(why);
                    return Ok(Ok(row));
                }
                Err(Differs::Bare(why)) => return Ok(Err(why)),
            }
        }
        progress("its pipes are counted");
        // The share of shared memory depends on the placement: counted in the first one.
        if let Some((_, cpus)) = places.first() {
            restrict_to(cpus)?;
        }
        match self.count(pipeline, &expected)? {
            Ok(statistics) => statistics.enter(&mut row),
            Err(why) => row.error = Some(why),
        }
        Ok(Ok(row))
    }

    fn place(
        &self,
        pipeline: &Pipeline,
        placement: Placement,
        expected: &Run,
        carriers: &mut (Carrier, Carrier),
    ) -> Result<Result<Placed, Differs>, String> {
        let (mut bare, mut run) = (Vec::new(), Vec::new());
        for _ in 0..self.pairs {
            // Each is the first of a pair as often as the second.
            *carriers = (carriers.1, carriers.0);
            for carrier in [carriers.0, carriers.1] {
                let outcome = self.launch(pipeline, carrier, None)?;
                match carrier.compared(outcome, expected) {
                    Ok(milliseconds) if carrier == Carrier::Kernel => bare.push(milliseconds),
                    Ok(milliseconds) => run.push(milliseconds),
                    Err(differs) => return Ok(Err(differs)),
                }
            }
        }
        let (ratio, interval) = ratio_of_medians(&alone(&bare), &alone(&run));
        Ok(Ok(Placed {
            placement: placement.name().into(),
            ratio,
            interval,
            verdict: verdict(interval, None),
            bare,
            run,
        }))
    }

    /// One more run, whose pipes are counted.
    fn count(&self, pipeline: &Pipeline, expected: &Run) -> Result<Result<Statistics, String>, String> {
        // Of no name, so that nothing is left.
        let file = memory::anonymous_file().map_err(|error| format!("cannot make a file for statistics: {error}"))?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        let run = self.launch(pipeline, Carrier::Millstream, Some(&path))?;
        if let Err(Differs::UnderRun(why) | Differs::Bare(why)) = Carrier::Millstream.compared(run, expected) {
            return Ok(Err(format!("while its pipes are counted: {why}")));
        }
        let text = content(file)?;
        let statistics = serde_json::from_slice(&text).map_err(|error| format!("the statistics are no JSON: {error}"));
        statistics.map(Ok)
    }

    /// The outer error is the machine's, the inner one the run's.
    fn launch(
        &self,
        pipeline: &Pipeline,
        carrier: Carrier,
        statistics: Option<&PathBuf>,
    ) -> Result<Result<Run, String>, String> {
        self.keeper.empty()?;
        let no_file = |error| format!("cannot make a file for what a pipeline prints: {error}");
        let [output, errors] = [memory::anonymous_file().map_err(no_file)?, memory::anonymous_file().map_err(no_file)?];
        let [for_output, for_errors] =
            [output.try_clone(), errors.try_clone()].map(|file| file.map_err(|it| it.to_string()));
        let mut command = self.command(carrier, statistics);
        command.args(["-c", &pipeline.script]);
        command.env("DATA", self.store.directory());
        self.keeper.prepare(&mut command);
        command.stdin(Stdio::null()).stdout(for_output?).stderr(for_errors?);

        let start = clock::raw_nanoseconds();
        let mut child = command.spawn().map_err(|error| format!("cannot start bash: {error}"))?;
        self.keeper.watch(child.id());
        let status = wait(&mut child, self.keeper, self.limit)?;
        let nanoseconds = clock::raw_nanoseconds() - start;
        self.keeper.end();
        let Some(status) = status else {
            return Ok(Err(format!("did not end within {} s", self.limit.as_secs())));
        };
        let complained = String::from_utf8_lossy(&content(errors)?).into_owned();
        Ok(Ok(Run { milliseconds: nanoseconds as f64 / 1e6, status, printed: content(output)?, complained }))
    }

    fn command(&self, carrier: Carrier, statistics: Option<&PathBuf>) -> Command {
        if carrier == Carrier::Kernel {
            return Command::new("bash");
        }
        let mut command = Command::new(&self.program);
        command.arg("run");
        if let Some(path) = statistics {
            command.arg("--stats=json").arg("--stats-file").arg(path);
        }
        command.args(["--", "bash"]);
        command
    }
}

/// Each sample is of a launch of its own.
fn alone(samples: &[f64]) -> Vec<&[f64]> {
    samples.chunks(1).collect()
}

/// A run that is not as the first one was.
enum Differs {
    Bare(String),
    UnderRun(String),
}

impl Carrier {
    fn compared(self, outcome: Result<Run, String>, expected: &Run) -> Result<f64, Differs> {
        let why = match outcome {
            Ok(run) if run.is_as(expected) => return Ok(run.milliseconds),
            Ok(run) if run.status == expected.status => "prints something else than the first time".into(),
            Ok(run) => format!("ends otherwise: {}", run.last_words()),
            Err(why) => why,
        };
        Err(match self {
            Carrier::Kernel => Differs::Bare(format!("by itself it {why}")),
            Carrier::Millstream => Differs::UnderRun(format!("under 'millstream run' it {why}")),
        })
    }
}

/// `None`: it did not end, and was ended.
fn wait(child: &mut Child, keeper: &Keeper, limit: Duration) -> Result<Option<ExitStatus>, String> {
    let (ended, is_ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let watchdog = scope.spawn(move || {
            let hangs = is_ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if hangs {
                keeper.end();
            }
            hangs
        });
        let status = child.wait().map_err(|error| format!("lost track of a pipeline: {error}"));
        drop(ended);
        let hung = watchdog.join().unwrap_or(false);
        status.map(|status| (!hung).then_some(status))
    })
}

fn content(mut file: File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(|error| format!("cannot read what was printed: {error}"))?;
    Ok(bytes)
}

/// What `millstream run --stats=json` writes, as far as it counts here.
#[derive(Deserialize)]
struct Statistics {
    pipes: Vec<Pipe>,
}

#[derive(Deserialize)]
struct Pipe {
    bytes: Option<u64>,
    written: End,
    read: End,
}

#[derive(Deserialize)]
struct End {
    why_not: Option<String>,
    ring: Option<Shared>,
}

#[derive(Deserialize)]
struct Shared {
    bytes: u64,
}

impl Pipe {
    /// What kept its bytes with the kernel, in one word of `millstream run --stats`.
    fn why_not(&self) -> String {
        let mut reasons: Vec<&str> =
            [&self.read, &self.written].into_iter().filter_map(|end| end.why_not.as_deref()).collect();
        // Of the other side's program nothing is known, if that is all.
        reasons.sort_by_key(|&reason| reason == "other_side");
        reasons.first().map_or_else(|| "unseen".into(), |&reason| reason.into())
    }

    /// Whether the programs at its ends make their calls past the C library.
    fn is_uncounted(&self) -> bool {
        [&self.read, &self.written].iter().any(|end| end.why_not.as_deref() == Some("uncounted"))
    }
}

impl Statistics {
    fn enter(&self, row: &mut Row) {
        let mut why_not: BTreeMap<String, u64> = BTreeMap::new();
        for pipe in &self.pipes {
            let shared = [&pipe.read, &pipe.written].map(|end| end.ring.as_ref().map_or(0, |ring| ring.bytes));
            let shared = shared[0].max(shared[1]);
            let bytes = pipe.bytes.unwrap_or(0).max(shared);
            row.bytes += bytes;
            row.shared_bytes += shared;
            // A pipe of which nothing was counted has a reason too.
            if bytes > shared || bytes == 0 && pipe.is_uncounted() {
                *why_not.entry(pipe.why_not()).or_default() += bytes - shared;
            }
        }
        row.why_not = why_not;
    }
}

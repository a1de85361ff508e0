//! Unmodified programs over kernel pipes and over `millstream run`.
//!
//! What is timed is the whole command as a user waits for it, from its start to its end, the start of `millstream run`
//! included. A run counts only if every stage ended as it should, on the CPU it was given, having moved every byte. The kernel counts
//! these, but not what goes through shared memory: there each pipeline is run once more before the first that is timed, and
//! `millstream run --stats` counts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use millstream_sys::{clock, memory, pipe, settings};
use serde::Deserialize;

use crate::cell::Cell;
use crate::engine::placement::Placement;
use crate::engine::{Comparison, Job, Launch, Telemetry};
use crate::method::Depth;
use crate::programs::Programs;

pub mod corpus;
pub mod pipeline;

use pipeline::{Report, SEPARATOR};

/// A pattern as people search for, which occurs in no text but this one.
pub const ABSENT_PATTERN: &str = "nosuchwordinhere";

/// The pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `cat FILE | grep PATTERN`, the pattern absent: the oldest measurement of a pipe's worth.
    Grep,
    /// `cat FILE | cat >/dev/null`: nothing but the pipe.
    CatCat,
    /// `cat FILE | wc -c`: a reader with small reads.
    CatWc,
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A pipe as the kernel makes it.
    Pipe,
    /// The same command under `millstream run`.
    Millstream,
    /// No pipe: the last program reads the file itself.
    File,
}

impl Workload {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Workload; 3] = [Workload::CatCat, Workload::CatWc, Workload::Grep];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Grep => "grep",
            Workload::CatCat => "cat-cat",
            Workload::CatWc => "cat-wc",
        }
    }

    fn transports(self) -> &'static [Transport] {
        match self {
            Workload::Grep => &[Transport::Pipe, Transport::Millstream, Transport::File],
            // cat has nothing to do without the pipe, and wc -c asks a file for its size instead of reading it.
            Workload::CatCat | Workload::CatWc => &[Transport::Pipe, Transport::Millstream],
        }
    }

    fn last_exit_status(self) -> i32 {
        match self {
            // grep found nothing.
            Workload::Grep => 1,
            Workload::CatCat | Workload::CatWc => 0,
        }
    }
}

impl Transport {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Pipe => "pipe",
            Transport::Millstream => "millstream",
            Transport::File => "file",
        }
    }
}

/// What to measure.
pub struct Plan {
    /// This one launches the pipelines, `millstream run` is one of the transports.
    pub programs: Programs,
    /// The text.
    pub file: PathBuf,
    /// Something that does not occur in it.
    pub pattern: String,
    /// Which pipelines.
    pub workloads: Vec<Workload>,
    /// Which placements.
    pub placements: Vec<Placement>,
}

impl Plan {
    /// The quick one leaves out the pipeline that lies between the other two.
    pub fn of(depth: Depth, programs: Programs, file: PathBuf) -> Plan {
        let workloads = match depth {
            Depth::Quick => vec![Workload::CatCat, Workload::Grep],
            Depth::Full | Depth::SeedFaithful => Workload::ALL.to_vec(),
        };
        let (pattern, placements) = (ABSENT_PATTERN.to_owned(), Placement::ALL.to_vec());
        Plan { programs, file, pattern, workloads, placements }
    }
}

/// A comparison for each pipeline and placement.
///
/// # Errors
/// The text cannot be read, or there is no memory for the reports. What goes wrong in a run makes its cell invalid.
pub fn comparisons(plan: Plan) -> io::Result<Vec<Comparison>> {
    let (workloads, placements) = (plan.workloads.clone(), plan.placements.clone());
    let bench = Rc::new(RefCell::new(Bench::new(plan)?));
    let mut comparisons = Vec::new();
    for &workload in &workloads {
        for &placement in &placements {
            let transports = workload.transports().iter();
            let jobs = transports.map(|&transport| job(&bench, Combination { workload, placement, transport }));
            // The first round warms caches.
            comparisons.push(Comparison {
                baseline: Some(Transport::Pipe.name()),
                rehearsals: 1,
                jobs: jobs.collect(),
            });
        }
    }
    Ok(comparisons)
}

fn job(bench: &Rc<RefCell<Bench>>, combination: Combination) -> Job {
    let Combination { workload, placement, transport } = combination;
    let size = bench.borrow().file_bytes;
    let params = BTreeMap::from([("workload", workload.name().into()), ("size", size.into())]);
    let cell = Cell::new("grep", transport.name(), placement.name(), params, "ms");
    let bench = Rc::clone(bench);
    Job::new(cell, move || bench.borrow_mut().run(combination))
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Combination {
    workload: Workload,
    placement: Placement,
    transport: Transport,
}

struct Bench {
    plan: Plan,
    file_bytes: u64,
    report: File,
    /// Of which it was counted that every byte passes.
    counted: Vec<Combination>,
}

/// What is looked at in the statistics of `millstream run`.
#[derive(Deserialize)]
struct Statistics {
    pipes: Vec<CountedPipe>,
}

#[derive(Deserialize)]
struct CountedPipe {
    written: CountedEnd,
    read: CountedEnd,
}

#[derive(Deserialize)]
struct CountedEnd {
    bytes: Option<u64>,
}

impl Bench {
    fn new(plan: Plan) -> io::Result<Bench> {
        let report = memory::anonymous_file()?;
        Ok(Bench { file_bytes: read_into_cache(&plan.file)?, report, plan, counted: Vec::new() })
    }

    /// One run: its milliseconds, or the check that it failed.
    fn run(&mut self, combination: Combination) -> Result<Launch, String> {
        if combination.transport == Transport::Millstream && !self.counted.contains(&combination) {
            let statistics = memory::anonymous_file().map_err(|error| error.to_string())?;
            self.launch(combination, Some(&statistics))?;
            self.check_statistics(statistics)?;
            self.counted.push(combination);
        }
        self.launch(combination, None)
    }

    fn launch(&mut self, combination: Combination, statistics: Option<&File>) -> Result<Launch, String> {
        let Combination { workload, placement, transport } = combination;
        let cpus = placement.cpus()?;
        let stages = self.stages(workload, transport);
        let mut command = self.command(transport, &stages, &cpus[..stages.len()], statistics);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(if workload == Workload::CatCat { Stdio::null() } else { Stdio::piped() });

        let start = clock::raw_nanoseconds();
        let output = command.output().map_err(|error| format!("cannot start the pipeline: {error}"))?;
        let nanoseconds = clock::raw_nanoseconds() - start;

        if !output.status.success() || !output.stderr.is_empty() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the pipeline failed ({}): {}", output.status, said.trim()));
        }
        let report = self.take_report().map_err(|error| format!("the pipeline left no report: {error}"))?;
        check_pipes(transport, &report.pipe_bytes)?;
        self.check_stages(combination, &report, &cpus[..stages.len()])?;
        self.check_output(workload, &output.stdout)?;
        let (pids, cpus) = report.stages.iter().map(|stage| (stage.pid, stage.cpu)).unzip();
        Ok(Launch {
            telemetry: Telemetry { pids, cpus, ..Telemetry::default() },
            ..Launch::of(nanoseconds as f64 / 1e6)
        })
    }

    fn stages(&self, workload: Workload, transport: Transport) -> Vec<Vec<OsString>> {
        let file = self.plan.file.as_os_str();
        let grep = || vec!["grep".into(), "-e".into(), OsString::from(&self.plan.pattern)];
        let cat_file = vec!["cat".into(), "--".into(), file.to_owned()];
        match (transport, workload) {
            (Transport::File, _) => vec![[grep(), vec!["--".into(), file.to_owned()]].concat()],
            (_, Workload::Grep) => vec![cat_file, grep()],
            (_, Workload::CatCat) => vec![cat_file, vec!["cat".into()]],
            (_, Workload::CatWc) => vec![cat_file, vec!["wc".into(), "-c".into()]],
        }
    }

    fn command(
        &self,
        transport: Transport,
        stages: &[Vec<OsString>],
        cpus: &[usize],
        statistics: Option<&File>,
    ) -> Command {
        let path_of = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let Programs { millstream, bench } = &self.plan.programs;
        let mut command = Command::new(if transport == Transport::Millstream { millstream } else { bench });
        if transport == Transport::Millstream {
            command.arg("run");
            if let Some(file) = statistics {
                command.args(["--stats=json", "--stats-file", &path_of(file)]);
            }
            command.arg("--").arg(bench);
        }
        // Should this measurement itself be running under `millstream run`, the baseline must not.
        command.env_remove(settings::VARIABLE);
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        command.args(["pipeline", "--cpus", &cpus.join(","), "--report"]);
        command.arg(path_of(&self.report));
        command.arg("--").args(stages.join(&OsString::from(SEPARATOR)));
        command
    }

    fn take_report(&mut self) -> io::Result<Report> {
        let mut text = String::new();
        self.report.rewind()?;
        self.report.read_to_string(&mut text)?;
        self.report.set_len(0)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Every byte has gone into a pipe and come out of it.
    fn check_statistics(&self, mut file: File) -> Result<(), String> {
        let mut text = String::new();
        let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
        read.map_err(|error| format!("millstream run left no statistics: {error}"))?;
        let seen: Statistics = serde_json::from_str(&text).map_err(|error| format!("its statistics: {error}"))?;
        let all = Some(self.file_bytes);
        match seen.pipes.iter().any(|pipe| pipe.written.bytes == all && pipe.read.bytes == all) {
            true => Ok(()),
            false => Err(format!("millstream run counted no pipe with {} bytes", self.file_bytes)),
        }
    }

    fn check_stages(&self, combination: Combination, report: &Report, cpus: &[usize]) -> Result<(), String> {
        let Combination { workload, transport, .. } = combination;
        // What passes a pipe in shared memory the kernel does not count.
        let counts_pipes = transport != Transport::Millstream;
        let stages = &report.stages;
        if stages.len() != cpus.len() {
            return Err(format!("{} stages were observed instead of {}", stages.len(), cpus.len()));
        }
        for (index, (stage, &cpu)) in stages.iter().zip(cpus).enumerate() {
            let (number, is_last) = (index + 1, index + 1 == stages.len());
            let wanted = if is_last { workload.last_exit_status() } else { 0 };
            if stage.exit_status != Some(wanted) {
                let hint = match (workload, stage.exit_status) {
                    (Workload::Grep, Some(0)) => "; the pattern occurs in the text, choose another",
                    _ => "",
                };
                return Err(format!("stage {number} ended with {:?} instead of {wanted}{hint}", stage.exit_status));
            }
            if stage.cpu != cpu {
                return Err(format!("stage {number} ran on CPU {} instead of {cpu}", stage.cpu));
            }
            if (counts_pipes || index == 0) && stage.bytes_read < self.file_bytes {
                return Err(format!("stage {number} read {} of {} bytes", stage.bytes_read, self.file_bytes));
            }
            let passes_all_on = !is_last || workload == Workload::CatCat;
            if passes_all_on && (counts_pipes || is_last) && stage.bytes_written != self.file_bytes {
                return Err(format!("stage {number} wrote {} of {} bytes", stage.bytes_written, self.file_bytes));
            }
        }
        Ok(())
    }

    fn check_output(&self, workload: Workload, output: &[u8]) -> Result<(), String> {
        let output = String::from_utf8_lossy(output);
        let expected = match workload {
            Workload::CatWc => self.file_bytes.to_string(),
            Workload::Grep | Workload::CatCat => String::new(),
        };
        match output.trim() == expected {
            true => Ok(()),
            false => Err(format!("the pipeline printed {:?} instead of {expected:?}", output.trim())),
        }
    }
}

/// The baseline must be what a program gets by default, and ours must be something else.
fn check_pipes(transport: Transport, pipe_bytes: &[usize]) -> Result<(), String> {
    let unexpected = |wanted| format!("the pipe holds {pipe_bytes:?} bytes, {wanted}; is the user's quota used up?");
    let is_default = |&bytes: &usize| bytes == pipe::DEFAULT_CAPACITY;
    match transport {
        Transport::Pipe if !pipe_bytes.iter().all(is_default) => Err(unexpected("not the kernel's default")),
        Transport::Millstream if !pipe_bytes.iter().all(|&bytes| bytes > pipe::DEFAULT_CAPACITY) => {
            Err(unexpected("no more than the kernel's default"))
        }
        _ => Ok(()),
    }
}

/// Reads the text once, so that every run finds it in memory, and returns its size.
fn read_into_cache(path: &Path) -> io::Result<u64> {
    let size = io::copy(&mut File::open(path)?, &mut io::sink())?;
    match size {
        0 => Err(io::Error::new(io::ErrorKind::InvalidInput, "the text is empty")),
        size => Ok(size),
    }
}

//! `millstream bench pipeflex`: pipes between processes that also compute.

use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use millstream_command::failure::Failure;

use super::measuring::measure;
use super::options::{StreamOptions, chosen};
use super::outputs::Outputs;
use super::sizes::parse_transfer;
use crate::engine::Effort;
use crate::engine::placement::Placement;
use crate::method::Depth;
use crate::method::pipeflex::{
    self, CARRIERS, COMPUTE_US_MAX, DEFAULT_SECONDS, DEFAULT_SEED, NO_COMPUTE, PROCESSES_MAX, Plan, Run, SECONDS,
    SEED_RUN, SEED_SECONDS, SHAPES, seed_runs,
};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench pipeflex
  millstream bench pipeflex --seed-faithful --placement 2cpu --json flex.json
  millstream bench pipeflex --workload gunzip-tar,cat-sort --transport pipe,millstream
  millstream bench pipeflex -c 8 -x 200 -y 50 -w 4k -r 4k,64k

Workloads: study is -c 2 -x 500 -y 0 -w 512 with -r 2k to 128k; grep, cat-wc, cat-sort and
gunzip-tar compute, read and write as the stages of those pipelines do. With no-compute no process
computes.

Exit status: 0, 2 for wrong use, 3 if a cell failed its checks and shows no number.";

/// Options of `millstream bench pipeflex`.
#[derive(Args)]
pub(super) struct Options {
    /// What the processes do [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(workloads()))]
    workload: Vec<String>,

    /// The runs of the study that made this known, for a tenth of a second each instead of 20
    #[arg(long, conflicts_with_all = ["workload", "processes", "reader_us", "writer_us", "read", "write", "seconds"])]
    seed_faithful: bool,

    /// 20 seconds for each of the study's runs, as it had; one round then takes half an hour
    #[arg(long, requires = "seed_faithful")]
    exact_duration: bool,

    /// Processes: a writer and a reader for each pipe [default: 2]
    #[arg(short = 'c', long, value_name = "N", value_parser = parse_processes)]
    processes: Option<usize>,

    /// Seconds for each sample [default: 0.1]
    #[arg(short = 't', long, value_name = "SECONDS", value_parser = parse_seconds)]
    seconds: Option<f64>,

    /// Microseconds that a reader computes after each read, drawn from 0.5 to 1.5 times as much [default: 500]
    #[arg(short = 'x', long, value_name = "US", conflicts_with = "workload", value_parser = compute_us())]
    reader_us: Option<u32>,

    /// Microseconds that a writer computes after each write, drawn likewise [default: 0]
    #[arg(short = 'y', long, value_name = "US", conflicts_with = "workload", value_parser = compute_us())]
    writer_us: Option<u32>,

    /// Bytes for each read, with K or M for 1024 or 1024², at most 16M [default: 2k to 128k]
    #[arg(short = 'r', long, value_name = "BYTES", value_delimiter = ',', conflicts_with = "workload",
        value_parser = parse_transfer)]
    read: Vec<usize>,

    /// Bytes for each write, at most 16M [default: 512]
    #[arg(short = 'w', long, value_name = "BYTES", conflicts_with = "workload", value_parser = parse_transfer)]
    write: Option<usize>,

    /// Always 0 in the study, which does not say what it is: nothing but 0 is taken
    #[arg(short = 'o', value_name = "0", value_parser = parse_zero)]
    _o: Option<u8>,

    /// Like -o
    #[arg(short = 'm', value_name = "0", value_parser = parse_zero)]
    _m: Option<u8>,

    /// What the draws come from; the same for every transport
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,

    /// What carries the bytes [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',',
        value_parser = PossibleValuesParser::new(CARRIERS.map(|carrier| carrier.name())))]
    transport: Vec<String>,

    #[command(flatten)]
    common: StreamOptions,
}

/// Measures.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let outputs = Outputs::open(&options.common.output)?;
    let plan = Plan {
        runs: options.runs(),
        seconds: options.seconds(),
        seed: options.seed,
        placements: chosen(&Placement::ALL, Placement::name, &options.common.placement),
        carriers: chosen(&CARRIERS, |carrier| carrier.name(), &options.transport),
    };
    let comparisons = pipeflex::comparisons(&plan).map_err(Failure::usage)?;
    measure(comparisons, Effort::exactly(options.common.rounds as usize), outputs)
}

impl Options {
    fn runs(&self) -> Vec<Run> {
        let processes = self.processes.unwrap_or(SEED_RUN.processes);
        let all = || [seed_runs(), SHAPES.to_vec(), NO_COMPUTE.to_vec()].concat();
        let runs = match self {
            Options { seed_faithful: true, .. } => Plan::of(Depth::SeedFaithful).runs,
            Options { reader_us: None, writer_us: None, write: None, read, workload, .. } if read.is_empty() => all()
                .into_iter()
                .filter(|run| workload.is_empty() || workload.iter().any(|name| name == run.workload))
                .collect(),
            _ => self.own_runs(),
        };
        runs.into_iter().map(|run| Run { processes, ..run }).collect()
    }

    /// The study's, with what is named.
    fn own_runs(&self) -> Vec<Run> {
        let mut reads = self.read.clone();
        if reads.is_empty() {
            reads = pipeflex::READS.to_vec();
        }
        reads.sort_unstable();
        reads.dedup();
        let own = Run {
            workload: "own",
            reader_us: self.reader_us.unwrap_or(SEED_RUN.reader_us),
            writer_us: self.writer_us.unwrap_or(SEED_RUN.writer_us),
            write: self.write.unwrap_or(SEED_RUN.write),
            ..SEED_RUN
        };
        let is_study = Run { workload: SEED_RUN.workload, ..own } == SEED_RUN;
        let workload = if is_study { SEED_RUN.workload } else { own.workload };
        reads.into_iter().map(|read| Run { workload, read, ..own }).collect()
    }

    fn seconds(&self) -> f64 {
        match self.seconds {
            Some(seconds) => seconds,
            None if self.exact_duration => SEED_SECONDS,
            None => DEFAULT_SECONDS,
        }
    }
}

fn workloads() -> Vec<&'static str> {
    [SEED_RUN, NO_COMPUTE[0]].into_iter().chain(SHAPES).map(|run| run.workload).collect()
}

fn compute_us() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(..=i64::from(COMPUTE_US_MAX))
}

fn parse_processes(text: &str) -> Result<usize, String> {
    let is_paired = |&processes: &usize| processes % 2 == 0 && (2..=PROCESSES_MAX).contains(&processes);
    let processes = text.parse().ok().filter(is_paired);
    processes.ok_or_else(|| format!("a writer and a reader for each pipe are an even number from 2 to {PROCESSES_MAX}"))
}

pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| SECONDS.contains(seconds));
    seconds.ok_or_else(|| format!("a sample takes {} to {} seconds", SECONDS.start(), SECONDS.end()))
}

fn parse_zero(text: &str) -> Result<u8, String> {
    match text {
        "0" => Ok(0),
        _ => Err("the study had 0 and did not say what it is, so nothing else can be done".into()),
    }
}

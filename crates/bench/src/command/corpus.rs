//! `millstream bench corpus`: whether any real pipeline is slower.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use millstream_command::failure::{self, Failure};

use super::measuring::INVALID;
use super::options::chosen;
use super::outputs::Output;
use super::progress::Progress;
use super::sizes::parse_text_size;
use crate::corpus::{Corpus, Keeper, Outcome, Pipeline, Store, Trial};
use crate::engine::placement::Placement;
use crate::programs::Programs;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench corpus
  millstream bench corpus --list
  millstream bench corpus --only cat-wc,tar-tar --pairs 21 --json corpus.json
  millstream bench corpus --corpus my-pipelines.txt

Each pipeline is run bare and under 'millstream run' in turns, and must print the same. Its data are made
on first use and kept in $XDG_CACHE_HOME/millstream, or ~/.cache/millstream; that takes a gigabyte. What
is not installed here is left out and named.

A ratio is the time bare over that under 'millstream run'. A pipeline is called slower if the 95 %
interval of its ratio lies below 0.97, and did so in a second look too.

Exit status: 0 none is slower, 1 one is slower, fails or prints something else, 2 wrong use,
  3 nothing ran.";

/// Options of `millstream bench corpus`.
#[derive(Args)]
pub(super) struct Options {
    /// Only these pipelines [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    /// Name the pipelines, and what is missing here for each, and run nothing
    #[arg(long, conflicts_with_all = ["json", "pairs"])]
    list: bool,

    /// Pipelines of your own, in the format of the program's list, instead of those
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,

    /// Interleaved pairs of runs for each pipeline and placement
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(5..=10_000))]
    pairs: u32,

    /// Seconds after which a run is ended and counts as one that hangs
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    limit: u32,

    /// All programs of a pipeline on one CPU, or on two [default: both]
    #[arg(long, value_name = "PLACEMENT", value_delimiter = ',', value_parser = ["1cpu", "2cpu"])]
    placement: Vec<String>,

    /// Bytes of the text that pipelines read, with K, M or G for 1024, 1024² or 1024³; other data in proportion
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_text_size)]
    size: u64,

    /// Write everything with each run's time to FILE; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Measures, or lists.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let Options { only, list, corpus, pairs, limit, placement, size, json } = options;
    let corpus = match corpus {
        None => Corpus::own(),
        Some(path) => {
            fs::read_to_string(&path).map_err(|error| error.to_string()).and_then(|text| Corpus::of(&text)).map_err(
                |error| Failure::usage(format!("cannot use '{}' as a list of pipelines: {error}", path.display())),
            )?
        }
    };
    if let Some(unknown) = only.iter().find(|name| corpus.pipeline(name).is_none()) {
        return Err(Failure::usage(format!("there is no pipeline '{unknown}'; see 'millstream bench corpus --list'")));
    }
    if list {
        let is_wanted = |pipeline: &&Pipeline| only.is_empty() || only.contains(&pipeline.name);
        let lines = corpus.pipelines.iter().filter(is_wanted).map(|pipeline| line(&corpus, pipeline));
        return failure::print(&lines.collect::<String>());
    }
    let output = json.as_deref().map(Output::create).transpose()?;
    let store = Store::open(size).map_err(Failure::own)?;
    let keeper = Keeper::start(store.directory()).map_err(Failure::own)?;
    let placements = chosen(&Placement::ALL, Placement::name, &placement);
    let program = Programs::find().map_err(Failure::own)?.millstream;
    let (pairs, limit) = (pairs as usize, Duration::from_secs(limit.into()));
    let trial = Trial { program, corpus: &corpus, only, store: &store, keeper: &keeper, pairs, limit, placements };
    let mut progress = Progress::new();
    let report = trial
        .run(|now| progress.show(&format!("{} of {}: {}, {}", now.done + 1, now.total, now.name, now.doing)))
        .map_err(Failure::own)?;
    drop(progress);
    let is_table_shown = !output.as_ref().is_some_and(Output::is_stdout);
    if let Some(output) = output {
        output.write_json(&report)?;
    }
    if is_table_shown {
        failure::print(&report.render())?;
    }
    Ok(ExitCode::from(match report.outcome {
        Outcome::Fine => 0,
        Outcome::Slower | Outcome::Failed => 1,
        Outcome::Nothing => INVALID,
    }))
}

fn line(corpus: &Corpus, pipeline: &Pipeline) -> String {
    let lacks = corpus.lacks(pipeline);
    let missing = if lacks.is_empty() { String::new() } else { format!("  not installed: {}", lacks.join(", ")) };
    format!("{:<24}{}{missing}\n", pipeline.name, pipeline.class)
}

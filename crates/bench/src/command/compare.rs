//! `millstream bench compare`: whether a run is slower than another.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use millstream_command::failure::{self, Failure};

use super::measuring::INVALID;
use crate::cell::Document;
use crate::compare::{self, Outcome, Side};
use crate::history::{Filter, History};
use crate::report::changes;

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench compare                         the last run with those before it
  millstream bench compare before.json after.json
  millstream bench compare 12 last --json
  millstream bench bw_pipe --json - >new.json; millstream bench compare baseline new.json

A and B are each a JSON file of a measurement, the number of a run in 'millstream bench history',
last (the newest run), or baseline (the median of the newest valid runs that were made on the same
machine before the other side and share a cell with it).

A change is called worse or better only if chance, the noise of the runs, what other transports did
meanwhile and what earlier runs did are all ruled out, and beyond 3 %. Speeds are compared beside
the baseline of the same run, where there is one, because the machine's own speed drifts.

Exit status: 0 the same or better, 1 worse, 2 inconclusive or wrong use, 3 a cell is not valid, no
  cell is on both sides, a side cannot be read, or the machines differ.";

/// Runs that the baseline is the median of.
const RUNS: u32 = 5;

/// Earlier runs that are asked how far runs lie apart.
const PAST: usize = 20;

/// Runs that are looked through for either.
const SEARCHED: usize = 200;

/// Options of `millstream bench compare`.
#[derive(Args)]
pub(super) struct Options {
    /// What to compare with
    #[arg(default_value = "baseline")]
    a: String,

    /// What to judge
    #[arg(default_value = "last")]
    b: String,

    /// Runs that the baseline is the median of
    #[arg(long, value_name = "K", default_value_t = RUNS, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,

    /// Compare even if the machines differ
    #[arg(long)]
    across_machines: bool,

    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// A side as it was named.
enum Named {
    Document(Box<Document>),
    Baseline,
}

/// Compares, shows, and says with the exit status.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let needs_history = [&options.a, &options.b].into_iter().any(|name| !is_file(name));
    let history = match super::history::open() {
        // Two files can be compared without one, only with less knowledge of the machine.
        Err(_) if !needs_history => None,
        other => other.map_err(Failure::into_invalid)?,
    };
    let history = history.as_ref();
    let named = (named(&options.a, history)?, named(&options.b, history)?);
    let find = |of: &Document| earlier(history, of, options.runs as usize).map_err(Failure::invalid);
    let (a, b) = match named {
        (Named::Document(a), Named::Document(b)) => (vec![*a], vec![*b]),
        (Named::Baseline, Named::Document(b)) => (find(&b)?, vec![*b]),
        (Named::Document(a), Named::Baseline) => (vec![*a.clone()], find(&a)?),
        (Named::Baseline, Named::Baseline) => {
            return Err(Failure::usage("the baseline can be compared with a run, not with itself"));
        }
    };
    let past = earlier(history, &b[b.len() - 1], PAST).unwrap_or_default();
    let past: Vec<&Document> = past.iter().collect();
    let a = Side { name: options.a, runs: a.iter().collect() };
    let b = Side { name: options.b, runs: b.iter().collect() };
    let report = compare::compare(&a, &b, &past, options.across_machines).map_err(Failure::invalid)?;
    failure::print(&if options.json { super::history::json(&report)? } else { changes::render(&report) })?;
    Ok(ExitCode::from(match report.outcome {
        Outcome::Same | Outcome::Better => 0,
        Outcome::Worse => 1,
        Outcome::Inconclusive => 2,
        Outcome::Invalid => INVALID,
    }))
}

/// Whether a name is neither a number nor a word that the history knows.
fn is_file(name: &str) -> bool {
    name != "last" && name != "baseline" && name.parse::<i64>().is_err()
}

fn named(name: &str, history: Option<&History>) -> Result<Named, Failure> {
    if is_file(name) {
        let document = Document::from_file(Path::new(name)).map_err(Failure::invalid)?;
        return Ok(Named::Document(Box::new(document)));
    }
    if name == "baseline" {
        return Ok(Named::Baseline);
    }
    let history =
        history.ok_or_else(|| Failure::invalid("no run was kept yet, so there is nothing to compare with"))?;
    let newest = || history.runs(Filter::default(), 1).map(|runs| runs.first().map(|run| run.number));
    let number = match name.parse::<i64>() {
        Ok(number) => Some(number),
        Err(_) => newest().map_err(Failure::invalid)?,
    };
    let number = number.ok_or_else(|| Failure::invalid("no run was kept yet, so there is nothing to compare with"))?;
    match history.document(number).map_err(Failure::invalid)? {
        Some(document) => Ok(Named::Document(Box::new(document))),
        None => {
            Err(Failure::invalid(format!("there is no run {number} in the history; see 'millstream bench history'")))
        }
    }
}

/// The newest valid runs from before `of`, on its machine, that share a cell with it: at most `count`, the oldest first.
fn earlier(history: Option<&History>, of: &Document, count: usize) -> Result<Vec<Document>, String> {
    let none = || "the history has no valid run on this machine from before the other side that shares a cell with it";
    let history = history.ok_or_else(none)?;
    let fingerprint = of.machine.fingerprint();
    let filter = Filter { fingerprint: Some(&fingerprint), is_valid: true, ..Filter::default() };
    let mut found = Vec::new();
    for run in history.runs(filter, SEARCHED)?.iter().filter(|run| run.began <= of.began) {
        // A run in a format of earlier days is passed over.
        if let Ok(Some(document)) = history.document(run.number)
            && !is_run(&document, of)
            && compare::share_a_cell(&document, of)
        {
            found.push(document);
        }
        if found.len() == count {
            break;
        }
    }
    found.reverse();
    if found.is_empty() { Err(none().into()) } else { Ok(found) }
}

/// Whether two documents are of one and the same run: one of them may have come from a file.
fn is_run(one: &Document, other: &Document) -> bool {
    one.began == other.began && one.seconds == other.seconds && one.command == other.command
}

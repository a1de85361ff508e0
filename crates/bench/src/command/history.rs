//! `millstream bench history`: earlier runs.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use millstream_command::failure::{self, Failure};

use crate::history::{self, Filter, History, Run};
use crate::machine::Machine;
use crate::report::{date, table};

/// Shown below the options.
pub(super) const EXAMPLES: &str = "\
Examples:
  millstream bench history
  millstream bench history --method bw_pipe --machine --limit 50
  millstream bench history show 12
  millstream bench history show 12 --json > run-12.json
  millstream bench history prune --keep 100

Every measurement is kept, unless it is made with --no-history, in
$XDG_DATA_HOME/millstream/bench.db, or ~/.local/share/millstream/bench.db.

Exit status: 0, also if there is no run yet; 2 for wrong use, such as a run that is not there;
  125 if the history cannot be read or written.";

/// Options of `millstream bench history`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Options {
    /// Only runs on this machine, or on the one with FINGERPRINT
    #[arg(long, value_name = "FINGERPRINT", num_args = 0..=1, require_equals = true, default_missing_value = "this")]
    machine: Option<String>,

    /// Only runs with cells of this method
    #[arg(long, value_name = "NAME")]
    method: Option<String>,

    /// At most so many, the newest first
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// As a JSON array
    #[arg(long)]
    json: bool,

    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// Show a run as it was shown when it was made
    Show {
        /// As listed
        #[arg(value_name = "N")]
        number: i64,

        /// As its JSON, with all samples
        #[arg(long)]
        json: bool,
    },
    /// Forget all but the newest runs of each machine
    Prune {
        /// How many stay
        #[arg(long, value_name = "N", default_value_t = 200)]
        keep: usize,
    },
}

/// Lists, shows or forgets.
pub(super) fn run(options: Options) -> Result<ExitCode, Failure> {
    let history = open()?;
    match (options.action, history) {
        (None, history) => {
            let this = Machine::this().fingerprint();
            let fingerprint = options.machine.as_deref().map(|named| if named == "this" { &this } else { named });
            let filter = Filter { fingerprint, method: options.method.as_deref(), is_valid: false };
            let runs = history.map(|history| history.runs(filter, options.limit)).transpose();
            let runs = runs.map_err(Failure::own)?.unwrap_or_default();
            failure::print(&if options.json { json(&runs)? } else { list(&runs) })
        }
        (Some(Action::Show { number, json: is_json }), history) => {
            let document = history.map(|history| history.document(number)).transpose().map_err(Failure::own)?.flatten();
            let document = document.ok_or_else(|| no_run(number))?;
            failure::print(&if is_json { json(&document)? } else { table::render(&document) })
        }
        (Some(Action::Prune { keep }), history) => {
            let gone = history.map(|mut history| history.prune(keep)).transpose().map_err(Failure::own)?.unwrap_or(0);
            failure::print(&format!("{gone} runs forgotten.\n"))
        }
    }
}

/// The history as it is; `None` where there is none yet.
pub(super) fn open() -> Result<Option<History>, Failure> {
    let path = history::default_path()
        .ok_or_else(|| Failure::own("neither XDG_DATA_HOME nor HOME is set, so there is no place for a history"))?;
    History::open_existing(&path).map_err(Failure::own)
}

/// What is said of a number that is not listed.
pub(super) fn no_run(number: i64) -> Failure {
    Failure::usage(format!("there is no run {number} in the history; see 'millstream bench history'"))
}

/// For programs.
pub(super) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::own(error.to_string()))?;
    Ok(text + "\n")
}

fn list(runs: &[Run]) -> String {
    use comfy_table::{CellAlignment, Table, presets};
    if runs.is_empty() {
        return "No run was kept yet.\n".into();
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["run", "began", "s", "cells", "not valid", "machine", "processor", "methods"]);
    for run in runs {
        table.add_row([
            run.number.to_string(),
            date::utc(run.began),
            format!("{:.0}", run.seconds),
            run.cells.to_string(),
            run.invalid.to_string(),
            run.fingerprint.clone(),
            run.cpu.clone(),
            run.methods.join(" "),
        ]);
    }
    for index in [0, 2, 3, 4] {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n")
}

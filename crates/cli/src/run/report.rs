//! What `--stats` prints: every pipe of the run.

mod pipes;

use std::path::Path;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use millstream_sys::ledger::Ledger;
use millstream_sys::signals::Signal;
use serde::Serialize;

use crate::bytes;
use crate::statistics::{StatsFile, StatsFormat};
use crate::watch::Seen;
use crate::watch::reach::NotReached;
use millstream_command::failure::Failure;
use millstream_run::Plan;
use pipes::{Pipe, PipeEnd};

/// Where the statistics go and in which form.
pub(super) struct Output {
    format: StatsFormat,
    file: StatsFile,
}

impl Output {
    /// Opens the file before the run, so that a mistake in its name costs nothing.
    pub(super) fn open(format: Option<StatsFormat>, path: Option<&Path>) -> Result<Output, Failure> {
        Ok(Output { format: format.unwrap_or(StatsFormat::Table), file: StatsFile::open(path)? })
    }

    /// Writes the summary; the error is a sentence.
    pub(super) fn write(mut self, summary: &Summary) -> Result<(), String> {
        let text = match self.format {
            StatsFormat::Table => summary.to_string(),
            StatsFormat::Json => serde_json::to_string_pretty(summary).map_err(|error| error.to_string())? + "\n",
        };
        self.file.write(&text)
    }
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exited(u8),
    Killed(Signal),
}

/// How the command ended, and after how long.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    pub(super) end: End,
    pub(super) duration: Duration,
}

/// The run in figures. The field names are the JSON format, described in `docs/run.md`.
#[derive(Serialize)]
pub(super) struct Summary {
    schema: &'static str,
    command: Vec<String>,
    exit_status: Option<u8>,
    signal: Option<i32>,
    seconds: f64,
    ring: bool,
    ring_off: Option<&'static str>,
    pipe_size: Option<u64>,
    unrecorded: u32,
    pipes: Vec<Pipe>,
}

impl Summary {
    pub(super) fn new(
        words: &[std::ffi::OsString],
        plan: Plan,
        ring_off: Option<&'static str>,
        outcome: Outcome,
        ledger: &Ledger,
        seen: &Seen,
    ) -> Summary {
        let (exit_status, signal) = match outcome.end {
            End::Exited(status) => (Some(status), None),
            End::Killed(signal) => (None, Some(signal)),
        };
        Summary {
            schema: "millstream run stats 1",
            command: words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            exit_status,
            signal,
            seconds: outcome.duration.as_secs_f64(),
            ring: ring_off.is_none(),
            ring_off,
            pipe_size: (plan.bytes() > 0).then_some(plan.bytes()),
            unrecorded: ledger.unrecorded(),
            pipes: ledger.records().map(|record| Pipe::new(record, ring_off.is_none(), seen)).collect(),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ending = match (self.exit_status, self.signal) {
            (Some(status), _) => format!("exit status {status}"),
            (None, signal) => format!("killed by signal {}", signal.unwrap_or(0)),
        };
        let count = match self.pipes.len() {
            1 => "1 pipe".to_owned(),
            count => format!("{count} pipes"),
        };
        writeln!(f, "millstream: {count}, {:.3} s, {ending}", self.seconds)?;
        if let Some(why) = self.ring_off.filter(|why| !["asked", "buffer"].contains(why)) {
            writeln!(f, "no pipe through shared memory: {why}")?;
        }
        if !self.pipes.is_empty() {
            writeln!(f, "{}", self.table())?;
        }
        if self.pipes.iter().any(|pipe| pipe.written.bytes.is_none() || pipe.read.bytes.is_none()) {
            writeln!(
                f,
                "-: nothing was counted at that end: it was idle, or its program uses stdio or does not count"
            )?;
        }
        for (pid, why_not) in self.not_reached() {
            writeln!(f, "{pid}: not reached: {}", why_not.sentence())?;
        }
        for (end, why_not) in self.not_attached() {
            writeln!(f, "{end}: with the kernel: {why_not}")?;
        }
        match self.unrecorded {
            0 => Ok(()),
            missed => writeln!(f, "{missed} more pipes found no room in the table"),
        }
    }
}

impl Summary {
    /// Programs at the pipes without the library, each once.
    fn not_reached(&self) -> std::collections::BTreeMap<String, NotReached> {
        let holders = self.pipes.iter().flat_map(|pipe| pipe.written.seen.iter().chain(&pipe.read.seen));
        holders.filter_map(|holder| Some((format!("{} {}", holder.name, holder.pid), holder.not_reached?))).collect()
    }

    /// Ends that are not in the ring, or not any more, where pipes could be attached. That little went through explains itself.
    fn not_attached(&self) -> impl Iterator<Item = (String, &str)> {
        let ends = |pipe: &Pipe| [(pipe.id, "write"), (pipe.id, "read")];
        let all = self.pipes.iter().flat_map(move |pipe| ends(pipe).into_iter().zip([&pipe.written, &pipe.read]));
        all.filter(|_| self.ring).filter_map(|((id, end), it): (_, &PipeEnd)| {
            let why_not = it.why_not.as_deref().filter(|word| *word != "little")?;
            Some((format!("pipe {id}, {end} end"), why_not))
        })
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(["pipe", "made by", "size", "writer", "written", "reader", "read", "rate", "path"]);
        for pipe in &self.pipes {
            let maker = match &pipe.made_by {
                Some(program) => program.to_string(),
                None => format!("({})", pipe.origin),
            };
            table.add_row([
                pipe.id.to_string(),
                maker,
                binary(pipe.size),
                pipe.written.programs(),
                pipe.written.how_much(),
                pipe.read.programs(),
                pipe.read.how_much(),
                pipe.bytes_per_second.map_or("-".into(), |rate| format!("{}/s", bytes::show(rate as u64))),
                pipe.path.to_owned(),
            ]);
        }
        for column in [0, 2, 4, 6, 7] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// A size that is usually a power of two.
fn binary(bytes: u64) -> String {
    match bytes {
        0 => "-".into(),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

//! Pipes for people and for programs.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use millstream_pipe::live::{self, Access, Census, LivePipe, Path};
use millstream_pipe::settings::{self, Name};
use serde::Serialize;

use crate::bytes;
use crate::terminal;
use millstream_command::failure::Failure;

/// Ends that are named in a table; of more only the number is told.
const NAMED: usize = 3;

/// What was found. The field names are the JSON format, described in `docs/settings.md`.
#[derive(Serialize)]
pub(super) struct Pipes {
    schema: &'static str,
    pipes: Vec<Pipe>,
    unused: usize,
    unclear: Vec<Unclear>,
    left_out: usize,
    loaned: Option<u64>,
    loan_limit: u64,
}

#[derive(Serialize)]
struct Pipe {
    pipe: u64,
    fifo: Option<u64>,
    path: &'static str,
    offered: usize,
    filled_by: Option<u32>,
    looked_at_by: Option<u32>,
    capacity: usize,
    waiting: Option<usize>,
    exact: bool,
    written: u64,
    bytes_per_second: Option<f64>,
    readers_asleep: u32,
    writers_asleep: u32,
    watched: bool,
    reader_sleeps: u32,
    writer_sleeps: u32,
    reader_wakes: u32,
    writer_wakes: u32,
    ends: Vec<End>,
}

#[derive(Serialize)]
struct End {
    end: &'static str,
    pid: u32,
    fd: u32,
    command: String,
    uid: u32,
}

#[derive(Serialize)]
struct Unclear {
    pid: u32,
    fd: u32,
    why: String,
}

impl Pipes {
    /// The pipes with an end in one of `processes`, or all.
    pub(super) fn of(now: &Census, before: &Census, processes: &[u32]) -> Pipes {
        let is_meant = |process: u32| processes.is_empty() || processes.contains(&process);
        let meant = now.pipes.iter().filter(|pipe| {
            pipe.holders.iter().any(|&process| is_meant(process)) || pipe.ends.iter().any(|end| is_meant(end.process))
        });
        let earlier = |pipe: &LivePipe| before.pipes.iter().find(|earlier| earlier.memory == pipe.memory);
        let unclear = now.errors.iter().filter(|unclear| is_meant(unclear.process));
        Pipes {
            schema: "millstream ps 1",
            pipes: meant.map(|pipe| Pipe::of(pipe, earlier(pipe))).collect(),
            unused: now.unused,
            unclear: unclear.map(Unclear::of).collect(),
            left_out: now.left_out,
            loaned: now.loaned,
            loan_limit: settings::report().entry(Name::UserLoanMax).value,
        }
    }

    pub(super) fn json(&self) -> Result<String, Failure> {
        terminal::json(self)
    }

    pub(super) fn json_line(&self) -> Result<String, Failure> {
        let text = serde_json::to_string(self).map_err(|error| Failure::own(error.to_string()))?;
        Ok(text + "\n")
    }

    pub(super) fn table(&self) -> String {
        let mut text = if self.pipes.is_empty() {
            "No pipe is in use.\n".to_owned()
        } else {
            terminal::with_heading(&self.rows().to_string())
        };
        let mut add = |line: String| {
            // A string takes whatever is written.
            let _ = writeln!(text, "{line}");
        };
        for Unclear { pid, fd, why } in &self.unclear {
            add(format!("not listed: descriptor {fd} of process {pid}: {why}"));
        }
        match self.unused {
            0 => {}
            1 => add("1 more pipe was not used yet.".into()),
            count => add(format!("{count} more pipes were not used yet.")),
        }
        match self.left_out {
            0 => {}
            1 => add("1 process of another user was left out.".into()),
            count => add(format!("{count} processes of other users were left out.")),
        }
        if let Some(loaned) = self.loaned.filter(|&loaned| loaned > 0) {
            let (loaned, limit) = (bytes::show(loaned), bytes::show(self.loan_limit));
            add(format!("Ends of this user may work on {loaned} in place, of {limit} at most."));
        }
        text
    }

    fn rows(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "pipe",
            "path",
            "size",
            "waiting",
            "full",
            "written",
            "per second",
            "asleep",
            "wakes",
            "writers",
            "readers",
        ]);
        for pipe in &self.pipes {
            table.add_row([
                pipe.pipe.to_string(),
                pipe.way(),
                bytes::show(pipe.capacity as u64),
                pipe.waiting.map_or("-".into(), |waiting| bytes::show(waiting as u64)),
                pipe.waiting
                    .map_or("-".into(), |waiting| format!("{:.0} %", 100.0 * waiting as f64 / pipe.capacity as f64)),
                bytes::show(pipe.written),
                pipe.bytes_per_second.map_or("-".into(), |rate| bytes::show(rate as u64)),
                pipe.waiters(),
                (u64::from(pipe.reader_wakes) + u64::from(pipe.writer_wakes)).to_string(),
                pipe.ends_called("write"),
                pipe.ends_called("read"),
            ]);
        }
        for index in [0, 2, 3, 4, 5, 6, 8] {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

impl Pipe {
    fn of(pipe: &LivePipe, earlier: Option<&LivePipe>) -> Pipe {
        let rate = |earlier: &LivePipe| {
            let bytes = pipe.written.checked_sub(earlier.written)?;
            Some(bytes as f64 / pipe.seen.duration_since(earlier.seen).as_secs_f64())
        };
        let is_counted = pipe.path == Path::Ring;
        Pipe {
            pipe: pipe.number,
            fifo: pipe.fifo,
            path: match pipe.path {
                Path::Ring => "ring",
                Path::Moving => "moving",
                _ => "kernel",
            },
            offered: pipe.offered,
            filled_by: pipe.filled_by,
            looked_at_by: pipe.looked_at_by,
            capacity: pipe.capacity,
            waiting: pipe.waiting,
            exact: pipe.is_exact,
            written: pipe.written,
            bytes_per_second: earlier.filter(|_| is_counted).and_then(rate).filter(|rate| rate.is_finite()),
            readers_asleep: pipe.readers_asleep,
            writers_asleep: pipe.writers_asleep,
            watched: pipe.is_watched,
            reader_sleeps: pipe.tallies.reader_sleeps,
            writer_sleeps: pipe.tallies.writer_sleeps,
            reader_wakes: pipe.tallies.reader_wakes,
            writer_wakes: pipe.tallies.writer_wakes,
            ends: pipe.ends.iter().map(End::of).collect(),
        }
    }

    /// The path, and what goes beside it at this moment.
    fn way(&self) -> String {
        let is_in_place = self.filled_by.is_some() || self.looked_at_by.is_some();
        let beside = [(self.fifo.is_some(), " of FIFO"), (self.offered > 0, " direct"), (is_in_place, " in place")];
        beside.into_iter().filter(|(is_so, _)| *is_so).fold(self.path.to_owned(), |way, (_, name)| way + name)
    }

    fn waiters(&self) -> String {
        match (self.readers_asleep, self.writers_asleep) {
            (0, 0) if self.watched => "watched".into(),
            (0, 0) => "-".into(),
            (1, 0) => "reader".into(),
            (0, 1) => "writer".into(),
            (readers, 0) => format!("{readers} readers"),
            (0, writers) => format!("{writers} writers"),
            (readers, writers) => format!("{readers} + {writers}"),
        }
    }

    /// Ends for which a descriptor is open; one for both counts as either.
    fn ends_called(&self, name: &str) -> String {
        let ends: Vec<_> = self.ends.iter().filter(|end| end.end == name || end.end == "both").collect();
        let mut named: Vec<_> =
            ends.iter().take(NAMED).map(|end| format!("{} {}:{}", end.command, end.pid, end.fd)).collect();
        if ends.len() > NAMED {
            named.push(format!("and {} more", ends.len() - NAMED));
        }
        if named.is_empty() { "-".into() } else { named.join(", ") }
    }
}

impl End {
    fn of(end: &live::End) -> End {
        End {
            end: match end.access {
                Access::Read => "read",
                Access::Write => "write",
                Access::Both => "both",
            },
            pid: end.process,
            fd: end.descriptor,
            // A user can put into a name what a terminal obeys.
            command: end.command.escape_default().to_string(),
            uid: end.user,
        }
    }
}

impl Unclear {
    fn of(unclear: &live::SegmentError) -> Unclear {
        Unclear { pid: unclear.process, fd: unclear.descriptor, why: unclear.why.clone() }
    }
}

//! What a network says about itself, while it runs and afterwards.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use millstream_net::{Ending, NetworkError, Outcome, StageCount};

/// People do not read faster.
const PAUSE: Duration = Duration::from_millis(200);

/// A line on stderr that grows old; on something that is no terminal, a line for each tenth second.
pub(super) struct Meter {
    total: Option<u64>,
    start: Instant,
    drawn: Instant,
    is_terminal: bool,
    bytes: u64,
}

impl Meter {
    pub(super) fn new(total: Option<u64>) -> Meter {
        let now = Instant::now();
        Meter { total, start: now, drawn: now, is_terminal: std::io::stderr().is_terminal(), bytes: 0 }
    }

    pub(super) fn update(&mut self, bytes: u64) {
        self.bytes = bytes;
        let pause = if self.is_terminal { PAUSE } else { 50 * PAUSE };
        if self.drawn.elapsed() >= pause {
            self.drawn = Instant::now();
            self.draw();
        }
    }

    fn draw(&self) {
        let seconds = self.start.elapsed().as_secs_f64();
        let rate = self.bytes as f64 / seconds.max(1e-9);
        let of = match self.total.filter(|&total| total > 0) {
            Some(total) => {
                let left = (total.saturating_sub(self.bytes)) as f64 / rate.max(1.0);
                format!(" of {total} ({:.0} %), {left:.0} s left", self.bytes as f64 / total as f64 * 100.0)
            }
            None => String::new(),
        };
        let (before, after) = if self.is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let line = format!("{before}{} bytes read{of}, {:.1} MB/s{after}", self.bytes, rate / 1e6);
        let mut stderr = std::io::stderr().lock();
        // A terminal that went away ends the progress, not the network.
        let _ = stderr.write_all(line.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.draw();
        if self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// For people.
pub(super) fn table(outcome: &Outcome) -> String {
    let row = |stage: &StageCount| {
        let [read, written, copied] =
            [stage.bytes_in, stage.bytes_out, stage.bytes_copied].map(|bytes| bytes.to_string());
        vec![called(stage), read, written, copied, milliseconds(Duration::from_nanos(stage.nanoseconds))]
    };
    let mut text = aligned(&["stage", "read", "written", "copied", "ms"], outcome.stages.iter().map(row));
    for stage in outcome.stages.iter().filter(|stage| stage.bytes_in_memory > 0) {
        text += &format!("{}: {} bytes through shared memory\n", stage.work, stage.bytes_in_memory);
    }
    if outcome.stages.iter().any(|stage| stage.is_command) {
        let commands = outcome.stages.iter().filter(|stage| stage.is_command).map(|stage| {
            let wall = stage.ending.map_or("-".into(), |ending| milliseconds(ending.wall));
            let [bytes_in, bytes_out] = total(outcome, stage).map(|bytes| bytes.to_string());
            vec![called(stage), status(stage.ending.as_ref()), wall, bytes_in, bytes_out]
        });
        text += "\n";
        text += &aligned(&["command", "status", "wall ms", "in", "out"], commands);
    }
    text
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// The stage as in a line; a named input or output, and its command, with the name of the command's node.
fn called(stage: &StageCount) -> String {
    match &stage.command {
        Some(command) => format!("{command}: {}", stage.work),
        None => stage.work.clone(),
    }
}

/// Columns of numbers behind one of words.
fn aligned(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut all: Vec<Vec<String>> = vec![heads.iter().map(|&head| head.into()).collect()];
    all.extend(rows);
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let numbers: String =
            (1..row.len()).map(|column| format!("  {:>width$}", row[column], width = widths[column])).collect();
        format!("{:width$}{numbers}\n", row[0], width = widths[0])
    };
    all.iter().map(line).collect()
}

/// How a command ended, in a few words.
fn status(ending: Option<&Ending>) -> String {
    match ending {
        None => "not started".into(),
        Some(Ending { is_stopped: true, .. }) => "stopped".into(),
        Some(Ending { signal: Some(signal), .. }) => format!("signal {signal}"),
        Some(Ending { status: Some(status), .. }) => status.to_string(),
        Some(_) => "unknown".into(),
    }
}

/// Bytes into all inputs of a command, and out of all outputs.
fn total(outcome: &Outcome, command: &StageCount) -> [u64; 2] {
    let is_end = |stage: &&StageCount| !stage.is_command && stage.command.as_ref() == Some(&command.name);
    let ends = outcome.stages.iter().filter(is_end);
    let mut total = [command.bytes_in, command.bytes_out];
    ends.for_each(|end| total = [total[0] + end.bytes_in, total[1] + end.bytes_out]);
    total
}

/// One object.
pub(super) fn json(outcome: &Outcome, failure: Option<&NetworkError>) -> serde_json::Value {
    let stages = outcome.stages.iter().map(|stage| {
        serde_json::json!({ "name": stage.name, "stage": stage.work, "bytes_in": stage.bytes_in, "bytes_out": stage.bytes_out,
                            "bytes_copied": stage.bytes_copied, "bytes_in_memory": stage.bytes_in_memory,
                            "nanoseconds": stage.nanoseconds })
    });
    let commands = outcome.stages.iter().filter(|stage| stage.is_command).map(|stage| {
        let [bytes_in, bytes_out] = total(outcome, stage);
        let ending = stage.ending.as_ref();
        serde_json::json!({ "name": stage.name, "command": stage.work, "is_started": ending.is_some(),
                            "status": ending.and_then(|ending| ending.status), "signal": ending.and_then(|ending| ending.signal),
                            "is_stopped": ending.is_some_and(|ending| ending.is_stopped),
                            "processes": ending.map_or(0, |ending| ending.processes),
                            "wall_nanoseconds": ending.map(|ending| nanoseconds(ending.wall)),
                            "bytes_in": bytes_in, "bytes_out": bytes_out })
    });
    serde_json::json!({ "stages": stages.collect::<Vec<_>>(), "commands": commands.collect::<Vec<_>>(),
                        "wall_nanoseconds": nanoseconds(outcome.wall), "error": failure.map(ToString::to_string) })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

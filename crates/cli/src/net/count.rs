//! What a network says about itself, while it runs and afterwards.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use millstream_net::Outcome;

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
    let mut rows = vec![["stage", "read", "written", "copied", "ms"].map(String::from)];
    rows.extend(outcome.stages.iter().map(|stage| {
        let milliseconds = format!("{:.1}", stage.nanoseconds as f64 / 1e6);
        let [read, written, copied] =
            [stage.bytes_in, stage.bytes_out, stage.bytes_copied].map(|bytes| bytes.to_string());
        [stage.work.clone(), read, written, copied, milliseconds]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let line = |row: &[String; 5]| {
        let numbers: String =
            (1..5).map(|column| format!("  {:>width$}", row[column], width = widths[column])).collect();
        format!("{:width$}{numbers}\n", row[0], width = widths[0])
    };
    let mut text: String = rows.iter().map(line).collect();
    for stage in outcome.stages.iter().filter(|stage| stage.bytes_in_memory > 0) {
        text += &format!("{}: {} bytes through shared memory\n", stage.work, stage.bytes_in_memory);
    }
    text
}

/// One object.
pub(super) fn json(outcome: &Outcome) -> serde_json::Value {
    let stages = outcome.stages.iter().map(|stage| {
        serde_json::json!({ "name": stage.name, "stage": stage.work, "bytes_in": stage.bytes_in, "bytes_out": stage.bytes_out,
                            "bytes_copied": stage.bytes_copied, "bytes_in_memory": stage.bytes_in_memory,
                            "nanoseconds": stage.nanoseconds })
    });
    serde_json::json!({ "stages": stages.collect::<Vec<_>>() })
}

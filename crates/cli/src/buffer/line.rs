//! What is shown of a buffer: a line while it works, a table afterwards.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use millstream_buffer::{Counts, Outcome};

use crate::bytes;

/// Rates are of so long.
const RECENT: Duration = Duration::from_secs(3);
/// A line that is drawn again must not wrap.
const COLUMNS: usize = 79;

/// The line. Copies of it are the same line.
#[derive(Clone)]
pub(super) struct Line(Arc<Mutex<State>>);

struct State {
    name: Option<String>,
    expected: Option<u64>,
    is_terminal: bool,
    begun: Instant,
    /// Bytes that were read and written until then.
    seen: VecDeque<(Instant, u64, u64)>,
    counts: Counts,
    is_drawn: bool,
}

impl Line {
    pub(super) fn new(name: Option<String>, expected: Option<u64>, is_terminal: bool) -> Line {
        let begun = Instant::now();
        let seen = VecDeque::from([(begun, 0, 0)]);
        let counts = Counts::default();
        Line(Arc::new(Mutex::new(State { name, expected, is_terminal, begun, seen, counts, is_drawn: false })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update(&self, counts: &Counts, is_shown: bool) {
        let mut state = self.state();
        state.has_seen(*counts, Instant::now());
        if is_shown {
            state.draw();
        }
    }

    /// A line of its own, whether others are shown or not.
    pub(super) fn show_at_once(&self) {
        let mut state = self.state();
        state.draw();
        state.end();
    }

    /// Leaves the last line where it is.
    pub(super) fn end(&self) {
        self.state().end();
    }
}

impl State {
    fn has_seen(&mut self, counts: Counts, now: Instant) {
        self.counts = counts;
        while self.seen.len() > 1 && now.duration_since(self.seen[0].0) > RECENT {
            self.seen.pop_front();
        }
        self.seen.push_back((now, counts.read, counts.written));
    }

    fn draw(&mut self) {
        let text = self.text(Instant::now());
        let mut stderr = std::io::stderr().lock();
        // A terminal that went away ends the lines, and not the buffer.
        let _ = match self.is_terminal {
            true => write!(stderr, "\r\x1b[K{}", text.chars().take(COLUMNS).collect::<String>()),
            false => writeln!(stderr, "{text}"),
        };
        let _ = stderr.flush();
        self.is_drawn = true;
    }

    fn end(&mut self) {
        if self.is_drawn && self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
        self.is_drawn = false;
    }

    /// `home: in 1.2 GiB/s, out 310.5 MiB/s, 45 % full, 12.5 GiB in 0:42, 63 %, 0:25 left`.
    fn text(&self, now: Instant) -> String {
        let (since, read, written) = self.seen[0];
        let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| bytes::show(((now - before) as f64 / seconds) as u64);
        let counts = &self.counts;
        let mut text = self.name.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        text += &format!(
            "in {}/s, out {}/s, {} % full, {} in {}",
            rate(counts.read, read),
            rate(counts.written, written),
            u128::from(counts.filled) * 100 / u128::from(counts.memory.max(1)),
            bytes::show(counts.written),
            clock(now.duration_since(self.begun).as_secs())
        );
        if let Some(expected) = self.expected.filter(|&expected| expected > 0) {
            text += &format!(", {:.0} %", counts.written as f64 * 100.0 / expected as f64);
            // As fast as it was from the beginning: what it will be is not known better.
            let per_byte = now.duration_since(self.begun).as_secs_f64() / counts.written.max(1) as f64;
            if counts.written > 0 && counts.written < expected {
                text += &format!(", {} left", clock(((expected - counts.written) as f64 * per_byte).ceil() as u64));
            }
        }
        text
    }
}

/// `0:07`, `1:02:03`.
fn clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// The side that the other one waited for.
fn slower(counts: &Counts) -> &'static str {
    match counts.full_for.cmp(&counts.empty_for) {
        std::cmp::Ordering::Greater => "output",
        std::cmp::Ordering::Less => "input",
        std::cmp::Ordering::Equal => "neither",
    }
}

/// For people.
pub(super) fn table(outcome: &Outcome) -> String {
    let counts = &outcome.counts;
    let seconds = outcome.elapsed.as_secs_f64();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let rate = bytes::show((counts.written as f64 / seconds.max(1e-9)) as u64);
    for (what, value) in [
        ("read", bytes::show(counts.read)),
        ("written", bytes::show(counts.written)),
        ("passed on by the kernel", bytes::show(counts.spliced)),
        ("through the spill", bytes::show(counts.spilled)),
        ("most that waited", bytes::show(counts.most_filled)),
        ("time", format!("{seconds:.3} s")),
        ("rate", format!("{rate}/s")),
        ("no room to read into for", format!("{:.3} s", counts.full_for.as_secs_f64())),
        ("nothing to write for", format!("{:.3} s", counts.empty_for.as_secs_f64())),
        ("slower side", slower(counts).into()),
    ] {
        table.add_row([what.to_owned(), value]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}

/// For programs.
pub(super) fn json(outcome: &Outcome) -> String {
    let counts = &outcome.counts;
    let value = serde_json::json!({
        "bytes_read": counts.read,
        "bytes_written": counts.written,
        "bytes_spliced": counts.spliced,
        "bytes_spilled": counts.spilled,
        "most_bytes_waiting": counts.most_filled,
        "memory_limit": counts.memory,
        "seconds": outcome.elapsed.as_secs_f64(),
        "seconds_full": counts.full_for.as_secs_f64(),
        "seconds_empty": counts.empty_for.as_secs_f64(),
        "slower": slower(counts),
    });
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_tells_rates_fill_and_what_is_left() {
        let line = Line::new(Some("home".into()), Some(400 << 20), false);
        let mut state = line.state();
        let begun = state.begun;
        let counts =
            Counts { read: 200 << 20, written: 100 << 20, filled: 100 << 20, memory: 200 << 20, ..Counts::default() };
        state.has_seen(counts, begun + Duration::from_secs(2));
        let text = state.text(begun + Duration::from_secs(2));
        assert_eq!(text, "home: in 100 MiB/s, out 50 MiB/s, 50 % full, 100 MiB in 0:02, 25 %, 0:06 left");
        state.has_seen(counts, begun + Duration::from_secs(7));
        assert!(state.text(begun + Duration::from_secs(7)).starts_with("home: in 0 B/s, out 0 B/s, 50 % full"));
    }

    #[test]
    fn clocks_have_hours_when_they_need_them() {
        assert_eq!([0, 59, 61, 3723].map(clock), ["0:00", "0:59", "1:01", "1:02:03"]);
    }
}

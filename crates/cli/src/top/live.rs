//! `top` at a terminal: all of the screen, drawn after each look, and keys.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use millstream_sys::signals::{self, Signal};
use millstream_sys::terminal::{self, Event, Terminal};

use super::look::Look;
use super::page::{self, Line};
use crate::terminal::{has_styles, screen};
use millstream_command::failure::{self, Failure};

/// What the keys for shorter and longer looks go through, in milliseconds.
const INTERVALS: [u64; 10] = [100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000];
/// For a terminal that does not tell its size.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Shows so many looks, or until it is told to end.
pub(super) fn run(processes: &[u32], interval: Duration, looks: u64) -> Result<ExitCode, Failure> {
    let terminal = Terminal::take().map_err(|errno| Failure::own(format!("cannot use this terminal: {errno}")))?;
    let mut view = View { terminal, interval, is_paused: false, first: 0, look: None, end: None };
    let shown = screen::enter().and_then(|()| view.show(processes, looks));
    screen::leave();
    let View { terminal, look, end, .. } = view;
    drop(terminal);
    match (shown, end) {
        (_, Some(End::Signal(signal))) => {
            signals::die_of(signal);
            Ok(ExitCode::from(128_u8.wrapping_add(signal as u8)))
        }
        // The terminal has gone, and with it whatever could be told.
        (Err(_), _) => Ok(ExitCode::SUCCESS),
        (Ok(()), Some(End::Failure(failure))) => Err(failure),
        // The last look stays behind.
        (Ok(()), _) => {
            let columns = terminal::size().map(|(columns, _)| columns);
            failure::print(&look.map(|look| page::text(&look, columns, has_styles())).unwrap_or_default())
        }
    }
}

/// What is shown, and how.
struct View {
    terminal: Terminal,
    interval: Duration,
    is_paused: bool,
    /// The pipeline at the top of the screen.
    first: usize,
    look: Option<Look>,
    end: Option<End>,
}

/// Why it ends.
enum End {
    Asked,
    Signal(Signal),
    Failure(Failure),
}

/// What a key or a signal has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    /// Only what is seen.
    View,
    /// A look that has begun is of no use any more.
    Look,
}

impl View {
    /// Looks and draws, until all looks are done or [`View::end`] says why not.
    fn show(&mut self, processes: &[u32], looks: u64) -> io::Result<()> {
        let mut left = looks;
        while left > 0 && self.end.is_none() {
            self.draw()?;
            if self.is_paused {
                self.handle_next(None)?;
                continue;
            }
            let mut written = Ok(true);
            let look = Look::take(processes, self.interval, |pause| {
                written = self.pause(pause);
                matches!(written, Ok(true))
            });
            written?;
            match look {
                Ok(None) => {}
                Ok(look) => {
                    self.look = look;
                    left -= 1;
                }
                Err(failure) => self.end = Some(End::Failure(failure)),
            }
        }
        Ok(())
    }

    /// Waits for so long; whether the look goes on.
    fn pause(&mut self, length: Duration) -> io::Result<bool> {
        let end = Instant::now() + length;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.handle_next(Some(left))? == Change::Look {
                return Ok(false);
            }
            if left.is_zero() {
                return Ok(true);
            }
        }
    }

    /// Waits for the next key or signal, and does what it asks for.
    fn handle_next(&mut self, limit: Option<Duration>) -> io::Result<Change> {
        let change = match self.terminal.wait(limit) {
            Event::Nothing => Change::Nothing,
            Event::Gone => self.end_by(End::Asked),
            Event::Keys(bytes) => self.press(&bytes),
            Event::Signal(terminal::RESIZED) => Change::View,
            Event::Signal(terminal::STOPPED) => self.stop()?,
            Event::Signal(signal) => self.end_by(End::Signal(signal)),
        };
        if change == Change::View {
            self.draw()?;
        }
        Ok(change)
    }

    fn end_by(&mut self, end: End) -> Change {
        self.end = Some(end);
        Change::Look
    }

    /// Gives the terminal to the shell until this process is continued.
    fn stop(&mut self) -> io::Result<Change> {
        screen::leave();
        signals::raise_unblocked(terminal::STOPPED);
        // A terminal that refuses shows the looks all the same.
        let _ = self.terminal.take_keys();
        screen::enter()?;
        Ok(Change::View)
    }

    /// Keys as the terminal sends them: one byte each, or more of an arrow.
    fn press(&mut self, mut bytes: &[u8]) -> Change {
        let mut change = Change::Nothing;
        while let Some((key, rest)) = key(bytes) {
            bytes = rest;
            let this = match key {
                b'q' | b'Q' => self.end_by(End::Asked),
                b' ' => {
                    self.is_paused = !self.is_paused;
                    Change::Look
                }
                b'+' | b'=' => self.change_interval(next_interval(self.interval, true)),
                b'-' => self.change_interval(next_interval(self.interval, false)),
                b'j' => self.scroll(self.first + 1),
                b'k' => self.scroll(self.first.saturating_sub(1)),
                _ => Change::Nothing,
            };
            change = if this == Change::Nothing || change == Change::Look { change } else { this };
        }
        change
    }

    fn change_interval(&mut self, interval: Duration) -> Change {
        if interval == self.interval {
            return Change::Nothing;
        }
        self.interval = interval;
        Change::Look
    }

    fn scroll(&mut self, first: usize) -> Change {
        let count = self.look.as_ref().map_or(1, |look| look.sample.pipelines().len());
        self.first = first.min(count.saturating_sub(1));
        Change::View
    }

    fn draw(&self) -> io::Result<()> {
        let (columns, rows) = terminal::size().unwrap_or(USUAL_SIZE);
        let blocks = self.look.as_ref().map(|look| page::blocks(look, Some(columns)));
        let count = blocks.as_ref().map_or(0, Vec::len);
        let styles = has_styles();
        // Pipelines may have ended since it was chosen.
        let first = self.first.min(count.saturating_sub(1));
        let mut lines: Vec<String> = blocks.map_or(vec!["looking ...".into()], |blocks| {
            let empty = Line { text: String::new(), is_strong: false };
            let shown: Vec<Vec<Line>> = blocks.into_iter().skip(first).collect();
            shown.join(&empty).iter().map(|line| line.shown(styles)).collect()
        });
        let room = rows.saturating_sub(1).max(1);
        if lines.len() > room {
            let more = lines.len() - room + 1;
            lines.truncate(room - 1);
            lines.push(page::cut(&format!("... {more} more lines"), columns));
        }
        if rows > 1 {
            lines.resize(room, String::new());
            let status = page::cut(&self.status(first, count), columns);
            lines.push(if styles { format!("\x1b[7m{status}\x1b[0m") } else { status });
        }
        screen::draw(&lines)
    }

    /// Fits 60 columns.
    fn status(&self, first: usize, count: usize) -> String {
        let place = if count > 1 { format!("{} of {count}, ", first + 1) } else { String::new() };
        let state = match self.is_paused {
            true => "paused".to_owned(),
            false => format!("every {} s", self.interval.as_secs_f64()),
        };
        let keys = match self.terminal.has_keys() {
            true if count > 1 => "q quit, space pause, +/- time, j/k next",
            true => "q quit, space pause, +/- time",
            false => "Ctrl-C quits",
        };
        format!("{place}{state}: {keys}")
    }
}

/// The first key, arrows as `j` and `k`, and what follows it. Other keys of several bytes are `\0`.
fn key(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    Some(match rest {
        // A letter ends what begins like this (ECMA-48).
        [b'[' | b'O', rest @ ..] if first == 0x1b => {
            let end = rest.iter().position(|byte| (b'@'..=b'~').contains(byte)).map_or(rest.len(), |end| end + 1);
            let (key, rest) = rest.split_at(end);
            (
                if key == b"A" {
                    b'k'
                } else if key == b"B" {
                    b'j'
                } else {
                    0
                },
                rest,
            )
        }
        _ => (first, rest),
    })
}

fn next_interval(interval: Duration, is_longer: bool) -> Duration {
    let mut intervals = INTERVALS.into_iter().map(Duration::from_millis);
    let next = match is_longer {
        true => intervals.find(|&next| next > interval),
        false => intervals.rfind(|&next| next < interval),
    };
    next.unwrap_or(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart() {
        let all = |mut bytes: &[u8]| {
            let mut keys = Vec::new();
            while let Some((key, rest)) = key(bytes) {
                keys.push(key);
                bytes = rest;
            }
            keys
        };
        assert_eq!(all(b"q +"), b"q +");
        assert_eq!(all(b"\x1b[A\x1b[Bj\x1bOA"), b"kjjk");
        assert_eq!(all(b"\x1b[5~q\x1b"), b"\0q\x1b");
    }

    #[test]
    fn interval_goes_to_the_next_step_and_stays_at_the_last() {
        let next = |millis: u64, is_longer| next_interval(Duration::from_millis(millis), is_longer).as_millis();
        assert_eq!([next(1000, true), next(1000, false), next(700, true), next(700, false)], [2000, 500, 1000, 500]);
        assert_eq!([next(100, false), next(300_000, true), next(3_600_000, false)], [100, 300_000, 300_000]);
    }
}

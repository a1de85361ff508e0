//! One line on stderr that tells how far a measurement is, on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::engine;

/// Redrawing more often than this would disturb what is measured, and people do not read faster.
const PAUSE: Duration = Duration::from_millis(200);

/// The line; erased when dropped.
pub(super) struct Progress {
    is_shown: bool,
    start: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// Shows nothing if stderr is not a terminal.
    pub(super) fn new() -> Progress {
        Progress { is_shown: std::io::stderr().is_terminal(), start: Instant::now(), drawn: None }
    }

    /// Redraws. Expects the launches to come to take as long as those so far, until the time is up.
    pub(super) fn update(&mut self, now: &engine::Progress<'_>) {
        if !self.is_shown || self.drawn.is_some_and(|drawn| drawn.elapsed() < PAUSE) {
            return;
        }
        let pace = self.start.elapsed().as_secs_f64() / now.done.max(1) as f64;
        let left = (pace * (now.total - now.done) as f64).min(now.time_left.as_secs_f64());
        self.show(&format!(
            "{} of {} runs, {left:.0} s left: {} over {}",
            now.done, now.total, now.last.method, now.last.transport
        ));
    }

    /// Draws this line in place of the last one.
    pub(super) fn show(&mut self, text: &str) {
        if self.is_shown {
            self.drawn = Some(Instant::now());
            draw(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            draw("");
        }
    }
}

/// Replaces the line (ECMA-48: carriage return, erase in line).
fn draw(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // A terminal that went away ends the progress, not the measurement.
    let _ = write!(stderr, "\r\x1b[K{text}").and_then(|()| stderr.flush());
}

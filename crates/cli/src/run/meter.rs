//! `--progress`: what passes through each pipe while the run lasts.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use millstream_sys::ledger::{Ledger, Record};

use super::explain::between;
use crate::bytes;
use crate::watch::Seen;

/// On a terminal one line is drawn again and again; elsewhere lines are added, more rarely.
const REDRAWN: Duration = Duration::from_millis(250);
const ADDED: Duration = Duration::from_secs(1);
/// A line that is drawn again must not wrap.
const COLUMNS: usize = 79;

/// The meter; what it has drawn on a terminal is erased when it is dropped.
pub(super) struct Meter {
    ledger: &'static Ledger,
    is_terminal: bool,
    start: Instant,
    drawn: Instant,
    /// Bytes of each pipe at the last time.
    before: BTreeMap<u32, u64>,
    has_drawn: bool,
}

impl Meter {
    pub(super) fn new(ledger: &'static Ledger) -> Meter {
        let now = Instant::now();
        let is_terminal = std::io::stderr().is_terminal();
        Meter { ledger, is_terminal, start: now, drawn: now, before: BTreeMap::new(), has_drawn: false }
    }

    /// Draws if it is time to.
    pub(super) fn update(&mut self, seen: &Seen) {
        let since = self.drawn.elapsed();
        if since < if self.is_terminal { REDRAWN } else { ADDED } {
            return;
        }
        self.drawn = Instant::now();
        let records: Vec<Record> = self.ledger.records().collect();
        let alive = records.iter().filter(|record| seen.pipes.get(&record.inode).is_some_and(|pipe| pipe.is_there));
        let parts: Vec<String> = alive.map(|record| self.part(record, seen, since)).collect();
        if parts.is_empty() {
            return;
        }
        self.has_drawn = true;
        let mut stderr = std::io::stderr().lock();
        // A terminal that went away ends the meter, not the run.
        let _ = match self.is_terminal {
            true => write!(stderr, "\r\x1b[K{}", parts.join(" | ").chars().take(COLUMNS).collect::<String>()),
            false => parts.iter().try_for_each(|part| {
                writeln!(stderr, "millstream: {:.1} s, pipe {part}", self.start.elapsed().as_secs_f64())
            }),
        };
        let _ = stderr.flush();
    }

    /// `1 cat > gzip: 1.2 GiB, 310.5 MiB/s, full`.
    fn part(&mut self, record: &Record, seen: &Seen, since: Duration) -> String {
        let (written, read) = (record.written.bytes, record.read.bytes);
        let total = written.max(read);
        let before = self.before.insert(record.ordinal, total).unwrap_or(0);
        let rate = (total - before) as f64 / since.as_secs_f64();
        let pipe = &seen.pipes[&record.inode];
        let fill = match () {
            () if pipe.is_full => ", full".to_owned(),
            () if pipe.is_empty => ", empty".to_owned(),
            // Known only where both ends count all that they move.
            () if written >= read && read > 0 && written - read <= record.capacity => {
                format!(", {} % full", 100 * (written - read) / record.capacity.max(1))
            }
            () => String::new(),
        };
        format!(
            "{} {}: {}, {}/s{fill}",
            record.ordinal,
            between(seen, &pipe.writers, &pipe.readers),
            bytes::show(total),
            bytes::show(rate as u64)
        )
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if self.has_drawn && self.is_terminal {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

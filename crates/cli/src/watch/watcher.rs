//! The thread that looks at the programs of a run while it runs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_sys::ledger::Ledger;
use millstream_sys::process::Pid;

use super::seen::Seen;

/// Between two looks, at least.
const PAUSE: Duration = Duration::from_millis(20);
/// A look costs at most this part of the time.
const SHARE: u32 = 50;

/// A thread that looks until it is told to stop.
pub(crate) struct Watcher {
    stop: Sender<()>,
    thread: JoinHandle<Seen>,
}

impl Watcher {
    /// Watches the process `root` and all below it; `after_each` sees what is known after each look. `None` if there can
    /// be no thread: a run does not fail because it is not watched.
    pub(crate) fn start(
        root: Pid,
        ledger: &'static Ledger,
        after_each: impl FnMut(&Seen) + Send + 'static,
    ) -> Option<Watcher> {
        let (stop, stopped) = channel();
        let root = root.as_raw_nonzero().get().unsigned_abs();
        let thread = std::thread::Builder::new().spawn(move || watch(root, ledger, &stopped, after_each)).ok()?;
        Some(Watcher { stop, thread })
    }

    pub(crate) fn stop(self) -> Seen {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(root: u32, ledger: &Ledger, stopped: &Receiver<()>, mut after_each: impl FnMut(&Seen)) -> Seen {
    let mut seen = Seen::default();
    let mut pause = PAUSE / 4;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let start = Instant::now();
        seen.look(root, ledger);
        after_each(&seen);
        pause = PAUSE.max(start.elapsed() * SHARE);
    }
    seen
}

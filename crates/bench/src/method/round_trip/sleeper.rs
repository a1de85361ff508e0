//! Whether the other process sleeps, as the kernel sees it. A pause alone does not tell: an end that gives way before it
//! sleeps is slow to do so where other programs want the CPU too.

use std::sync::atomic::Ordering::Relaxed;

use millstream_sys::shared::Shared;
use millstream_sys::{Errno, own_pid};

/// The number of the process that sleeps, in memory that both share: made before the fork.
pub(super) struct Sleeper(Shared);

impl Sleeper {
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new() -> Result<Sleeper, Errno> {
        Shared::anonymous(8).map(Sleeper)
    }

    /// This process is the one to look at.
    pub(super) fn is_here(&self) {
        self.0.word(0).store(own_pid().into(), Relaxed);
    }

    /// Whether it sleeps at this moment (`proc(5)`: state S).
    pub(super) fn is_asleep(&self) -> bool {
        let path = format!("/proc/{}/stat", self.0.word(0).load(Relaxed));
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, behind_name)| behind_name.trim_start().starts_with('S'))
    }
}

/// How often this thread has slept (`proc(5)`: `voluntary_ctxt_switches`).
pub(super) fn times_slept() -> Result<u64, String> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).ok_or_else(|| "/proc does not tell how often it slept".into())
}

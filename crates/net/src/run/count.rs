//! What went through each node.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use millstream_pipe::Statistics;

use crate::external::{Control, Ending};
use crate::graph::{Network, Work};

/// Shared between the thread that runs a node and the one that reports.
#[derive(Default)]
pub(super) struct Counter {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    bytes_copied: AtomicU64,
    bytes_in_memory: AtomicU64,
    nanoseconds: AtomicU64,
    /// That of an external transform.
    control: OnceLock<Arc<dyn Control>>,
}

/// What went through a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageCount {
    /// The name of the node.
    pub name: String,
    /// What it does, as in a line.
    pub work: String,
    /// Bytes that came in.
    pub bytes_in: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// Bytes that were written to another buffer than they were read from, or moved from or to a file.
    pub bytes_copied: u64,
    /// Of a source or sink that is a FIFO, or a pipe of the library: bytes that went through shared memory, and not
    /// through the kernel.
    pub bytes_in_memory: u64,
    /// Time spent in it, by all threads; of several stages in place behind each other an estimate from an eighth of the
    /// bytes.
    pub nanoseconds: u64,
    /// Whether it works outside of this program.
    pub is_command: bool,
    /// How it ended, if it was started.
    pub ending: Option<Ending>,
    /// For a command with named inputs or outputs, and for each of these: the name of its node.
    pub command: Option<String>,
}

impl Counter {
    pub(super) fn count(&self, bytes_in: usize, bytes_out: usize, bytes_copied: usize) {
        let add = |counter: &AtomicU64, bytes: usize| {
            if bytes > 0 {
                counter.fetch_add(bytes as u64, Relaxed);
            }
        };
        add(&self.bytes_in, bytes_in);
        add(&self.bytes_out, bytes_out);
        add(&self.bytes_copied, bytes_copied);
    }

    /// Sets what has not passed the kernel so far, from the statistics of the pipe.
    pub(super) fn set_in_memory(&self, pipe: Statistics) {
        self.bytes_in_memory.store(pipe.bytes - pipe.bytes_through_kernel, Relaxed);
    }

    pub(super) fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.add_time(start.elapsed());
        result
    }

    pub(super) fn add_time(&self, time: Duration) {
        self.nanoseconds.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Relaxed)
    }

    pub(super) fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Relaxed)
    }

    /// The node is an external transform.
    pub(super) fn set_control(&self, control: &Arc<dyn Control>) {
        let _ = self.control.set(Arc::clone(control));
    }

    pub(super) fn of(&self, network: &Network, place: usize, is_command: bool) -> StageCount {
        let node = &network.nodes[place];
        let is_named = is_command && network.ends(place).are_named();
        let command = match &node.work {
            Work::Inlet { command, .. } | Work::Outlet { command, .. } => Some(network.nodes[*command].name.clone()),
            Work::Transform(_) if is_named => Some(node.name.clone()),
            Work::Read(_) | Work::Write(_) | Work::Transform(_) => None,
        };
        StageCount {
            name: node.name.clone(),
            work: node.work.to_line(),
            bytes_in: self.bytes_in(),
            bytes_out: self.bytes_out(),
            bytes_copied: self.bytes_copied.load(Relaxed),
            bytes_in_memory: self.bytes_in_memory.load(Relaxed),
            nanoseconds: self.nanoseconds.load(Relaxed),
            is_command,
            ending: self.control.get().and_then(|control| control.ending()),
            command,
        }
    }
}

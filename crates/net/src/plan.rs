//! Which stages share a buffer, and which run beside each other.

mod memory;

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::check::Checked;
use crate::error::NetworkError;
use crate::graph::Work;
use crate::transform::{Kind, State};

use memory::Memory;

/// What a run may use.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of all buffers together, and of what stages keep, at most.
    pub memory: usize,
    /// Threads, at most.
    pub threads: usize,
    /// How long a command may keep bytes waiting, in both directions, before it is ended. `None`: for ever.
    pub timeout: Option<Duration>,
}

impl Default for Options {
    /// 64 MiB, and a thread for each CPU.
    fn default() -> Options {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Options { memory: 64 << 20, threads, timeout: None }
    }
}

/// Buffers on the way from one thread to another: one being filled, one being worked on, and two for the times when the
/// two differ.
pub(crate) const RELAYED: usize = 4;

/// Where a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// At the beginning.
    Source,
    /// On the buffer of the stage before it.
    Fused,
    /// From that buffer into one of its own, in the same thread.
    SameThread,
    /// In a thread of its own.
    OwnThread,
    /// Its bytes are stored, and passed on by a thread of its own.
    Buffered,
    /// Outside of this program, with a thread that waits for its output.
    External,
    /// Into a named input of an external stage.
    Inlet,
    /// Out of a named output of an external stage, with a thread that waits for it.
    Outlet,
    /// At the end.
    Sink,
}

/// Bytes of a file below which several threads are not worth starting.
const SHARED_MIN: u64 = 1 << 20;

/// Threads that do the first stages of a network together: each works on pieces of the source's file.
#[derive(Clone, Debug)]
pub struct WorkerGroup {
    /// The node that reads.
    pub source: usize,
    /// The nodes behind it that need nothing of the bytes before, each after the one that it follows. Never empty.
    pub stages: Vec<usize>,
    /// Threads, each with all of these stages.
    pub threads: usize,
    /// Why there is only one.
    pub why_one: Option<&'static str>,
}

/// How a network runs.
#[derive(Debug)]
pub struct Plan {
    /// For each node.
    pub placements: Vec<Placement>,
    /// Bytes of each buffer.
    pub buffer_bytes: usize,
    /// Buffers.
    pub buffers: usize,
    /// Stages that several threads can do.
    pub worker_groups: Vec<WorkerGroup>,
    /// Threads.
    pub threads: usize,
    /// For each node, bytes that it may keep beside the buffers.
    pub kept_bytes: Vec<usize>,
    /// Threads that a stage may start for itself.
    pub threads_allowed: usize,
}

impl Plan {
    /// Plans a network that was checked.
    ///
    /// # Errors
    /// [`NetworkError::Invalid`] if the memory is not enough for the smallest buffers.
    pub fn of(checked: &Checked<'_>, options: &Options) -> Result<Plan, NetworkError> {
        let spools = checked.is_spooled.iter().filter(|&&is_spooled| is_spooled).count();
        let (placements, threads) = placements(checked, options.threads, spools);
        let (worker_groups, extra_threads) = worker_groups(checked, options.threads.saturating_sub(threads));
        let has_copy = |&node: &usize| checked.network.fed_by(node).nth(1).is_some();
        let copies = (0..placements.len()).filter(has_copy).count();
        let own_buffers = placements.iter().map(|placement| buffers_at(*placement)).sum::<usize>();
        let memory = Memory::of(checked, own_buffers + copies + spools + extra_threads, options.memory)?;
        Ok(Plan {
            placements,
            buffer_bytes: memory.buffer_bytes,
            buffers: memory.buffers,
            worker_groups,
            threads: threads + extra_threads,
            kept_bytes: memory.kept_bytes,
            threads_allowed: options.threads.max(1),
        })
    }

    /// Buffers in which so many bytes can be kept.
    pub(crate) fn buffers_for(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.buffer_bytes).max(1)
    }

    /// Bytes of all buffers, and of what stages may keep.
    pub fn memory(&self) -> usize {
        self.buffers * self.buffer_bytes + self.kept_bytes.iter().sum::<usize>()
    }
}

/// Where each node runs, and how many threads that takes.
fn placements(checked: &Checked<'_>, threads_max: usize, spools: usize) -> (Vec<Placement>, usize) {
    let mut threads = spools + if checked.is_concurrent { 1 + checked.sources.len() } else { 1 };
    let mut placements = Vec::new();
    for (node, stage) in checked.network.nodes.iter().zip(&checked.stages) {
        let placement = match (&node.work, stage) {
            (Work::Read(_), _) => Placement::Source,
            (Work::Write(_), _) => Placement::Sink,
            (Work::Inlet { .. }, _) => Placement::Inlet,
            (Work::Outlet { .. }, _) => Placement::Outlet,
            (Work::Transform(_), None) => Placement::Fused,
            (Work::Transform(_), Some((_, stage))) => match stage.kind {
                Kind::InPlace(..) => Placement::Fused,
                Kind::Buffer(_) => Placement::Buffered,
                Kind::Exported(_) => Placement::External,
                Kind::Rewrite(_) => {
                    // A stage that rewrites computes: each gets a thread while there are any, the first ones first.
                    // Several threads already reach a stage in which several inputs meet.
                    let can_be_apart = threads < threads_max && node.from.len() == 1;
                    // A stage that starts threads counts as one of them.
                    threads += usize::from(can_be_apart && stage.has_threads);
                    if can_be_apart && !stage.has_threads { Placement::OwnThread } else { Placement::SameThread }
                }
            },
        };
        threads += usize::from(has_thread(placement));
        placements.push(placement);
    }
    (placements, threads)
}

fn has_thread(placement: Placement) -> bool {
    match placement {
        Placement::OwnThread | Placement::Buffered | Placement::External | Placement::Outlet => true,
        Placement::Source | Placement::Fused | Placement::SameThread | Placement::Inlet | Placement::Sink => false,
    }
}

/// The worker groups, where so many threads are left, and how many of these they take: sources run one after the other,
/// so all groups can use the same.
fn worker_groups(checked: &Checked<'_>, left: usize) -> (Vec<WorkerGroup>, usize) {
    let mut groups = Vec::new();
    let mut extra = 0;
    for &source in &checked.sources {
        let stages = independent_after(checked, source);
        if stages.is_empty() {
            continue;
        }
        let why_one = match (left, is_shareable(&checked.network.nodes[source].work)) {
            _ if checked.is_concurrent => Some("the sources run at the same time"),
            (0, _) => Some("no thread is left"),
            (_, false) => Some("the source is no file of 1 MiB or more"),
            _ => None,
        };
        let more = if why_one.is_some() { 0 } else { left };
        extra = extra.max(more);
        groups.push(WorkerGroup { source, stages, threads: 1 + more, why_one });
    }
    (groups, extra)
}

/// The stages that follow a node one after the other and work in place on any piece of the stream.
pub(crate) fn independent_after(checked: &Checked<'_>, mut node: usize) -> Vec<usize> {
    let mut stages = Vec::new();
    loop {
        let mut fed = checked.network.fed_by(node);
        let (Some(next), None) = (fed.next(), fed.next()) else { return stages };
        if !is_independent(checked, next) || checked.network.nodes[next].from.len() > 1 {
            return stages;
        }
        stages.push(next);
        node = next;
    }
}

/// Whether a node is a stage that works in place on any piece of the stream.
pub(crate) fn is_independent(checked: &Checked<'_>, node: usize) -> bool {
    let stage = checked.stages[node].as_ref();
    stage.is_some_and(|(_, stage)| matches!(stage.kind, Kind::InPlace(State::Stateless | State::Positional, _)))
}

/// Whether it is worth while to read a source at several places at once.
fn is_shareable(source: &Work) -> bool {
    let metadata = match source {
        Work::Read(Some(path)) => std::fs::metadata(path),
        Work::Read(None) => io::stdin().as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata()),
        _ => return false,
    };
    metadata.is_ok_and(|metadata| is_at_hand(&metadata) && metadata.len() >= SHARED_MIN)
}

/// Whether a file has bytes that are there now. Not a pipe, nor a file whose bytes the kernel makes as they are read:
/// such a file says that it is empty.
pub(crate) fn is_at_hand(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.len() > 0
}

fn buffers_at(placement: Placement) -> usize {
    match placement {
        Placement::Source | Placement::SameThread | Placement::External | Placement::Outlet | Placement::Sink => 1,
        Placement::Fused | Placement::Buffered | Placement::Inlet => 0,
        Placement::OwnThread => 1 + RELAYED,
    }
}

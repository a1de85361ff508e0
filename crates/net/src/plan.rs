//! Which stages share a buffer, and which run beside each other.

use std::fs::{File, Metadata};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::check::Checked;
use crate::error::NetworkError;
use crate::graph::Work;
use crate::transform::{Kind, OUTPUT_MIN, State};

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

/// Bytes of a buffer, unless memory is short: what comes from the source, what a rewriting stage writes and the tables of that
/// stage fit into a second-level cache of 1 MiB together. With half of it gunzip takes 5 % more than in one call, instead of 2:
/// its window is kept apart whenever a buffer is full.
const BUFFER: usize = 256 << 10;

/// The smallest buffer.
const BUFFER_MIN: usize = OUTPUT_MIN;

/// Buffers on the way from one thread to another: one being filled, one being worked on, and two for the times when the two
/// differ.
pub(crate) const RELAYED: usize = 4;

/// Why a stage runs where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// At the beginning.
    Source,
    /// On the buffer of the stage before it.
    Fused,
    /// From that buffer into one of its own, in the same thread.
    SameThread,
    /// In a thread of its own.
    OwnThread,
    /// Kept, and handed on by a thread of its own.
    Kept,
    /// Outside of this program, with a thread that waits for what comes of it.
    Elsewhere,
    /// Into a named input of what is outside.
    Inlet,
    /// Out of a named output of it, with a thread that waits for what comes.
    Outlet,
    /// At the end.
    Sink,
}

/// Bytes of a file below which several threads are not worth starting.
const SHARED_MIN: u64 = 1 << 20;

/// The first stages of a network, which can work on pieces of a file beside each other.
#[derive(Clone, Debug)]
pub struct Team {
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
    pub places: Vec<Place>,
    /// Bytes of each buffer.
    pub buffer_bytes: usize,
    /// Buffers.
    pub buffers: usize,
    /// Stages on several threads.
    pub teams: Vec<Team>,
    /// Threads.
    pub threads: usize,
    /// For each node, bytes that it may keep beside the buffers.
    pub kept: Vec<usize>,
    /// Threads that a stage may start for itself.
    pub threads_allowed: usize,
}

impl Plan {
    /// Plans a network that was checked.
    ///
    /// # Errors
    /// [`NetworkError::Invalid`] if the memory is not enough for the smallest buffers.
    pub fn of(checked: &Checked<'_>, options: &Options) -> Result<Plan, NetworkError> {
        let mut threads = if checked.is_concurrent { 1 + checked.sources.len() } else { 1 };
        threads += checked.is_spooled.iter().filter(|&&is_spooled| is_spooled).count();
        let mut places: Vec<Place> = Vec::new();
        // A stage that rewrites computes; so each gets a thread as long as there are any, the first ones first.
        for (node, stage) in checked.network.nodes.iter().zip(&checked.stages) {
            places.push(match (&node.work, stage) {
                (Work::Read(_), _) => Place::Source,
                (Work::Write(_), _) => Place::Sink,
                (Work::Inlet { .. }, _) => Place::Inlet,
                (Work::Outlet { .. }, _) => {
                    threads += 1;
                    Place::Outlet
                }
                (_, Some((_, stage))) if matches!(stage.kind, Kind::Rewrite(_)) => {
                    // Several inputs meet in it: it is reached from several threads already.
                    let can_be_apart = threads < options.threads && node.from.len() == 1;
                    threads += usize::from(can_be_apart);
                    if can_be_apart && !stage.has_threads { Place::OwnThread } else { Place::SameThread }
                }
                (_, Some((_, stage))) if matches!(stage.kind, Kind::Buffer(_)) => {
                    // It is nothing without one.
                    threads += 1;
                    Place::Kept
                }
                (_, Some((_, stage))) if matches!(stage.kind, Kind::Exported(_)) => {
                    // So is it: the thread waits for what comes.
                    threads += 1;
                    Place::Elsewhere
                }
                _ => Place::Fused,
            });
        }
        let (teams, extra) = teams(checked, options.threads - threads.min(options.threads));
        threads += extra;
        let splits = (0..places.len()).map(|place| checked.network.fed_by(place).count().saturating_sub(1));
        let buffers = places.iter().map(|place| buffers_at(*place)).sum::<usize>()
            + splits.filter(|&more| more > 0).count()
            + checked.is_spooled.iter().filter(|&&is_spooled| is_spooled).count()
            + extra;
        // What is held back is asked for in bytes, and rounded up to whole buffers.
        let held = checked.stages.iter().flatten().map(|(_, stage)| match stage.kind {
            Kind::Buffer(bytes) => bytes,
            _ => 0,
        });
        let held: Vec<usize> = held.filter(|&bytes| bytes > 0).collect();
        let keeps: Vec<RangeInclusive<usize>> =
            checked.stages.iter().map(|stage| stage.as_ref().map_or(0..=0, |(_, stage)| stage.keeps.clone())).collect();
        let needed = keeps.iter().map(|keeps| *keeps.start()).fold(0, usize::saturating_add);
        let for_buffers = options.memory.saturating_sub(needed);
        let left = for_buffers.saturating_sub(held.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes)));
        let buffers = buffers + held.len();
        let buffer_bytes = (left / buffers / BUFFER_MIN * BUFFER_MIN).min(BUFFER);
        if buffer_bytes < BUFFER_MIN {
            let kept = if needed > 0 { format!(", and {needed} bytes that its stages keep") } else { String::new() };
            return Err(NetworkError::Invalid(format!(
                "the network needs {buffers} buffers of at least {BUFFER_MIN} bytes{}{kept}; give it more memory than {} bytes",
                if held.is_empty() { "" } else { " and what is to be kept" },
                options.memory
            )));
        }
        // One buffer for each was counted above.
        let further = held.iter().map(|bytes| bytes.div_ceil(buffer_bytes) - 1).sum::<usize>();
        let buffers = buffers + further;
        let kept = shared_out(&keeps, for_buffers.saturating_sub(buffers * buffer_bytes));
        Ok(Plan { places, buffer_bytes, buffers, teams, threads, kept, threads_allowed: options.threads.max(1) })
    }

    /// Buffers in which so many bytes can be kept.
    pub(crate) fn buffers_for(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.buffer_bytes).max(1)
    }

    /// Bytes of all buffers, and of what stages may keep.
    pub fn memory(&self) -> usize {
        self.buffers * self.buffer_bytes + self.kept.iter().sum::<usize>()
    }
}

/// The teams, where so many threads are left, and how many of these they take: sources run one after the other, so that all
/// teams can use the same.
fn teams(checked: &Checked<'_>, left: usize) -> (Vec<Team>, usize) {
    let mut teams = Vec::new();
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
        teams.push(Team { source, stages, threads: 1 + more, why_one });
    }
    (teams, extra)
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

/// Whether it is worth while to read a source in several places at once.
fn is_shareable(source: &Work) -> bool {
    let metadata = match source {
        Work::Read(Some(path)) => std::fs::metadata(path),
        Work::Read(None) => io::stdin().as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata()),
        _ => return false,
    };
    metadata.is_ok_and(|metadata| is_at_hand(&metadata) && metadata.len() >= SHARED_MIN)
}

/// Whether a file has bytes that are there now. Not a pipe, nor one of those that the kernel makes up as they are read: they
/// say that they are empty.
pub(crate) fn is_at_hand(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.len() > 0
}

/// What each needs, and an equal part of what is left, as far as it wants it.
fn shared_out(keeps: &[RangeInclusive<usize>], left: usize) -> Vec<usize> {
    let more_is_wanted = keeps.iter().filter(|keeps| keeps.end() > keeps.start()).count();
    let share = left / more_is_wanted.max(1);
    keeps.iter().map(|keeps| keeps.start() + share.min(keeps.end().saturating_sub(*keeps.start()))).collect()
}

fn buffers_at(place: Place) -> usize {
    match place {
        Place::Source | Place::SameThread | Place::Elsewhere | Place::Outlet | Place::Sink => 1,
        Place::Fused | Place::Kept | Place::Inlet => 0,
        Place::OwnThread => 1 + RELAYED,
    }
}

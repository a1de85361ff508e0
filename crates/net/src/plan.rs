//! Which stages share a buffer, and which run beside each other.

use crate::check::Checked;
use crate::failure::Failure;
use crate::graph::Work;
use crate::transform::Kind;

/// What a run may use.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of all buffers together, at most.
    pub memory: usize,
    /// Threads, at most.
    pub threads: usize,
}

impl Default for Options {
    /// 64 MiB, and a thread for each CPU.
    fn default() -> Options {
        Options { memory: 64 << 20, threads: std::thread::available_parallelism().map_or(1, usize::from) }
    }
}

/// Bytes of a buffer, unless memory is short. A quarter of a second-level cache of 1 MiB: what comes from the source, what a
/// rewriting stage writes and the tables of that stage fit together. `docs/networks.md` has what other sizes cost.
const BUFFER: usize = 128 << 10;

/// The smallest buffer.
pub(crate) const BUFFER_MIN: usize = 4 << 10;

/// Buffers on the way from one thread to another: one being filled, one being worked on, and two for the times when the two
/// differ.
pub(crate) const RELAYED: usize = 4;

/// Why a stage runs where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the beginning.
    Source,
    /// On the buffer of the stage before it.
    Fused,
    /// From that buffer into one of its own, in the same thread.
    SameThread,
    /// In a thread of its own.
    OwnThread,
    /// At the end.
    Sink,
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
    /// Threads.
    pub threads: usize,
}

impl Plan {
    /// Plans a network that was checked.
    ///
    /// # Errors
    /// [`Failure::Unfit`] if the memory is not enough for the smallest buffers.
    pub fn of(checked: &Checked<'_>, options: &Options) -> Result<Plan, Failure> {
        let mut threads = 1;
        let mut places: Vec<Place> = Vec::new();
        // A stage that rewrites computes; so each gets a thread as long as there are any, the first ones first.
        for (node, stage) in checked.network.nodes.iter().zip(&checked.stages) {
            places.push(match (&node.work, stage) {
                (Work::Read(_), _) => Place::Source,
                (Work::Write(_), _) => Place::Sink,
                (_, Some((_, stage))) if matches!(stage.kind, Kind::Rewrite(_)) => {
                    // Several inputs meet in it: it is reached from several threads already.
                    let can_be_apart = threads < options.threads && node.from.len() == 1;
                    threads += usize::from(can_be_apart);
                    if can_be_apart { Place::OwnThread } else { Place::SameThread }
                }
                _ => Place::Fused,
            });
        }
        let splits = (0..places.len()).map(|place| checked.network.fed_by(place).count().saturating_sub(1));
        let buffers =
            places.iter().map(|place| buffers_at(*place)).sum::<usize>() + splits.filter(|&more| more > 0).count();
        let buffer_bytes = (options.memory / buffers / BUFFER_MIN * BUFFER_MIN).min(BUFFER);
        if buffer_bytes < BUFFER_MIN {
            return Err(Failure::Unfit(format!(
                "the network needs {buffers} buffers of at least {BUFFER_MIN} bytes; give it more memory than {} bytes",
                options.memory
            )));
        }
        Ok(Plan { places, buffer_bytes, buffers, threads })
    }

    /// Bytes of all buffers.
    pub fn memory(&self) -> usize {
        self.buffers * self.buffer_bytes
    }
}

fn buffers_at(place: Place) -> usize {
    match place {
        Place::Source | Place::SameThread | Place::Sink => 1,
        Place::Fused => 0,
        Place::OwnThread => 1 + RELAYED,
    }
}

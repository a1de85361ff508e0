//! A buffer between an input and its outputs, for `millstream buffer`: it takes up what comes faster than it goes.
//!
//! ```text
//!           splice, from pipe to pipe, while nothing waits and there is one output
//!        ┌───────────────────────────────────────────────────────┐
//!  input ┤                                                       ├ output
//!        └─ filling ──▶ queue of blocks: memory, then the spill ──▶ draining ┴ further outputs
//! ```
//!
//! One thread reads the input (`filling`), one for each output writes (`draining`); between them is the `queue`, which says when
//! each may go on. A block is memory of its own, that the kernel has back when it was written and is not needed for a second. Beyond the
//! memory that was allowed, blocks lie in the `spill`, a file without a name.
#![forbid(unsafe_code)]
// A later version may add cases.
#![warn(clippy::exhaustive_enums)]

mod draining;
mod filling;
mod queue;
mod rate;
mod spill;
mod stream;

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use millstream_sys::{foreign, memory, pipe};

pub use queue::Counts;
use queue::Queue;
use spill::Spill;
pub use stream::{Stream, StreamError};

/// How to buffer.
#[derive(Debug)]
pub struct Options {
    /// Bytes of memory, at most.
    pub memory: usize,
    /// Outputs begin when so many per cent are full, and again each time after all is written.
    pub start_percent: u8,
    /// When all is full, reading begins again when no more than so many per cent are.
    pub low_percent: u8,
    /// Bytes a second for each output, at most.
    pub rate: Option<u64>,
    /// Where blocks go for which there is no memory: [`spill_file`].
    pub spill: Option<File>,
}

impl Default for Options {
    fn default() -> Options {
        Options { memory: 256 << 20, start_percent: 0, low_percent: 100, rate: None, spill: None }
    }
}

/// What became of it.
#[derive(Debug)]
pub struct Outcome {
    /// What was counted.
    pub counts: Counts,
    /// How long it took.
    pub elapsed: Duration,
    /// Streams that failed, in the order in which they did.
    pub errors: Vec<StreamError>,
}

/// A new file without a name in the place of `path`, which nothing may have.
///
/// # Errors
/// `EEXIST`: there is something of that name. Those of `open(2)`.
pub fn spill_file(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    // Nothing is left, however this process ends.
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Memory that was not needed for so long goes back to the kernel.
const IDLE: Duration = Duration::from_secs(1);

/// Gives a pipe room for a block, if it has less: with each turn of a process at it more is moved. Without that it works too.
fn enlarge(pipe: &File) {
    if pipe::capacity(pipe).is_ok_and(|capacity| capacity < queue::BLOCK) {
        pipe::request_capacity(pipe, queue::BLOCK);
    }
}

/// Copies `input` to every one of `outputs` until it ends, or no output is left. Calls `watch` every `pause`, and at the end.
/// Memory that was not needed for a second goes back to the kernel at these times.
///
/// If no output is left while the input has nothing to read, the thread that reads stays behind: the caller's process is to end soon.
///
/// # Errors
/// No thread can be started, or no descriptor is left.
pub fn run(
    input: Stream,
    outputs: Vec<Stream>,
    options: Options,
    pause: Duration,
    mut watch: impl FnMut(&Counts),
) -> io::Result<Outcome> {
    memory::return_large_blocks();
    let begun = Instant::now();
    let percent = [options.start_percent, options.low_percent];
    let queue = Arc::new(Queue::new(options.memory, outputs.len(), percent, options.spill.is_some()));
    let spill = options.spill.map(|file| Arc::new(Spill::new(file, queue.block_size())));
    // To anything but a pipe splice(2) would wait, with the input. And pages of a file would change with it until they are read.
    let is_pipe = |file: &File| matches!(foreign::kind(file), Ok(foreign::Kind::Pipe));
    for file in [&input].into_iter().chain(&outputs).map(|stream| &stream.file).filter(|file| is_pipe(file)) {
        enlarge(file);
    }
    let target = match &outputs[..] {
        // Nothing is to be waited for, so bytes may go on as they come.
        [output]
            if options.rate.is_none()
                && options.start_percent == 0
                && is_pipe(&input.file)
                && is_pipe(&output.file) =>
        {
            Some(output.file.try_clone()?)
        }
        _ => None,
    };
    let both = || (Arc::clone(&queue), spill.clone());
    let (filled, spilled) = both();
    thread::Builder::new()
        .name("input".into())
        .spawn(move || filling::fill(&filled, input, target, spilled.as_deref()))?;
    for (number, output) in outputs.into_iter().enumerate() {
        let (drained, spilled) = both();
        let rate = options.rate;
        thread::Builder::new()
            .name("output".into())
            .spawn(move || draining::drain(&drained, number, output, rate, spilled.as_deref()))?;
    }
    let mut given_back = begun;
    while !queue.wait_for_end(pause) {
        watch(&queue.counts());
        if given_back.elapsed() >= IDLE {
            given_back = Instant::now();
            queue.give_idle_back();
        }
    }
    let counts = queue.counts();
    watch(&counts);
    Ok(Outcome { counts, elapsed: begun.elapsed(), errors: queue.take_errors() })
}

//! A line of transforms that is read from: each read pulls as many bytes through it as it needs.
//!
//! [`run`](mod@crate::run) pushes a whole stream through a network. A file system is asked for bytes instead, now and then, and
//! by a caller that may never come back. So this runs in the caller's thread, holds one buffer a stage, and stops at any byte.
//! Only a transform outside of this program has a thread of its own, which feeds it.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::catalogue::Catalogue;
use crate::check::check;
use crate::error::{NetworkError, TransformError};
use crate::external::{Control, Drain, Ends, Feed, Started};
use crate::graph::{Network, Work};
use crate::plan::Options;
use crate::transform::{InPlace, Kind, Next, OUTPUT_MIN, Rewrite, Stage};

/// Bytes that a stage reads at once.
const BUFFER: usize = 128 << 10;

/// What a [`Pull`] reads from.
pub struct Input {
    /// Where the bytes come from.
    pub bytes: Box<dyn Read + Send>,
    /// How it is called in a message.
    pub name: String,
    /// The number of the first byte: transforms in place at the beginning of the line count from it.
    pub offset: u64,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("offset", &self.offset).finish_non_exhaustive()
    }
}

/// A line of transforms over an input.
pub struct Pull {
    top: Box<dyn Upstream>,
    /// Bytes that came out and were not asked for yet: the caller had less room than a transform needs.
    left: Vec<u8>,
    taken: usize,
}

impl Pull {
    /// Makes the transforms of a line. Its source and its sink are not looked at.
    ///
    /// # Errors
    /// [`NetworkError::Invalid`]: not a line, a transform that does not exist or takes no such arguments, or one that writes a file
    /// of its own.
    pub fn new(
        network: &Network,
        catalogue: Catalogue<'_>,
        options: &Options,
        input: Input,
    ) -> Result<Pull, NetworkError> {
        if !network.is_line() {
            return Err(NetworkError::Invalid("only a network without splits and merges can be read from".into()));
        }
        let mut checked = check(network, catalogue)?;
        checked.limit(options.timeout);
        let offset = input.offset;
        let mut top: Box<dyn Upstream> = Box::new(Source { input, read: 0 });
        for (node, stage) in network.nodes.iter().zip(&mut checked.stages) {
            let (Work::Transform(_), Some((_, stage))) = (&node.work, stage.take()) else { continue };
            top = stacked(top, stage, node.work.to_line(), offset, options)?;
        }
        Ok(Pull { top, left: Vec::new(), taken: 0 })
    }

    /// Reads some bytes to the start of `out`. Returns how many; 0 at the end, when all stages have found their input complete.
    ///
    /// # Errors
    /// [`NetworkError`]. Then no further bytes can be had.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        if self.taken == self.left.len() {
            if out.len() >= OUTPUT_MIN {
                return self.top.pull(out);
            }
            self.left.resize(BUFFER, 0);
            let count = self.top.pull(&mut self.left);
            self.left.truncate(*count.as_ref().unwrap_or(&0));
            self.taken = 0;
            count?;
        }
        let count = out.len().min(self.left.len() - self.taken);
        out[..count].copy_from_slice(&self.left[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }

    /// Reads until `out` is full. Returns how many bytes there were: fewer only at the end.
    ///
    /// # Errors
    /// As [`Pull::read`].
    pub fn fill(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        let mut filled = 0;
        while filled < out.len() {
            match self.read(&mut out[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

impl std::fmt::Debug for Pull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull").finish_non_exhaustive()
    }
}

/// A stage with everything above it.
trait Upstream: Send {
    /// Writes some bytes to the start of `out`, which has at least [`OUTPUT_MIN`]. Returns 0 at the end, again and again.
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError>;
}

fn stacked(
    above: Box<dyn Upstream>,
    stage: Stage,
    text: String,
    offset: u64,
    options: &Options,
) -> Result<Box<dyn Upstream>, NetworkError> {
    if stage.beside.is_some() {
        return Err(NetworkError::Invalid(format!(
            "{text}: writes a file of its own, which nothing that is only read can do"
        )));
    }
    Ok(match stage.kind {
        Kind::InPlace(_, transform) => Box::new(Changed { above, transform, text, offset, has_ended: false }),
        Kind::Rewrite(mut transform) => {
            if stage.keeps != (0..=0) {
                transform.may_keep(options.memory.clamp(*stage.keeps.start(), *stage.keeps.end()));
            }
            transform.use_threads(options.threads.max(1));
            let buffer = vec![0; BUFFER].into_boxed_slice();
            let (start, end, consumed) = (0, 0, 0);
            Box::new(Rewritten { above, transform, text, buffer, start, end, consumed, is_last: false, is_done: false })
        }
        // It only holds back what is pushed.
        Kind::Buffer(_) => above,
        Kind::Exported(transform) => {
            let started = transform.start(&Ends::plain()).map_err(|fault| failure(&text, 0, fault))?;
            Box::new(Fed::start(above, started, text)?)
        }
    })
}

fn failure(stage: &str, start: u64, fault: TransformError) -> NetworkError {
    NetworkError::Stage { stage: stage.into(), offset: fault.offset(start), fault }
}

struct Source {
    input: Input,
    read: u64,
}

impl Upstream for Source {
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        loop {
            match self.input.bytes.read(out) {
                Ok(count) => {
                    self.read += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failure(error)),
            }
        }
    }
}

impl Source {
    fn failure(&self, error: io::Error) -> NetworkError {
        NetworkError::Source { name: self.input.name.clone(), offset: self.input.offset + self.read, error }
    }
}

/// A transform in place.
struct Changed {
    above: Box<dyn Upstream>,
    transform: Box<dyn InPlace>,
    text: String,
    offset: u64,
    has_ended: bool,
}

impl Upstream for Changed {
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        if self.has_ended {
            return Ok(0);
        }
        let count = self.above.pull(out)?;
        if count == 0 {
            self.transform.finish().map_err(|fault| failure(&self.text, self.offset, fault))?;
            self.has_ended = true;
            return Ok(0);
        }
        let applied = self.transform.apply(self.offset, &mut out[..count]);
        applied.map_err(|fault| failure(&self.text, self.offset, fault))?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A transform that writes other bytes than it reads.
struct Rewritten {
    above: Box<dyn Upstream>,
    transform: Box<dyn Rewrite>,
    text: String,
    /// What came from above and was not consumed is `buffer[start..end]`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    consumed: u64,
    /// Nothing follows from above.
    is_last: bool,
    is_done: bool,
}

impl Upstream for Rewritten {
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        while !self.is_done {
            if self.start == self.end && !self.is_last {
                self.refill(0)?;
            }
            let input = &self.buffer[self.start..self.end];
            let step = self.transform.step(input, out, self.is_last);
            let step = step.map_err(|fault| failure(&self.text, self.consumed, fault))?;
            self.start += step.consumed;
            self.consumed += step.consumed as u64;
            self.is_done = step.next == Next::Done;
            if step.produced > 0 {
                return Ok(step.produced);
            }
            if step.consumed == 0 && !self.is_done {
                self.unblock()?;
            }
        }
        Ok(0)
    }
}

impl Rewritten {
    /// Reads from above behind the `kept` bytes at the start of the buffer.
    fn refill(&mut self, kept: usize) -> Result<(), NetworkError> {
        let count = self.above.pull(&mut self.buffer[kept..])?;
        (self.start, self.end) = (0, kept + count);
        self.is_last = count == 0;
        Ok(())
    }

    /// The transform has neither read nor written: it needs more than there is, or cannot go on.
    fn unblock(&mut self) -> Result<(), NetworkError> {
        let kept = self.end - self.start;
        if self.is_last || kept + OUTPUT_MIN > self.buffer.len() {
            let fault = TransformError::new("the transform neither reads nor writes, and wants to go on");
            return Err(failure(&self.text, self.consumed, fault));
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.refill(kept)
    }
}

/// A transform outside of this program, and the thread that feeds it.
struct Fed {
    drain: Box<dyn Drain>,
    control: Arc<dyn Control>,
    feeder: Option<JoinHandle<Result<(), NetworkError>>>,
    text: String,
    drained: u64,
}

impl Fed {
    fn start(above: Box<dyn Upstream>, started: Started, text: String) -> Result<Fed, NetworkError> {
        let Started { mut feeds, mut drains, control } = started;
        let (Some(feed), Some(drain)) = (feeds.pop(), drains.pop()) else {
            return Err(NetworkError::Invalid(format!("{text}: has no input or no output")));
        };
        let (name, stopped) = (text.clone(), Arc::clone(&control));
        let feeder = thread::Builder::new().name("feed".into()).spawn(move || feed_all(above, feed, &*stopped, &name));
        match feeder {
            Ok(feeder) => Ok(Fed { drain, control, feeder: Some(feeder), text, drained: 0 }),
            Err(error) => {
                control.stop();
                Err(NetworkError::Invalid(format!("cannot start a thread: {error}")))
            }
        }
    }

    /// What became of everything above.
    fn fed(&mut self) -> Result<(), NetworkError> {
        let Some(feeder) = self.feeder.take() else { return Ok(()) };
        feeder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Upstream for Fed {
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        match self.drain.drain(out) {
            // A fault above is why the transform got no more: it comes first.
            Ok(0) => self.fed().map(|()| 0),
            Ok(count) => {
                self.drained += count as u64;
                Ok(count)
            }
            Err(fault) => Err(self.fed().err().unwrap_or_else(|| failure(&self.text, self.drained, fault))),
        }
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        // It wakes the feeder, whose next write finds no reader.
        self.control.stop();
        let _ = self.fed();
    }
}

fn feed_all(
    mut above: Box<dyn Upstream>,
    mut feed: Box<dyn Feed>,
    control: &dyn Control,
    text: &str,
) -> Result<(), NetworkError> {
    let fed = feed_until_end(&mut *above, &mut *feed, text);
    let outcome = fed.and_then(|fed| feed.end().map_err(|fault| failure(text, fed, fault)));
    if outcome.is_err() {
        control.stop();
    }
    outcome
}

/// Returns how many bytes were fed.
fn feed_until_end(above: &mut dyn Upstream, feed: &mut dyn Feed, text: &str) -> Result<u64, NetworkError> {
    let mut buffer = vec![0; BUFFER];
    let mut fed_before = 0;
    loop {
        let count = above.pull(&mut buffer)?;
        if count == 0 {
            return Ok(fed_before);
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match feed.feed(rest).map_err(|fault| failure(text, fed_before, fault))? {
                0 => return Ok(fed_before),
                fed => {
                    fed_before += fed as u64;
                    rest = &rest[fed..];
                }
            }
        }
    }
}

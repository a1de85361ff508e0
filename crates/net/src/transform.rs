//! What a transform is, and what it says about itself.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::error::TransformError;
use crate::external::Export;

/// Room that a rewriting transform always finds at the start of its output.
pub const OUTPUT_MIN: usize = 4 << 10;

/// Changes bytes where they lie: as many come out as go in.
pub trait InPlace: Send {
    /// Works on the next bytes of the stream; `offset` is the number of those before them. Must not allocate.
    ///
    /// # Errors
    /// [`TransformError`]: what is wrong with the bytes. The network stops, and its output files stay as they were.
    fn apply(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), TransformError>;

    /// Nothing below wants more, and the rest of the stream will not come. Called in place of `finish`.
    ///
    /// # Errors
    /// [`TransformError`], as above.
    fn finish_early(&mut self) -> Result<(), TransformError> {
        Ok(())
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// [`TransformError`], as above.
    fn finish(&mut self) -> Result<(), TransformError> {
        Ok(())
    }

    /// What goes into the [sidecar](Stage::beside); asked once, when the stream has ended.
    fn written_beside(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

/// Writes other bytes than it reads.
pub trait Rewrite: Send {
    /// Reads from the start of `input` and writes to the start of `output`, which has room for at least [`OUTPUT_MIN`]
    /// bytes. Must consume or produce something, unless it needs more input and there is none. `ends`: no input
    /// follows. It is then called until it says [`Next::Done`]. Must not allocate for each call.
    ///
    /// # Errors
    /// [`TransformError`]: what is wrong with the input, at `consumed` bytes after all that was consumed before.
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError>;

    /// Bytes that a step moved from one place in memory to another: those that it wrote, unless it says otherwise.
    fn copied(&self, step: &Step) -> usize {
        step.produced
    }

    /// Told once before the first step, if the stage said that it keeps something: how many bytes it may keep, within
    /// what it said.
    fn may_keep(&mut self, _bytes: usize) {}

    /// How many threads of its own it may use, at least one; said before the first step. The bytes that it writes must
    /// not depend on it.
    fn use_threads(&mut self, _most: usize) {}
}

/// What one call of [`Rewrite::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are not needed any more.
    pub consumed: usize,
    /// Bytes written to the output.
    pub produced: usize,
    /// Whether there is more to do.
    pub next: Next,
}

/// What follows a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// Further steps.
    More,
    /// Nothing: the output is complete, whatever input follows.
    Done,
}

/// What a transform has to know of the bytes before those that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Nothing: pieces can be worked on in any order, and by several transforms of the kind, each of which gets some of
    /// them. One of these is told how the stream ended. If a thread loses its CPU, another may work on its piece too,
    /// from the same bytes: both must come to the same result.
    Stateless,
    /// How many there were. Otherwise as the one before.
    Positional,
    /// What they were: one piece after the other.
    Stateful,
}

/// How many bytes come out.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Size {
    /// As many as go in.
    Same,
    /// As many as this function says for the number that goes in.
    Computed(fn(u64) -> u64),
    /// Known when they have come out.
    Unknown,
}

/// What kind of bytes an edge carries, as far as that is known before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data {
    /// Any bytes.
    Any,
    /// Lines of text.
    Text,
    /// A named format, such as `gzip`.
    Format(&'static str),
}

/// A transform, ready to work.
pub struct Stage {
    /// How it works.
    pub kind: Kind,
    /// How much it writes.
    pub size: Size,
    /// The transform that restores the input of this one, as it would be written in a line.
    pub inverse: Option<String>,
    /// Bytes that it has to keep beside its buffers, and those that it may keep if there are as many.
    pub keeps: RangeInclusive<usize>,
    /// Whether it starts threads of its own, as many as it [may](Rewrite::use_threads): it needs no other to run in.
    pub has_threads: bool,
    /// The sidecar: a file that a transform in place writes beside the stream. Like every output it appears whole, when
    /// the network has done its work, and tests of a network leave it as it is.
    pub beside: Option<PathBuf>,
}

/// How a transform works.
#[non_exhaustive]
pub enum Kind {
    /// On the bytes where they lie.
    InPlace(State, Box<dyn InPlace>),
    /// From one buffer to another.
    Rewrite(Box<dyn Rewrite>),
    /// Not on them at all: keeps at most so many bytes, as they are, until what follows takes them.
    Buffer(usize),
    /// Outside of this program.
    Exported(Box<dyn Export>),
}

impl Stage {
    fn new(kind: Kind, size: Size) -> Stage {
        Stage { kind, size, inverse: None, keeps: 0..=0, has_threads: false, beside: None }
    }

    /// A transform that works in place.
    pub fn in_place(state: State, transform: impl InPlace + 'static) -> Stage {
        Stage::new(Kind::InPlace(state, Box::new(transform)), Size::Same)
    }

    /// A transform that writes other bytes than it reads.
    pub fn rewrite(size: Size, transform: impl Rewrite + 'static) -> Stage {
        Stage::new(Kind::Rewrite(Box::new(transform)), size)
    }

    /// A transform that works outside of this program. How much it writes is known when it has been written.
    pub fn exported(transform: impl Export + 'static) -> Stage {
        Stage::new(Kind::Exported(Box::new(transform)), Size::Unknown)
    }

    /// Keeps at most so many bytes, as they are, until what follows takes them.
    pub fn buffer(bytes: usize) -> Stage {
        Stage::new(Kind::Buffer(bytes), Size::Same)
    }

    /// The same, with the transform that restores its input.
    #[must_use]
    pub fn with_inverse(mut self, inverse: impl Into<String>) -> Stage {
        self.inverse = Some(inverse.into());
        self
    }

    /// The same, with what it keeps in memory beside its buffers: the memory of the network has to have room for the
    /// start of this range, and [`Rewrite::may_keep`] says how much further it may go.
    #[must_use]
    pub fn keeping(mut self, bytes: RangeInclusive<usize>) -> Stage {
        self.keeps = bytes;
        self
    }

    /// The same, for a transform that starts threads of its own where there may be more than one.
    #[must_use]
    pub fn with_threads(mut self) -> Stage {
        self.has_threads = true;
        self
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match &self.kind {
            Kind::InPlace(state, _) => format!("in place, {state:?}"),
            Kind::Rewrite(_) => "rewrite".into(),
            Kind::Buffer(bytes) => format!("buffer of {bytes} bytes"),
            Kind::Exported(_) => "exported".into(),
        };
        f.debug_struct("Stage").field("kind", &kind).field("inverse", &self.inverse).finish_non_exhaustive()
    }
}

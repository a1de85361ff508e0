//! Transforms that pass some lines and drop the others.

use std::ops::RangeInclusive;

use millstream_net::{Next, Rewrite, Step, TransformError};

use crate::pending::Pending;

/// The longest line that is kept until its end has come. A longer one is an error, so that no stream can use up the
/// memory.
const LINE_MAX: usize = 16 << 20;

/// Memory of a stage for lines that come in several pieces: such a line, and the one before, which is being written.
pub(crate) const MEMORY: RangeInclusive<usize> = 32 << 10..=2 * LINE_MAX;

/// The beginning of a line whose end has not come.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) bytes: Vec<u8>,
    /// The most bytes that it may have.
    most: usize,
}

impl Default for Begun {
    fn default() -> Begun {
        Begun { bytes: Vec::new(), most: MEMORY.start() / 2 }
    }
}

impl Begun {
    /// Sets how much of the wanted memory the stage may use.
    pub(crate) fn may_keep(&mut self, bytes: usize) {
        self.most = (bytes / 2).min(LINE_MAX);
    }

    /// Appends bytes of the line. The memory grows by doubling, but not beyond the limit.
    ///
    /// # Errors
    /// The line is too long.
    pub(crate) fn push(&mut self, more: &[u8]) -> Result<(), TransformError> {
        let len = self.bytes.len() + more.len();
        if len > self.most {
            let whose = if self.most == LINE_MAX { "" } else { "the " };
            let why = if self.most == LINE_MAX { "" } else { " that there is memory for" };
            return Err(TransformError::new(format!("a line is longer than {whose}{} bytes{why}", self.most)));
        }
        if len > self.bytes.capacity() {
            let capacity = (2 * self.bytes.capacity()).clamp(len, self.most);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}

/// Chooses lines.
pub(crate) trait Choice: Send {
    /// The next whole lines of `lines[from..]` to pass; `None` if none of them do. `lines` are whole lines (the last of
    /// the stream may lack its end).
    fn next(&mut self, lines: &[u8], from: usize) -> Option<std::ops::Range<usize>>;
}

/// Passes chosen lines.
#[derive(Default)]
pub(crate) struct Lines<C> {
    choice: C,
    begun: Begun,
    /// Bytes of the input that are still to be passed unchanged.
    passing: usize,
    /// Bytes of whole lines of the input, before those, that do not pass.
    skipping: usize,
    /// Bytes of the input that are whole lines.
    whole: usize,
    pending: Pending,
}

impl<C: Choice> Lines<C> {
    pub(crate) fn new(choice: C) -> Lines<C> {
        Lines { choice, begun: Begun::default(), passing: 0, skipping: 0, whole: 0, pending: Pending::default() }
    }

    /// Passes or drops a line that came in several pieces.
    fn choose_begun(&mut self) {
        if self.choice.next(&self.begun.bytes, 0).is_some() {
            std::mem::swap(self.pending.end(), &mut self.begun.bytes);
        }
        self.begun.bytes.clear();
    }
}

impl<C: Choice> Rewrite for Lines<C> {
    fn may_keep(&mut self, bytes: usize) {
        self.begun.may_keep(bytes);
    }

    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            produced += self.pending.take(&mut output[produced..]);
            if !self.pending.is_empty() {
                return Ok(Step { consumed, produced, next: Next::More });
            }
            if self.skipping + self.passing > 0 {
                let skipped = std::mem::take(&mut self.skipping);
                consumed += skipped;
                let count = self.passing.min(output.len() - produced);
                output[produced..produced + count].copy_from_slice(&input[consumed..consumed + count]);
                (consumed, produced) = (consumed + count, produced + count);
                self.passing -= count;
                self.whole -= skipped + count;
                if self.passing > 0 {
                    return Ok(Step { consumed, produced, next: Next::More });
                }
            }
            if self.whole > 0 {
                match self.choice.next(&input[consumed..consumed + self.whole], 0) {
                    Some(range) => (self.skipping, self.passing) = (range.start, range.len()),
                    None => consumed += std::mem::take(&mut self.whole),
                }
                continue;
            }
            let rest = &input[consumed..];
            if rest.is_empty() {
                if ends && !self.begun.bytes.is_empty() {
                    self.choose_begun();
                    continue;
                }
                return Ok(Step { consumed, produced, next: if ends { Next::Done } else { Next::More } });
            }
            if self.begun.bytes.is_empty()
                && let Some(last) = memchr::memrchr(b'\n', rest)
            {
                self.whole = last + 1;
                continue;
            }
            let (more, is_complete) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..=end], true),
                None => (rest, false),
            };
            self.begun.push(more).map_err(|fault| fault.after(consumed))?;
            consumed += more.len();
            if is_complete {
                self.choose_begun();
            }
        }
    }
}

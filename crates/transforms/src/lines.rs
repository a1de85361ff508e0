//! Lines that pass, or do not: what grep and head have in common.

use millstream_net::{Fault, Next, Rewrite, Step};

/// Bytes of a line that is kept together until its end has come. What is longer is an error and not a reason to use all memory.
pub(crate) const LINE_MAX: usize = 16 << 20;

/// Chooses lines.
pub(crate) trait Choice: Send {
    /// The next bytes to pass, of `lines`, which are whole lines (the last of the stream may lack its end), from `from` on;
    /// `None` if none of these do. What is passed are whole lines too.
    fn next(&mut self, lines: &[u8], from: usize) -> Option<std::ops::Range<usize>>;

    /// Whether nothing more will pass, whatever comes.
    fn has_enough(&self) -> bool {
        false
    }
}

/// Passes chosen lines.
#[derive(Default)]
pub(crate) struct Lines<C> {
    choice: C,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// Bytes of the input that are still to be passed as they are.
    passing: usize,
    /// Bytes of the input, of whole lines, that were looked at and do not pass, before those.
    skipping: usize,
    /// Bytes of the input that are whole lines.
    whole: usize,
    pending: crate::pending::Pending,
}

impl<C: Choice> Lines<C> {
    pub(crate) fn new(choice: C) -> Lines<C> {
        Lines {
            choice,
            begun: Vec::new(),
            passing: 0,
            skipping: 0,
            whole: 0,
            pending: crate::pending::Pending::default(),
        }
    }

    /// Looks at a line that came in several pieces.
    fn choose_begun(&mut self) {
        let mut from = 0;
        while let Some(range) = self.choice.next(&self.begun, from) {
            from = range.end;
            self.pending.end().extend_from_slice(&self.begun[range]);
        }
        self.begun.clear();
    }
}

impl<C: Choice> Rewrite for Lines<C> {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
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
            if self.choice.has_enough() {
                return Ok(Step { consumed, produced, next: Next::Done });
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
                if ends && !self.begun.is_empty() {
                    self.choose_begun();
                    continue;
                }
                return Ok(Step { consumed, produced, next: if ends { Next::Done } else { Next::More } });
            }
            if self.begun.is_empty()
                && let Some(last) = memchr::memrchr(b'\n', rest)
            {
                self.whole = last + 1;
                continue;
            }
            let (more, is_complete) = match memchr::memchr(b'\n', rest) {
                Some(end) => (&rest[..=end], true),
                None => (rest, false),
            };
            if self.begun.len() + more.len() > LINE_MAX {
                return Err(Fault::new(format!("a line is longer than {LINE_MAX} bytes")).after(consumed));
            }
            self.begun.extend_from_slice(more);
            consumed += more.len();
            if is_complete {
                self.choose_begun();
            }
        }
    }
}

//! The beginning of a stream, and its end.

use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;
use crate::kept::{BLOCK, Kept, SLACK};

/// The lines or bytes of `-n` and `-c`.
enum Amount {
    Lines(u64),
    Bytes(u64),
}

fn amount(arguments: &[String]) -> Result<Amount, String> {
    let number = |text: &String| arguments::number("N", text, 0, u64::MAX);
    match arguments {
        [] => Ok(Amount::Lines(10)),
        [option, count] if option == "-n" => number(count).map(Amount::Lines),
        [option, count] if option == "-c" => number(count).map(Amount::Bytes),
        _ => Err("the amount is -n LINES or -c BYTES".into()),
    }
}

/// `head`
pub(crate) static HEAD: Entry = Entry {
    name: "head",
    usage: "head [-n LINES | -c BYTES]",
    summary: "the first lines (10 unless given) or bytes; nothing more is read than is needed",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        Ok(match amount(arguments)? {
            Amount::Lines(lines) => Stage::rewrite(Size::Unknown, FirstLines { lines }),
            Amount::Bytes(bytes) => Stage::rewrite(Size::Unknown, FirstBytes { bytes }),
        })
    },
};

struct FirstLines {
    lines: u64,
}

impl Rewrite for FirstLines {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let most = input.len().min(output.len());
        let mut count = 0;
        while self.lines > 0 && count < most {
            let end = memchr::memchr(b'\n', &input[count..most]);
            self.lines -= u64::from(end.is_some());
            count = end.map_or(most, |end| count + end + 1);
        }
        output[..count].copy_from_slice(&input[..count]);
        let is_done = self.lines == 0 || (ends && count == input.len());
        Ok(Step { consumed: count, produced: count, next: if is_done { Next::Done } else { Next::More } })
    }
}

struct FirstBytes {
    bytes: u64,
}

impl Rewrite for FirstBytes {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let count = input.len().min(output.len()).min(usize::try_from(self.bytes).unwrap_or(usize::MAX));
        output[..count].copy_from_slice(&input[..count]);
        self.bytes -= count as u64;
        let is_done = self.bytes == 0 || (ends && count == input.len());
        Ok(Step { consumed: count, produced: count, next: if is_done { Next::Done } else { Next::More } })
    }
}

/// `tail`
pub(crate) static TAIL: Entry = Entry {
    name: "tail",
    usage: "tail [-n LINES | -c BYTES]",
    summary: "the last lines (10 unless given) or bytes, which are kept in the memory of the network",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let amount = amount(arguments)?;
        let wanted = match amount {
            Amount::Lines(_) => usize::MAX,
            Amount::Bytes(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(SLACK),
        };
        let last = Last { amount, kept: Kept::default(), ends: 0, is_begun: false, most: KEPT_MIN - SLACK };
        Ok(Stage::rewrite(Size::Unknown, last).keeping(wanted.min(KEPT_MIN)..=wanted))
    },
};

/// Bytes of memory that a few lines of usual length need.
const KEPT_MIN: usize = 32 << 10;

struct Last {
    amount: Amount,
    kept: Kept,
    /// Ends of lines in the kept bytes.
    ends: u64,
    /// The last byte is no end of a line.
    is_begun: bool,
    /// The most bytes that it may keep.
    most: usize,
}

impl Last {
    fn push(&mut self, bytes: &[u8]) -> Result<(), TransformError> {
        self.kept.push(bytes);
        if matches!(self.amount, Amount::Lines(_)) {
            self.ends += memchr::memchr_iter(b'\n', bytes).count() as u64;
            self.is_begun = bytes.last().is_some_and(|&last| last != b'\n');
        }
        let surplus = self.surplus();
        self.kept.drop_first(surplus);
        if self.kept.len() > self.most {
            let most = self.most;
            return Err(TransformError::new(format!(
                "the end that is wanted is longer than the {most} bytes that there is memory for"
            )));
        }
        Ok(())
    }

    /// Kept bytes before the wanted ones. A line without an end counts as a line.
    fn surplus(&mut self) -> usize {
        match self.amount {
            Amount::Bytes(bytes) => {
                let surplus = (self.kept.len() as u64).saturating_sub(bytes);
                usize::try_from(surplus).map_or(self.kept.len(), |surplus| surplus.min(self.kept.len()))
            }
            Amount::Lines(0) => {
                self.ends = 0;
                self.kept.len()
            }
            Amount::Lines(lines) => {
                let surplus = (self.ends + u64::from(self.is_begun)).saturating_sub(lines);
                self.ends -= surplus;
                end_of_line(&self.kept, surplus)
            }
        }
    }
}

/// Bytes of the first `lines` lines, which are complete.
fn end_of_line(kept: &Kept, mut lines: u64) -> usize {
    let mut bytes = 0;
    let mut pieces = kept.pieces();
    while lines > 0 {
        let Some(piece) = pieces.next() else { break };
        let mut rest = piece;
        while lines > 0
            && let Some(end) = memchr::memchr(b'\n', rest)
        {
            rest = &rest[end + 1..];
            lines -= 1;
        }
        bytes += if lines == 0 { piece.len() - rest.len() } else { piece.len() };
    }
    bytes
}

impl Rewrite for Last {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        // Block by block, so that it never keeps more than one surplus block.
        let mut done = 0;
        for block in input.chunks(BLOCK) {
            self.push(block).map_err(|fault| fault.after(done))?;
            done += block.len();
        }
        let produced = if ends { self.kept.take(output) } else { 0 };
        let is_done = ends && self.kept.len() == 0;
        Ok(Step { consumed: input.len(), produced, next: if is_done { Next::Done } else { Next::More } })
    }

    fn may_keep(&mut self, bytes: usize) {
        self.most = bytes.saturating_sub(SLACK);
    }
}

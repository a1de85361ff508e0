//! The beginning of a stream, and its end.

use std::collections::VecDeque;

use millstream_net::{Data, Entry, Fault, Next, Rewrite, Size, Stage, Step};

use crate::arguments;
use crate::lines::{Choice, LINE_MAX, Lines};
use crate::pending::Pending;

/// What `-n` and `-c` say.
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
            Amount::Lines(lines) => Stage::rewrite(Size::Unknown, Lines::new(First { lines })),
            Amount::Bytes(bytes) => Stage::rewrite(Size::Unknown, FirstBytes { bytes }),
        })
    },
};

struct First {
    lines: u64,
}

impl Choice for First {
    fn next(&mut self, lines: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
        let mut end = from;
        while self.lines > 0 && end < lines.len() {
            end = memchr::memchr(b'\n', &lines[end..]).map_or(lines.len(), |line| end + line + 1);
            self.lines -= 1;
        }
        (end > from).then_some(from..end)
    }

    fn has_enough(&self) -> bool {
        self.lines == 0
    }
}

struct FirstBytes {
    bytes: u64,
}

impl Rewrite for FirstBytes {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
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
    summary: "the last lines (10 unless given) or bytes, which are kept in memory: at most 16 MiB",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let amount = amount(arguments)?;
        Ok(Stage::rewrite(
            Size::Unknown,
            Last { amount, kept: VecDeque::new(), ends: 0, pending: Pending::default(), has_ended: false },
        ))
    },
};

struct Last {
    amount: Amount,
    kept: VecDeque<u8>,
    /// Ends of lines in what is kept.
    ends: u64,
    pending: Pending,
    has_ended: bool,
}

impl Last {
    fn drop_first(&mut self, count: usize) {
        self.kept.drain(..count);
    }

    /// Drops whole lines while more are kept than wanted. A line without an end is one too.
    fn trim(&mut self) -> Result<(), Fault> {
        match self.amount {
            Amount::Bytes(bytes) => {
                let surplus = (self.kept.len() as u64).saturating_sub(bytes);
                self.drop_first(usize::try_from(surplus).unwrap_or(usize::MAX).min(self.kept.len()));
            }
            Amount::Lines(lines) => {
                let is_begun = self.kept.back().is_some_and(|&last| last != b'\n');
                let mut count = self.ends + u64::from(is_begun);
                let mut surplus = 0;
                let mut bytes = self.kept.iter();
                while count > lines {
                    surplus += bytes.by_ref().take_while(|&&byte| byte != b'\n').count() + 1;
                    count -= 1;
                    self.ends = self.ends.saturating_sub(1);
                }
                self.drop_first(surplus.min(self.kept.len()));
            }
        }
        if self.kept.len() > LINE_MAX {
            return Err(Fault::new(format!("the end that is wanted is longer than {LINE_MAX} bytes")));
        }
        Ok(())
    }
}

impl Rewrite for Last {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
        self.kept.extend(input);
        self.ends += memchr::memchr_iter(b'\n', input).count() as u64;
        self.trim()?;
        if ends && !self.has_ended {
            self.has_ended = true;
            let (first, second) = self.kept.as_slices();
            self.pending.end().extend_from_slice(first);
            self.pending.end().extend_from_slice(second);
        }
        let produced = self.pending.take(output);
        let is_done = self.has_ended && self.pending.is_empty();
        Ok(Step { consumed: input.len(), produced, next: if is_done { Next::Done } else { Next::More } })
    }
}

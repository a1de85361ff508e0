//! Transforms that inject faults into a stream, for tests of a network.

use millstream_net::{Data, Entry, InPlace, Next, Rewrite, Size, Stage, State, Step, TransformError};

use crate::arguments;

/// `error`
pub(crate) static ERROR: Entry = Entry {
    name: "error",
    usage: "error OFFSET",
    summary: "fails at this byte of the stream",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let at = arguments::number("OFFSET", arguments::one("OFFSET", arguments)?, 0, u64::MAX)?;
        Ok(Stage::in_place(State::Stateful, Error { at }))
    },
};

struct Error {
    at: u64,
}

impl InPlace for Error {
    fn apply(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        match within(self.at, offset, bytes.len()) {
            Some(place) => Err(TransformError::new("an error was asked for").after(place)),
            None => Ok(()),
        }
    }
}

/// The position of an offset of the stream in one piece of it.
fn within(at: u64, offset: u64, len: usize) -> Option<usize> {
    at.checked_sub(offset).and_then(|place| usize::try_from(place).ok()).filter(|&place| place < len)
}

/// `short`
pub(crate) static SHORT: Entry = Entry {
    name: "short",
    usage: "short BYTES",
    summary: "hands on at most so many bytes at a time",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let most = arguments::number("BYTES", arguments::one("BYTES", arguments)?, 1, 1 << 20)?;
        Ok(Stage::rewrite(Size::Same, Short { most }).with_inverse("identity"))
    },
};

struct Short {
    most: usize,
}

impl Rewrite for Short {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let count = input.len().min(output.len()).min(self.most);
        output[..count].copy_from_slice(&input[..count]);
        let next = if ends && count == input.len() { Next::Done } else { Next::More };
        Ok(Step { consumed: count, produced: count, next })
    }
}

/// `corrupt`
pub(crate) static CORRUPT: Entry = Entry {
    name: "corrupt",
    usage: "corrupt OFFSET",
    summary: "changes one bit of this byte",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let at = arguments::number("OFFSET", arguments::one("OFFSET", arguments)?, 0, u64::MAX)?;
        Ok(Stage::in_place(State::Positional, Corrupt { at }).with_inverse(format!("corrupt {at}")))
    },
};

struct Corrupt {
    at: u64,
}

impl InPlace for Corrupt {
    fn apply(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        if let Some(place) = within(self.at, offset, bytes.len()) {
            bytes[place] ^= 1;
        }
        Ok(())
    }
}

/// `truncate`
pub(crate) static TRUNCATE: Entry = Entry {
    name: "truncate",
    usage: "truncate BYTES",
    summary: "loses everything after so many bytes, and reads on as if nothing had happened",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let left = arguments::number("BYTES", arguments::one("BYTES", arguments)?, 0, u64::MAX)?;
        Ok(Stage::rewrite(Size::Unknown, Truncate { left }))
    },
};

struct Truncate {
    left: u64,
}

impl Rewrite for Truncate {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let count = input.len().min(output.len()).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        output[..count].copy_from_slice(&input[..count]);
        self.left -= count as u64;
        let consumed = if self.left == 0 { input.len() } else { count };
        let next = if ends && consumed == input.len() { Next::Done } else { Next::More };
        Ok(Step { consumed, produced: count, next })
    }
}

//! Two digits for each byte.

use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// `hex`
pub(crate) static HEX: Entry = Entry {
    name: "hex",
    usage: "hex",
    summary: "each byte as two hexadecimal digits, without line ends",
    takes: Data::Any,
    gives: Data::Format("hex"),
    build: |arguments| {
        arguments::none(arguments)?;
        Ok(Stage::rewrite(Size::Computed(|bytes| bytes.saturating_mul(2)), Hex).with_inverse("unhex"))
    },
};

struct Hex;

impl Rewrite for Hex {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let len = input.len().min(output.len() / 2);
        for (digits, &byte) in output.chunks_exact_mut(2).zip(&input[..len]) {
            digits.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        let next = if ends && len == input.len() { Next::Done } else { Next::More };
        Ok(Step { consumed: len, produced: 2 * len, next })
    }
}

/// `unhex`
pub(crate) static UNHEX: Entry = Entry {
    name: "unhex",
    usage: "unhex",
    summary: "the bytes that pairs of hexadecimal digits stand for; white space is left out",
    takes: Data::Format("hex"),
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        Ok(Stage::rewrite(Size::Unknown, Unhex::default()).with_inverse("hex"))
    },
};

#[derive(Default)]
struct Unhex {
    first: Option<u8>,
}

impl Rewrite for Unhex {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        for &byte in input {
            if produced == output.len() {
                return Ok(Step { consumed, produced, next: Next::More });
            }
            match value(byte) {
                Some(digit) => match self.first.take() {
                    None => self.first = Some(digit),
                    Some(first) => {
                        output[produced] = first << 4 | digit;
                        produced += 1;
                    }
                },
                None if byte.is_ascii_whitespace() => {}
                None => {
                    let what = format!("'{}' is no hexadecimal digit", byte.escape_ascii());
                    return Err(TransformError::new(what).after(consumed));
                }
            }
            consumed += 1;
        }
        if ends && self.first.is_some() {
            return Err(TransformError::new("the last digit has no partner").after(consumed));
        }
        Ok(Step { consumed, produced, next: if ends { Next::Done } else { Next::More } })
    }
}

fn value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The bytes that `text` encodes in digits.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(value).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The digits of a few bytes.
pub(crate) fn encoded(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

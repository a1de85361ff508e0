//! A transform that writes other bytes than it reads: each byte as two hexadecimal digits.

#[path = "../src/millstream.rs"]
mod millstream;

use millstream::{Next, Rewrite, Step, TransformError, rewrite};

struct Hex;

impl Rewrite for Hex {
    fn new(arguments: &[&str]) -> Result<Hex, String> {
        match arguments.first() {
            None => Ok(Hex),
            Some(word) => Err(format!("'{word}' means nothing here")),
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let len = input.len().min(output.len() / 2);
        for (digits, &byte) in output.chunks_exact_mut(2).zip(&input[..len]) {
            let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
            digits.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        let next = if ends && len == input.len() { Next::Done } else { Next::More };
        Ok(Step { consumed: len, produced: 2 * len, next })
    }
}

rewrite!(Hex);

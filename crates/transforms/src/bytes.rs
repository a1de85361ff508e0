//! Transforms of single bytes, for any data.

use millstream_net::{Data, Entry, InPlace, Next, Rewrite, Size, Stage, State, Step, TransformError};
use millstream_sys::vector;

use crate::arguments;

/// `identity`
pub(crate) static IDENTITY: Entry = Entry {
    name: "identity",
    usage: "identity",
    summary: "the bytes as they are",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        Ok(Stage::in_place(State::Stateless, Identity).with_inverse("identity"))
    },
};

struct Identity;

impl InPlace for Identity {
    fn apply(&mut self, _offset: u64, _bytes: &mut [u8]) -> Result<(), TransformError> {
        Ok(())
    }
}

/// `increment [N]`
pub static INCREMENT: Entry = Entry {
    name: "increment",
    usage: "increment [N]",
    summary: "N added to each byte, modulo 256; 1 unless given",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let step = match arguments {
            [] => 1,
            _ => arguments::number("N", arguments::one("N", arguments)?, 0, 255)?,
        };
        let back: u8 = 0_u8.wrapping_sub(step);
        Ok(Stage::in_place(State::Stateless, Increment(step)).with_inverse(format!("increment {back}")))
    },
};

struct Increment(u8);

impl InPlace for Increment {
    fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        vector::each_byte(bytes, |byte| byte.wrapping_add(self.0));
        Ok(())
    }
}

/// `xor KEY`
pub(crate) static XOR: Entry = Entry {
    name: "xor",
    usage: "xor HEX",
    summary: "each byte combined with the bytes of a key, in turn, by exclusive or; hides nothing from an attacker",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let text = arguments::one("HEX", arguments)?;
        let key = crate::hex::decoded(text).filter(|key| !key.is_empty() && key.len() <= KEY_MAX);
        let key = key.ok_or_else(|| format!("a key is 1 to {KEY_MAX} bytes in hex, such as 5a, not '{text}'"))?;
        Ok(Stage::in_place(State::Positional, Xor::new(&key)).with_inverse(format!("xor {text}")))
    },
};

const KEY_MAX: usize = 64;

/// A block of repetitions of the key, long enough that few blocks end in the middle of a vector.
struct Xor {
    block: Vec<u8>,
}

impl Xor {
    fn new(key: &[u8]) -> Xor {
        Xor { block: key.iter().copied().cycle().take(key.len() * 1024).collect() }
    }
}

impl InPlace for Xor {
    fn apply(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        // Less than the length of the block, which is a `usize`.
        let start = (offset % self.block.len() as u64) as usize;
        let (first, rest) = bytes.split_at_mut(bytes.len().min(self.block.len() - start));
        let combine = |bytes: &mut [u8], key: &[u8]| bytes.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        combine(first, &self.block[start..]);
        rest.chunks_mut(self.block.len()).for_each(|piece| combine(piece, &self.block));
        Ok(())
    }
}

/// `swab`
pub(crate) static SWAB: Entry = Entry {
    name: "swab",
    usage: "swab",
    summary: "the two bytes of each pair exchanged; a last one without a partner stays",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        Ok(Stage::rewrite(Size::Same, Swab::default()).with_inverse("swab"))
    },
};

/// It does not work in place: the second byte of a pair may not have come yet.
#[derive(Default)]
struct Swab {
    first: Option<u8>,
}

impl Rewrite for Swab {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        if let (Some(first), Some(&second)) = (self.first, input.first()) {
            output[..2].copy_from_slice(&[second, first]);
            self.first = None;
            (consumed, produced) = (1, 2);
        }
        let len = (input.len() - consumed).min(output.len() - produced) & !1;
        let pairs = input[consumed..consumed + len].chunks_exact(2);
        for (to, from) in output[produced..produced + len].chunks_exact_mut(2).zip(pairs) {
            to.copy_from_slice(&[from[1], from[0]]);
        }
        (consumed, produced) = (consumed + len, produced + len);
        if let &[last] = &input[consumed..] {
            self.first = Some(last);
            consumed += 1;
        }
        let is_all = ends && consumed == input.len() && produced < output.len();
        if let Some(last) = self.first.filter(|_| is_all) {
            output[produced] = last;
            produced += 1;
        }
        Ok(Step { consumed, produced, next: if is_all { Next::Done } else { Next::More } })
    }
}

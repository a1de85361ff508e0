//! Transforms that exchange single bytes by a table.

use millstream_net::{Data, Entry, InPlace, Stage, State, TransformError};
use millstream_sys::vector;

use crate::arguments;

/// An exchange without a table, for which the compiler emits vector instructions.
struct Formula<F>(F);

impl<F: Fn(u8) -> u8 + Send> InPlace for Formula<F> {
    fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        vector::each_byte(bytes, &self.0);
        Ok(())
    }
}

/// Whether a byte is one of the 26 from `first` on, by a subtraction and a comparison.
fn is_letter(first: u8, byte: u8) -> bool {
    byte.wrapping_sub(first) < 26
}

/// A byte for each byte.
struct Table([u8; 256]);

impl InPlace for Table {
    fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), TransformError> {
        bytes.iter_mut().for_each(|byte| *byte = self.0[usize::from(*byte)]);
        Ok(())
    }
}

impl Table {
    fn of(exchange: impl Fn(u8) -> u8) -> Table {
        Table(std::array::from_fn(|byte| exchange(byte.to_le_bytes()[0])))
    }
}

/// `rot13`
pub(crate) static ROT13: Entry = Entry {
    name: "rot13",
    usage: "rot13",
    summary: "Latin letters moved by 13 places",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        Ok(Stage::in_place(State::Stateless, Formula(rot13)).with_inverse("rot13"))
    },
};

fn rot13(byte: u8) -> u8 {
    // Small letters, and what may be one if it is a large letter.
    let small = byte | 0x20;
    let by = if small < b'n' { 13 } else { 0_u8.wrapping_sub(13) };
    byte.wrapping_add(if is_letter(b'a', small) { by } else { 0 })
}

/// `upper`
pub(crate) static UPPER: Entry = Entry {
    name: "upper",
    usage: "upper",
    summary: "the letters a to z made A to Z; no other alphabets",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        Ok(Stage::in_place(State::Stateless, Formula(|byte| byte ^ (u8::from(is_letter(b'a', byte)) << 5))))
    },
};

/// `lower`
pub(crate) static LOWER: Entry = Entry {
    name: "lower",
    usage: "lower",
    summary: "the letters A to Z made a to z; no other alphabets",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        Ok(Stage::in_place(State::Stateless, Formula(|byte| byte ^ (u8::from(is_letter(b'A', byte)) << 5))))
    },
};

/// `tr FROM TO`
pub(crate) static TR: Entry = Entry {
    name: "tr",
    usage: r"tr FROM TO, with ranges such as a-z and the escapes \n \t \r \0 \\",
    summary: "each byte of FROM exchanged for the one at its place in TO, whose last stands for all that are missing",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let [from, to] = arguments else { return Err("FROM and TO are needed".into()) };
        let (from, to) = (set(from)?, set(to)?);
        let last = *to.last().ok_or("TO is empty")?;
        let mut table = Table::of(|byte| byte);
        for (place, &byte) in from.iter().enumerate() {
            table.0[usize::from(byte)] = to.get(place).copied().unwrap_or(last);
        }
        let stage = Stage::in_place(State::Stateless, table);
        Ok(match is_one_to_one(&from, &to) {
            true => stage.with_inverse(format!("tr {} {}", quoted(&arguments[1]), quoted(&arguments[0]))),
            false => stage,
        })
    },
};

fn quoted(word: &str) -> String {
    millstream_net::words::quoted(word)
}

/// Whether the exchange is a permutation of some bytes: then it has an inverse.
fn is_one_to_one(from: &[u8], to: &[u8]) -> bool {
    let sorted = |set: &[u8]| {
        let mut set = set.to_vec();
        set.sort_unstable();
        set
    };
    let (from, to) = (sorted(from), sorted(to));
    from == to && from.windows(2).all(|pair| pair[0] != pair[1])
}

/// The bytes that a set such as `a-z\n` means.
fn set(text: &str) -> Result<Vec<u8>, String> {
    let mut letters = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        letters.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => (b'\n', false),
                Some(b't') => (b'\t', false),
                Some(b'r') => (b'\r', false),
                Some(b'0') => (0, false),
                Some(other) => (other, false),
                None => return Err(format!("nothing follows the last \\ in '{text}'")),
            },
            b'-' => (b'-', true),
            other => (other, false),
        });
    }
    let (mut set, mut place) = (Vec::new(), 0);
    while let Some(&(first, _)) = letters.get(place) {
        match (letters.get(place + 1), letters.get(place + 2)) {
            (Some((_, true)), Some(&(last, _))) if last < first => {
                return Err(format!("the range in '{text}' goes backwards"));
            }
            (Some((_, true)), Some(&(last, _))) => {
                set.extend(first..=last);
                place += 3;
            }
            _ => {
                set.push(first);
                place += 1;
            }
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_right_for_every_byte() {
        let made = |entry: &Entry| {
            let stage = (entry.build)(&[]).unwrap();
            let mut all: Vec<u8> = (0..=255).collect();
            let millstream_net::Kind::InPlace(_, mut transform) = stage.kind else { panic!("not in place") };
            transform.apply(0, &mut all).unwrap();
            all
        };
        let expected = |exchange: fn(u8) -> u8| (0..=255).map(exchange).collect::<Vec<u8>>();
        assert_eq!(made(&UPPER), expected(|byte| byte.to_ascii_uppercase()));
        assert_eq!(made(&LOWER), expected(|byte| byte.to_ascii_lowercase()));
        let moved = |byte: u8, first: u8| first + (byte - first + 13) % 26;
        assert_eq!(
            made(&ROT13),
            (0..=255)
                .map(|byte: u8| match byte {
                    b'a'..=b'z' => moved(byte, b'a'),
                    b'A'..=b'Z' => moved(byte, b'A'),
                    other => other,
                })
                .collect::<Vec<u8>>()
        );
    }

    #[test]
    fn sets_are_those_of_tr() {
        for (text, bytes) in [("a-e", "abcde"), (r"-a\-c-", "-a-c-"), (r"\n\t\\", "\n\t\\"), ("a-", "a-"), ("", "")] {
            assert_eq!(set(text).unwrap(), bytes.as_bytes(), "{text}");
        }
    }

    #[test]
    fn descending_range_is_refused() {
        assert!(set("z-a").is_err() && set("a\\").is_err());
    }

    #[test]
    fn only_an_exchange_among_the_same_bytes_can_be_undone() {
        let inverse = |arguments: [&str; 2]| (TR.build)(&arguments.map(String::from)).unwrap().inverse;
        assert_eq!(inverse(["ab", "ba"]).as_deref(), Some("tr ba ab"));
        assert_eq!(inverse(["ab", "cd"]), None);
        assert_eq!(inverse(["ab", "b"]), None);
    }
}

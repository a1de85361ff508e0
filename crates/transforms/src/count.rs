//! How much has come.

use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;
use crate::pending::Pending;

/// `count`
pub(crate) static COUNT: Entry = Entry {
    name: "count",
    usage: "count [-l | -w | -c]",
    summary: "in place of the stream, how many line ends, words and bytes it has, as wc(1) counts them; or only one of them",
    takes: Data::Any,
    gives: Data::Text,
    build: |arguments| {
        let shown = match arguments {
            [] => Shown::All,
            [option] if option == "-l" => Shown::Lines,
            [option] if option == "-w" => Shown::Words,
            [option] if option == "-c" => Shown::Bytes,
            _ => {
                arguments::one("an option", arguments)?;
                return Err(format!("'{}' is no option of count", arguments[0]));
            }
        };
        Ok(Stage::rewrite(Size::Unknown, Count { shown, lines: 0, words: 0, bytes: 0, is_in_word: false, told: None }))
    },
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    All,
    Lines,
    Words,
    Bytes,
}

struct Count {
    shown: Shown,
    lines: u64,
    words: u64,
    bytes: u64,
    is_in_word: bool,
    told: Option<Pending>,
}

impl Rewrite for Count {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        self.bytes += input.len() as u64;
        if matches!(self.shown, Shown::All | Shown::Lines) {
            self.lines += memchr::memchr_iter(b'\n', input).count() as u64;
        }
        if matches!(self.shown, Shown::All | Shown::Words) {
            for &byte in input {
                let is_in_word = !byte.is_ascii_whitespace() && byte != 0x0b;
                self.words += u64::from(is_in_word && !self.is_in_word);
                self.is_in_word = is_in_word;
            }
        }
        if !ends {
            return Ok(Step { consumed: input.len(), produced: 0, next: Next::More });
        }
        let Count { lines, words, bytes, shown, .. } = *self;
        let pending = self.told.get_or_insert_with(|| {
            let text = match shown {
                Shown::All => format!("{lines} {words} {bytes}\n"),
                Shown::Lines => format!("{lines}\n"),
                Shown::Words => format!("{words}\n"),
                Shown::Bytes => format!("{bytes}\n"),
            };
            let mut pending = Pending::default();
            pending.end().extend_from_slice(text.as_bytes());
            pending
        });
        let produced = pending.take(output);
        let next = if pending.is_empty() { Next::Done } else { Next::More };
        Ok(Step { consumed: input.len(), produced, next })
    }
}

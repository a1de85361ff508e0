//! Fields of lines.

use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;
use crate::lines::{Begun, MEMORY};
use crate::pending::Pending;

/// `cut`
pub(crate) static CUT: Entry = Entry {
    name: "cut",
    usage: "cut [-d C] -f LIST, such as -f 1,3-5,7-",
    summary: "these fields of each line, which a byte C (tab unless given) separates; a line without it passes whole",
    takes: Data::Text,
    gives: Data::Text,
    build: |arguments| {
        let (mut delimiter, mut fields) = (b'\t', None);
        let mut words = arguments.iter();
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("a value has to follow '{option}'"))?;
            match (option.as_str(), value.as_bytes()) {
                ("-d", &[byte]) => delimiter = byte,
                ("-d", _) => return Err(format!("what separates fields is one byte, not '{value}'")),
                ("-f", _) => fields = Some(list(value)?),
                _ => return Err(format!("'{option}' is no option of cut")),
            }
        }
        let fields = fields.ok_or("-f LIST is missing")?;
        let cut = Cut { delimiter, fields, begun: Begun::default(), pending: Pending::default() };
        Ok(Stage::rewrite(Size::Unknown, cut).keeping(MEMORY))
    },
};

/// Pairs of first and last field, counted from 1.
fn list(text: &str) -> Result<Vec<(usize, usize)>, String> {
    let number = |text: &str| arguments::number("a field", text, 1, usize::MAX);
    let range = |range: &str| match range.split_once('-') {
        None => number(range).map(|field| (field, field)),
        Some(("", last)) => Ok((1, number(last)?)),
        Some((first, "")) => Ok((number(first)?, usize::MAX)),
        Some((first, last)) => match (number(first)?, number(last)?) {
            (first, last) if first > last => Err(format!("'{range}' goes backwards")),
            both => Ok(both),
        },
    };
    text.split(',').map(range).collect()
}

struct Cut {
    delimiter: u8,
    fields: Vec<(usize, usize)>,
    begun: Begun,
    pending: Pending,
}

impl Cut {
    /// Appends the wanted fields of one line, which may lack its end, to the pending bytes.
    fn cut(&mut self, line: &[u8]) {
        let out = self.pending.end();
        // Exactly: the memory for a line of the largest length must not be doubled.
        out.reserve_exact(line.len() + 1);
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        if memchr::memchr(self.delimiter, text).is_none() {
            out.extend_from_slice(text);
        } else {
            let is_wanted = |field: usize| self.fields.iter().any(|&(first, last)| (first..=last).contains(&field));
            let mut is_first = true;
            for (place, field) in text.split(|&byte| byte == self.delimiter).enumerate() {
                if is_wanted(place + 1) {
                    if !is_first {
                        out.push(self.delimiter);
                    }
                    is_first = false;
                    out.extend_from_slice(field);
                }
            }
        }
        // As cut(1), it ends a last line too that has no end.
        out.push(b'\n');
    }

    /// The same for a line that came in several pieces.
    fn cut_begun(&mut self) {
        let mut line = std::mem::take(&mut self.begun.bytes);
        self.cut(&line);
        line.clear();
        self.begun.bytes = line;
    }
}

impl Rewrite for Cut {
    fn may_keep(&mut self, bytes: usize) {
        self.begun.may_keep(bytes);
    }

    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, self.pending.take(output));
        while self.pending.is_empty() && consumed < input.len() {
            let rest = &input[consumed..];
            let end = memchr::memchr(b'\n', rest).map(|end| end + 1);
            let piece = &rest[..end.unwrap_or(rest.len())];
            if end.is_some() && self.begun.bytes.is_empty() {
                self.cut(piece);
            } else {
                self.begun.push(piece).map_err(|fault| fault.after(consumed))?;
                if end.is_some() {
                    self.cut_begun();
                }
            }
            consumed += piece.len();
            produced += self.pending.take(&mut output[produced..]);
        }
        if ends && consumed == input.len() && self.pending.is_empty() && !self.begun.bytes.is_empty() {
            self.cut_begun();
            produced += self.pending.take(&mut output[produced..]);
        }
        let is_done = ends && consumed == input.len() && self.pending.is_empty() && self.begun.bytes.is_empty();
        Ok(Step { consumed, produced, next: if is_done { Next::Done } else { Next::More } })
    }
}

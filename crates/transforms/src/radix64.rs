//! base64 (RFC 4648), with padding.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream_net::{Data, Entry, Fault, Next, Rewrite, Size, Stage, Step};

use crate::arguments;

/// Letters that GNU and BSD put on a line.
const LINE: usize = 76;

/// `base64`
pub(crate) static BASE64: Entry = Entry {
    name: "base64",
    usage: "base64 [-w COLUMNS], 0 for a single line",
    summary: "three bytes as four letters, in lines of 76",
    takes: Data::Any,
    gives: Data::Format("base64"),
    build: |arguments| {
        let columns = match arguments {
            [] => LINE,
            [option, columns] if option == "-w" => arguments::number("COLUMNS", columns, 0, 1 << 16)?,
            _ => return Err("only -w COLUMNS can be said".into()),
        };
        Ok(Stage::rewrite(Size::Unknown, Encode { columns, ..Encode::default() }).undone_by("unbase64"))
    },
};

#[derive(Default)]
struct Encode {
    columns: usize,
    column: usize,
    /// Of a group of three that is not complete.
    begun: Vec<u8>,
    has_ended: bool,
    pending: crate::pending::Pending,
    letters: String,
}

/// Bytes that are encoded at once.
const PIECE: usize = 3 * 1024;

impl Encode {
    /// Puts letters into lines.
    fn lay_out(&mut self) {
        let mut letters = self.letters.as_bytes();
        let lines = self.pending.end();
        while !letters.is_empty() {
            let room = if self.columns == 0 { letters.len() } else { self.columns - self.column };
            let (now, later) = letters.split_at(room.min(letters.len()));
            lines.extend_from_slice(now);
            self.column += now.len();
            if self.column == self.columns {
                lines.push(b'\n');
                self.column = 0;
            }
            letters = later;
        }
        self.letters.clear();
    }
}

impl Rewrite for Encode {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
        let (mut consumed, mut produced) = (0, self.pending.take(output));
        while self.pending.is_empty() && produced < output.len() && consumed < input.len() {
            let piece = &input[consumed..input.len().min(consumed + PIECE)];
            consumed += piece.len();
            let mut piece = piece;
            if !self.begun.is_empty() {
                let (missing, rest) = piece.split_at(piece.len().min(3 - self.begun.len()));
                self.begun.extend_from_slice(missing);
                piece = rest;
                if self.begun.len() == 3 {
                    STANDARD.encode_string(&self.begun, &mut self.letters);
                    self.begun.clear();
                }
            }
            let (whole, begun) = piece.split_at(piece.len() / 3 * 3);
            STANDARD.encode_string(whole, &mut self.letters);
            self.begun.extend_from_slice(begun);
            self.lay_out();
            produced += self.pending.take(&mut output[produced..]);
        }
        if ends && consumed == input.len() && self.pending.is_empty() && !self.has_ended {
            self.has_ended = true;
            STANDARD.encode_string(&self.begun, &mut self.letters);
            self.lay_out();
            if self.columns > 0 && self.column > 0 {
                self.pending.end().push(b'\n');
            }
            produced += self.pending.take(&mut output[produced..]);
        }
        let next = if self.has_ended && self.pending.is_empty() { Next::Done } else { Next::More };
        Ok(Step { consumed, produced, next })
    }
}

/// `unbase64`
pub(crate) static UNBASE64: Entry = Entry {
    name: "unbase64",
    usage: "unbase64",
    summary: "the bytes that base64 stands for; line ends are left out",
    takes: Data::Format("base64"),
    gives: Data::Any,
    build: |arguments| {
        arguments::none(arguments)?;
        Ok(Stage::rewrite(Size::Unknown, Decode::default()).undone_by("base64"))
    },
};

#[derive(Default)]
struct Decode {
    /// Letters of groups that are not decoded yet.
    letters: Vec<u8>,
    has_padding: bool,
}

impl Rewrite for Decode {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, Fault> {
        let (mut consumed, mut produced) = (0, 0);
        // What three quarters of the letters come to has to fit.
        while consumed < input.len() && output.len() - produced >= PIECE + 3 {
            let piece = &input[consumed..input.len().min(consumed + PIECE / 3 * 4)];
            self.letters.extend(piece.iter().filter(|byte| !matches!(byte, b'\n' | b'\r')));
            let now = self.letters.len() / 4 * 4;
            produced += self.decode(now, &mut output[produced..]).map_err(|fault| fault.after(consumed))?;
            consumed += piece.len();
        }
        if ends && consumed == input.len() && !self.letters.is_empty() {
            return Err(Fault::new("the base64 text ends within a group of four letters").after(consumed));
        }
        Ok(Step { consumed, produced, next: if ends && consumed == input.len() { Next::Done } else { Next::More } })
    }
}

impl Decode {
    fn decode(&mut self, letters: usize, output: &mut [u8]) -> Result<usize, Fault> {
        if letters > 0 && self.has_padding {
            return Err(Fault::new("letters follow the padding of a base64 text"));
        }
        let group = &self.letters[..letters];
        let count = STANDARD.decode_slice(group, output).map_err(|error| Fault::new(format!("no base64: {error}")))?;
        self.has_padding |= group.contains(&b'=');
        self.letters.drain(..letters);
        Ok(count)
    }
}

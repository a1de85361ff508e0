//! base64 (RFC 4648), with padding.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, DecodeSliceError, Engine};
use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError};

use crate::arguments;

/// Letters of a line, as GNU and BSD write it.
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
        Ok(Stage::rewrite(Size::Unknown, Encode { columns, ..Encode::default() }).with_inverse("unbase64"))
    },
};

#[derive(Default)]
struct Encode {
    columns: usize,
    column: usize,
    /// The bytes of a group of three that is not complete.
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
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
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
        Ok(Stage::rewrite(Size::Unknown, Decode::default()).with_inverse("base64"))
    },
};

#[derive(Default)]
struct Decode {
    /// Letters of groups that are not decoded yet.
    letters: Vec<u8>,
    /// The positions in the stream of those that came before the current piece.
    places: Vec<u64>,
    has_padding: bool,
    /// Bytes of the stream before the current piece.
    offset: u64,
}

impl Rewrite for Decode {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        // Three quarters of the letters must fit into the output.
        while consumed < input.len() && output.len() - produced >= PIECE + 3 {
            let piece = &input[consumed..input.len().min(consumed + PIECE / 3 * 4)];
            self.letters.extend(piece.iter().copied().filter(is_letter));
            produced += self.decode(piece, &mut output[produced..])?;
            consumed += piece.len();
            self.offset += piece.len() as u64;
        }
        if ends && consumed == input.len() && !self.letters.is_empty() {
            return Err(TransformError::new("the base64 text ends within a group of four letters").at(self.offset));
        }
        Ok(Step { consumed, produced, next: if ends && consumed == input.len() { Next::Done } else { Next::More } })
    }
}

fn is_letter(byte: &u8) -> bool {
    !matches!(byte, b'\n' | b'\r')
}

impl Decode {
    /// Decodes the groups that are complete now.
    fn decode(&mut self, piece: &[u8], output: &mut [u8]) -> Result<usize, TransformError> {
        let whole = self.letters.len() / 4 * 4;
        let group = &self.letters[..whole];
        if whole > 0 && self.has_padding {
            return Err(TransformError::new("letters follow the padding of a base64 text").at(self.place_of(0, piece)));
        }
        let count = STANDARD.decode_slice(group, output).map_err(|error| {
            let (index, what) = what_is_wrong(group, &error);
            TransformError::new(format!("no base64: {what}")).at(self.place_of(index, piece))
        })?;
        self.has_padding |= group.contains(&b'=');
        self.places = (whole..self.letters.len()).map(|index| self.place_of(index, piece)).collect();
        self.letters.drain(..whole);
        Ok(count)
    }

    /// The position in the stream of a letter that is not decoded yet.
    fn place_of(&self, index: usize, piece: &[u8]) -> u64 {
        let in_piece = match index.checked_sub(self.places.len()) {
            None => return self.places[index],
            Some(in_piece) => in_piece,
        };
        // Counted from the end, where the letters that are not decoded yet are.
        let behind = self.letters.len() - self.places.len() - 1 - in_piece;
        let mut letters = piece.iter().enumerate().rev().filter(|(_, byte)| is_letter(byte));
        self.offset + letters.nth(behind).map_or(0, |(place, _)| place as u64)
    }
}

/// The index of the wrong letter, and the error.
fn what_is_wrong(group: &[u8], error: &DecodeSliceError) -> (usize, String) {
    let shown = |byte: u8| byte.escape_ascii();
    match *error {
        DecodeSliceError::DecodeError(DecodeError::InvalidByte(place, byte)) => {
            (place, format!("'{}' is no letter of it, or not at this place", shown(byte)))
        }
        DecodeSliceError::DecodeError(DecodeError::InvalidLastSymbol(place, byte)) => {
            (place, format!("'{}', its last letter, stands for more bits than there are", shown(byte)))
        }
        _ => (group.iter().position(|byte| *byte == b'=').unwrap_or(0), "its padding is wrong".into()),
    }
}

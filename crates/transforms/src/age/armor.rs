//! Armor, the age format as text: base64 in lines of 64 letters, between a line for the begin and one for the end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::read::Wrong;

const FIRST: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";
const LAST: &[u8] = b"-----END AGE ENCRYPTED FILE-----";

/// Letters of each line but the last.
const COLUMNS: usize = 64;

/// Bytes that a whole line encodes.
const BYTES: u64 = 48;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    First,
    Body,
    /// Behind a line that is not full.
    Last,
    Rest,
}

#[derive(Debug, Default)]
pub(super) struct Armor {
    part: Part,
    line: Vec<u8>,
    /// Where the current line begins, and where the first line of the body does.
    start: u64,
    body: u64,
    /// Bytes of a whole line of the body with its end.
    step: u64,
    decoded: Vec<u8>,
}

impl Armor {
    /// Takes bytes from the front of `input`, which is not empty, at most to the end of a line.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<usize, Wrong> {
        self.decoded.clear();
        let count = memchr::memchr(b'\n', input).map_or(input.len(), |end| end + 1);
        // A carriage return may stand before the end.
        if self.part != Part::Rest && self.line.len() + count > COLUMNS + 2 {
            return Err(Wrong::new("a line of the age armor is too long", self.start));
        }
        self.line.extend_from_slice(&input[..count]);
        if self.line.ends_with(b"\n") || self.part == Part::Rest {
            self.read()?;
            self.start += self.line.len() as u64;
            self.line.clear();
            if self.part == Part::Body && self.body == 0 {
                self.body = self.start;
            }
        }
        Ok(count)
    }

    /// The bytes that the last line encodes.
    pub(super) fn decoded(&self) -> &[u8] {
        &self.decoded
    }

    fn read(&mut self) -> Result<(), Wrong> {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let wrong = |what: &str| Err(Wrong::new(format!("the age armor is corrupt: {what}"), self.start));
        self.part = match self.part {
            Part::First if line == FIRST => Part::Body,
            Part::First => return wrong("it does not begin with -----BEGIN AGE ENCRYPTED FILE-----"),
            Part::Body | Part::Last if line == LAST => Part::Rest,
            Part::Body => {
                if line.len() == COLUMNS {
                    self.step = self.line.len() as u64;
                }
                match STANDARD.decode_vec(line, &mut self.decoded) {
                    Ok(()) if line.len() == COLUMNS && !line.ends_with(b"=") => Part::Body,
                    Ok(()) if !line.is_empty() && line.len() <= COLUMNS => Part::Last,
                    _ => return wrong("this line is no base64"),
                }
            }
            Part::Last => return wrong("a line follows one that is not full"),
            Part::Rest if line.iter().all(u8::is_ascii_whitespace) => Part::Rest,
            Part::Rest => return wrong("something follows its end"),
        };
        Ok(())
    }

    /// Ends the text. The last line may lack its end.
    pub(super) fn end(&self) -> Result<(), Wrong> {
        match self.part == Part::Rest || (self.part != Part::First && self.line == LAST) {
            true => Ok(()),
            false => {
                Err(Wrong::new("the age armor ends too early: it is truncated", self.start + self.line.len() as u64))
            }
        }
    }

    /// Converts a position in the binary file to the position in the text.
    pub(super) fn place_of(&self, wrong: Wrong) -> Wrong {
        Wrong { at: self.body + wrong.at / BYTES * self.step + wrong.at % BYTES / 3 * 4, ..wrong }
    }
}

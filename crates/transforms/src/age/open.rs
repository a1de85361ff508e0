//! Decryption. All output was authenticated: whole chunks, in order, up to the true end.

use millstream_net::{Next, Rewrite, Step, TransformError};

use super::armor::Armor;
use super::header::{INTRO, MARK};
use super::keys::Keys;
use super::payload::{CHUNK, NONCE, Payload, TAG};
use super::read::{self, Wrong};
use crate::pending::Pending;

/// The most bytes of a header: enough for thousands of recipients.
const HEADER_MAX: usize = 1 << 20;

pub(super) struct Decrypt {
    file: Open,
    armor: Option<Armor>,
    /// Whether a byte has come: the first one shows whether there is armor.
    is_begun: bool,
}

impl Decrypt {
    pub(super) fn new(keys: Keys, work_max: u8) -> Decrypt {
        let part = Part::Header { bytes: Vec::new(), line: 0 };
        let file = Open { keys, work_max, part, chunk: Vec::new(), start: 0, offset: 0, pending: Pending::default() };
        Decrypt { file, armor: None, is_begun: false }
    }

    /// Takes bytes from the front of `input`, which is not empty, at most until decrypted bytes are pending.
    fn take(&mut self, input: &[u8]) -> Result<usize, TransformError> {
        if !self.is_begun {
            self.is_begun = true;
            self.armor = (input[0] == b'-').then(Armor::default);
        }
        let Some(armor) = &mut self.armor else { return self.file.take(input).map_err(Wrong::into_fault) };
        let count = armor.take(input).map_err(Wrong::into_fault)?;
        let mut letters = armor.decoded();
        while !letters.is_empty() {
            let taken = self.file.take(letters).map_err(|wrong| armor.place_of(wrong).into_fault())?;
            letters = &letters[taken..];
        }
        Ok(count)
    }

    fn end(&mut self) -> Result<(), TransformError> {
        match &self.armor {
            None => self.file.end().map_err(Wrong::into_fault),
            Some(armor) => {
                armor.end().map_err(Wrong::into_fault)?;
                self.file.end().map_err(|wrong| armor.place_of(wrong).into_fault())
            }
        }
    }
}

impl Wrong {
    fn into_fault(self) -> TransformError {
        TransformError::new(self.what).at(self.at)
    }
}

impl Rewrite for Decrypt {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        loop {
            produced += self.file.pending.take(&mut output[produced..]);
            let rest = &input[consumed..];
            if !self.file.pending.is_empty() || (rest.is_empty() && !ends) {
                return Ok(Step { consumed, produced, next: Next::More });
            }
            if !rest.is_empty() {
                consumed += self.take(rest)?;
            } else if !self.file.has_ended() {
                self.end()?;
            } else {
                return Ok(Step { consumed, produced, next: Next::Done });
            }
        }
    }

    /// Each byte is copied into the chunk and out of it.
    fn copied(&self, step: &Step) -> usize {
        step.consumed + step.produced
    }
}

/// A file without armor.
struct Open {
    keys: Keys,
    work_max: u8,
    part: Part,
    chunk: Vec<u8>,
    /// Where the chunk begins, and how many bytes of the file were taken.
    start: u64,
    offset: u64,
    pending: Pending,
}

enum Part {
    /// `line`: where the last line begins.
    Header {
        bytes: Vec<u8>,
        line: usize,
    },
    Nonce(super::payload::FileKey),
    Chunks(Payload),
    /// The last chunk has come.
    Rest,
    End,
}

impl Open {
    fn has_ended(&self) -> bool {
        matches!(self.part, Part::End)
    }

    /// Takes bytes from the front of `input`, which is not empty, at most until decrypted bytes are pending.
    fn take(&mut self, input: &[u8]) -> Result<usize, Wrong> {
        let wanted = match &mut self.part {
            Part::Header { .. } => return self.take_header(input),
            Part::Nonce(_) => NONCE,
            Part::Chunks(_) => CHUNK + TAG,
            Part::Rest | Part::End => return Err(Wrong::new("bytes follow the end of the age file", self.offset)),
        };
        let count = input.len().min(wanted - self.chunk.len());
        self.chunk.extend_from_slice(&input[..count]);
        self.offset += count as u64;
        if self.chunk.len() == wanted {
            match &self.part {
                Part::Nonce(key) => {
                    let nonce = self.chunk.as_slice().try_into().expect("that many were wanted");
                    self.part = Part::Chunks(Payload::new(key, nonce));
                    self.chunk = Vec::with_capacity(CHUNK + TAG);
                    self.start = self.offset;
                }
                // A chunk of full length may be the last one too.
                _ => self.open(&[false, true])?,
            }
        }
        Ok(count)
    }

    fn take_header(&mut self, input: &[u8]) -> Result<usize, Wrong> {
        let Part::Header { bytes, line } = &mut self.part else { unreachable!("the header was not read") };
        let count = memchr::memchr(b'\n', input).map_or(input.len(), |end| end + 1);
        bytes.extend_from_slice(&input[..count]);
        self.offset += count as u64;
        let same = bytes.iter().zip(INTRO).take_while(|(found, expected)| found == expected).count();
        if same < bytes.len().min(INTRO.len()) {
            return Err(Wrong::new("this is no age file: it does not begin with age-encryption.org/v1", 0));
        }
        if bytes.len() > HEADER_MAX {
            return Err(Wrong::new(format!("the header of the age file is longer than {HEADER_MAX} bytes"), 0));
        }
        if bytes.ends_with(b"\n") {
            if bytes[*line..].starts_with(MARK) {
                self.part = Part::Nonce(read::key_of(bytes, &self.keys, self.work_max)?);
            } else {
                *line = bytes.len();
            }
        }
        Ok(count)
    }

    /// Decrypts the chunk, tried as the last one or not, in the order of `as_last`.
    fn open(&mut self, as_last: &[bool]) -> Result<(), Wrong> {
        let Part::Chunks(payload) = &mut self.part else { unreachable!("the payload has begun") };
        let is_first = payload.is_first();
        let Some(&is_last) = as_last.iter().find(|&&is_last| payload.open(&mut self.chunk, is_last)) else {
            return Err(Wrong::new("the age file is corrupt, in the chunk that begins here", self.start));
        };
        if self.chunk.is_empty() && !is_first {
            return Err(Wrong::new("the age file is corrupt: its last chunk is empty", self.start));
        }
        self.start = self.offset;
        std::mem::swap(self.pending.end(), &mut self.chunk);
        if is_last {
            self.part = Part::Rest;
        }
        Ok(())
    }

    /// Ends the file.
    fn end(&mut self) -> Result<(), Wrong> {
        let truncated = Wrong::new("the age file ends too early: it is truncated", self.offset);
        match &mut self.part {
            Part::Header { bytes, .. } if bytes.is_empty() => return Err(Wrong::new("the age file is empty", 0)),
            Part::Header { .. } | Part::Nonce(_) => return Err(truncated),
            // The file ends between two chunks, or before the tag of one is complete.
            Part::Chunks(_) if self.chunk.len() < TAG => return Err(truncated),
            Part::Chunks(_) => self.open(&[true]).map_err(|wrong| {
                Wrong::new(format!("{}, or it ends too early: the file is truncated", wrong.what), wrong.at)
            })?,
            Part::Rest | Part::End => {}
        }
        self.part = Part::End;
        Ok(())
    }
}

//! Converts text from one encoding to another.

mod charset;
mod decoded;
mod double;
mod table;
mod unicode;

use millstream_net::{Data, Entry, Next, Rewrite, Size, Stage, Step, TransformError, words};

use charset::Charset;
use decoded::Decoded;

/// `iconv`
pub(crate) static ICONV: Entry = Entry {
    name: "iconv",
    usage: "iconv FROM TO, such as iconv latin1 utf-8",
    summary: "text from one encoding in another, as iconv(1) does; an error at the first character that is wrong or missing there",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let [from, to] = arguments else { return Err("FROM and TO are needed".into()) };
        let iconv = Iconv::new(charset::named(from)?, charset::named(to)?);
        let stage = Stage::rewrite(Size::Unknown, iconv);
        // Text with a byte order mark gets ours, which may differ.
        Ok(match charset::is_marked(from) {
            true => stage,
            false => stage.with_inverse(format!("iconv {} {}", words::quoted(to), words::quoted(from))),
        })
    },
};

/// The most bytes of a character in any encoding, with a mark before it.
const CHARACTER_MAX: usize = 8;

struct Iconv {
    from: Charset,
    to: Charset,
    /// Bytes below 128 have the same meaning in both encodings.
    shares_ascii: bool,
    /// The beginning of a character.
    begun: Vec<u8>,
    /// Bytes of the stream before the current input.
    offset: u64,
}

impl Iconv {
    fn new(from: Charset, to: Charset) -> Iconv {
        let shares_ascii = from.has_ascii() && to.has_ascii();
        Iconv { from, to, shares_ascii, begun: Vec::with_capacity(CHARACTER_MAX), offset: 0 }
    }

    /// The next character, and how many bytes of `input` it has; its first bytes may have come earlier.
    fn decode(&mut self, input: &[u8]) -> (Decoded, usize) {
        if self.begun.is_empty() {
            let decoded = self.from.decode(input);
            let len = decoded.len().unwrap_or(input.len());
            return (decoded, len);
        }
        let before = self.begun.len();
        let more = input.len().min(CHARACTER_MAX - before);
        self.begun.extend_from_slice(&input[..more]);
        let decoded = self.from.decode(&self.begun);
        match decoded.len() {
            Some(len) => {
                self.begun.clear();
                (decoded, len - before)
            }
            None => {
                self.begun.truncate(before);
                (decoded, more)
            }
        }
    }
}

impl Rewrite for Iconv {
    fn step(&mut self, input: &[u8], output: &mut [u8], ends: bool) -> Result<Step, TransformError> {
        let (mut consumed, mut produced) = (0, 0);
        while consumed < input.len() && output.len() - produced >= 2 * CHARACTER_MAX {
            if self.shares_ascii && self.begun.is_empty() {
                let count = copy_ascii(&input[consumed..], &mut output[produced..]);
                (consumed, produced) = (consumed + count, produced + count);
                if consumed == input.len() || output.len() - produced < 2 * CHARACTER_MAX {
                    break;
                }
            }
            let at = self.offset + consumed as u64 - self.begun.len() as u64;
            let (decoded, len) = self.decode(&input[consumed..]);
            match decoded {
                Decoded::Characters(characters, _) => {
                    for character in characters.into_iter().flatten() {
                        let written = self.to.encode(character, &mut output[produced..]);
                        produced += written.ok_or_else(|| self.missing(character).at(at))?;
                    }
                }
                Decoded::Begun => self.begun.extend_from_slice(&input[consumed..consumed + len]),
                Decoded::Wrong => {
                    let what = format!("no {}: byte 0x{:02x}", self.from.name(), self.byte_at(input, consumed));
                    return Err(TransformError::new(what).at(at));
                }
            }
            consumed += len;
        }
        self.offset += consumed as u64;
        if !(ends && consumed == input.len()) {
            return Ok(Step { consumed, produced, next: Next::More });
        }
        if self.begun.is_empty() {
            return Ok(Step { consumed, produced, next: Next::Done });
        }
        Err(TransformError::new("the text ends within a character").at(self.offset - self.begun.len() as u64))
    }
}

impl Iconv {
    fn missing(&self, character: char) -> TransformError {
        let (code, name) = (u32::from(character), self.to.name());
        TransformError::new(format!("{name} has no '{}' (U+{code:04X})", character.escape_debug()))
    }

    /// The first byte of the character that is being read.
    fn byte_at(&self, input: &[u8], consumed: usize) -> u8 {
        self.begun.first().copied().unwrap_or(input[consumed])
    }
}

/// Copies leading bytes below 128, as many as fit. Returns how many.
fn copy_ascii(input: &[u8], output: &mut [u8]) -> usize {
    let len = input.len().min(output.len());
    // In pieces of 64, because `is_ascii` checks many bytes at once.
    let whole = input[..len].chunks(64).take_while(|piece| piece.is_ascii()).map(<[u8]>::len).sum::<usize>();
    let rest = input[whole..len].iter().take_while(|byte| byte.is_ascii()).count();
    output[..whole + rest].copy_from_slice(&input[..whole + rest]);
    whole + rest
}

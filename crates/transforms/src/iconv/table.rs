//! Encodings with a byte for each character.

use super::decoded::Decoded;

pub(super) struct Table {
    decoded: Box<[Option<char>; 256]>,
    /// The characters above ASCII with their bytes, sorted by character.
    encoded: Vec<(char, u8)>,
}

impl Table {
    pub(super) fn of(character: impl Fn(u8) -> Option<char>) -> Table {
        let mut encoded: Vec<(char, u8)> =
            (0x80..=0xff).filter_map(|byte| character(byte).map(|character| (character, byte))).collect();
        encoded.sort_unstable();
        let decoded = std::array::from_fn(|byte| character(byte.to_le_bytes()[0]));
        Table { decoded: Box::new(decoded), encoded }
    }

    pub(super) fn decode(&self, byte: u8) -> Decoded {
        self.decoded[usize::from(byte)].map_or(Decoded::Wrong, |character| Decoded::one(character, 1))
    }

    pub(super) fn encode(&self, character: char) -> Option<u8> {
        if character.is_ascii() {
            return u8::try_from(character).ok();
        }
        let place = self.encoded.binary_search_by_key(&character, |(character, _)| *character).ok()?;
        Some(self.encoded[place].1)
    }
}

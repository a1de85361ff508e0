//! What an encoding finds at the beginning of some bytes.

/// The result of decoding the beginning of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// The characters that the first bytes encode, none for a byte order mark, and the number of these bytes.
    Characters([Option<char>; 2], usize),
    /// All bytes are the incomplete beginning of a character.
    Begun,
    /// The bytes encode no character.
    Wrong,
}

impl Decoded {
    pub(super) fn one(character: char, len: usize) -> Decoded {
        Decoded::Characters([Some(character), None], len)
    }

    /// The number of decoded bytes; `None` if none could be decoded.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Decoded::Characters(_, len) => Some(*len),
            Decoded::Begun | Decoded::Wrong => None,
        }
    }
}

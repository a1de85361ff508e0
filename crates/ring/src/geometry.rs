//! Where in the segment the ring lies and how large it is, in one word that is replaced in one store.

/// Smallest ring: one page, as for a kernel pipe.
pub const MIN_BYTES: usize = 1 << MIN_LOG2;

#[cfg(not(loom))]
const MIN_LOG2: u32 = 12;
/// A model checker needs small worlds: a ring of two bytes has every state that a large one has.
#[cfg(loom)]
const MIN_LOG2: u32 = 1;

/// A ring of a power of two bytes in one of two equal banks. To resize, the content is copied to the other bank and then
/// the word is replaced: a process that dies on the way leaves the old ring as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    bank: u32,
    log2: u32,
}

impl Geometry {
    /// A ring of `bytes`, a power of two of at least [`MIN_BYTES`], in bank 0; `None` for any other number.
    pub fn of(bytes: usize) -> Option<Geometry> {
        let is_possible = bytes.is_power_of_two() && (MIN_BYTES..=1 << 30).contains(&bytes);
        is_possible.then(|| Geometry { bank: 0, log2: bytes.trailing_zeros() })
    }

    /// What a word of the header says, if that is a ring within banks of `bank_bytes`.
    pub(crate) fn from_word(word: u32, bank_bytes: usize) -> Option<Geometry> {
        let geometry = Geometry { bank: word >> 8, log2: word & 0xff };
        let is_possible = geometry.bank <= 1 && (MIN_LOG2..=30).contains(&geometry.log2);
        (is_possible && geometry.bytes() <= bank_bytes).then_some(geometry)
    }

    pub(crate) fn word(self) -> u32 {
        self.bank << 8 | self.log2
    }

    /// Capacity in bytes.
    pub fn bytes(self) -> usize {
        1 << self.log2
    }

    /// 0 or 1.
    pub fn bank(self) -> usize {
        self.bank as usize
    }

    /// The same size in the other bank.
    pub(crate) fn in_other_bank(self, bytes: usize) -> Option<Geometry> {
        Some(Geometry { bank: 1 - self.bank, ..Geometry::of(bytes)? })
    }
}

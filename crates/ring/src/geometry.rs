//! The layout of the ring: where in the segment it lies and how large it is, in one word that one store replaces.

/// Smallest ring: one page, as for a kernel pipe.
pub const MIN_BYTES: usize = 1 << MIN_LOG2;

#[cfg(not(loom))]
const MIN_LOG2: u32 = 12;
/// A model checker needs a small state space: a ring of two bytes has every state that a large one has.
#[cfg(loom)]
const MIN_LOG2: u32 = 1;

/// A ring of a power of two bytes in one of two equal banks. To resize it, a process copies the content to the other
/// bank, the back buffer, and then replaces the word. A process that dies in between leaves the old ring as it was.
///
/// ```text
/// bits   0-7    log2 of the bytes
///          8    the bank
///       9-38    the base: which byte of the stream lies at the start of the bank
///      39-63    the epoch: how often the pages of the ring have been freed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    bank: u32,
    log2: u32,
    base: u32,
    epoch: u32,
}

const BASE_SHIFT: u32 = 9;
const EPOCH_SHIFT: u32 = 39;
const BASE: u32 = (1 << (EPOCH_SHIFT - BASE_SHIFT)) - 1;
const EPOCH: u32 = (1 << (64 - EPOCH_SHIFT)) - 1;

/// Bytes of a bank, from its start, that a process is about to touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// 0 or 1.
    pub bank: usize,
    /// Bytes.
    pub len: usize,
    /// A process that has seen these pages in another epoch must not rely on them: they may have been freed since.
    pub epoch: u32,
}

impl Geometry {
    /// A ring of `bytes`, a power of two of at least [`MIN_BYTES`], in bank 0; `None` for any other number.
    pub fn of(bytes: usize) -> Option<Geometry> {
        let is_possible = bytes.is_power_of_two() && (MIN_BYTES..=1 << 30).contains(&bytes);
        is_possible.then(|| Geometry { bank: 0, log2: bytes.trailing_zeros(), base: 0, epoch: 0 })
    }

    /// The layout in a word of the header, if that is a ring within banks of `bank_bytes`.
    #[inline]
    pub(crate) fn from_word(word: u64, bank_bytes: usize) -> Option<Geometry> {
        let low = word as u32;
        let geometry = Geometry {
            bank: low >> 8 & 1,
            log2: low & 0xff,
            base: (word >> BASE_SHIFT) as u32 & BASE,
            epoch: (word >> EPOCH_SHIFT) as u32,
        };
        let is_possible = (MIN_LOG2..=30).contains(&geometry.log2) && geometry.bytes() <= bank_bytes;
        is_possible.then_some(geometry)
    }

    pub(crate) fn word(self) -> u64 {
        u64::from(self.epoch) << EPOCH_SHIFT
            | u64::from(self.base) << BASE_SHIFT
            | u64::from(self.bank << 8 | self.log2)
    }

    /// Capacity in bytes.
    #[inline]
    pub fn bytes(self) -> usize {
        1 << self.log2
    }

    /// 0 or 1.
    #[inline]
    pub fn bank(self) -> usize {
        self.bank as usize
    }

    /// Where in its bank the byte at `position` of the stream lies.
    #[inline]
    pub(crate) fn offset(self, position: u64) -> usize {
        // The mask makes the truncation harmless, and keeps every position inside the ring, whatever the word says.
        (position as usize).wrapping_sub(self.base as usize) & (self.bytes() - 1)
    }

    /// The first `len` bytes of the bank.
    #[inline]
    pub(crate) fn extent(self, len: usize) -> Extent {
        Extent { bank: self.bank(), len, epoch: self.epoch }
    }

    /// The first `len` bytes of the other bank.
    #[inline]
    pub(crate) fn extent_beside(self, len: usize) -> Extent {
        Extent { bank: 1 - self.bank(), len, epoch: self.epoch }
    }

    /// A ring of that many bytes in the other bank.
    pub(crate) fn in_other_bank(self, bytes: usize) -> Option<Geometry> {
        Some(Geometry { bank: 1 - self.bank, epoch: self.epoch, ..Geometry::of(bytes)? })
    }

    /// The same ring without its pages. The page of `position` becomes the first, so that the next bytes need one page,
    /// and not all those before it.
    pub(crate) fn without_pages(self, position: u64) -> Geometry {
        let base = position as usize & (self.bytes() - 1) & !(MIN_BYTES - 1);
        Geometry { base: base as u32, epoch: self.epoch.wrapping_add(1) & EPOCH, ..self }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn layout_survives_the_way_through_a_word() {
        for bytes in [4096, MIB, 1 << 30] {
            let ring = Geometry::of(bytes).unwrap();
            let without_pages = ring.without_pages(5000).in_other_bank(bytes).unwrap();
            for geometry in [ring, ring.without_pages(u64::MAX), without_pages] {
                assert_eq!(Geometry::from_word(geometry.word(), 1 << 30), Some(geometry));
            }
        }
    }

    #[test]
    fn ring_without_pages_begins_at_the_page_of_the_position() {
        let ring = Geometry::of(MIB).unwrap();
        assert_eq!(ring.offset(3 * 4096 + 5), 3 * 4096 + 5);
        let moved = ring.without_pages(7 * MIB as u64 + 3 * 4096 + 5);
        assert_eq!(moved.offset(7 * MIB as u64 + 3 * 4096 + 5), 5);
        assert_eq!(moved.offset(8 * MIB as u64 + 3 * 4096 - 1), MIB - 1, "the last byte before it comes round");
        assert_eq!(moved.extent(1), Extent { bank: 0, len: 1, epoch: 1 });
    }

    #[test]
    fn no_word_leads_out_of_the_bank() {
        let words = (0..64).flat_map(|bit| [1 << bit, !(1 << bit), u64::MAX << bit]);
        for geometry in words.filter_map(|word| Geometry::from_word(word, MIB)) {
            assert!(geometry.bytes() <= MIB && geometry.bank() <= 1);
            assert!([0, 1, u64::MAX, 1 << 40].iter().all(|&position| geometry.offset(position) < geometry.bytes()));
        }
    }
}

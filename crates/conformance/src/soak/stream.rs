//! What goes through the pipes of a soak: streams whose every byte says which pipe, which writer and which position it
//! belongs to.
//!
//! ```text
//! one writer, one reader     b(0) b(1) b(2) ...                         b: the stream of this life and writer
//! several writers            ww bbbbbb, ww bbbbbb, ...                  each byte names its writer in two bits
//! several readers            [unit's number, 8][b, 56] [..][..] ...     each unit of 64 says where it belongs
//! ```
//!
//! A reader that has the stream for itself checks each byte against its position. Writers may mix their bytes as they
//! like, so each byte names its writer, and what comes of each must be its stream in order. Readers may share the bytes
//! as they like, so each unit names its position; all of them read and write whole units.

use super::cast::Cast;

/// What several readers share a stream by.
pub(super) const UNIT: usize = 64;

/// The bytes of one writer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    origin: u64,
    writer: u8,
    cast: Cast,
}

impl Stream {
    pub(super) fn of(life: u64, writer: usize, cast: Cast) -> Stream {
        Stream { origin: mixed(mixed(life) + writer as u64), writer: writer as u8, cast }
    }

    /// Fills `bytes` with the stream from `position` on.
    pub(super) fn fill(&self, position: u64, bytes: &mut [u8]) {
        match self.cast {
            Cast::Pair => self.fill_plain(position, bytes),
            Cast::Writers(_) => {
                self.fill_plain(position, bytes);
                bytes.iter_mut().for_each(|byte| *byte = (*byte & 0x3F) | (self.writer << 6));
            }
            Cast::Readers(_) => self.fill_units(position, bytes),
        }
    }

    /// The first position at which `bytes` are not the stream from `position` on.
    pub(super) fn first_difference(&self, position: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = [0; 4096];
        for (piece, seen) in bytes.chunks(expected.len()).enumerate() {
            let at = position + (piece * expected.len()) as u64;
            let expected = &mut expected[..seen.len()];
            self.fill(at, expected);
            if expected != seen {
                let index = expected.iter().zip(seen).position(|(expected, seen)| expected != seen);
                return index.map(|index| at + index as u64);
            }
        }
        None
    }

    fn fill_plain(&self, position: u64, bytes: &mut [u8]) {
        let (mut index, skipped) = (position / 8, (position % 8) as usize);
        let (head, words) = bytes.split_at_mut(((8 - skipped) % 8).min(bytes.len()));
        if !head.is_empty() {
            head.copy_from_slice(&self.word(index)[skipped..][..head.len()]);
            index += 1;
        }
        for (index, word) in (index..).zip(words.chunks_mut(8)) {
            word.copy_from_slice(&self.word(index)[..word.len()]);
        }
    }

    fn fill_units(&self, position: u64, mut bytes: &mut [u8]) {
        let (mut number, mut skipped) = (position / UNIT as u64, (position % UNIT as u64) as usize);
        while !bytes.is_empty() {
            let mut unit = [0; UNIT];
            self.fill_plain(number * UNIT as u64, &mut unit);
            unit[..8].copy_from_slice(&number.to_le_bytes());
            let (now, later) = bytes.split_at_mut((UNIT - skipped).min(bytes.len()));
            now.copy_from_slice(&unit[skipped..][..now.len()]);
            (bytes, number, skipped) = (later, number + 1, 0);
        }
    }

    fn word(&self, index: u64) -> [u8; 8] {
        mixed(self.origin.wrapping_add(index)).to_le_bytes()
    }
}

/// Which writer a byte names, where several write.
pub(super) fn writer_of(byte: u8) -> usize {
    usize::from(byte >> 6)
}

/// splitmix64 (Steele, Lea and Flood 2014): neighbours have nothing in common.
pub(super) fn mixed(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_stream_is_what_the_whole_has_there() {
        for cast in [Cast::Pair, Cast::Writers(3), Cast::Readers(2)] {
            let stream = Stream::of(7, 2, cast);
            let mut whole = [0; 1000];
            stream.fill(0, &mut whole);
            for (start, end) in [(0, 1), (1, 7), (5, 900), (64, 128), (63, 65), (999, 1000), (8, 8)] {
                let mut part = vec![0; end - start];
                stream.fill(start as u64, &mut part);
                assert!(part == whole[start..end], "{cast:?} {start} {end}");
                assert_eq!(stream.first_difference(start as u64, &part), None);
            }
        }
    }

    #[test]
    fn a_byte_that_is_not_the_stream_s_is_found() {
        let stream = Stream::of(7, 0, Cast::Pair);
        let mut bytes = vec![0; 10_000];
        stream.fill(5, &mut bytes);
        for index in [0, 4095, 4096, 9999] {
            bytes[index] ^= 1;
            assert_eq!(stream.first_difference(5, &bytes), Some(5 + index as u64));
            bytes[index] ^= 1;
        }
        let foreign = Stream::of(8, 0, Cast::Pair);
        assert!(foreign.first_difference(5, &bytes).is_some_and(|at| at < 10));
    }
}

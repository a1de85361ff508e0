//! Bytes that tell their position: one that was lost, repeated, swapped or left over from before is noticed.

use crate::random::Random;

/// Writes the bytes of `position..position + bytes.len()`.
pub fn fill(position: u64, bytes: &mut [u8]) {
    let mut rest = bytes;
    let mut at = position;
    while !rest.is_empty() {
        let (word, from) = word(at);
        let count = rest.len().min(8 - from);
        let (now, later) = rest.split_at_mut(count);
        now.copy_from_slice(&word[from..from + count]);
        at += now.len() as u64;
        rest = later;
    }
}

/// The first position whose byte in `bytes`, which starts at `position`, is another than [`fill`] writes.
pub fn first_difference(position: u64, bytes: &[u8]) -> Option<u64> {
    let mut rest = bytes;
    let mut at = position;
    while !rest.is_empty() {
        let (word, from) = word(at);
        let (now, later) = rest.split_at(rest.len().min(8 - from));
        if let Some(index) = now.iter().zip(&word[from..]).position(|(seen, wanted)| seen != wanted) {
            return Some(at + index as u64);
        }
        at += now.len() as u64;
        rest = later;
    }
    None
}

/// The eight bytes around a position, and which of them it is.
fn word(position: u64) -> ([u8; 8], usize) {
    (Random(position / 8).word().to_le_bytes(), (position % 8) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_the_same_as_in_the_whole() {
        let mut whole = [0; 100];
        fill(1000, &mut whole);
        for (from, to) in [(0, 100), (1, 9), (3, 5), (7, 64), (99, 100), (50, 50)] {
            let mut part = vec![0; to - from];
            fill(1000 + from as u64, &mut part);
            assert_eq!(part, whole[from..to]);
            assert_eq!(first_difference(1000 + from as u64, &part), None);
        }
    }

    #[test]
    fn a_byte_that_is_off_by_one_position_is_found() {
        let mut bytes = [0; 64];
        fill(0, &mut bytes);
        assert!(first_difference(1, &bytes).is_some());
        assert!(first_difference(512, &bytes).is_some());
        bytes[40] ^= 1;
        assert_eq!(first_difference(0, &bytes), Some(40));
    }
}

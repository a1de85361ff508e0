//! What the two ends do with the bytes besides moving them, and what the reader must have found afterwards.

use crate::pattern;

/// What writer and reader do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The writer writes one buffer that stays in its cache, and the reader looks at nothing: the pipe alone.
    Hot,
    /// The writer fills its buffer before each write, as a program that makes its bytes.
    Fresh,
    /// The reader adds up what it reads, as a program that uses its bytes; the writer's buffer is hot.
    Summed,
}

impl Workload {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Workload; 3] = [Workload::Hot, Workload::Fresh, Workload::Summed];

    /// The name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Hot => "hot",
            Workload::Fresh => "fresh",
            Workload::Summed => "summed",
        }
    }

    /// Whether a timed pass brought what it should have, by its last bytes and its sum.
    ///
    /// # Errors
    /// A sentence: what was wrong.
    pub(super) fn verify(self, timed: &Timed<'_>) -> Result<(), String> {
        let offset = timed.bytes - timed.last.len() as u64;
        let is_right = |(index, &byte): (usize, &u8)| {
            let at = offset + index as u64;
            let (transfer, within) = (at / timed.transfer as u64, at % timed.transfer as u64);
            byte == if self == Workload::Fresh { fresh_byte(transfer) } else { timed.hot[within as usize] }
        };
        if let Some(wrong) = timed.last.iter().enumerate().position(|byte| !is_right(byte)) {
            return Err(format!("byte {wrong} of the last that were read is wrong"));
        }
        let wanted = match self {
            Workload::Summed => sum_of_hot(timed),
            Workload::Hot | Workload::Fresh => 0,
        };
        match timed.sum == wanted {
            true => Ok(()),
            false => Err(format!("the sum of what was read is {:#x} instead of {wanted:#x}", timed.sum)),
        }
    }
}

/// A hot buffer's bytes.
pub(super) fn fill_hot(buffer: &mut [u8]) {
    pattern::fill(0, buffer);
}

/// What fills the buffer of a timed pass before its transfer of that number.
pub(super) fn fresh_byte(transfer: u64) -> u8 {
    // Odd, so that neighbours differ in most bits and 256 of them in all.
    (transfer as u8).wrapping_mul(157).wrapping_add(1)
}

/// What a reader has seen of a timed pass.
pub(super) struct Timed<'a> {
    /// How long a transfer is.
    pub(super) transfer: usize,
    /// What a hot buffer holds.
    pub(super) hot: &'a [u8],
    /// How many bytes.
    pub(super) bytes: u64,
    /// The last of them.
    pub(super) last: &'a [u8],
    /// As [`sum`] adds up, from position 0 at the beginning of the pass; 0 where nothing was added up.
    pub(super) sum: u64,
}

/// The sum of words of eight bytes, of which the first begins at position 0; `bytes` begin at `position`. Sums of
/// neighbours add up to that of both, wherever they are cut.
pub(super) fn sum(position: u64, bytes: &[u8]) -> u64 {
    let shifted = |from: u64, bytes: &[u8]| {
        bytes.iter().zip(from..).fold(0_u64, |sum, (&byte, at)| sum.wrapping_add(u64::from(byte) << (8 * (at % 8))))
    };
    let (head, aligned) = bytes.split_at(bytes.len().min((position.wrapping_neg() % 8) as usize));
    let (words, tail) = aligned.as_chunks::<8>();
    let middle = words.iter().fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    shifted(position, head).wrapping_add(middle).wrapping_add(shifted(0, tail))
}

/// Of the hot buffer, written again and again.
fn sum_of_hot(timed: &Timed<'_>) -> u64 {
    let transfers = timed.bytes / timed.transfer as u64;
    let by_phase: Vec<u64> = (0..8).map(|phase| sum(phase, timed.hot)).collect();
    (0..transfers).fold(0, |all, transfer| all.wrapping_add(by_phase[(transfer * timed.transfer as u64 % 8) as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_where_they_are_cut() {
        let mut bytes = vec![0; 1000];
        pattern::fill(0, &mut bytes);
        let whole = sum(0, &bytes);
        for cut in [0, 1, 7, 8, 9, 500, 999] {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(sum(0, head).wrapping_add(sum(cut as u64, tail)), whole, "{cut}");
        }
    }

    #[test]
    fn a_sum_that_is_off_by_one_bit_is_noticed() {
        for transfer in [8, 13] {
            let mut hot = vec![0; transfer];
            fill_hot(&mut hot);
            let stream = hot.repeat(5);
            let timed = |sum| Timed { transfer, hot: &hot, bytes: stream.len() as u64, last: &stream[3..], sum };
            let right = sum(0, &stream);
            assert_eq!(Workload::Summed.verify(&timed(right)), Ok(()));
            assert!(Workload::Summed.verify(&timed(right ^ 4)).unwrap_err().contains("the sum of what was read"));
        }
    }

    #[test]
    fn a_stale_byte_among_the_last_is_noticed() {
        let stream: Vec<u8> = (0..5).flat_map(|transfer| [fresh_byte(transfer); 10]).collect();
        let mut last = stream[35..].to_vec();
        let verified =
            |last: &[u8]| Workload::Fresh.verify(&Timed { transfer: 10, hot: &[0; 10], bytes: 50, last, sum: 0 });
        assert_eq!(verified(&last), Ok(()));
        last[7] = fresh_byte(3);
        assert!(verified(&last).unwrap_err().contains("byte 7"));
    }
}

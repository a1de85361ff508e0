//! Random numbers for resampling, for the order of runs and for bytes that tell their position.

/// SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014): enough for
/// resampling and for shuffling the order of runs.
pub struct Random(
    /// The seed.
    pub u64,
);

impl Random {
    /// Any number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..limit`, which must not be 0. The bias is below `limit` / 2^64.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.word()) * limit as u128) >> 64) as usize
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_every_item_and_reaches_every_order() {
        let mut random = Random(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut items = [1, 2, 3];
            random.shuffle(&mut items);
            seen.insert(items);
        }
        assert_eq!(seen.len(), 6);
    }
}

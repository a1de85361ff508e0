//! Medians and how far they can be trusted.

/// Resamples for an interval. The error this adds to a 95 % bound is below a tenth of the interval's width (Efron and
/// Tibshirani, An Introduction to the Bootstrap, 1993, section 19.3, asks for 1000).
const RESAMPLES: usize = 2000;

/// The middle value, or the mean of the two in the middle; NaN without samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (len, middle) if len % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The 95 % percentile-bootstrap interval of the median.
pub fn median_interval(samples: &[f64]) -> [f64; 2] {
    bootstrap(samples.len(), |picks| median(&picked(samples, picks)))
}

/// `median(above) / median(below)` of samples that were taken in pairs, and its 95 % interval. Pairs are resampled
/// together, so a disturbance that hit both cancels.
///
/// # Panics
/// If the two are not equally many.
pub fn ratio_of_medians(above: &[f64], below: &[f64]) -> (f64, [f64; 2]) {
    assert_eq!(above.len(), below.len(), "samples come in pairs");
    let interval = bootstrap(above.len(), |picks| median(&picked(above, picks)) / median(&picked(below, picks)));
    (median(above) / median(below), interval)
}

fn picked(samples: &[f64], picks: &[usize]) -> Vec<f64> {
    picks.iter().map(|&pick| samples[pick]).collect()
}

/// The central 95 % of `statistic` over resamples of `len` samples with replacement.
fn bootstrap(len: usize, statistic: impl Fn(&[usize]) -> f64) -> [f64; 2] {
    if len == 0 {
        return [f64::NAN; 2];
    }
    // The same seed each time: the same samples give the same interval.
    let mut random = Random(0x6d69_6c6c_7374_7265);
    let mut values: Vec<f64> =
        (0..RESAMPLES).map(|_| statistic(&(0..len).map(|_| random.below(len)).collect::<Vec<_>>())).collect();
    values.sort_by(f64::total_cmp);
    [values[RESAMPLES * 25 / 1000], values[RESAMPLES * 975 / 1000 - 1]]
}

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
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_interval_of_a_constant_is_a_point() {
        assert_eq!(median_interval(&[5.0; 20]), [5.0, 5.0]);
    }

    /// The exact distribution-free interval of the median of 1..=25 by order statistics is [8, 18] at 95.7 %; the
    /// bootstrap must come close to it.
    #[test]
    fn the_interval_agrees_with_order_statistics() {
        let samples: Vec<f64> = (1..=25).map(f64::from).collect();
        let [low, high] = median_interval(&samples);
        assert!((7.0..=9.0).contains(&low) && (17.0..=19.0).contains(&high), "[{low}, {high}]");
    }

    /// Coverage: of many samples of 21 from a known distribution, about 95 % of the intervals contain its median.
    #[test]
    fn ninety_five_intervals_of_a_hundred_hold_the_true_median() {
        let mut random = Random(7);
        let held = (0..200)
            .filter(|_| {
                let samples: Vec<f64> = (0..21).map(|_| random.below(1_000_000) as f64).collect();
                let [low, high] = median_interval(&samples);
                (low..=high).contains(&500_000.0)
            })
            .count();
        assert!((180..=199).contains(&held), "{held} of 200");
    }

    #[test]
    fn a_disturbance_of_both_halves_of_a_pair_leaves_the_ratio() {
        let slow: Vec<f64> = (0..21).map(|i| 20.0 * f64::from(1 + i % 5)).collect();
        let fast: Vec<f64> = slow.iter().map(|time| time / 2.0).collect();
        assert_eq!(ratio_of_medians(&slow, &fast), (2.0, [2.0, 2.0]));
    }

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

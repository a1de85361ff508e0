//! Medians, how far they can be trusted, and what they say.

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// Resamples for an interval. The error this adds to a 95 % bound is below a tenth of the interval's width (Efron and
/// Tibshirani, An Introduction to the Bootstrap, 1993, section 19.3, asks for 1000).
pub(crate) const RESAMPLES: usize = 2000;

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

/// The samples of one launch. What made a launch fast or slow as a whole (addresses, page colours, the scheduler's
/// history) is in all of them, so resampling takes or leaves them together.
pub type Cluster<'a> = &'a [f64];

/// The 95 % percentile-bootstrap interval of the median, by launch.
pub fn median_interval(launches: &[Cluster<'_>]) -> [f64; 2] {
    bootstrap(launches.len(), |picks| median(&picked(launches, picks)))
}

/// `median(above) / median(below)` of launches that were made in pairs, and its 95 % interval. Pairs are resampled
/// together, so a disturbance that hit both cancels.
///
/// # Panics
/// If the two are not equally many.
pub fn ratio_of_medians(above: &[Cluster<'_>], below: &[Cluster<'_>]) -> (f64, [f64; 2]) {
    assert_eq!(above.len(), below.len(), "launches come in pairs");
    let ratio = |picks: &[usize]| median(&picked(above, picks)) / median(&picked(below, picks));
    let all: Vec<usize> = (0..above.len()).collect();
    (ratio(&all), bootstrap(above.len(), ratio))
}

fn picked(launches: &[Cluster<'_>], picks: &[usize]) -> Vec<f64> {
    picks.iter().flat_map(|&pick| launches[pick]).copied().collect()
}

/// The central 95 % of `statistic` over resamples of `len` launches with replacement.
fn bootstrap(len: usize, statistic: impl Fn(&[usize]) -> f64) -> [f64; 2] {
    if len == 0 {
        return [f64::NAN; 2];
    }
    percentiles(RESAMPLES, |random| statistic(&(0..len).map(|_| random.below(len)).collect::<Vec<_>>()))
}

/// The central 95 % of what `resample` gives for `resamples` fresh resamples, of which there must be 40 at least.
pub(crate) fn percentiles(resamples: usize, mut resample: impl FnMut(&mut Random) -> f64) -> [f64; 2] {
    // The same seed each time: the same samples give the same interval.
    let mut random = Random(0x6d69_6c6c_7374_7265);
    let mut values: Vec<f64> = (0..resamples).map(|_| resample(&mut random)).collect();
    values.sort_by(f64::total_cmp);
    [values[resamples * 25 / 1000], values[resamples * 975 / 1000 - 1]]
}

/// What a difference must exceed to be worth a word: 3 %, of a ratio.
pub const MARGIN: f64 = 0.03;

/// A ratio whose interval reaches further from 1 than this is not "the same", however loud the noise is.
const RESOLUTION: f64 = 0.10;

/// What a ratio says, beyond the noise and [`MARGIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Faster.
    Better,
    /// Neither faster nor slower by more than the margin.
    Same,
    /// Slower.
    Worse,
    /// It cannot be told.
    Inconclusive,
}

impl std::fmt::Display for Verdict {
    /// The word of the JSON.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Verdict::Better => "better",
            Verdict::Same => "same",
            Verdict::Worse => "worse",
            Verdict::Inconclusive => "inconclusive",
        })
    }
}

/// What the interval of a ratio says, where that of the same thing against itself was `noise`.
pub fn verdict(ratio: [f64; 2], noise: Option<[f64; 2]>) -> Verdict {
    let [quiet_low, quiet_high] = noise.unwrap_or([1.0, 1.0]);
    let (low, high) = (quiet_low.min(1.0 - MARGIN), quiet_high.max(1.0 + MARGIN));
    match ratio {
        [from, _] if from > high => Verdict::Better,
        [_, to] if to < low => Verdict::Worse,
        [from, to] if from >= low.max(1.0 - RESOLUTION) && to <= high.min(1.0 + RESOLUTION) => Verdict::Same,
        _ => Verdict::Inconclusive,
    }
}

/// The samples whose distance from the median is more than 3.5 standard deviations, estimated from the median of all
/// distances, or from their mean where more than half of the samples are equal, as with a coarse clock (Iglewicz and
/// Hoaglin, How to Detect and Handle Outliers, 1993, section 3.3).
pub fn outliers(samples: &[f64]) -> Vec<usize> {
    let middle = median(samples);
    let distances: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    let deviation = match 1.4826 * median(&distances) {
        spread if spread > 0.0 => spread,
        _ => 1.2533 * distances.iter().sum::<f64>() / distances.len() as f64,
    };
    (0..samples.len()).filter(|&index| distances[index] > 3.5 * deviation && deviation > 0.0).collect()
}

/// Fewer samples than these fall into two groups by chance too often: of 9 uniform ones 4 % do, of 11 less than 1 %.
const HUMPED_MIN: usize = 11;

/// The medians of two groups, if the samples fall into two that lie apart: each with a fifth of the samples at least,
/// Ashman's D above 2 (Ashman, Bird and Zepf, Astronomical Journal 108, 1994), a gap of a tenth between their middles,
/// and nothing of a single group's shape left: the split explains 94 % of the variance (of a uniform distribution it
/// explains 75, of a normal one 64). Two neighbouring steps of a coarse clock are not two groups.
///
/// From 20 samples on a tenth is left out at each end before the variance is taken, so that a few wild samples do not
/// hide two humps.
pub fn humps(samples: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.len() < HUMPED_MIN {
        return None;
    }
    let wild = if sorted.len() < 20 { 0 } else { sorted.len() / 10 };
    let fewest = (sorted.len() / 5).max(3) - wild;
    let kept = &sorted[wild..sorted.len() - wild];
    let sum_of_squares = |part: &[f64]| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        part.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>()
    };
    let within = |&split: &usize| sum_of_squares(&kept[..split]) + sum_of_squares(&kept[split..]);
    let splits = fewest..=kept.len() - fewest;
    let split = splits.min_by(|a, b| within(a).total_cmp(&within(b)))?;
    let (low, high) = kept.split_at(split);
    let variance = |part: &[f64]| sum_of_squares(part) / part.len() as f64;
    let distance = median(high) - median(low);
    let are_apart = distance > 2.0_f64.sqrt() * (variance(low) + variance(high)).sqrt()
        && distance > 0.1 * median(low)
        && within(&split) < 0.06 * sum_of_squares(kept)
        && high[0] - low[low.len() - 1] > 1.5 * smallest_step(&sorted);
    let (low, high) = sorted.split_at(wild + split);
    are_apart.then(|| [median(low), median(high)])
}

/// The least by which two sorted samples differ.
fn smallest_step(sorted: &[f64]) -> f64 {
    sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|&step| step > 0.0).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each sample from a launch of its own.
    fn alone(samples: &[f64]) -> Vec<Cluster<'_>> {
        samples.chunks(1).collect()
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_interval_of_a_constant_is_a_point() {
        assert_eq!(median_interval(&alone(&[5.0; 20])), [5.0, 5.0]);
    }

    /// The exact distribution-free interval of the median of 1..=25 by order statistics is [8, 18] at 95.7 %; the
    /// bootstrap must come close to it.
    #[test]
    fn the_interval_agrees_with_order_statistics() {
        let samples: Vec<f64> = (1..=25).map(f64::from).collect();
        let [low, high] = median_interval(&alone(&samples));
        assert!((7.0..=9.0).contains(&low) && (17.0..=19.0).contains(&high), "[{low}, {high}]");
    }

    /// Coverage: of many samples of 21 from a known distribution, about 95 % of the intervals contain its median.
    #[test]
    fn ninety_five_intervals_of_a_hundred_hold_the_true_median() {
        let mut random = Random(7);
        let held = (0..200)
            .filter(|_| {
                let samples: Vec<f64> = (0..21).map(|_| random.below(1_000_000) as f64).collect();
                let [low, high] = median_interval(&alone(&samples));
                (low..=high).contains(&500_000.0)
            })
            .count();
        assert!((180..=199).contains(&held), "{held} of 200");
    }

    #[test]
    fn a_disturbance_of_both_halves_of_a_pair_leaves_the_ratio() {
        let slow: Vec<f64> = (0..21).map(|i| 20.0 * f64::from(1 + i % 5)).collect();
        let fast: Vec<f64> = slow.iter().map(|time| time / 2.0).collect();
        assert_eq!(ratio_of_medians(&alone(&slow), &alone(&fast)), (2.0, [2.0, 2.0]));
    }

    /// Ten samples of a launch that agree with each other tell no more than one.
    #[test]
    fn repeated_samples_of_a_launch_do_not_narrow_the_interval() {
        let single: Vec<f64> = (1..=11).map(f64::from).collect();
        let tenfold: Vec<Vec<f64>> = single.iter().map(|&sample| vec![sample; 10]).collect();
        let tenfold: Vec<Cluster<'_>> = tenfold.iter().map(Vec::as_slice).collect();
        let ([low, high], [low_10, high_10]) = (median_interval(&alone(&single)), median_interval(&tenfold));
        assert!(low_10 <= low + 0.5 && high_10 >= high - 0.5, "[{low_10}, {high_10}] of [{low}, {high}]");
    }

    #[test]
    fn a_verdict_needs_more_than_the_margin_and_the_noise() {
        for (ratio, noise, says) in [
            ([1.05, 1.10], None, Verdict::Better),
            ([1.05, 1.10], Some([0.93, 1.07]), Verdict::Inconclusive),
            ([0.80, 0.90], Some([0.98, 1.02]), Verdict::Worse),
            ([0.98, 1.02], None, Verdict::Same),
            ([0.90, 1.10], None, Verdict::Inconclusive),
            ([0.96, 1.01], Some([0.95, 1.05]), Verdict::Same),
            ([0.52, 2.31], Some([0.40, 3.00]), Verdict::Inconclusive),
        ] {
            assert_eq!(verdict(ratio, noise), says, "{ratio:?} {noise:?}");
        }
    }

    #[test]
    fn one_far_out_is_marked_and_the_rest_is_not() {
        assert_eq!(outliers(&[10.0, 10.1, 9.9, 10.2, 9.8, 30.0, 10.0]), [5]);
        assert_eq!(outliers(&[5.0; 9]), [0; 0]);
    }

    #[test]
    fn an_outlier_is_marked_where_a_coarse_clock_makes_most_samples_equal() {
        assert_eq!(outliers(&[5.0, 5.0, 5.0, 90.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0]), [3]);
        assert_eq!(outliers(&[5.0, 6.0, 5.0, 5.0, 6.0, 5.0, 5.0, 5.0, 6.0, 5.0]), [0; 0]);
        assert_eq!(outliers(&[]), [0; 0]);
    }

    /// Uniform in 0..1.
    fn uniform(random: &mut Random) -> f64 {
        random.below(1 << 52) as f64 / (1_u64 << 52) as f64
    }

    /// Mean 0, standard deviation 1, near enough.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
    }

    /// How many in a thousand sets are said to have two humps.
    fn humped(samples: usize, mut draw: impl FnMut(&mut Random) -> f64) -> usize {
        let mut random = Random(samples as u64);
        (0..1000).filter(|_| humps(&(0..samples).map(|_| draw(&mut random)).collect::<Vec<_>>()).is_some()).count()
    }

    type Draw = fn(&mut Random) -> f64;

    #[test]
    fn one_hump_of_any_shape_is_one_in_99_of_100() {
        let shapes: [(&str, Draw); 6] = [
            ("normal", |random| 10.0 * (0.3 * normal(random)).exp()),
            ("uniform", |random| 10.0 + 10.0 * uniform(random)),
            ("exponential", |random| 10.0 - 10.0 * (1.0 - uniform(random)).ln()),
            ("lognormal", |random| normal(random).exp()),
            ("Cauchy", |random| 100.0 + 10.0 * (std::f64::consts::PI * (uniform(random) - 0.5)).tan().abs()),
            ("of a coarse clock", |random| (30.0 + 2.0 * normal(random)).round()),
        ];
        for (shape, draw) in shapes {
            for samples in [5, 10, 11, 20, 41, 100] {
                let found = humped(samples, draw);
                assert!(found <= 15, "{shape}: two humps in {found} of 1000 sets of {samples}");
            }
        }
    }

    #[test]
    fn two_humps_are_two_also_with_wild_samples_among_them() {
        let two = |random: &mut Random| {
            let middle = if random.below(10) < 6 { 10.0 } else { 14.0 };
            middle * (1.0 + 0.03 * normal(random))
        };
        let wild = |random: &mut Random| if random.below(25) == 0 { 300.0 } else { two(random) };
        for (samples, least) in [(11, 800), (20, 950), (41, 990)] {
            let found = humped(samples, two);
            assert!(found >= least, "two humps in {found} of 1000 sets of {samples}");
        }
        let found = humped(41, wild);
        assert!(found >= 900, "{found}");
    }

    #[test]
    fn neighbouring_steps_of_a_clock_are_one_hump() {
        let steps: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 3.0 } else { 4.0 }).collect();
        assert_eq!(humps(&steps), None);
    }

    #[test]
    fn two_humps_are_found_and_one_is_not() {
        let mut random = Random(3);
        let mut noise = || random.below(1000) as f64 / 1000.0;
        let two: Vec<f64> = (0..40).map(|i| if i % 3 == 0 { 100.0 } else { 10.0 } + noise()).collect();
        let [low, high] = humps(&two).unwrap();
        assert!((10.0..11.0).contains(&low) && (100.0..101.0).contains(&high));
        for _ in 0..100 {
            let one: Vec<f64> = (0..40).map(|_| 10.0 + (0..12).map(|_| noise()).sum::<f64>()).collect();
            assert_eq!(humps(&one), None, "{one:?}");
        }
        assert_eq!(humps(&[1.0, 2.0, 3.0]), None);
    }
}

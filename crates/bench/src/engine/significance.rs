//! Whether two sets of launches differ, beyond what chance does in a table of many.

use super::statistics::median;

/// The chance that two sets of which neither tends to be larger lie as far apart as these, either way: the rank test of
/// Mann and Whitney (Annals of Mathematical Statistics 18, 1947), exact for up to 400 pairs without ties, else by the
/// normal approximation, corrected for ties and for continuity. 1 where nothing can be told: a set is empty, or all
/// values are equal.
///
/// Ranks see nothing of how far out an outlier is, so one launch that took ten times as long moves it by few ranks. With
/// five launches a side the least that it gives is 0.008; eleven give 0.000003.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let n = n_a + n_b;
    let mut pooled: Vec<(f64, bool)> = a.iter().map(|&value| (value, true)).collect();
    pooled.extend(b.iter().map(|&value| (value, false)));
    pooled.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mut rank_sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    for equal in pooled.chunk_by(|x, y| x.0 == y.0) {
        let count = equal.len() as f64;
        let rank = before + (count + 1.0) / 2.0;
        rank_sum += rank * equal.iter().filter(|(_, is_a)| *is_a).count() as f64;
        ties += count.powi(3) - count;
        before += count;
    }
    let distance = rank_sum - n_a * (n + 1.0) / 2.0;
    if ties == 0.0 && n_a * n_b <= EXACT_MAX {
        return exact(a.len(), b.len(), n_a * n_b / 2.0 - distance.abs());
    }
    let variance = n_a * n_b / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    match variance > 0.0 {
        true => two_sided((distance.abs() - 0.5).max(0.0) / variance.sqrt()),
        false => 1.0,
    }
}

/// Pairs up to which the exact distribution is used: it matters far out, where a table with Holm's correction looks, and
/// there the approximation asks for too much of small sets.
const EXACT_MAX: f64 = 400.0;

/// The chance that the statistic is at most `u` or as far out at the other end. How many of all orders of the values give
/// each statistic is the coefficient of a Gaussian binomial: the product of (1 - x^(n_b+i)) / (1 - x^i) for i to n_a.
fn exact(n_a: usize, n_b: usize, u: f64) -> f64 {
    let mut orders = vec![0.0; n_a * n_b + 1];
    orders[0] = 1.0;
    for i in 1..=n_a {
        for power in (n_b + i..orders.len()).rev() {
            orders[power] -= orders[power - n_b - i];
        }
        for power in i..orders.len() {
            orders[power] += orders[power - i];
        }
    }
    let all: f64 = orders.iter().sum();
    let at_most: f64 = orders.iter().enumerate().filter(|(power, _)| *power as f64 <= u).map(|(_, count)| count).sum();
    (2.0 * at_most / all).min(1.0)
}

/// The chance that a standard normal lies at least so far from 0, either way.
fn two_sided(deviations: f64) -> f64 {
    libm::erfc(deviations / std::f64::consts::SQRT_2)
}

/// Chances that hold for a table of as many tests: with those below 0.05 called real, a table in which nothing changed
/// shows one in at most 1 of 20 cases (Holm, Scandinavian Journal of Statistics 6, 1979). In the order given.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&a, &b| chances[a].total_cmp(&chances[b]));
    let (mut adjusted, mut largest) = (vec![1.0; chances.len()], 0.0_f64);
    for (place, &index) in order.iter().enumerate() {
        largest = largest.max(chances[index] * (chances.len() - place) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

/// How far values typically lie from 0, as a standard deviation that a minority of wild ones cannot move: 1.4826 times
/// the median distance (Hampel, Journal of the American Statistical Association 69, 1974). NaN without values.
pub fn typical_distance(values: &[f64]) -> f64 {
    1.4826 * median(&values.iter().map(|value| value.abs()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Against `scipy.stats.mannwhitneyu`: exact without ties, asymptotic with them and for the large sets.
    #[test]
    fn the_rank_test_gives_what_others_compute() {
        for (a, b, says) in [
            (&[1.0, 2.0, 3.0, 4.0, 5.0][..], &[6.0, 7.0, 8.0, 9.0, 10.0][..], 0.007_936_507_936_507_936),
            (&[1.0, 2.5, 3.0], &[2.0, 4.0, 6.0, 7.0], 0.228_571_428_571_428_56),
            (&[1.0, 2.0, 2.0, 3.0, 5.0], &[2.0, 4.0, 6.0, 6.0, 7.0, 8.0], 0.052_477_978_971_014_166),
            (&[3.0, 4.0, 5.0], &[4.0, 4.0, 4.0], 1.0),
        ] {
            let seen = mann_whitney(a, b);
            assert!((seen - says).abs() < 1e-9, "{seen} instead of {says}");
            assert!((mann_whitney(b, a) - seen).abs() < 1e-12, "it has two sides");
        }
    }

    #[test]
    fn the_approximation_meets_the_exact_figure() {
        let low: Vec<f64> = (0..20).map(f64::from).collect();
        let high: Vec<f64> = (0..20).map(|i| f64::from(i) + 6.5).collect();
        let is = mann_whitney(&low, &high);
        let tied: Vec<f64> = [&low[..], &[0.0]].concat();
        let near = mann_whitney(&tied, &high);
        assert!(is / 2.0 < near && near < is * 2.0, "{near} instead of about {is}");
    }

    #[test]
    fn where_nothing_can_be_told_the_chance_is_one() {
        for (a, b) in [(&[][..], &[1.0][..]), (&[], &[]), (&[2.0, 2.0], &[2.0, 2.0, 2.0]), (&[1.0], &[1.0])] {
            assert_eq!(mann_whitney(a, b), 1.0, "{a:?} {b:?}");
        }
    }

    #[test]
    fn of_equal_sets_one_in_twenty_looks_different() {
        let mut random = Random(5);
        let mut draw = || (0..11).map(|_| random.below(1 << 30) as f64).collect::<Vec<_>>();
        let found = (0..2000).filter(|_| mann_whitney(&draw(), &draw()) < 0.05).count();
        assert!((60..=130).contains(&found), "{found} of 2000");
    }

    #[test]
    fn a_wild_value_counts_no_more_than_its_rank() {
        let quiet = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(mann_whitney(&quiet, &[6.0, 7.0, 8.0, 9.0, 10.0]), mann_whitney(&quiet, &[6.0, 7.0, 8.0, 9.0, 1e9]));
    }

    #[test]
    fn chances_grow_with_the_table() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    #[test]
    fn the_typical_distance_is_a_standard_deviation_without_the_wild_ones() {
        let mut random = Random(6);
        let mut normal = || (0..12).map(|_| random.below(1 << 30) as f64 / (1 << 30) as f64).sum::<f64>() - 6.0;
        let mut values: Vec<f64> = (0..1001).map(|_| normal()).collect();
        values.extend([1e6; 20]);
        assert!((0.9..1.15).contains(&typical_distance(&values)), "{}", typical_distance(&values));
    }
}

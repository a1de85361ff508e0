//! A straight line through medians.

use super::statistics::{RESAMPLES, median, percentiles};

/// `a + b x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// At 0.
    pub a: f64,
    /// For each one more.
    pub b: f64,
    /// The 95 % percentile-bootstrap interval of `b`: rounds are resampled, and with them a sample of every place.
    pub b_interval: [f64; 2],
    /// How much of the differences between the medians the line explains, at most 1.
    pub r_squared: f64,
    /// The largest distance of a median from the line, as a share of that median.
    pub farthest: f64,
}

/// The line of least squares through the medians of the samples at each place; `None` with fewer than three places, or one
/// without samples: then a line says nothing.
pub fn fit(measured: &[(f64, &[f64])]) -> Option<Fit> {
    let rounds = measured.iter().map(|(_, samples)| samples.len()).min().filter(|&rounds| rounds > 0)?;
    let points: Vec<(f64, f64)> = measured.iter().map(|&(x, samples)| (x, median(samples))).collect();
    let mut places: Vec<f64> = points.iter().map(|&(x, _)| x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() < 3 {
        return None;
    }
    let (a, b) = line(&points);
    let b_interval = percentiles(RESAMPLES, |random| {
        let picks: Vec<usize> = (0..rounds).map(|_| random.below(rounds)).collect();
        let at = |samples: &[f64]| median(&picks.iter().map(|&pick| samples[pick]).collect::<Vec<_>>());
        line(&measured.iter().map(|&(x, samples)| (x, at(samples))).collect::<Vec<_>>()).1
    });
    let mean = points.iter().map(|&(_, y)| y).sum::<f64>() / points.len() as f64;
    let squares = |of: &dyn Fn(f64) -> f64| points.iter().map(|&(x, y)| (y - of(x)).powi(2)).sum::<f64>();
    let (left, all) = (squares(&|x| a + b * x), squares(&|_| mean));
    let r_squared = if all > 0.0 { 1.0 - left / all } else { 1.0 };
    let farthest = points.iter().map(|&(x, y)| ((y - a - b * x) / y).abs()).fold(0.0, f64::max);
    Some(Fit { a, b, b_interval, r_squared, farthest })
}

fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let [x_mean, y_mean] = [points.iter().map(|point| point.0).sum::<f64>(), points.iter().map(|point| point.1).sum()]
        .map(|sum| sum / count);
    let both: f64 = points.iter().map(|&(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let alone: f64 = points.iter().map(|&(x, _)| (x - x_mean).powi(2)).sum();
    let b = both / alone;
    (y_mean - b * x_mean, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_that_line() {
        let samples: Vec<[f64; 3]> = [0.0, 1.0, 8.0].map(|x| [3.0 + 2.0 * x; 3]).to_vec();
        let measured: Vec<(f64, &[f64])> =
            [0.0, 1.0, 8.0].into_iter().zip(samples.iter().map(|all| &all[..])).collect();
        let found = fit(&measured).unwrap();
        assert!((found.a - 3.0).abs() < 1e-9 && (found.b - 2.0).abs() < 1e-9, "{found:?}");
        assert!((found.r_squared - 1.0).abs() < 1e-9 && found.farthest < 1e-9);
    }

    /// By hand: x 0, 1, 2 and y 0, 3, 3 have the line 0.5 + 1.5 x, which explains three quarters.
    #[test]
    fn points_beside_a_line_give_the_nearest() {
        let found = fit(&[(0.0, &[0.0, 0.0]), (1.0, &[3.0, 3.0]), (2.0, &[3.0, 3.0])]).unwrap();
        assert!((found.a - 0.5).abs() < 1e-9 && (found.b - 1.5).abs() < 1e-9, "{found:?}");
        assert!((found.r_squared - 0.75).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn the_interval_is_as_wide_as_the_rounds_differ() {
        let found = fit(&[(0.0, &[1.0, 1.0, 1.0]), (1.0, &[2.0, 3.0, 4.0]), (2.0, &[3.0, 5.0, 7.0])]).unwrap();
        assert_eq!(found.b_interval, [1.0, 3.0]);
    }

    #[test]
    fn two_places_are_no_line() {
        assert_eq!(fit(&[(0.0, &[1.0]), (1.0, &[2.0])]), None);
        assert_eq!(fit(&[(0.0, &[1.0]), (1.0, &[2.0]), (2.0, &[])]), None);
    }
}

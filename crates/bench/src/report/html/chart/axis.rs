//! Where a value lies on a chart, and which values are written beside it.

/// From values to positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    domain: [f64; 2],
    range: [f64; 2],
    is_log: bool,
}

impl Axis {
    /// Powers, each as wide as the next, over all `values` that are above 0.
    pub(crate) fn log(values: impl IntoIterator<Item = f64>) -> Axis {
        let [low, high] = bounds(values.into_iter().filter(|value| *value > 0.0)).unwrap_or([1.0, 10.0]);
        let domain = if low < high { [low, high] } else { [low / 1.5, high * 1.5] };
        Axis { domain, range: [0.0, 1.0], is_log: true }
    }

    /// From 0, or from below it, to a little above the largest.
    pub(crate) fn linear(values: impl IntoIterator<Item = f64>) -> Axis {
        let [low, high] = bounds(values).unwrap_or([0.0, 1.0]);
        let (low, high) = (low.min(0.0), high.max(0.0));
        let domain = if low < high { [low, high + (high - low) * 0.04] } else { [0.0, 1.0] };
        Axis { domain, range: [0.0, 1.0], is_log: false }
    }

    /// Linear while the smallest can be told from 0, else powers.
    pub(crate) fn fitting(values: &[f64]) -> Axis {
        match bounds(values.iter().copied()) {
            Some([low, high]) if low > 0.0 && high / low > 25.0 => {
                Axis::log(values.iter().copied().chain([low / 1.15, high * 1.15]))
            }
            _ => Axis::linear(values.iter().copied()),
        }
    }

    /// With the positions of its two ends.
    pub(crate) fn onto(self, from: f64, to: f64) -> Axis {
        Axis { range: [from, to], ..self }
    }

    /// Whether it shows powers.
    pub(crate) fn is_log(&self) -> bool {
        self.is_log
    }

    /// Whether the value lies between its ends.
    pub(crate) fn holds(&self, value: f64) -> bool {
        value >= self.domain[0] && value <= self.domain[1]
    }

    /// The position of a value; one that cannot be shown lies at the nearer end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let [low, high] = self.domain;
        let value = if value.is_nan() { low } else { value.clamp(low, high) };
        let share = if self.is_log { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) };
        self.range[0] + share * (self.range[1] - self.range[0])
    }

    /// At most about `most` round values.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.is_log { self.powers(most) } else { self.steps(most) }
    }

    fn powers(&self, most: usize) -> Vec<f64> {
        let decades = self.domain.map(|bound| bound.log10().floor() as i32);
        let all = |digits: &[f64], step: i32| -> Vec<f64> {
            let powers = (decades[0]..=decades[1]).filter(|power| power.rem_euclid(step) == 0);
            let values = powers.flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
            // 0.1 cannot be written exactly: a bound that is round must not lose its tick.
            values
                .filter(|value| self.holds(*value) || self.domain.iter().any(|b| (b / value - 1.0).abs() < 1e-9))
                .collect()
        };
        let thinned = [1, 2, 3, 5, 10, 50, 100].map(|step| all(&[1.0], step));
        let narrow = [all(&[1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0], 1), all(&[1.0, 2.0, 5.0], 1), all(&[1.0, 3.0], 1)];
        narrow.into_iter().chain(thinned).find(|ticks| ticks.len() <= most).unwrap_or_default()
    }

    fn steps(&self, most: usize) -> Vec<f64> {
        let [low, high] = self.domain;
        let rough = (high - low) / most.max(1) as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (low / step).ceil();
        (0..=most).map(|index| (first + index as f64) * step).filter(|value| self.holds(*value)).collect()
    }
}

fn bounds(values: impl IntoIterator<Item = f64>) -> Option<[f64; 2]> {
    values.into_iter().filter(|value| value.is_finite()).fold(None, |bounds, value| match bounds {
        None => Some([value, value]),
        Some([low, high]) => Some([value.min(low), value.max(high)]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_ends_whatever_they_are() {
        for axis in [Axis::log([1.0, 100.0]), Axis::linear([1.0, 100.0]), Axis::fitting(&[]), Axis::log([5.0])] {
            let axis = axis.onto(10.0, 20.0);
            for value in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1.0, 1e300] {
                assert!((10.0..=20.0).contains(&axis.place(value)), "{value} on {axis:?}");
            }
            assert!(axis.ticks(6).len() <= 7, "{axis:?}");
        }
        assert_eq!(Axis::log([1.0, 100.0]).place(10.0), 0.5);
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Axis::log([1.0, 1000.0]).ticks(5), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(Axis::linear([9.8]).ticks(5), [0.0, 5.0, 10.0]);
        assert_eq!(Axis::log([0.9, 4.2]).ticks(5), [1.0, 2.0]);
        assert!(Axis::log([1e-300, 1e300]).ticks(6).len() <= 6);
    }

    #[test]
    fn what_spans_much_is_shown_in_powers() {
        assert!(Axis::fitting(&[1.0, 100.0]).is_log());
        assert!(!Axis::fitting(&[1.0, 10.0]).is_log());
        assert!(!Axis::fitting(&[0.0, 10.0]).is_log());
    }
}

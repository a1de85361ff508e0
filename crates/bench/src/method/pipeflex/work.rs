//! Computing for so many microseconds.
//!
//! What is computed is a number of steps, not "until a time": a process that is interrupted still has the rest of its
//! work to do, as a program has. How many steps a microsecond holds is measured once, so every transport gets the same.

use std::hint::black_box;

use millstream_sys::clock;

use crate::random::Random;

/// Steps of one probe: some 50 us.
const PROBE_STEPS: u64 = 20_000;

/// How many probes: some 5 ms, longer than what usually interrupts a process.
const PROBES: usize = 100;

/// What a microsecond holds at most: a step is a chain of several instructions, each of a cycle at least.
const STEPS_PER_US_MAX: f64 = 10_000.0;

/// How fast this machine computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    steps_per_us: f64,
}

impl Work {
    /// As it is now, when nothing interrupts.
    pub(super) fn calibrated() -> Work {
        Work::from_probes((0..PROBES).map(|_| {
            let start = clock::raw_nanoseconds();
            compute(PROBE_STEPS);
            clock::raw_nanoseconds() - start
        }))
    }

    /// The fastest tells: whatever disturbs a probe makes it longer.
    fn from_probes(nanoseconds: impl Iterator<Item = u64>) -> Work {
        let fastest = nanoseconds.min().unwrap_or(0).max(1);
        Work { steps_per_us: (PROBE_STEPS as f64 * 1e3 / fastest as f64).min(STEPS_PER_US_MAX) }
    }

    /// Pauses of `us` microseconds on average.
    pub(super) fn pauses(self, us: u32, seed: u64) -> Pauses {
        Pauses { steps: f64::from(us) * self.steps_per_us, draws: Random(seed) }
    }
}

/// One after the other, each drawn from half the average to one and a half, evenly.
pub(super) struct Pauses {
    steps: f64,
    draws: Random,
}

impl Pauses {
    /// Computes for the next one.
    pub(super) fn pause(&mut self) {
        if self.steps > 0.0 {
            let steps = self.next_steps();
            compute(steps);
        }
    }

    fn next_steps(&mut self) -> u64 {
        let evenly = self.draws.word() as f64 / u64::MAX as f64;
        (self.steps * (0.5 + evenly)) as u64
    }
}

/// A chain in which each step needs the one before.
fn compute(steps: u64) {
    let mut value = black_box(1_u64);
    for _ in 0..steps {
        // Multiplication and shift, so that no compiler finds a shorter way.
        value = (value ^ (value >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    black_box(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(us: u32, seed: u64, count: usize) -> Vec<u64> {
        let mut pauses = Work { steps_per_us: 1000.0 }.pauses(us, seed);
        (0..count).map(|_| pauses.next_steps()).collect()
    }

    #[test]
    fn pauses_lie_evenly_between_half_and_one_and_a_half() {
        let drawn = steps(500, 7, 100_000);
        assert!(drawn.iter().all(|steps| (250_000..=750_000).contains(steps)));
        for tenth in 0..10 {
            let (from, to) = (250_000 + tenth * 50_000, 300_000 + tenth * 50_000);
            let share = drawn.iter().filter(|steps| (from..to).contains(*steps)).count();
            assert!((9_000..11_000).contains(&share), "{share} from {from} to {to}");
        }
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((498_000.0..502_000.0).contains(&mean), "{mean}");
    }

    #[test]
    fn the_same_seed_draws_the_same_and_another_draws_others() {
        assert_eq!(steps(500, 7, 100), steps(500, 7, 100));
        assert_ne!(steps(500, 7, 100), steps(500, 8, 100));
        // The work is another, the draws are not.
        let (short, long) = (steps(1, 7, 100), steps(100, 7, 100));
        assert!(short.iter().zip(&long).all(|(short, long)| (short * 100).abs_diff(*long) <= 100));
    }

    #[test]
    fn nothing_to_compute_is_nothing() {
        assert_eq!(steps(0, 7, 3), [0; 3]);
        Work { steps_per_us: f64::MAX }.pauses(0, 7).pause();
    }

    #[test]
    fn the_fastest_probe_counts_and_no_clock_makes_it_endless() {
        assert_eq!(Work::from_probes([90_000, 50_000, 70_000].into_iter()).steps_per_us, 400.0);
        assert_eq!(Work::from_probes([0, 0].into_iter()).steps_per_us, STEPS_PER_US_MAX);
        assert_eq!(Work::from_probes(std::iter::empty()).steps_per_us, STEPS_PER_US_MAX);
    }

    #[test]
    fn this_machine_computes_within_what_is_possible() {
        let Work { steps_per_us } = Work::calibrated();
        assert!(steps_per_us > 1.0 && steps_per_us < STEPS_PER_US_MAX, "{steps_per_us}");
    }
}

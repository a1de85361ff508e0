//! A sample as the median of many short slices.
//!
//! A walk through memory or a copy needs nothing but its CPU. When another program takes that CPU away, or evicts what
//! was cached, a few slices tell of it and the median does not, where the time of one long series would be mostly the
//! other program's.

use millstream_sys::clock;

use crate::engine::statistics::median;

/// What a slice lasts, about: long against reading the clock twice (50 ns), short against a turn on a busy CPU (3 ms).
const SLICE_NS: u64 = 50_000;

/// Nanoseconds that `work` takes and what it returns.
#[inline]
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let start = clock::raw_nanoseconds();
    let outcome = std::hint::black_box(work());
    (outcome, clock::raw_nanoseconds() - start)
}

/// How many times something goes into a slice that takes `once_ns` by itself.
pub(super) fn times_in_slice(once_ns: u64) -> u64 {
    (SLICE_NS / once_ns.max(1)).max(1)
}

/// The nanoseconds of one of `units`, where each of `slices` took so long for all of them.
pub(super) fn median_ns(slices: &[u64], units: u64) -> f64 {
    let per_unit: Vec<f64> = slices.iter().map(|&nanoseconds| nanoseconds.max(1) as f64 / units as f64).collect();
    median(&per_unit)
}

/// MB/s where `bytes` take so many nanoseconds.
pub(super) fn rate(bytes: usize, nanoseconds: f64) -> f64 {
    bytes as f64 * 1e3 / nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_in_which_others_ran_does_not_count() {
        assert_eq!(median_ns(&[400, 410, 3_000_000, 390, 420], 10), 41.0);
        assert_eq!((times_in_slice(10), times_in_slice(0), times_in_slice(1 << 40)), (5000, 50_000, 1));
        assert_eq!(rate(1000, 500.0), 2000.0);
    }
}

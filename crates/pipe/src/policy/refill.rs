//! When a writer in the middle of a long write waits for the low-water mark, from what its last sleep came to.
//!
//! A reader that takes a little at a time and computes in between frees a full ring page by page. A wake-up for each
//! page costs two switches, and the writer gains nothing by it: its write is not over before there is room for the
//! rest. So it is woken when a part of the ring is free ([`Ring::refill`](millstream_ring::Ring::refill)), if that
//! comes soon. It sleeps no longer than a timer of its own: the pipe of a reader that has stopped is as full as the
//! kernel's would be a moment later.

use std::time::Duration;

/// The timer. No reader waits for what comes into a ring that is nearly full.
pub(super) const LONGEST: Duration = Duration::from_millis(1);

/// The same in TSC cycles, about.
const SOON: u64 = 3_000_000;

/// TSC cycles until the low-water mark is reached, as last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refill(pub(super) u64);

impl Refill {
    pub(super) fn unknown() -> Refill {
        Refill(u64::MAX)
    }

    /// After a sleep of so many TSC cycles in which `freed` bytes became free.
    pub(super) fn after_sleep(ticks: u64, freed: usize, refill: usize) -> Refill {
        match freed {
            0 => Refill::unknown(),
            freed => Refill(ticks.saturating_mul(refill as u64) / freed as u64),
        }
    }

    pub(super) fn is_soon(self) -> bool {
        self.0 <= SOON
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 3_000;
    const REFILL: usize = 32 << 10;

    #[test]
    fn a_reader_that_takes_pages_with_little_between_them_will_soon_have_freed_enough() {
        assert!(Refill::after_sleep(40 * US, 4096, REFILL).is_soon());
        assert!(Refill::after_sleep(320 * US, REFILL, REFILL).is_soon());
    }

    #[test]
    fn one_that_computes_long_for_each_page_will_not() {
        assert!(!Refill::after_sleep(500 * US, 4096, REFILL).is_soon());
        assert!(!Refill::after_sleep(1000 * US, 8192, REFILL).is_soon());
    }

    #[test]
    fn nothing_seen_promises_nothing() {
        assert!(!Refill::unknown().is_soon());
        assert!(!Refill::after_sleep(1, 0, REFILL).is_soon());
        assert!(!Refill::after_sleep(u64::MAX, 1, REFILL).is_soon());
    }
}

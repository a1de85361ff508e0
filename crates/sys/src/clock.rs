//! Clocks for measuring and for deciding.
#![allow(unsafe_code)]

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`, which nobody adjusts while it is being read: not NTP, not the administrator.
pub fn raw_nanoseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Ticks of the processor's own clock: a few nanoseconds to read, and between 0.3 and 1 nanosecond each on x86-64. To
/// tell "just now" from "a while ago", not to measure.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// As nanoseconds: other processors' counters differ too much in their rate to be used raw.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// What so many ticks are in nanoseconds, within a few percent. The first call in a process takes a fifth of a
/// millisecond, in which it compares the two clocks.
#[cfg(target_arch = "x86_64")]
pub fn nanoseconds_of(ticks: u64) -> u64 {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    const COMPARED_FOR_NS: u64 = 200_000;
    /// In a thousand nanoseconds; 0 until it was measured. No `OnceLock`, for the sake of forks.
    static RATE: AtomicU64 = AtomicU64::new(0);
    let mut rate = RATE.load(Relaxed);
    if rate == 0 {
        let (from, start) = (self::ticks(), raw_nanoseconds());
        while raw_nanoseconds() - start < COMPARED_FOR_NS {
            core::hint::spin_loop();
        }
        let took = raw_nanoseconds() - start;
        rate = (self::ticks().wrapping_sub(from).saturating_mul(1000) / took).max(1);
        RATE.store(rate, Relaxed);
    }
    ticks.saturating_mul(1000) / rate
}

/// As they are.
#[cfg(not(target_arch = "x86_64"))]
pub fn nanoseconds_of(ticks: u64) -> u64 {
    ticks
}

/// Milliseconds of a clock that all processes share and that takes a few nanoseconds to read: it moves with the kernel's
/// ticks, 1 to 10 milliseconds at a time, and wraps after 49 days.
#[inline]
pub fn coarse_milliseconds() -> u32 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    (now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_nanoseconds_at_some_rate() {
        nanoseconds_of(1);
        // Read on either side of the other clock: a pause between two readings can only widen the bounds.
        let (outer, start) = (ticks(), raw_nanoseconds());
        let inner = ticks();
        while raw_nanoseconds() - start < 20_000_000 {
            core::hint::spin_loop();
        }
        let least = nanoseconds_of(ticks() - inner);
        let took = raw_nanoseconds() - start;
        let most = nanoseconds_of(ticks() - outer);
        assert!(least < took * 5 / 4 && most > took * 3 / 4, "{least} and {most} instead of {took}");
    }
}

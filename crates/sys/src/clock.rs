//! Clocks for measuring and for deciding.
#![allow(unsafe_code)]

use rustix::time::{ClockId, Timespec};

/// By the C library where there is one. rustix asks the kernel where its page of clocks is and reads it there; under valgrind,
/// which hides that page from programs, it is not mapped.
#[cfg(feature = "std")]
fn now(clock: ClockId) -> Timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer leads to a structure that can be written. Linux has each of these clocks.
    unsafe { libc::clock_gettime(clock as libc::clockid_t, &raw mut now) };
    Timespec { tv_sec: now.tv_sec, tv_nsec: now.tv_nsec }
}

#[cfg(not(feature = "std"))]
fn now(clock: ClockId) -> Timespec {
    rustix::time::clock_gettime(clock)
}

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`, which neither NTP nor the administrator adjusts.
pub fn raw_nanoseconds() -> u64 {
    let now = now(ClockId::MonotonicRaw);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// TSC cycles: a few nanoseconds to read, and between 0.3 and 1 nanosecond each on x86-64. They tell "just now" from
/// "a while ago"; they are not for measuring.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds on other processors: the rates of their counters differ too much.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u64 {
    let now = now(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// Converts TSC cycles to nanoseconds, within a few percent. The first call in a process compares the two clocks for a
/// fifth of a millisecond.
#[cfg(target_arch = "x86_64")]
pub fn nanoseconds_of(ticks: u64) -> u64 {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// Cycles in a microsecond; 0 until measured. No `OnceLock`: a forked child would wait for a thread that it lacks.
    static RATE: AtomicU64 = AtomicU64::new(0);
    let mut rate = RATE.load(Relaxed);
    if rate == 0 {
        rate = comparison::ticks_in_a_microsecond(self::ticks, raw_nanoseconds);
        RATE.store(rate, Relaxed);
    }
    ticks.saturating_mul(1000) / rate
}

/// Measures the rate of one clock by another. Preemption of the thread does not distort the result.
#[cfg(any(target_arch = "x86_64", test))]
mod comparison {
    const COMPARED_FOR_NS: u64 = 200_000;

    /// What both clocks showed at about the same moment: two readings in nanoseconds with one of the other clock
    /// between them. The closer the two are, the smaller is the error.
    struct Moment {
        ticks: u64,
        nanoseconds: u64,
    }

    impl Moment {
        /// The closest of several pairs: preemption between two readings makes only that pair wide.
        fn now(ticks: &mut impl FnMut() -> u64, nanoseconds: &mut impl FnMut() -> u64) -> Self {
            const READINGS: usize = 5;
            let mut best: Option<(u64, Self)> = None;
            for _ in 0..READINGS {
                let before = nanoseconds();
                let between = ticks();
                let width = nanoseconds() - before;
                if best.as_ref().is_none_or(|(least, _)| width < *least) {
                    best = Some((width, Self { ticks: between, nanoseconds: before + width / 2 }));
                }
            }
            best.expect("several readings").1
        }
    }

    pub(super) fn ticks_in_a_microsecond(mut ticks: impl FnMut() -> u64, mut nanoseconds: impl FnMut() -> u64) -> u64 {
        let first = Moment::now(&mut ticks, &mut nanoseconds);
        loop {
            let last = Moment::now(&mut ticks, &mut nanoseconds);
            let took = last.nanoseconds.saturating_sub(first.nanoseconds);
            if took >= COMPARED_FOR_NS {
                return (last.ticks.wrapping_sub(first.ticks).saturating_mul(1000) / took).max(1);
            }
            core::hint::spin_loop();
        }
    }
}

/// Cycles are nanoseconds already on other processors.
#[cfg(not(target_arch = "x86_64"))]
pub fn nanoseconds_of(ticks: u64) -> u64 {
    ticks
}

/// Milliseconds of a clock that all processes share and that takes a few nanoseconds to read. It moves with the
/// kernel's timer, 1 to 10 milliseconds at a time, and wraps after 49 days.
#[inline]
pub fn coarse_milliseconds() -> u32 {
    let now = now(ClockId::MonotonicCoarse);
    (now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_nanoseconds_at_some_rate() {
        nanoseconds_of(1);
        // The cycles are read on both sides of the other clock, so a pause between two readings only widens the bounds.
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

    #[test]
    fn losing_the_cpu_while_clocks_are_compared_changes_nothing() {
        use core::cell::Cell;
        // Three cycles are a nanosecond. Every reading takes 20 ns, but one takes about as long as the comparison or
        // longer.
        for pause in [150_000, 5_000_000] {
            for paused_at in 0..40 {
                let (now, read) = (Cell::new(1_000_000_u64), Cell::new(0));
                let reading = || {
                    now.set(now.get() + if read.get() == paused_at { pause } else { 20 });
                    read.set(read.get() + 1);
                    now.get()
                };
                let rate = comparison::ticks_in_a_microsecond(|| 3 * reading(), reading);
                assert!((2990..=3010).contains(&rate), "{rate} with {pause} ns before reading {paused_at}");
            }
        }
    }
}

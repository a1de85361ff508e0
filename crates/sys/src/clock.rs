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

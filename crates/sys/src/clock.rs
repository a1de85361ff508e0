//! The clock for measuring.

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`, which nobody adjusts while it is being read: not NTP, not the administrator.
pub fn raw_nanoseconds() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

//! What the kernel has counted for this process.
#![allow(unsafe_code)]

use core::mem::zeroed;

/// Counts since the process began (`getrusage(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Voluntary context switches: it waited.
    pub voluntary_switches: u64,
    /// Involuntary context switches: it was preempted.
    pub involuntary_switches: u64,
    /// Minor page faults, without a disk access.
    pub minor_faults: u64,
    /// Major page faults, with a disk access.
    pub major_faults: u64,
}

/// The counts up to now, of all threads.
pub fn so_far() -> Usage {
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: writes into the structure above and nowhere else; cannot fail with a valid address and RUSAGE_SELF.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or(0);
    Usage {
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touched_page_is_a_fault() {
        let before = so_far();
        core::hint::black_box(std::vec![1_u8; 4 << 20]);
        let after = so_far();
        assert!(after.minor_faults + after.major_faults > before.minor_faults + before.major_faults, "{after:?}");
    }
}

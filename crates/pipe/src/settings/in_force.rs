//! What this process goes by: read once, from then on some words.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::sources::{Report, report};
use super::table::{Name, TABLE};
use crate::policy::{DirectPolicy, WaitPolicy};

/// The value of each setting, and whether it was read.
///
/// No `OnceLock`, which has threads wait for the one that came first: in a child that was forked at that moment it does
/// not exist. Here several may read the sources at once, and find the same.
struct InForce {
    is_read: AtomicBool,
    values: [AtomicU64; TABLE.len()],
    limits: [AtomicU64; TABLE.len()],
}

static IN_FORCE: InForce = InForce {
    is_read: AtomicBool::new(false),
    values: [const { AtomicU64::new(0) }; TABLE.len()],
    limits: [const { AtomicU64::new(u64::MAX) }; TABLE.len()],
};

impl InForce {
    #[inline]
    fn number(&'static self, name: Name) -> usize {
        usize::try_from(self.read().values[name as usize].load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// The most of it that any source can set.
    fn limit(&'static self, name: Name) -> usize {
        usize::try_from(self.read().limits[name as usize].load(Relaxed)).unwrap_or(usize::MAX)
    }

    #[inline]
    fn read(&'static self) -> &'static InForce {
        if !self.is_read.load(Acquire) {
            self.keep(&report());
        }
        self
    }

    #[cold]
    fn keep(&self, report: &Report) {
        for (kept, entry) in self.values.iter().zip(&report.entries) {
            kept.store(entry.value, Relaxed);
        }
        for (kept, entry) in self.limits.iter().zip(&report.entries) {
            kept.store(entry.limit.as_ref().map_or(u64::MAX, |limit| limit.value), Relaxed);
        }
        self.is_read.store(true, Release);
    }
}

/// Bytes that a new pipe holds: a power of two that this user may have.
#[inline]
pub(crate) fn capacity() -> usize {
    IN_FORCE.number(Name::Capacity)
}

/// Bytes for which every pipe has addresses.
#[inline]
pub(crate) fn capacity_max() -> usize {
    IN_FORCE.number(Name::CapacityMax)
}

/// Bytes of which no pipe can have more, whichever process asks.
pub(crate) fn capacity_limit() -> usize {
    IN_FORCE.limit(Name::CapacityMax)
}

/// Pipes with shared memory in one process.
#[inline]
pub(crate) fn pipes_max() -> usize {
    IN_FORCE.number(Name::PipesMax)
}

/// How ends wait.
#[inline]
pub(crate) fn wait() -> WaitPolicy {
    [WaitPolicy::Adaptive, WaitPolicy::Spin, WaitPolicy::Block]
        .get(IN_FORCE.number(Name::Wait))
        .copied()
        .unwrap_or_default()
}

/// When a reader copies straight out of a writer's memory.
pub(crate) fn direct() -> DirectPolicy {
    [DirectPolicy::Adaptive, DirectPolicy::Never, DirectPolicy::Always]
        .get(IN_FORCE.number(Name::Direct))
        .copied()
        .unwrap_or_default()
}

/// Bytes that have to be left of a write for that.
pub(crate) fn direct_min() -> usize {
    IN_FORCE.number(Name::DirectMin)
}

/// Bytes that an end works on in place at once.
pub(crate) fn loan_max() -> usize {
    IN_FORCE.number(Name::LoanMax)
}

/// What a program gets of that which wishes for so much.
pub(crate) fn loan_max_within(wished: usize) -> usize {
    wished.min(IN_FORCE.limit(Name::LoanMax))
}

/// The same for all ends of a user.
pub(crate) fn user_loan_max() -> u64 {
    IN_FORCE.number(Name::UserLoanMax) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Kind;

    #[test]
    fn every_word_for_waiting_has_its_policy() {
        let Kind::Choice(words) = Name::Wait.setting().kind else { panic!("waiting is a word") };
        let policies = [WaitPolicy::Adaptive, WaitPolicy::Spin, WaitPolicy::Block];
        let names = policies.map(|policy| format!("{policy:?}").to_lowercase());
        assert_eq!(words, names);
    }

    #[test]
    fn every_word_for_direct_transfer_has_its_policy() {
        let Kind::Choice(words) = Name::Direct.setting().kind else { panic!("it is a word") };
        let policies = [DirectPolicy::Adaptive, DirectPolicy::Never, DirectPolicy::Always];
        let names = policies.map(|policy| format!("{policy:?}").to_lowercase());
        assert_eq!(words, names);
    }

    #[test]
    fn what_is_reported_is_what_counts() {
        let report = report();
        assert_eq!(capacity() as u64, report.entry(Name::Capacity).value);
        assert_eq!(capacity_max() as u64, report.entry(Name::CapacityMax).value);
        assert_eq!(pipes_max() as u64, report.entry(Name::PipesMax).value);
        assert_eq!(direct_min() as u64, report.entry(Name::DirectMin).value);
        assert_eq!(loan_max() as u64, report.entry(Name::LoanMax).value);
        assert_eq!(user_loan_max(), report.entry(Name::UserLoanMax).value);
    }
}

//! Whether a third program wants the CPU that both sides of a pipe share, from how many threads want one.
//!
//! Two processes may send each other a byte in turns, and yield to each other. They lose the rest of their time slice
//! with each yield that the third takes, and gain little by the others. The kernel says how many threads run or wait
//! to (`/proc/loadavg`), not where. If they are more than there are CPUs, some wait. If a yield was long before, a
//! third thread anywhere is taken to be the one that caused it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use millstream_sys::cpu;

/// TSC cycles between two questions, about 7 milliseconds: a question takes as long as a few round trips. Sooner
/// after a third thread was seen, which may only have come by.
const ASK_EVERY: u64 = 20_000_000;
const ASK_CROWD_EVERY: u64 = 5_000_000;

/// Both sides.
const PAIR: u32 = 2;

/// When this process has asked last, without the lowest bit, which says what it has found; 0: never.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// How many CPUs there are; 0: not known yet.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// Bytes that a reader of a stream finds more of, if it gives way when there are none.
const LITTLE: usize = 256;

/// TSC cycles for each turn, a third of a millisecond, from which on turns are rare. An end that takes rare turns
/// keeps most of its time slice, and does not miss what it forfeits.
const SELDOM: u64 = 1_000_000;

/// Waits in a row after which there was little, until two are taken to be taking turns.
const ENOUGH: u32 = 3;

/// Waits in a row after which a reader has found little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turns(pub(super) u32);

impl Turns {
    /// Before the first wait: a stream shows by what is found after it.
    pub(super) fn unknown() -> Turns {
        Turns(ENOUGH)
    }

    #[inline]
    pub(super) fn after(self, found: usize) -> Turns {
        Turns(if found <= LITTLE { self.0.saturating_add(1) } else { 0 })
    }

    /// Whether the two are taking turns.
    #[inline]
    pub(super) fn are_taken(self) -> bool {
        self.0 >= ENOUGH
    }
}

/// Waits in a row before which turns were rare. A third program that used up its time slice makes one seem so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seldom(pub(super) u32);

impl Seldom {
    /// After another wait, so many turns and TSC cycles after the one before.
    #[inline]
    pub(super) fn after(self, turns: u64, ticks: u64) -> Seldom {
        Seldom(if ticks >= turns.saturating_mul(SELDOM) { self.0.saturating_add(1) } else { 0 })
    }

    #[inline]
    pub(super) fn is_certain(self) -> bool {
        self.0 >= ENOUGH
    }
}

/// As was found a moment ago. `has_been_dear`: a third program has taken a yield that was meant for the other side.
#[inline]
pub(super) fn has_contention(now: u64, has_been_dear: impl FnOnce() -> bool) -> bool {
    let asked = ASKED.load(Relaxed);
    let was_crowded = asked & 1 != 0;
    let every = if was_crowded { ASK_CROWD_EVERY } else { ASK_EVERY };
    if now.wrapping_sub(asked) < every { was_crowded } else { ask(now, has_been_dear()) }
}

#[cold]
fn ask(now: u64, has_been_dear: bool) -> bool {
    if CPUS.load(Relaxed) == 0 {
        CPUS.store(cpu::online(), Relaxed);
    }
    let is_crowded = judge(cpu::running_threads().unwrap_or(0), CPUS.load(Relaxed), has_been_dear);
    ASKED.store(now & !1 | u64::from(is_crowded), Relaxed);
    is_crowded
}

fn judge(threads: u32, cpus: u32, has_been_dear: bool) -> bool {
    threads > cpus.max(PAIR) || (has_been_dear && threads > PAIR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_until_much_is_found() {
        let after =
            |found: &[usize]| found.iter().fold(Turns::unknown(), |turns, &bytes| turns.after(bytes)).are_taken();
        assert!(after(&[]) && after(&[1; 3]) && after(&[LITTLE; 100]) && after(&[4096, 1, 1, 1]));
        assert!(!after(&[4096, 1, 1]) && !after(&[LITTLE + 1; 100]) && !after(&[1, 1, 1, 4096]));
    }

    #[test]
    fn turns_are_seldom_by_their_number_and_not_by_that_of_the_waits() {
        let after = |waits: &[(u64, u64)]| {
            waits.iter().fold(Seldom(0), |seldom, &(turns, ticks)| seldom.after(turns, ticks)).is_certain()
        };
        assert!(
            after(&[(1, SELDOM); 3])
                && after(&[(10, u64::MAX); 3])
                && after(&[(1, 0), (1, SELDOM), (1, SELDOM), (1, SELDOM)])
        );
        assert!(
            !after(&[(1, SELDOM - 1); 9]) && !after(&[(1000, 100 * SELDOM); 9]) && !after(&[(u64::MAX, SELDOM); 9])
        );
        assert!(!after(&[(1, SELDOM), (1, SELDOM), (1, 0), (1, SELDOM)]), "one that was long says nothing");
    }

    #[test]
    fn pair_by_itself_is_no_contention() {
        assert!(!judge(2, 1, true) && !judge(2, 1, false) && !judge(0, 1, true));
    }

    #[test]
    fn more_threads_than_cpus_are_contention() {
        assert!(judge(3, 1, false) && judge(3, 2, false) && judge(17, 16, false));
        assert!(!judge(3, 16, false) && !judge(16, 16, false));
    }

    #[test]
    fn third_thread_is_contention_after_a_long_yield() {
        assert!(judge(3, 16, true));
    }
}

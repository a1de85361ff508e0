//! Whether more programs want a CPU than there are: the share of its time for which this process could run and was not let
//! (`/proc/thread-self/schedstat`, run-queue delay). A reader that spins beside two busy programs on two CPUs takes a third of what the
//! slowest of them has. A sleeping one leaves the pipeline as fast as the kernel's.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use super::{kernel, own_process};

/// Cycles between two questions, about 2 milliseconds: a question takes 3 microseconds.
const ASK_EVERY: u64 = 5_000_000;
/// Contended: of so many parts of its time the process has waited for a CPU for one.
const PART: u64 = 8;
/// Questions for which contention is then taken to last; each time it is found again at once, four times as many.
const LASTS: u64 = 16;
const LASTS_MAX: u64 = 1024;

static ASKED_AT: AtomicU64 = AtomicU64::new(0);
/// The thread that asked then, whose numbers these are.
static ASKED_BY: AtomicUsize = AtomicUsize::new(0);
/// Nanoseconds for which the process has run, and for which it has waited, as of then.
static RUN: AtomicU64 = AtomicU64::new(0);
static WAITED: AtomicU64 = AtomicU64::new(0);
static ENDS_AT: AtomicU64 = AtomicU64::new(0);
/// Questions for which the last contention was taken to last; 0: there was none just before.
static LASTED: AtomicU64 = AtomicU64::new(0);

/// As was found a moment ago.
pub(super) fn is_there(now: u64) -> bool {
    if is_before(now, ENDS_AT.load(Relaxed)) {
        return true;
    }
    if now.wrapping_sub(ASKED_AT.load(Relaxed)) < ASK_EVERY {
        return false;
    }
    ask(now)
}

#[cold]
fn ask(now: u64) -> bool {
    let is_first = (ASKED_AT.swap(now, Relaxed) == 0)
        | (ASKED_BY.swap(own_process::this_thread(), Relaxed) != own_process::this_thread());
    let Some([run, waited]) = schedstat() else { return false };
    let (ran, did_wait) = (run.wrapping_sub(RUN.swap(run, Relaxed)), waited.wrapping_sub(WAITED.swap(waited, Relaxed)));
    let is_contended = !is_first && did_wait > (ran + did_wait) / PART;
    let lasts = match (is_contended, LASTED.load(Relaxed)) {
        (false, _) => 0,
        (true, 0) => LASTS,
        (true, before) => (before * 4).min(LASTS_MAX),
    };
    LASTED.store(lasts, Relaxed);
    if is_contended {
        ENDS_AT.store(now.wrapping_add(lasts * ASK_EVERY), Relaxed);
    }
    is_contended
}

/// Two numbers of nanoseconds. `None`: the kernel does not count them.
fn schedstat() -> Option<[u64; 2]> {
    let file = kernel::open(c"/proc/thread-self/schedstat", kernel::O_RDONLY | kernel::O_CLOEXEC);
    if file < 0 {
        return None;
    }
    let mut text = [0; 64];
    let len = kernel::read(file as i32, text.as_mut_ptr(), text.len());
    kernel::close(file as i32);
    let mut numbers = text.get(..usize::try_from(len).ok()?)?.split(|&byte| byte == b' ').map(number);
    Some([numbers.next()??, numbers.next()??])
}

fn number(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0_u64, |value, &digit| value.checked_mul(10)?.checked_add(u64::from(char::from(digit).to_digit(10)?)))
}

/// Whether a third program wants the CPU that both sides of a pipe share: the CPU time that neither of the two had.
pub(super) struct SharedCpu {
    /// The process at the other side; 0: not known.
    other: AtomicU32,
    asked_at_ns: AtomicU64,
    /// For which both sides had run as of then.
    run_ns: AtomicU64,
}

impl SharedCpu {
    /// Shares are of the time since the last question, if it was not longer ago: several slices of several programs. In more
    /// time both may have slept.
    const RECENT_NS: u64 = 100_000_000;
    /// A third program is there if it had one of so many parts of that time.
    const PART: u64 = 4;

    pub(super) const fn new() -> SharedCpu {
        SharedCpu { other: AtomicU32::new(0), asked_at_ns: AtomicU64::new(0), run_ns: AtomicU64::new(0) }
    }

    pub(super) fn is_shared_with(&self, process: u32) {
        self.other.store(process, Relaxed);
    }

    /// The process at the other side; 0: not known.
    pub(super) fn other(&self) -> u32 {
        self.other.load(Relaxed)
    }

    /// Takes three system calls, and so is asked after what has taken a time slice.
    #[cold]
    pub(super) fn has_third(&self) -> bool {
        let other = self.other();
        if other == 0 {
            return false;
        }
        let (now, run) = (kernel::monotonic_ns(), kernel::run_ns_with(other));
        let passed = now.wrapping_sub(self.asked_at_ns.swap(now, Relaxed));
        let ran = run.wrapping_sub(self.run_ns.swap(run, Relaxed));
        passed < Self::RECENT_NS && ran < passed - passed / Self::PART
    }
}

/// Of two instants that lie less than half the range apart.
pub(super) fn is_before(one: u64, other: u64) -> bool {
    one.wrapping_sub(other) > u64::MAX / 2
}

//! How an end waits before it sleeps. The whole policy is here.
//!
//! A wake-up across CPUs costs tens of microseconds, a look at a shared word a tenth of one: when the other side runs on
//! another CPU it pays to look for about as long as a wake-up takes. When it runs on *this* CPU looking only keeps it
//! from running: the CPU is given to it instead, and it fills or empties the whole ring before it gives it back, where
//! a wake-up after every write would switch between the two each time.
//!
//! Looking that did not help the last times is shortened, so that a pipe whose other side is slow costs little.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use millstream_sys::{clock, cpu};

/// What an end does when it cannot go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Looks for a while where that pays, gives way where both ends share a CPU, then sleeps. The default.
    #[default]
    Adaptive,
    /// Never sleeps. The fastest answer, for a CPU of its own, of which it uses all. Asks the kernel from time to time
    /// whether the other side is still there.
    Spin,
    /// Sleeps at once, as the kernel's pipe does. For those who would rather be slow than use a CPU in vain.
    Block,
}

/// In ticks, 80 microseconds at 3 GHz: one wake-up across CPUs in a virtual machine (30 to 50 microseconds measured) and
/// what the other side then does, so that who has just woken the other need not be woken for the answer.
const LONGEST_LOOK: u32 = 240_000;

/// A transfer of a cache line there and back, a few times over: less would never see an answer.
const SHORTEST_LOOK: u32 = 3_000;

/// How often a CPU is offered to the other side. It nearly always takes the first offer; a third program may sit
/// between the two.
const OFFERS: u32 = 4;

/// A sleep ends by itself after this long, and after twice as long each time up to [`LONGEST_NAP`]. A process that is
/// killed between changing the ring and ringing the bell, an instant of some nanoseconds, leaves a sleeper that nobody
/// else need wake. 10 000 sleepers look again 150 times a second at the end, which is less than a thousandth of a CPU.
pub(crate) const FIRST_NAP: Duration = Duration::from_secs(1);
const LONGEST_NAP: Duration = Duration::from_secs(64);

/// The next nap after this one.
pub(crate) fn longer(nap: Duration) -> Duration {
    (nap * 2).min(LONGEST_NAP)
}

/// What an end has learnt about waiting.
#[derive(Debug)]
pub(crate) struct Patience {
    policy: WaitPolicy,
    look_for: AtomicU32,
}

/// How waiting before sleep went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// What was waited for is there.
    Found,
    /// It is time to ask the kernel, and to sleep if that knows nothing either.
    AskKernel,
    /// It is time to ask the kernel, but not to sleep.
    KeepLooking,
}

/// What was done while waiting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    pub(crate) looks: u64,
    pub(crate) offers: u64,
}

impl Patience {
    pub(crate) fn new(policy: WaitPolicy) -> Patience {
        Patience { policy, look_for: AtomicU32::new(LONGEST_LOOK) }
    }

    pub(crate) fn policy(&self) -> WaitPolicy {
        self.policy
    }

    /// Waits until `is_over` says so, or no longer than pays. `peer_cpu` is where the other side last ran.
    pub(crate) fn look(&self, peer_cpu: Option<u32>, is_over: impl Fn() -> bool, effort: &mut Effort) -> Look {
        let shares_cpu = || peer_cpu == Some(cpu::current()) || is_only_cpu();
        match self.policy {
            WaitPolicy::Block => Look::AskKernel,
            _ if shares_cpu() => match offer_cpu(is_over, effort) {
                Look::AskKernel if self.policy == WaitPolicy::Spin => Look::KeepLooking,
                outcome => outcome,
            },
            WaitPolicy::Spin => match look_for(LONGEST_LOOK, is_over, effort) {
                true => Look::Found,
                false => Look::KeepLooking,
            },
            WaitPolicy::Adaptive => {
                let limit = self.look_for.load(Relaxed);
                let found = look_for(limit, is_over, effort);
                let next = if found { LONGEST_LOOK } else { (limit / 2).max(SHORTEST_LOOK) };
                if next != limit {
                    self.look_for.store(next, Relaxed);
                }
                if found { Look::Found } else { Look::AskKernel }
            }
        }
    }
}

fn offer_cpu(is_over: impl Fn() -> bool, effort: &mut Effort) -> Look {
    for _ in 0..OFFERS {
        effort.offers += 1;
        cpu::give_way();
        if is_over() {
            return Look::Found;
        }
    }
    Look::AskKernel
}

fn look_for(ticks: u32, is_over: impl Fn() -> bool, effort: &mut Effort) -> bool {
    let start = clock::ticks();
    loop {
        for _ in 0..8 {
            effort.looks += 1;
            if is_over() {
                return true;
            }
            std::hint::spin_loop();
        }
        if clock::ticks().wrapping_sub(start) > u64::from(ticks) {
            return false;
        }
    }
}

/// Whether the other side cannot be running at this moment.
fn is_only_cpu() -> bool {
    /// 0 until it was asked for. No `OnceLock`: in a child that another thread forks meanwhile nobody would finish.
    static ONLINE: AtomicUsize = AtomicUsize::new(0);
    let mut online = ONLINE.load(Relaxed);
    if online == 0 {
        online = cpu::online();
        ONLINE.store(online, Relaxed);
    }
    online == 1
}

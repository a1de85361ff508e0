//! Not sleeping: what waiting costs is the wake-up. So a side that will be needed again in a moment spins, or yields the CPU where both
//! sides have the same one. In short what `docs/pipe.md` says of the pipe of the library.

use core::hint::spin_loop;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use millstream_ring::channel::Found;

use super::contention::{self, SharedCpu, is_before};
use super::end::End;
use super::kernel;

/// How often one looks: about as long as a wake-up between two CPUs takes.
const LOOKS_MAX: u32 = 1000;
/// How often one looks at the least.
const LOOKS_MIN: u32 = 8;
/// How often the CPU is offered to the other side in one wait.
const OFFERS: u32 = 4;
/// An offer that took so many ticks (100 to 300 microseconds), and after which the other side had not done much, was taken
/// by another program. A sleep would have kept this side's share of the CPU.
const DEAR: u64 = 300_000;
/// After so long an offer (about 1 millisecond) by which the other side has done much, the question is which program had the CPU. Beside a
/// third program each offer takes a time slice, and a sleep costs less than a hundredth of that.
const LONG: u64 = 2_500_000;
/// What a dear offer is taken to have taken at most, so that a side that was stopped for a while is not marked for long.
const DEAREST: u64 = 100_000_000;
/// After a dear offer none is made for as long as it took; after the next, soon, for four times as long, up to so many times.
const LONGEST_REST: u32 = 128;
/// How many rests must go by for an offer not to be the next one soon.
const SOON: u64 = 8;

/// What an end has learnt about waiting.
pub(super) struct Patience {
    /// How long to look before the next sleep. Halved by every look in vain, made whole by one that was not.
    looks: AtomicU32,
    offers_resume_at: AtomicU64,
    rest: AtomicU32,
    pub(super) shared_cpu: SharedCpu,
}

impl Patience {
    pub(super) const fn new() -> Patience {
        Patience {
            looks: AtomicU32::new(LOOKS_MAX),
            offers_resume_at: AtomicU64::new(0),
            rest: AtomicU32::new(0),
            shared_cpu: SharedCpu::new(),
        }
    }

    fn rests(&self, now: u64) -> bool {
        is_before(now, self.offers_resume_at.load(Relaxed))
    }

    fn has_made_dear_offer(&self, from: u64, to: u64) {
        let took = to.wrapping_sub(from).min(DEAREST);
        let rest = self.rest.load(Relaxed);
        let soon = self.offers_resume_at.load(Relaxed).wrapping_add(SOON * u64::from(rest) * took);
        let rest = if is_before(from, soon) { (4 * rest).min(LONGEST_REST) } else { 1 };
        self.rest.store(rest, Relaxed);
        self.offers_resume_at.store(to.wrapping_add(u64::from(rest) * took), Relaxed);
    }
}

/// Whether what is waited for came without a sleep.
pub(super) fn without_sleep(end: &End, look: impl Fn() -> Found, shares_cpu: bool) -> bool {
    if shares_cpu { offers(&end.patience, look) } else { looks(end, look) }
}

fn offers(patience: &Patience, look: impl Fn() -> Found) -> bool {
    let mut before = kernel::ticks();
    if patience.rests(before) {
        return false;
    }
    for _ in 0..OFFERS {
        kernel::give_the_cpu_away();
        let (found, now) = (look(), kernel::ticks());
        let took = now.wrapping_sub(before);
        if found == Found::Much && (took < LONG || !patience.shared_cpu.has_third()) {
            return true;
        }
        let is_dear = took > DEAR;
        if is_dear {
            patience.has_made_dear_offer(before, now);
        }
        if found != Found::Nothing || is_dear {
            return found != Found::Nothing;
        }
        before = now;
    }
    false
}

fn looks(end: &End, look: impl Fn() -> Found) -> bool {
    if contention::is_there(kernel::ticks()) {
        // A third program needs the CPU more than this side needs to save a wake-up.
        return look() != Found::Nothing;
    }
    let looks = end.patience.looks.load(Relaxed);
    let seen_at = (0..looks).position(|_| {
        spin_loop();
        look() != Found::Nothing
    });
    end.tally.looked(seen_at.map_or(looks, |before| before as u32 + 1));
    end.patience.looks.store(if seen_at.is_some() { LOOKS_MAX } else { (looks / 2).max(LOOKS_MIN) }, Relaxed);
    seen_at.is_some()
}

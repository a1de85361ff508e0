//! Not sleeping: what waiting costs is the wake-up. So a side that will be needed again in a moment spins, or yields the CPU where both
//! sides have the same one. In short what `docs/pipe.md` says of the pipe of the library.

use core::hint::spin_loop;
use core::sync::atomic::Ordering::Relaxed;

use millstream_ring::channel::Found;

use super::contention;
use super::end::End;
use super::kernel;
use super::patience::{LOOKS_MAX, Patience};

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

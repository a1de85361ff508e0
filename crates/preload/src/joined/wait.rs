//! Not sleeping: what waiting costs is the wake-up, so somebody who will be needed again in a moment looks for a moment.

use core::hint::spin_loop;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::{End, kernel};

/// How often one looks: about as long as a wake-up between two CPUs takes.
const LOOKS_MAX: u32 = 1000;
/// How often one looks at the least.
const LOOKS_MIN: u32 = 8;
/// How often the CPU is offered to the other side when both have the same.
const OFFERS: u32 = 4;

/// How long to look before the next sleep. Halved by every look in vain, made whole by one that was not.
pub(super) struct Patience(AtomicU32);

impl Patience {
    pub(super) const fn new() -> Patience {
        Patience(AtomicU32::new(LOOKS_MAX))
    }
}

/// Whether what is waited for came without a sleep.
pub(super) fn without_sleep(end: &End, has_come: impl Fn() -> bool, shares_cpu: bool) -> bool {
    if shares_cpu {
        return (0..OFFERS).any(|_| {
            kernel::give_the_cpu_away();
            has_come()
        });
    }
    let patience = &end.patience.0;
    let looks = patience.load(Relaxed);
    let seen_at = (0..looks).position(|_| {
        spin_loop();
        has_come()
    });
    end.tally.looked(seen_at.map_or(looks, |before| before as u32 + 1));
    patience.store(if seen_at.is_some() { LOOKS_MAX } else { (looks / 2).max(LOOKS_MIN) }, Relaxed);
    seen_at.is_some()
}

//! What an end has learnt about waiting.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use super::contention::{SharedCpu, is_before};

/// How often one looks: about as long as a wake-up between two CPUs takes.
pub(super) const LOOKS_MAX: u32 = 1000;
/// What a dear offer is taken to have taken at most, so that a side that was stopped for a while is not marked for
/// long.
const DEAREST: u64 = 100_000_000;
/// After a dear offer none is made for as long as it took; after the next, soon, for four times as long, up to so many
/// times.
const LONGEST_REST: u32 = 128;
/// How many rests must go by for an offer not to be the next one soon.
const SOON: u64 = 8;

/// What an end has learnt about waiting.
pub(super) struct Patience {
    /// How long to look before the next sleep. Halved by every look in vain, made whole by one that was not.
    pub(super) looks: AtomicU32,
    pub(super) offers_resume_at: AtomicU64,
    pub(super) rest: AtomicU32,
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

    pub(super) fn rests(&self, now: u64) -> bool {
        is_before(now, self.offers_resume_at.load(Relaxed))
    }

    pub(super) fn has_made_dear_offer(&self, from: u64, to: u64) {
        let took = to.wrapping_sub(from).min(DEAREST);
        let rest = self.rest.load(Relaxed);
        let soon = self.offers_resume_at.load(Relaxed).wrapping_add(SOON * u64::from(rest) * took);
        let rest = if is_before(from, soon) { (4 * rest).min(LONGEST_REST) } else { 1 };
        self.rest.store(rest, Relaxed);
        self.offers_resume_at.store(to.wrapping_add(u64::from(rest) * took), Relaxed);
    }
}

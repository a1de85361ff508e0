//! The claim that an end has open.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millstream_ring::Claim;
use millstream_sys::transfer::Access;

/// The claim that an end has made and not ended: its number, and on which side.
#[derive(Debug, Default)]
pub(crate) struct OpenClaim(AtomicU64);

const OF_WRITERS: u64 = 1 << 32;

impl OpenClaim {
    #[inline]
    pub(crate) fn note(&self, claim: &Claim, access: Access) {
        let side = if access == Access::Write { OF_WRITERS } else { 0 };
        self.0.store(side | u64::from(claim.id().serial), Relaxed);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// The side and the number of the claim, which is noted no longer.
    pub(super) fn take(&self) -> Option<(Access, u32)> {
        let open = self.0.swap(0, Relaxed);
        let access = if open & OF_WRITERS == 0 { Access::Read } else { Access::Write };
        Some((access, open as u32)).filter(|&(_, serial)| serial != 0)
    }

    /// Whether this is the one.
    #[inline]
    pub(crate) fn is(&self, claim: &Claim) -> bool {
        self.0.load(Relaxed) as u32 == claim.id().serial
    }
}

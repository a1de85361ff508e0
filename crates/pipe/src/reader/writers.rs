//! What a reader tells the writers.

use std::io;

use millstream_ring::Ring;

use super::Reader;
use crate::error::broken;

impl Reader {
    /// After bytes were consumed and the lock was released.
    #[inline]
    pub(super) fn tell_writers(&self, ring: &Ring<'_>, emptied: bool) {
        if ring.writers_wait() || (emptied && ring.bell().is_watched_for_bytes()) {
            self.lower_bell(ring);
        }
    }

    /// The bytes have been read: the next call finds an error that occurs here.
    #[cold]
    pub(super) fn lower_bell(&self, ring: &Ring<'_>) {
        if ring.bell().lower(&self.end.parker(), &self.end.readiness_bytes()) == Ok(true) {
            self.end.counters.woke_peer();
        }
    }

    /// Makes an offered transfer come through the ring: for a caller that cannot copy from the memory of a writer.
    pub(super) fn decline_offer(&self, ring: &Ring<'_>) -> io::Result<()> {
        if ring.is_offered()
            && let Some(offer) = ring.next_offer().map_err(broken)?
            && ring.return_offer(&offer)
        {
            self.tell_writers(ring, true);
        }
        Ok(())
    }
}

//! What the waiters of a pipe learn when a transfer is over and not all of it was taken.

use std::io;
use std::os::fd::AsFd;

use millstream_ring::Ring;
use millstream_sys::transfer::{self, Access};

use super::descriptor::drop_if_dead;
use crate::end::End;
use crate::error::broken;
use crate::mirror::Mirror;

/// Drops the offer of a dead process, if one stands at this pipe. Returns whether it did.
pub(crate) fn clear_dead_offer(end: &End, ring: &Ring<'_>) -> io::Result<bool> {
    let is_cleared = ring.is_offered() && drop_if_dead(ring).map_err(broken)?;
    if is_cleared {
        tell_that_nothing_is_offered(end, ring);
    }
    Ok(is_cleared)
}

/// Corrects the readiness bytes after an offer was withdrawn, or that of a dead process dropped. A reader that took
/// the last byte corrects them itself. A write end cannot: it opens the pipe once more for both sides. If that
/// fails, waiters find out at their timeout.
pub(crate) fn tell_that_nothing_is_offered(end: &End, ring: &Ring<'_>) {
    let bell = ring.bell();
    let somebody_waits = ring.writers_wait() || bell.is_watched_for_room() || bell.is_watched_for_bytes();
    if somebody_waits && let Ok(both) = transfer::reopened(end.fd(), Access::Both, true) {
        let (parker, mirror) = (end.parker(), Mirror::of(both.as_fd()));
        let _ = bell.raise(&parker, &mirror).and_then(|_| bell.lower(&parker, &mirror));
    }
}

//! How much room a write needs, and how much there is.

use millstream_ring::{PIPE_BUF, Ring};

/// Free bytes without which a write of `total` cannot begin or go on.
pub(crate) fn needed(total: usize) -> usize {
    if total <= PIPE_BUF { total } else { 1 }
}

/// Also true if the ring is broken: the next attempt says so.
#[inline]
pub(crate) fn free(ring: &Ring<'_>) -> usize {
    let (capacity, waiting) = (ring.capacity().unwrap_or(0), ring.readable().unwrap_or(0));
    capacity.saturating_sub(waiting)
}

pub(crate) fn has_room(ring: &Ring<'_>, needed: usize) -> bool {
    if ring.is_offered() {
        return false;
    }
    match (ring.capacity(), ring.readable()) {
        (Ok(capacity), Ok(waiting)) => capacity.saturating_sub(waiting) >= needed,
        _ => true,
    }
}

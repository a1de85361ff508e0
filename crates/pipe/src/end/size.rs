//! How many bytes a pipe holds, and how many wait in it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use millstream_ring::{ResizeError, Ring, RingError, Route};
use millstream_sys::{Errno, pipe, transfer};

use super::{BothSides, End, lock_both};
use crate::capacity::permitted_capacity;
use crate::claim;
use crate::direct::clearing::clear_dead_offer;
use crate::error::broken;
use crate::fifo::routes;
use crate::mirror::{self, Mirror};
use crate::segment::Segment;

impl End {
    pub(crate) fn bytes_readable(&self) -> io::Result<usize> {
        if let Some(link) = self.pipe.company.as_ref().and_then(|company| company.link_if_any(self.fd())) {
            return routes::bytes_readable(self, link);
        }
        let Some(segment) = self.segment()? else { return Ok(transfer::bytes_waiting(self.fd())?) };
        let ring = segment.ring();
        if ring.route() == Route::Ring {
            let waiting = self.readable_and_offered(ring)?;
            // Otherwise they may have been moved in between, and are not gone.
            if ring.route() == Route::Ring {
                return Ok(waiting);
            }
        }
        // What is just being moved is in both places: not while the readers are locked.
        let parker = self.parker();
        let _readers = ring.lock_readers(&parker).map_err(broken)?;
        let in_ring = ring.readable().map_err(broken)?;
        let in_shadow = if ring.route() == Route::Shadow { transfer::bytes_waiting(self.fd())? } else { 0 };
        Ok(in_ring + in_shadow)
    }

    /// Bytes in the ring and the rest of a single-copy transfer, but not more than the ring holds. A kernel's pipe,
    /// which a blocked writer fills again at once, would show as much.
    fn readable_and_offered(&self, ring: &Ring<'_>) -> io::Result<usize> {
        let waiting = ring.readable().map_err(broken)?;
        if !ring.is_offered() {
            return Ok(waiting);
        }
        clear_dead_offer(self, ring)?;
        let rest = ring.offer().map_err(broken)?.map_or(0, |offer| offer.rest());
        Ok((waiting + rest).min(ring.capacity().map_err(broken)?).max(waiting))
    }

    pub(crate) fn capacity(&self) -> io::Result<usize> {
        match self.segment()?.map(|segment| (segment.ring(), segment.ring().route())) {
            Some((ring, route)) if is_of_the_ring(ring, route) => ring.capacity().map_err(broken),
            _ => Ok(pipe::capacity(self.fd())?),
        }
    }

    pub(crate) fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
        self.keep_to_kernel()?;
        let Some(segment) = self.segment()? else { return Ok(pipe::set_capacity(self.fd(), bytes)?) };
        let ring = segment.ring();
        let somebody_waits = || ring.readers_wait() || ring.writers_wait();
        let both_ends = || transfer::reopened(self.fd(), transfer::Access::Both, true);
        claim::give_back(self);
        if claim::is_anywhere(self, ring) {
            return Err(Errno::BUSY.into());
        }
        let (granted, both) = {
            let parker = self.parker();
            let sides = lock_both(ring, &parker)?;
            if !is_of_the_ring(ring, ring.route()) {
                return Ok(pipe::set_capacity(self.fd(), bytes)?);
            }
            if sides.are_claimed() {
                return Err(Errno::BUSY.into());
            }
            let now = ring.capacity().map_err(broken)?;
            let wished = permitted_capacity(bytes, now)?;
            // There may be room for it now. If not, the writer starts the transfer again.
            sides.writers.return_offers(&sides.readers).map_err(broken)?;
            // What can fail is done first: an error says that nothing has happened.
            let both = somebody_waits().then(both_ends).transpose()?;
            if ring.is_quiet() {
                shrink_backing_pipe(self.fd(), wished)?;
            }
            mirror::make_room(self.fd(), wished)?;
            if wished != now {
                resize(segment, &sides, wished)?;
            }
            if ring.writers_wait() || ring.bell().is_watched_for_room() {
                enlarge_idle_backing_pipe(self.fd(), ring);
            }
            (wished, both)
        };
        // A waiter may find that there is room now, or none. One that began to wait since the first look, and cannot
        // be notified, checks by itself at its timeout.
        if somebody_waits()
            && let Some(both) = both.or_else(|| both_ends().ok())
        {
            let (parker, mirror) = (self.parker(), Mirror::of(both.as_fd()));
            let _ = ring.bell().raise(&parker, &mirror).and_then(|_| ring.bell().lower(&parker, &mirror));
        }
        Ok(granted)
    }
}

/// Whether the ring says how much the pipe holds: also in idle mode.
fn is_of_the_ring(ring: &Ring<'_>, route: Route) -> bool {
    route == Route::Ring || ring.is_quiet()
}

/// Shrinks the backing pipe of a pipe in idle mode to `bytes`, unless more than that waits in it.
fn shrink_backing_pipe(shadow: BorrowedFd<'_>, bytes: usize) -> Result<(), Errno> {
    if transfer::bytes_waiting(shadow)? > bytes {
        return Err(Errno::BUSY);
    }
    if pipe::capacity(shadow)? > bytes { pipe::set_capacity(shadow, bytes).map(drop) } else { Ok(()) }
}

/// With the writers locked. In idle mode the backing pipe is smaller than the ring: makes it as large. That wakes the
/// writers that wait for room there, and those that poll. Returns whether it is larger now; it is not where the
/// kernel refuses its user the pages.
pub(crate) fn enlarge_idle_backing_pipe(shadow: BorrowedFd<'_>, ring: &Ring<'_>) -> bool {
    let (Ok(capacity), Ok(now)) = (ring.capacity(), pipe::capacity(shadow)) else { return false };
    ring.is_quiet() && now < capacity && pipe::set_capacity(shadow, capacity).is_ok()
}

fn resize(segment: &Segment, sides: &BothSides<'_>, bytes: usize) -> io::Result<()> {
    if let Some(extent) = sides.writers.extent_of(bytes).map_err(broken)? {
        segment.populate(extent)?;
    }
    sides.writers.resize(&sides.readers, bytes).map_err(|error| match error {
        ResizeError::Busy => Errno::BUSY.into(),
        ResizeError::TooLarge => Errno::PERM.into(),
        ResizeError::Broken => broken(RingError),
    })
}

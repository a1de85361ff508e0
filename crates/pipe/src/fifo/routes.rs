//! From the ring to the kernel and back.
//!
//! ```text
//!            readers do not take part                  all is given back
//!     Ring ─────────────────────────────▶ Moving ────────────────────────▶ Shadow
//!      │ ▲                                   │                              │ ▲ ▲
//!      │ └───────── the FIFO is empty ───────┘                              │ │ │
//!      │ └────── the FIFO is empty, and readers take part ──────────────────┘ │ │
//!      └──────────── somebody plain has written into the FIFO ────────────────┘ │
//!                                                            how every ring begins
//! ```
//!
//! **Ring**: writers write into the ring. **Moving**: what is in the FIFO is older than what is in the ring; readers
//! take from the FIFO, and from the ring when that is empty. **Shadow**: writers write into the FIFO, and what is still in
//! the ring is older; readers take that first.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

use millstream_ring::Route;
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, clock};

use super::company::Link;
use crate::end::{BothSides, End, broken, lock_both};
use crate::refusal::Refusal;
use crate::statistics::Counters;

/// A reader that has not come by for so long, in milliseconds, does not take part. Longer than most programs compute
/// between two reads; as long as a plain reader may be kept waiting beside it, at least.
pub(super) const ATTENTION: u32 = 50;

/// A write of this size takes a page of its own in a kernel pipe, all of it or nothing.
const PAGE: usize = 4096;

/// Whether bytes may be put into the ring.
#[inline]
pub(super) fn is_ring_in_use(link: &Link) -> bool {
    let ring = link.ring();
    ring.is_attended(clock::coarse_milliseconds(), ATTENTION) && !ring.is_kept_to_kernel()
}

/// New bytes go to the FIFO, behind what is in the ring.
pub(super) fn set_aside(link: &Link, counters: &Counters) -> io::Result<()> {
    let (ring, parker) = (link.ring(), link.parker(counters));
    let _sides = lock_both(ring, &parker)?;
    if ring.route() == Route::Ring {
        ring.bell().silence(&parker, &link.doorbell(), Route::Shadow).map_err(broken)?;
    }
    Ok(())
}

/// What is in the ring goes to the FIFO, as far as there is room, and what is written then too. `fifo` is open for writing
/// and never blocks.
pub(super) fn give_back(link: &Link, counters: &Counters, fifo: BorrowedFd<'_>) -> io::Result<()> {
    let (ring, parker) = (link.ring(), link.parker(counters));
    let sides = lock_both(ring, &parker)?;
    let BothSides { readers, writers } = &sides;
    match ring.route() {
        Route::Shadow => return Ok(()),
        // Behind bytes in the FIFO the older ones of the ring cannot go: readers of ours take them first.
        Route::Ring if transfer::bytes_waiting(fifo)? > 0 => {
            return ring.bell().silence(&parker, &link.doorbell(), Route::Shadow).map_err(broken);
        }
        Route::Ring => ring.bell().silence(&parker, &link.doorbell(), Route::Moving).map_err(broken)?,
        Route::Moving => {}
    }
    readers.finish_giving_back().map_err(broken)?;
    let mut piece = [0; PAGE];
    loop {
        let waiting = readers.waiting(usize::MAX).map_err(broken)?;
        if waiting.is_empty() {
            writers.set_route(readers, Route::Shadow);
            return Ok(());
        }
        link.segment().populate(waiting.touches(waiting.len()))?;
        let len = readers.peek(waiting, 0, &mut piece);
        readers.will_give_back(waiting, len);
        let moved = transfer::write(fifo, &[IoSlice::new(&piece[..len])]);
        readers.gave_back(waiting, moved.unwrap_or(0));
        match moved {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Back to the ring if the FIFO is empty, so that no older byte is overtaken.
pub(super) fn return_to_ring(link: &Link, counters: &Counters) -> io::Result<()> {
    if transfer::bytes_waiting(link.fifo())? > 0 {
        return Ok(());
    }
    let (ring, parker) = (link.ring(), link.parker(counters));
    let BothSides { readers, writers } = &lock_both(ring, &parker)?;
    // Again, now that no byte of ours can come in between.
    let is_clear = transfer::bytes_waiting(link.fifo())? == 0 && is_ring_in_use(link);
    if ring.route() == Route::Shadow && is_clear {
        writers.set_route(readers, Route::Ring);
    }
    Ok(())
}

/// A reader leaves: what nobody has taken is for whoever else reads this FIFO.
pub(crate) fn reader_leaves(end: &End, link: &Link) {
    let ring = link.ring();
    ring.attend(clock::coarse_milliseconds().wrapping_sub(2 * ATTENTION));
    let is_left_to_the_kernel = ring.route() == Route::Shadow && ring.readable() == Ok(0);
    if is_left_to_the_kernel || transfer::readiness(link.fifo()).is_ok_and(|ready| ready.peer_gone) {
        return;
    }
    // Who may not write leaves it to the writers, who look.
    if let Ok(fifo) = transfer::reopened(end.fd(), Access::Write, true) {
        let _ = give_back(link, &end.counters, fifo.as_fd());
    }
}

/// A writer leaves: if readers of ours do not take part, or are no more, what it wrote is for whoever does.
pub(crate) fn writer_leaves(end: &End, link: &Link) {
    if link.ring().readable() == Ok(0) || (is_ring_in_use(link) && link.has_readers()) {
        return;
    }
    // Without a reader the kernel would answer with a signal.
    if transfer::readiness(link.fifo()).is_ok_and(|ready| !ready.peer_gone) {
        let _ = give_back(link, &end.counters, link.fifo());
    }
}

/// A writer's descriptor goes to somebody who writes into the FIFO alone: what it has written must be read first.
pub(crate) fn writer_becomes_plain(end: &End, link: &Link) -> io::Result<()> {
    let ring = link.ring();
    if ring.route() == Route::Ring && is_ring_in_use(link) {
        return set_aside(link, &end.counters);
    }
    if !transfer::readiness(link.fifo())?.peer_gone {
        give_back(link, &end.counters, link.fifo())?;
    }
    if ring.route() == Route::Moving { Err(Refusal::TOO_MUCH_WAITS.into()) } else { Ok(()) }
}

/// The stream goes through the kernel for as long as this ring lives, with all that is in the ring.
pub(crate) fn keep_to_kernel(end: &End, link: &Link, access: Access) -> io::Result<()> {
    let ring = link.ring();
    ring.keep_to_kernel();
    if ring.route() == Route::Shadow && ring.readable().map_err(broken)? == 0 {
        return Ok(());
    }
    match access {
        Access::Write => give_back(link, &end.counters, link.fifo()),
        _ => {
            // Both sides, so that opening it fails for no lack of readers.
            let fifo = transfer::reopened(end.fd(), Access::Both, true)?;
            give_back(link, &end.counters, fifo.as_fd())
        }
    }
}

/// Bytes in the ring and in the FIFO.
pub(crate) fn bytes_readable(end: &End, link: &Link) -> io::Result<usize> {
    let parker = link.parker(&end.counters);
    // What is being given back is in both for a moment: not while the readers are locked.
    let _readers = link.ring().lock_readers(&parker).map_err(broken)?;
    Ok(link.ring().readable().map_err(broken)? + transfer::bytes_waiting(link.fifo())?)
}

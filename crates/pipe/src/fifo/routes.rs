//! Between the ring and the FIFO. `docs/fifo.md` says what is promised.
//!
//! ```text
//!     Kernel ─── the FIFO is empty, and reading participants are active ──▶ Shared ◀────────────────────┐
//!      ▲  ▲                                                                 │  │                       │
//!      │  └── the ring is empty, and either bytes lie in the FIFO or no ────┘  │ no reading            │ the FIFO
//!      │      reading participant is active                                    ▼ participant is active │ is empty
//!      └───────────────────── all is flushed ────────────────────────────── Draining ──────────────────┘
//! ```
//!
//! - **Kernel** (`Route::Shadow`), how every ring begins: the ring is empty. Writers write into the FIFO.
//!
//! - **Shared** (`Route::Ring`): writers write into the ring. Only foreign processes, programs without millstream,
//!   write into the FIFO. A writer may find their bytes there while the ring is not empty. It then notes their place in
//!   the stream: behind what the ring holds, before what is put there from now on. Readers keep to that order. If the
//!   ring is empty the state becomes Kernel.
//!
//! - **Draining** (`Route::Moving`): the ring is being flushed to the FIFO. The bytes of participants in the FIFO are
//!   older than those in the ring. Readers take from the FIFO, and from the ring when that is empty. Writers continue
//!   the flush before they write.
//!
//! **The rule: while the ring holds bytes, the bytes of participants in the FIFO are older.** So bytes can leave the
//! ring towards the FIFO at any time, whatever lies there. They go from the front of the ring to the end of the FIFO,
//! in order. A small write goes in one piece ([`millstream_ring::ReadSide::whole_writes`]). Every change is made with
//! both sides locked, the writers' lock first.
//!
//! **When.** A writer flushes if no reading participant has been active for [`ATTENTION`] and the FIFO is empty: a
//! plain reader of the FIFO has to find something. While foreign bytes lie there it has. Then the ring keeps its
//! place behind them, as long as a reading participant is left that will come back for it. The last handle of a
//! process flushes what no other participant would read. So does an end that is exported as a plain descriptor. So
//! does a caller that looks at the kernel's pipe alone.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millstream_ring::{PIPE_BUF, ReadSide, Ring, Route, WriteSide};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, clock, pipe, signals};

use super::company::Link;
use crate::end::{BothSides, End, lock_both};
use crate::error::{PipeErrorKind, broken};
use crate::parking::Parker;
use crate::policy::RETURN_EVERY;

/// A reader that was not seen for so long, in milliseconds, is not active. Longer than most programs compute between
/// two reads. A plain reader beside it may be kept waiting at least as long.
pub(super) const ATTENTION: u32 = 50;

/// How long a handle that leaves waits for room in the FIFO. It waits if the FIFO is full and cannot be made larger,
/// and no participant is left that could flush the rest.
const LINGER: Duration = Duration::from_millis(200);

/// Between two checks whether the FIFO is empty, in TSC cycles: 15 to 60 microseconds, a hundred times what a check
/// takes.
const LOOK_EVERY: u64 = 50_000;

/// Where a writer's next bytes go.
pub(super) enum Way {
    Ring,
    Fifo,
    /// Nowhere: what is in the ring has to go before them, and the FIFO is full.
    Full,
}

/// Whether a reading participant is active. The answer holds for a writer while it has the writers' lock.
fn is_ring_in_use(link: &Link) -> bool {
    let ring = link.ring();
    ring.is_attended(clock::coarse_milliseconds(), ATTENTION) && !ring.is_kept_to_kernel()
}

/// Whether the ring is at least half full. Then a reader that yielded for bytes has lost nothing, and a writer that
/// waits for room has not won yet.
pub(super) fn is_half_full(ring: &Ring<'_>) -> bool {
    matches!((ring.readable(), ring.capacity()), (Ok(waiting), Ok(capacity)) if waiting >= capacity / 2)
}

/// Decides, with the writers locked, and changes the route if it has to. `now` is a moment ago, in TSC cycles.
#[inline]
pub(super) fn way<'p>(
    link: &Link,
    parker: &Parker<'p>,
    writers: &WriteSide<'_, Parker<'p>>,
    now: u64,
) -> io::Result<Way> {
    let ring = link.ring();
    let is_in_use = is_ring_in_use(link) && !is_found_alone(link, now);
    match ring.route() {
        // Checked each time. A foreign process, or this thread before it knew of the ring, may have written into the
        // FIFO. That is read before what is put into the ring from now on.
        Route::Ring if is_in_use && link.is_free_of_foreign_bytes(now)? => return Ok(Way::Ring),
        Route::Shadow if !is_in_use || !is_time_to_return(link, now) => return Ok(Way::Fifo),
        Route::Ring | Route::Shadow | Route::Moving => {}
    }
    change_route(link, parker, writers, is_in_use)
}

#[cold]
fn change_route<'p>(
    link: &Link,
    parker: &Parker<'p>,
    writers: &WriteSide<'_, Parker<'p>>,
    is_in_use: bool,
) -> io::Result<Way> {
    let ring = link.ring();
    let readers = &ring.lock_readers(parker).map_err(broken)?;
    let (strangers, is_empty) = (transfer::bytes_waiting(link.fifo())?, ring.readable().map_err(broken)? == 0);
    let is_expected = || !ring.is_kept_to_kernel() && link.has_readers();
    match ring.route() {
        Route::Shadow if strangers > 0 => Ok(Way::Fifo),
        Route::Shadow => {
            readers.end_foreign_bytes();
            writers.set_route(readers, Route::Ring);
            Ok(Way::Ring)
        }
        Route::Ring if is_in_use && strangers == 0 => Ok(Way::Ring),
        Route::Ring if is_empty => {
            leave_ring(link, parker, readers, Route::Shadow)?;
            Ok(Way::Fifo)
        }
        Route::Ring if strangers > 0 && (is_in_use || is_expected()) => {
            writers.admit_foreign_bytes(readers, strangers);
            Ok(Way::Ring)
        }
        Route::Ring | Route::Moving => {
            let is_all = give_back(link, parker, writers, readers, link.fifo())?;
            Ok(if is_all { Way::Fifo } else { Way::Full })
        }
    }
}

/// Now and then: whether every reading participant has gone, though one was active a moment ago.
fn is_found_alone(link: &Link, now: u64) -> bool {
    if now.wrapping_sub(link.readers_asked_at.load(Relaxed)) < RETURN_EVERY {
        return false;
    }
    let is_alone = !link.has_readers();
    if !is_alone {
        link.readers_asked_at.store(now, Relaxed);
    }
    is_alone
}

fn is_time_to_return(link: &Link, now: u64) -> bool {
    let is_time = now.wrapping_sub(link.return_tried_at.load(Relaxed)) >= LOOK_EVERY;
    if is_time {
        link.return_tried_at.store(now, Relaxed);
    }
    is_time
}

/// New bytes do not go into the ring any more. With both sides locked.
fn leave_ring<'p>(
    link: &Link,
    parker: &Parker<'p>,
    readers: &ReadSide<'_, Parker<'p>>,
    route: Route,
) -> io::Result<()> {
    readers.end_foreign_bytes();
    link.ring().bell().silence(parker, &link.doorbell(), route).map_err(broken)
}

/// Flushes the ring to the FIFO, as far as there is room. Later writes go there too. With both sides locked.
/// `fifo` is open for writing and never blocks. Returns whether that was all.
fn give_back<'p>(
    link: &Link,
    parker: &Parker<'p>,
    writers: &WriteSide<'_, Parker<'p>>,
    readers: &ReadSide<'_, Parker<'p>>,
    fifo: BorrowedFd<'_>,
) -> io::Result<bool> {
    if link.ring().route() == Route::Ring {
        leave_ring(link, parker, readers, Route::Moving)?;
    }
    readers.finish_giving_back().map_err(broken)?;
    let mut piece = [0; PIPE_BUF];
    loop {
        let waiting = readers.waiting(usize::MAX).map_err(broken)?;
        if waiting.is_empty() {
            writers.set_route(readers, Route::Shadow);
            return Ok(true);
        }
        link.segment().populate(waiting.touches(waiting.len()))?;
        link.segment().populate(waiting.notes())?;
        let len = readers.whole_writes(waiting);
        let len = readers.peek(waiting, 0, &mut piece[..len]);
        readers.will_give_back(waiting, len);
        let moved = signals::without_sigpipe(|| transfer::write(fifo, &[IoSlice::new(&piece[..len])]));
        readers.gave_back(waiting, moved.unwrap_or(0));
        match moved {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// As [`give_back`], but makes the FIFO larger until it takes everything or the kernel refuses: no participant is
/// left that could flush the rest when there is room. Never larger than eight times its old capacity: the flushed
/// bytes take at most twice as many pages as they fill.
fn give_all_back<'p>(
    link: &Link,
    parker: &Parker<'p>,
    BothSides { readers, writers }: &BothSides<'p>,
    fifo: BorrowedFd<'_>,
) -> io::Result<bool> {
    let most = 8 * pipe::capacity(fifo)?;
    loop {
        if give_back(link, parker, writers, readers, fifo)? {
            return Ok(true);
        }
        let larger = 2 * pipe::capacity(fifo)?;
        if larger > most || pipe::set_capacity(fifo, larger).is_err() {
            return Ok(false);
        }
    }
}

/// A reader flushes more of the ring, now that there is room in the FIFO. So no other participant has to. With both
/// sides locked.
pub(super) fn give_more_back<'p>(
    end: &End,
    link: &Link,
    parker: &Parker<'p>,
    BothSides { readers, writers }: &BothSides<'p>,
) -> io::Result<bool> {
    let fifo = transfer::reopened(end.fd(), Access::Write, true)?;
    give_back(link, parker, writers, readers, fifo.as_fd())
}

/// The FIFO, open for writing, for an end with this `access` to it.
fn writable<'a>(end: &End, link: &'a Link, access: Access, own: &'a mut Option<OwnedFd>) -> io::Result<BorrowedFd<'a>> {
    match access {
        Access::Write => Ok(link.fifo()),
        _ => Ok(AsFd::as_fd(&*own.insert(transfer::reopened(end.fd(), Access::Write, true)?))),
    }
}

/// The last handle of this process leaves. It flushes what no other participant would read.
///
/// # Errors
/// A sentence: bytes that were written found no room in the FIFO for [`LINGER`], and are lost.
pub(crate) fn leave(end: &End, link: &Link, access: Access) -> io::Result<()> {
    let (ring, parker, mut own) = (link.ring(), link.parker(&end.counters), None);
    loop {
        let fifo = {
            let sides = lock_both(ring, &parker)?;
            let outcome = hand_over(end, link, access, &parker, &sides, &mut own);
            if let Ok(Some(fifo)) = outcome {
                fifo
            } else {
                // Under the locks: if two handles leave at once, the second finds no participant left. Not before:
                // without a mark, others write into the FIFO what is to be read after the ring.
                link.unmark();
                return outcome.map(drop);
            }
        };
        let ready = transfer::sleep_until_writable(fifo, LINGER)?;
        if !ready.writable {
            let lost = ring.readable().unwrap_or(0);
            link.unmark();
            return match lost {
                0 => Ok(()),
                _ => Err(io::Error::other(format!(
                    "the FIFO had no room for the last {lost} bytes for {} ms, and no other end can pass them on",
                    LINGER.as_millis()
                ))),
            };
        }
    }
}

/// Leaves the content of the ring to the other participants, or flushes it. Returns the FIFO if it needs more room
/// for that.
fn hand_over<'a, 'p>(
    end: &'a End,
    link: &'a Link,
    access: Access,
    parker: &Parker<'p>,
    sides: &BothSides<'p>,
    own: &'a mut Option<OwnedFd>,
) -> io::Result<Option<BorrowedFd<'a>>> {
    let ring = link.ring();
    // Asked through a description that has no mark, so that one which is shared with another process is seen.
    let others = link.others(end.fd());
    if access != Access::Write && !others.readers {
        // So that the next write asks the kernel whether a reader is left.
        ring.attend(clock::coarse_milliseconds().wrapping_sub(2 * ATTENTION));
    }
    if ring.readable().map_err(broken)? == 0 {
        return Ok(None);
    }
    let is_left_to_others = match access {
        Access::Write => {
            let is_in_order = ring.route() == Route::Ring && transfer::bytes_waiting(link.fifo())? == 0;
            // Reading participants keep the one order that is right.
            (others.readers && !is_in_order) || transfer::readiness(link.fifo())?.peer_gone
        }
        _ => others.readers,
    };
    if is_left_to_others {
        return Ok(None);
    }
    let fifo = writable(end, link, access, own)?;
    let is_left_for_later = others.readers || others.writers;
    let is_enough = if is_left_for_later {
        give_back(link, parker, &sides.writers, &sides.readers, fifo)?;
        true
    } else {
        give_all_back(link, parker, sides, fifo)?
    };
    Ok((!is_enough).then_some(fifo))
}

/// An end's descriptor goes to a process that uses the FIFO alone. It must find there what has been written before.
pub(crate) fn becomes_plain(end: &End, link: &Link, access: Access) -> io::Result<()> {
    let (ring, parker, mut own) = (link.ring(), link.parker(&end.counters), None);
    let sides = lock_both(ring, &parker)?;
    let is_nobody_there = access == Access::Write && transfer::readiness(link.fifo())?.peer_gone;
    if ring.readable().map_err(broken)? == 0 || is_nobody_there {
        return Ok(());
    }
    let fifo = writable(end, link, access, &mut own)?;
    let is_all = give_all_back(link, &parker, &sides, fifo)?;
    if is_all { Ok(()) } else { Err(PipeErrorKind::TooManyBytesWait.into()) }
}

/// The stream goes through the kernel for as long as this ring lives, with all that is in the ring.
pub(crate) fn keep_to_kernel(end: &End, link: &Link, access: Access) -> io::Result<()> {
    let (ring, parker, mut own) = (link.ring(), link.parker(&end.counters), None);
    // No process leaves this state again.
    if ring.is_kept_to_kernel() && ring.route() == Route::Shadow {
        return Ok(());
    }
    let sides = lock_both(ring, &parker)?;
    let BothSides { readers, writers } = &sides;
    writers.keep_to_kernel();
    if ring.readable().map_err(broken)? == 0 {
        if ring.route() == Route::Ring {
            leave_ring(link, &parker, readers, Route::Shadow)?;
        }
        return Ok(());
    }
    // Without a reader the bytes wait for one: the next write, or the next reading participant, finds them.
    if access == Access::Write && transfer::readiness(link.fifo())?.peer_gone {
        return Ok(());
    }
    let fifo = writable(end, link, access, &mut own)?;
    match give_back(link, &parker, writers, readers, fifo) {
        // It has gone at this moment.
        Err(error) if error.raw_os_error() == Some(Errno::PIPE.raw_os_error()) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Bytes in the ring and in the FIFO.
pub(crate) fn bytes_readable(end: &End, link: &Link) -> io::Result<usize> {
    let parker = link.parker(&end.counters);
    // Bytes that are being flushed are in both for a moment, but not while the readers are locked.
    let _readers = link.ring().lock_readers(&parker).map_err(broken)?;
    Ok(link.ring().readable().map_err(broken)? + transfer::bytes_waiting(link.fifo())?)
}

const _: () = assert!(PIPE_BUF == millstream_sys::pipe::PIPE_BUF);

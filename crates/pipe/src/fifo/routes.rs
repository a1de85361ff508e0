//! Between the ring and the FIFO. `docs/fifo.md` says what is promised.
//!
//! ```text
//!     Shadow ──── the FIFO is empty, and readers of ours take part ────▶ Ring ◀──────────────────────┐
//!      ▲  ▲                                                              │  │                        │
//!      │  └── the ring is empty, and bytes lie in the FIFO or nobody ────┘  │ nobody takes part      │ the FIFO
//!      │      of ours takes part                                            ▼                        │ is empty
//!      └──────────────────── all is given back ────────────────────────── Moving ────────────────────┘
//! ```
//!
//! - **Shadow**, how every ring begins: the ring is empty. Writers write into the FIFO.
//! - **Ring**: writers write into the ring. Only strangers, programs without millstream, write into the FIFO. When a writer
//!   finds bytes of theirs there, and the ring is not empty, their place in the stream is noted: behind what the ring holds,
//!   before what is put there from now on. Readers keep to that. If the ring is empty it becomes Shadow.
//! - **Moving**: the ring is being given back. What of ours lies in the FIFO is older than what lies in the ring. Readers
//!   take from the FIFO, and from the ring when that is empty. Writers go on giving back before they write.
//!
//! **The rule: while the ring holds bytes, what of ours lies in the FIFO is older than they are.** So bytes can leave the
//! ring towards the FIFO at any time, whatever lies there: from the front of the ring to the end of the FIFO, in order. Small
//! writes go in one piece ([`millstream_ring::ReadSide::whole_writes`]). Every change is made with both sides locked, the
//! writers' lock first.
//!
//! **When.** A writer that finds that no reader of ours has taken part for [`ATTENTION`] gives back, if the FIFO is empty: who
//! reads it then has to find something. While strangers' bytes lie there it has, and the ring keeps its place behind them,
//! as long as a reader of ours is left who will come back for it. Whoever is the last of a process to leave gives back what
//! would be nobody's concern otherwise, and so does who makes a plain descriptor of an end, or looks at the kernel's pipe alone.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millstream_ring::{PIPE_BUF, ReadSide, Ring, Route, WriteSide};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, clock, pipe, signals};

use super::company::Link;
use super::lookout;
use crate::end::{BothSides, End, broken, lock_both};
use crate::error::PipeErrorKind;
use crate::parking::Parker;
use crate::writer::RETURN_EVERY;

/// A reader that has not come by for so long, in milliseconds, does not take part. Longer than most programs compute
/// between two reads; as long as a plain reader may be kept waiting beside it, at least.
pub(super) const ATTENTION: u32 = 50;

/// How long who leaves waits for room in a FIFO that is full and cannot be made larger, if nobody of ours is left who could give
/// back the rest.
const LINGER: Duration = Duration::from_millis(200);

/// Between two looks whether the FIFO is empty, in ticks: 15 to 60 microseconds, a hundred times what a look takes.
const LOOK_EVERY: u64 = 50_000;

/// Where a writer's next bytes go.
pub(super) enum Way {
    Ring,
    Fifo,
    /// Nowhere: what is in the ring has to go before them, and the FIFO is full.
    Full,
}

/// Whether readers of ours take part. What a writer sees of it that holds the writers' lock is the last word.
fn is_ring_in_use(link: &Link) -> bool {
    let ring = link.ring();
    ring.is_attended(clock::coarse_milliseconds(), ATTENTION) && !ring.is_kept_to_kernel()
}

/// Whether so much lies in the ring that who gave the CPU away for it has lost nothing, and who waits for room has not won yet.
pub(super) fn is_half_full(ring: &Ring<'_>) -> bool {
    matches!((ring.readable(), ring.capacity()), (Ok(waiting), Ok(capacity)) if waiting >= capacity / 2)
}

/// Decides, with the writers locked, and changes the route if it has to. `now` is a moment ago, in ticks.
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
        // To be known each time: what a stranger, or this very thread before it knew of the ring, has put into the FIFO is read
        // before what is put into the ring from now on.
        Route::Ring if is_in_use && lookout::is_free_of_foreign_bytes(link, now)? => return Ok(Way::Ring),
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
            readers.no_more_strangers();
            writers.set_route(readers, Route::Ring);
            Ok(Way::Ring)
        }
        Route::Ring if is_in_use && strangers == 0 => Ok(Way::Ring),
        Route::Ring if is_empty => {
            leave_ring(link, parker, readers, Route::Shadow)?;
            Ok(Way::Fifo)
        }
        Route::Ring if strangers > 0 && (is_in_use || is_expected()) => {
            writers.let_strangers_in(readers, strangers);
            Ok(Way::Ring)
        }
        Route::Ring | Route::Moving => {
            let is_all = give_back(link, parker, writers, readers, link.fifo())?;
            Ok(if is_all { Way::Fifo } else { Way::Full })
        }
    }
}

/// Now and then: whether every reader of ours has gone, though one took part a moment ago.
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
    readers.no_more_strangers();
    link.ring().bell().silence(parker, &link.doorbell(), route).map_err(broken)
}

/// What is in the ring goes to the FIFO, as far as there is room, and what is written then too. With both sides locked.
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

/// As [`give_back`], in a FIFO that is made larger until it takes everything, or the kernel refuses: nobody of ours is left
/// who could give back the rest when there is room. Never larger than eight times what it was: what is given back takes at most
/// twice as many pages as it fills.
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

/// A reader has room in the FIFO for more of what is being given back, and nobody else need come by to put it there. With
/// both sides locked.
pub(super) fn give_more_back<'p>(
    end: &End,
    link: &Link,
    parker: &Parker<'p>,
    BothSides { readers, writers }: &BothSides<'p>,
) -> io::Result<bool> {
    let fifo = transfer::reopened(end.fd(), Access::Write, true)?;
    give_back(link, parker, writers, readers, fifo.as_fd())
}

/// The FIFO, open for writing, for who has `access` to it.
fn writable<'a>(end: &End, link: &'a Link, access: Access, own: &'a mut Option<OwnedFd>) -> io::Result<BorrowedFd<'a>> {
    match access {
        Access::Write => Ok(link.fifo()),
        _ => Ok(AsFd::as_fd(&*own.insert(transfer::reopened(end.fd(), Access::Write, true)?))),
    }
}

/// The last handle of this process leaves: what would be nobody's concern otherwise is for whoever else uses this FIFO.
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
                // Under the locks: of two that leave at once the second finds that nobody is left. Not before: while there is no
                // mark, others write into the FIFO what is to be read after what lies in the ring.
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

/// What lies in the ring is for those who stay, or is put into the FIFO. Returns that if there has to be room for more of it.
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
        // So that the next write asks the kernel whether anybody is left.
        ring.attend(clock::coarse_milliseconds().wrapping_sub(2 * ATTENTION));
    }
    if ring.readable().map_err(broken)? == 0 {
        return Ok(None);
    }
    let is_left_to_others = match access {
        Access::Write => {
            let is_in_order = ring.route() == Route::Ring && transfer::bytes_waiting(link.fifo())? == 0;
            // Readers of ours have the one order that is right.
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

/// An end's descriptor goes to somebody who uses the FIFO alone: what has been written before is to be found there.
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
    // Nobody leaves this state again.
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
    // Without a reader the bytes wait for one: the next write, or the next reader of ours, finds them.
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
    // What is being given back is in both for a moment: not while the readers are locked.
    let _readers = link.ring().lock_readers(&parker).map_err(broken)?;
    Ok(link.ring().readable().map_err(broken)? + transfer::bytes_waiting(link.fifo())?)
}

const _: () = assert!(PIPE_BUF == millstream_sys::pipe::PIPE_BUF);

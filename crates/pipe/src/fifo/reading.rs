//! Reading a FIFO whose ring this process shares.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use millstream_ring::{ReadSide, Ring, Route};
use millstream_sys::{Errno, clock, cpu, signals, transfer};

use super::company::Link;
use super::routes::{self, is_half_full};
use crate::buffers::{filled_by_one_call, first_bytes};
use crate::end::{BothSides, End, lock_both};
use crate::error::broken;
use crate::parking::Parker;
use crate::policy::{Effort, Look};
use crate::waits::Waits;

/// Pauses between two reads of the ring's words. A writer that asks the kernel before each write is slower than at a
/// pipe. Each look at the ring also takes from it the cache line that it needs for the next write.
const PAUSES: u32 = 8;

/// What one attempt came to.
enum Attempt {
    Moved(usize),
    /// Nothing in the ring; the kernel was not asked.
    EmptyRing,
    /// Nothing there either.
    Nothing,
    Again,
    EndOfStream,
}

/// What a reader does next if it finds nothing in the ring.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Looks at the ring for a while, and does not ask the kernel before. The question takes longer than the writer
    /// needs for its next bytes, and slows down the writer, which asks the same pipe.
    Look,
    /// Asks the kernel, and looks on.
    Ask,
    /// Asks the kernel, and sleeps.
    AskAndSleep,
}

/// As [`Reader`](crate::Reader) says; `ECANCELED` if it would sleep and `bell` is readable.
pub(crate) fn read(
    end: &End,
    link: &Link,
    buffers: &mut [IoSliceMut<'_>],
    bell: Option<BorrowedFd<'_>>,
) -> io::Result<usize> {
    let wanted = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
    if wanted == 0 {
        return Ok(0);
    }
    let (mut waits, mut next) = (Waits::beside(bell), Next::Look);
    loop {
        link.ring().attend(clock::coarse_milliseconds());
        match attempt(end, link, buffers, wanted, next)? {
            Attempt::Moved(count) => return Ok(count),
            Attempt::EndOfStream => return Ok(0),
            Attempt::Again => {}
            Attempt::EmptyRing => {
                link.see_to_write_monitor();
                next = look(end, link, &waits)?;
            }
            Attempt::Nothing => {
                if next != Next::Ask {
                    wait(end, link, &mut waits)?;
                }
                next = Next::Look;
            }
        }
    }
}

#[inline]
fn attempt(end: &End, link: &Link, buffers: &mut [IoSliceMut<'_>], wanted: usize, next: Next) -> io::Result<Attempt> {
    let (ring, parker) = (link.ring(), link.parker(&end.counters));
    let readers = ring.lock_readers(&parker).map_err(broken)?;
    let mut waiting = readers.waiting(wanted).map_err(broken)?;
    if ring.route() == Route::Moving {
        drop(readers);
        return attempt_moving(end, link, buffers);
    }
    match readers.before_foreign_bytes(waiting) {
        None => {}
        Some(0) => return attempt_foreign(end, link, &readers, buffers),
        Some(before) => waiting = waiting.first(before),
    }
    if waiting.is_empty() {
        if next == Next::Look && ring.route() == Route::Ring {
            return Ok(Attempt::EmptyRing);
        }
        return attempt_fifo(end, link, buffers);
    }
    link.segment().populate(waiting.touches(wanted.min(waiting.len())))?;
    let count = readers.read(waiting, buffers.iter_mut().map(|buffer| &mut **buffer), cpu::current());
    end.counters.moved(count);
    drop(readers);
    if ring.writers_wait() {
        lower_bell(end, link);
    }
    Ok(Attempt::Moved(count))
}

/// With the readers locked and nothing in the ring, as far as was seen. No other thread takes bytes out of the ring
/// or changes the route meanwhile.
fn attempt_fifo(end: &End, link: &Link, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Attempt> {
    let ready = transfer::readiness(link.fifo())?;
    if ready.peer_gone {
        link.saw_writer.store(true, Relaxed);
    }
    let most = if ready.readable { transfer::bytes_waiting(link.fifo())? } else { 0 };
    // The kernel first, the ring second. Foreign bytes in the FIFO and closed write ends, as the kernel now reports
    // them, may be newer than bytes put into the ring since the look at it.
    if has_bytes(link.ring()) {
        return Ok(Attempt::Again);
    }
    if most > 0 {
        return take_from_fifo(end, link, &mut first_bytes(buffers, most));
    }
    match ready {
        // Another reader has taken them.
        _ if ready.readable => Ok(Attempt::Again),
        _ if ready.peer_gone => Ok(Attempt::EndOfStream),
        _ if link.saw_writer.load(Relaxed) => Ok(Attempt::Nothing),
        // A reader that opened the FIFO without a writer is told of no end of the stream before the first writer
        // comes. Its read does not wait.
        _ => take_from_fifo(end, link, &mut filled_by_one_call(buffers)),
    }
}

fn take_from_fifo(end: &End, link: &Link, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Attempt> {
    match transfer::read(link.fifo(), buffers) {
        Ok(0) if has_bytes(link.ring()) => Ok(Attempt::Again),
        Ok(0) => Ok(Attempt::EndOfStream),
        Ok(count) => {
            end.counters.moved_through_kernel(count);
            Ok(Attempt::Moved(count))
        }
        // There is a writer, or a read would not wait.
        Err(Errno::AGAIN) => {
            link.saw_writer.store(true, Relaxed);
            Ok(Attempt::Nothing)
        }
        Err(error) => Err(error.into()),
    }
}

/// The bytes of foreign processes in the FIFO come next, and then the rest of the ring.
#[cold]
fn attempt_foreign(
    end: &End,
    link: &Link,
    readers: &ReadSide<'_, Parker<'_>>,
    buffers: &mut [IoSliceMut<'_>],
) -> io::Result<Attempt> {
    match transfer::read(link.fifo(), &mut first_bytes(buffers, readers.foreign_bytes())) {
        Ok(count) if count > 0 => {
            readers.took_foreign_bytes(count);
            end.counters.moved_through_kernel(count);
            Ok(Attempt::Moved(count))
        }
        // Other readers have taken them.
        Ok(_) | Err(Errno::AGAIN) => {
            readers.end_foreign_bytes();
            Ok(Attempt::Again)
        }
        Err(error) => Err(error.into()),
    }
}

/// What is in the FIFO is older than what is in the ring.
#[cold]
fn attempt_moving(end: &End, link: &Link, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Attempt> {
    let (ring, parker) = (link.ring(), link.parker(&end.counters));
    let sides = lock_both(ring, &parker)?;
    let BothSides { readers, writers } = &sides;
    if ring.route() != Route::Moving {
        return Ok(Attempt::Again);
    }
    readers.finish_giving_back().map_err(broken)?;
    let taken = match transfer::read(link.fifo(), &mut filled_by_one_call(buffers)) {
        Err(Errno::AGAIN) => 0,
        outcome => outcome?,
    };
    if ring.is_kept_to_kernel() {
        // A reader that looks at the FIFO alone must see that there is more. If that fails, the bytes are still in
        // the ring.
        let outcome = routes::give_more_back(end, link, &parker, &sides);
        if taken == 0 {
            outcome?;
        }
    } else if taken == 0 {
        let is_empty = ring.readable().map_err(broken)? == 0;
        writers.set_route(readers, if is_empty { Route::Shadow } else { Route::Ring });
    }
    if taken == 0 {
        return Ok(Attempt::Again);
    }
    end.counters.moved_through_kernel(taken);
    Ok(Attempt::Moved(taken))
}

/// The bytes have been read: the next call finds an error that occurs here.
#[cold]
fn lower_bell(end: &End, link: &Link) {
    if link.ring().bell().lower(&link.parker(&end.counters), &link.doorbell()) == Ok(true) {
        end.counters.woke_peer();
    }
}

/// Also true if the ring is broken: the next attempt says so. A writer of a FIFO makes no single-copy transfers, so a
/// forged transfer counts for nothing.
fn has_bytes(ring: &Ring<'_>) -> bool {
    ring.readable() != Ok(0)
}

/// Looks at the ring, as long as it pays to wait for bytes there without sleeping.
fn look(end: &End, link: &Link, waits: &Waits<'_>) -> io::Result<Next> {
    let ring = link.ring();
    if waits.has_slept() || !end.was_blocking()? {
        return Ok(Next::AskAndSleep);
    }
    let is_over = || {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        has_bytes(ring) || ring.route() != Route::Ring
    };
    let mut effort = Effort::default();
    let look = end.patience.look_for_much(ring.writers_cpu(), is_over, |_| is_half_full(ring), &mut effort);
    if look == Look::Found && has_bytes(ring) {
        end.let_gather(ring, &mut effort);
    }
    end.counters.waited(effort);
    Ok(match look {
        Look::Found => Next::Look,
        Look::KeepLooking if end.is_blocking()? => Next::Ask,
        Look::KeepLooking | Look::AskKernel => Next::AskAndSleep,
    })
}

fn wait(end: &End, link: &Link, waits: &mut Waits<'_>) -> io::Result<()> {
    let ring = link.ring();
    link.see_to_mark();
    if end.is_blocking()? { sleep(end, link, waits) } else { must_not_sleep(end, link, ring) }
}

fn must_not_sleep(end: &End, link: &Link, ring: &Ring<'_>) -> io::Result<()> {
    // A reader may have died between emptying the ring and notifying. We do not sleep, which would notify on its
    // behalf.
    if ring.writers_wait() {
        lower_bell(end, link);
    }
    if has_bytes(ring) { Ok(()) } else { Err(Errno::AGAIN.into()) }
}

fn sleep(end: &End, link: &Link, waits: &mut Waits<'_>) -> io::Result<()> {
    let ring = link.ring();
    let (bell, parker, doorbell) = (ring.bell(), link.parker(&end.counters), link.doorbell());
    let route = ring.route();
    if waits.false_wakes > 3 {
        // Another process has put wake tokens there without cause.
        bell.expel(&parker, &doorbell).map_err(broken)?;
    }
    let counted = bell.reader_will_sleep(&parker, &doorbell);
    let slept = match counted {
        Ok(()) if !has_bytes(ring) && ring.route() == route => {
            end.counters.slept();
            let slept_at = clock::ticks();
            let slept = transfer::sleep_until_readable_unless(link.fifo(), Some(link.bell_fd()), waits.bell, waits.nap);
            end.patience.woke(slept_at, bell.rung_at(), ring.writers_cpu());
            Some(slept)
        }
        _ => None,
    };
    bell.reader_woke();
    counted.map_err(broken)?;
    match slept {
        None => Ok(()),
        Some(Ok(ready)) => {
            waits.slept(!has_bytes(ring) && !ready.readable && !ready.peer_gone);
            Ok(())
        }
        Some(Err(Errno::INTR)) if signals::handlers_ask_for_restart() => Ok(()),
        Some(Err(error)) => Err(error.into()),
    }
}

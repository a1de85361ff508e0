//! Reading a FIFO whose ring this process shares.

use std::io::{self, IoSliceMut};
use std::time::Duration;

use millstream_ring::{Ring, Route};
use millstream_sys::{Errno, clock, cpu, signals, transfer};

use super::company::Link;
use crate::end::{BothSides, End, broken, lock_both};
use crate::policy::{Effort, FIRST_NAP, Look, longer};
use crate::reader::{filled_by_one_call, has_bytes};

/// What one attempt came to.
enum Attempt {
    Moved(usize),
    Nothing,
    Again,
    EndOfStream,
}

/// As [`Reader`](crate::Reader) says.
pub(crate) fn read(end: &End, link: &Link, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let wanted = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
    if wanted == 0 {
        return Ok(0);
    }
    let (mut false_wakes, mut nap) = (0, FIRST_NAP);
    loop {
        link.ring().attend(clock::coarse_milliseconds());
        match attempt(end, link, buffers, wanted)? {
            Attempt::Moved(count) => return Ok(count),
            Attempt::EndOfStream => return Ok(0),
            Attempt::Again => {}
            Attempt::Nothing => wait(end, link, &mut false_wakes, &mut nap)?,
        }
    }
}

#[inline]
fn attempt(end: &End, link: &Link, buffers: &mut [IoSliceMut<'_>], wanted: usize) -> io::Result<Attempt> {
    let (ring, parker) = (link.ring(), link.parker(&end.counters));
    let readers = ring.lock_readers(&parker).map_err(broken)?;
    let waiting = readers.waiting(wanted).map_err(broken)?;
    if ring.route() == Route::Moving {
        drop(readers);
        return attempt_moving(end, link, buffers);
    }
    if waiting.is_empty() {
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

/// With the readers locked and nothing in the ring.
fn attempt_fifo(end: &End, link: &Link, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Attempt> {
    match transfer::read(link.fifo(), &mut filled_by_one_call(buffers)) {
        // The kernel first, the ring second: who closed had written before.
        Ok(0) if has_bytes(link.ring()) || link.ring().route() == Route::Moving => Ok(Attempt::Again),
        Ok(0) => Ok(Attempt::EndOfStream),
        Ok(count) => {
            end.counters.moved_through_kernel(count);
            Ok(Attempt::Moved(count))
        }
        Err(Errno::AGAIN) => Ok(Attempt::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// What is in the FIFO is older than what is in the ring.
#[cold]
fn attempt_moving(end: &End, link: &Link, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Attempt> {
    let (ring, parker) = (link.ring(), link.parker(&end.counters));
    let BothSides { readers, writers } = &lock_both(ring, &parker)?;
    if ring.route() != Route::Moving {
        return Ok(Attempt::Again);
    }
    readers.finish_giving_back().map_err(broken)?;
    match transfer::read(link.fifo(), &mut filled_by_one_call(buffers)) {
        Ok(count) if count > 0 => {
            end.counters.moved_through_kernel(count);
            return Ok(Attempt::Moved(count));
        }
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(error) => return Err(error.into()),
    }
    let is_empty = ring.readable().map_err(broken)? == 0;
    writers.set_route(readers, if is_empty { Route::Shadow } else { Route::Ring });
    Ok(Attempt::Again)
}

/// What has been read has been read: an error here is left for the next call to find.
#[cold]
fn lower_bell(end: &End, link: &Link) {
    if link.ring().bell().lower(&link.parker(&end.counters), &link.doorbell()) == Ok(true) {
        end.counters.woke_somebody();
    }
}

fn wait(end: &End, link: &Link, false_wakes: &mut u32, nap: &mut Duration) -> io::Result<()> {
    let ring = link.ring();
    // Who has slept a whole nap in vain sleeps on.
    if *nap == FIRST_NAP && ring.route() == Route::Ring && end.was_blocking()? {
        let is_over = || has_bytes(ring) || ring.route() != Route::Ring;
        let mut effort = Effort::default();
        let look = end.patience.look(ring.writers_cpu(), is_over, &mut effort);
        end.counters.waited(effort);
        // Looking on: the next attempt asks the kernel who is there.
        if matches!(look, Look::Found | Look::KeepLooking) && end.is_blocking()? {
            return Ok(());
        }
    }
    if end.is_blocking()? { sleep(end, link, ring, false_wakes, nap) } else { must_not_sleep(end, link, ring) }
}

fn must_not_sleep(end: &End, link: &Link, ring: Ring<'_>) -> io::Result<()> {
    // Who emptied the ring may have died before it could say so, and we shall not sleep, which would.
    if ring.writers_wait() {
        lower_bell(end, link);
    }
    if has_bytes(ring) { Ok(()) } else { Err(Errno::AGAIN.into()) }
}

fn sleep(end: &End, link: &Link, ring: Ring<'_>, false_wakes: &mut u32, nap: &mut Duration) -> io::Result<()> {
    let (bell, parker, doorbell) = (ring.bell(), link.parker(&end.counters), link.doorbell());
    let route = ring.route();
    if *false_wakes > 3 {
        // Somebody has rung who should not have.
        doorbell.clear();
    }
    let counted = bell.reader_will_sleep(&parker, &doorbell);
    let slept = match counted {
        Ok(()) if !has_bytes(ring) && ring.route() == route => {
            end.counters.slept();
            let slept_at = clock::ticks();
            let slept = transfer::sleep_until_readable_or_rung(link.fifo(), link.bell_fd(), *nap);
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
            *false_wakes += u32::from(!has_bytes(ring) && !ready.readable && !ready.peer_gone);
            *nap = longer(*nap);
            Ok(())
        }
        Some(Err(Errno::INTR)) if signals::handlers_ask_for_restart() => Ok(()),
        Some(Err(error)) => Err(error.into()),
    }
}

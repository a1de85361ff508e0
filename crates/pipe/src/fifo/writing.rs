//! Writing a FIFO whose ring this process shares.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millstream_ring::{PIPE_BUF, Ring, Route};
use millstream_sys::{Errno, clock, cpu, signals, transfer};

use super::company::Link;
use super::routes::{self, ATTENTION};
use crate::end::{End, broken};
use crate::policy::{Effort, FIRST_NAP, Look, longer};
use crate::writer::{ASK_EVERY, RETURN_EVERY, Stop, gathered_for_one_call, has_room, needed, unwritten};

/// Between two looks whether the FIFO is empty, in ticks: 15 to 60 microseconds, a hundred times what a look takes.
const LOOK_EVERY: u64 = 50_000;

/// What one attempt came to.
enum Attempt {
    Moved(usize),
    NoRoom,
}

/// As [`Writer`](crate::Writer) says.
pub(crate) fn write(end: &End, link: &Link, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let total = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
    let (mut done, mut nap) = (0, FIRST_NAP);
    while done < total {
        let outcome = match attempt(end, link, buffers, done, total) {
            Ok(Attempt::Moved(count)) => {
                done += count;
                continue;
            }
            Ok(Attempt::NoRoom) => wait(end, link, needed(total), &mut nap),
            Err(stop) => Err(stop),
        };
        let error = match outcome {
            Ok(()) => continue,
            // As in the kernel: only what has not moved anything is done again by itself.
            Err(Stop::Interrupted) if done == 0 && signals::handlers_ask_for_restart() => continue,
            Err(Stop::Interrupted) => Errno::INTR.into(),
            Err(Stop::NoReader) => {
                signals::send_sigpipe_to_this_thread();
                Errno::PIPE.into()
            }
            Err(Stop::Error(error)) => error,
        };
        link.asked_at.store(0, Relaxed);
        // What has been written cannot be taken back: the error can wait, for it will be there next time.
        return if done > 0 { Ok(done) } else { Err(error) };
    }
    Ok(done)
}

#[inline]
fn attempt(end: &End, link: &Link, buffers: &[IoSlice<'_>], done: usize, total: usize) -> Result<Attempt, Stop> {
    let (ring, parker) = (link.ring(), link.parker(&end.counters));
    ask_who_is_there(end, link, ring)?;
    let is_ring_in_use = routes::is_ring_in_use(link);
    let writers = ring.lock_writers(&parker).map_err(broken)?;
    match ring.route() {
        Route::Ring if is_ring_in_use => {}
        Route::Ring => {
            drop(writers);
            routes::give_back(link, &end.counters, link.fifo())?;
            return Ok(Attempt::Moved(0));
        }
        Route::Moving => {
            drop(writers);
            routes::give_back(link, &end.counters, link.fifo())?;
            return Ok(if ring.route() == Route::Moving { Attempt::NoRoom } else { Attempt::Moved(0) });
        }
        Route::Shadow if is_ring_in_use && is_time_to_return(link) => {
            drop(writers);
            routes::return_to_ring(link, &end.counters)?;
            return Ok(Attempt::Moved(0));
        }
        Route::Shadow => return attempt_fifo(end, link, buffers, done, total),
    }
    let room = writers.room(total - done).map_err(broken)?;
    if room.len() < needed(total) {
        return Ok(Attempt::NoRoom);
    }
    link.segment().populate(room.touches(room.len().min(total - done)))?;
    let count = writers.write(room, unwritten(buffers, done), cpu::current());
    end.counters.moved(count);
    drop(writers);
    if ring.readers_wait() {
        raise_bell(end, link);
    }
    Ok(Attempt::Moved(count))
}

/// With the writers locked: none of ours can come between.
fn attempt_fifo(end: &End, link: &Link, buffers: &[IoSlice<'_>], done: usize, total: usize) -> Result<Attempt, Stop> {
    let mut gathered = Vec::new();
    match transfer::write(link.fifo(), &gathered_for_one_call(buffers, done, total, &mut gathered)) {
        Ok(0) | Err(Errno::AGAIN) => Ok(Attempt::NoRoom),
        Ok(count) => {
            end.counters.moved_through_kernel(count);
            Ok(Attempt::Moved(count))
        }
        Err(error) => Err(error.into()),
    }
}

/// Now and then: whether anybody reads, and whether somebody plain has written, whose bytes are to be read before those
/// that we write from now on.
#[inline]
fn ask_who_is_there(end: &End, link: &Link, ring: Ring<'_>) -> Result<(), Stop> {
    let now = clock::ticks();
    if now.wrapping_sub(link.asked_at.load(Relaxed)) < ASK_EVERY || ring.route() != Route::Ring {
        return Ok(());
    }
    if transfer::readiness(link.fifo())?.peer_gone {
        return Err(Stop::NoReader);
    }
    link.asked_at.store(now, Relaxed);
    if now.wrapping_sub(link.readers_asked_at.load(Relaxed)) >= RETURN_EVERY {
        link.readers_asked_at.store(now, Relaxed);
        if !link.has_readers() {
            routes::give_back(link, &end.counters, link.fifo())?;
        }
    }
    if transfer::bytes_waiting(link.fifo())? > 0 {
        routes::set_aside(link, &end.counters)?;
    }
    Ok(())
}

fn is_time_to_return(link: &Link) -> bool {
    let now = clock::ticks();
    let is_time = now.wrapping_sub(link.return_tried_at.load(Relaxed)) >= LOOK_EVERY;
    if is_time {
        link.return_tried_at.store(now, Relaxed);
    }
    is_time
}

/// What has been written has been written: an error here is left for the next call to find.
#[cold]
fn raise_bell(end: &End, link: &Link) {
    if link.ring().bell().raise(&link.parker(&end.counters), &link.doorbell()) == Ok(true) {
        end.counters.woke_somebody();
    }
}

fn wait(end: &End, link: &Link, needed: usize, nap: &mut Duration) -> Result<(), Stop> {
    let ring = link.ring();
    // Who has slept a whole nap in vain sleeps on.
    if *nap == FIRST_NAP && ring.route() == Route::Ring && end.was_blocking()? {
        let is_over = || has_room(ring, needed) || ring.route() != Route::Ring;
        let mut effort = Effort::default();
        let look = end.patience.look(ring.readers_cpu(), is_over, &mut effort);
        end.counters.waited(effort);
        if matches!(look, Look::Found | Look::KeepLooking) && end.is_blocking()? {
            return Ok(());
        }
    }
    if end.is_blocking()? { sleep(end, link, ring, needed, nap) } else { must_not_sleep(end, link, ring, needed) }
}

fn must_not_sleep(end: &End, link: &Link, ring: Ring<'_>, needed: usize) -> Result<(), Stop> {
    // Who filled the ring may have died before it could say so, and we shall not sleep, which would.
    if ring.readers_wait() {
        raise_bell(end, link);
    }
    let ready = transfer::readiness(link.fifo())?;
    match ring.route() {
        _ if ready.peer_gone => Err(Stop::NoReader),
        Route::Ring if has_room(ring, needed) => Ok(()),
        _ => Err(Errno::AGAIN.into()),
    }
}

fn sleep(end: &End, link: &Link, ring: Ring<'_>, needed: usize, nap: &mut Duration) -> Result<(), Stop> {
    let (bell, parker, doorbell) = (ring.bell(), link.parker(&end.counters), link.doorbell());
    let route = ring.route();
    let counted = bell.writer_will_sleep(&parker, &doorbell);
    let slept = match counted {
        Ok(()) if route != Route::Ring && ring.route() == route => {
            end.counters.slept();
            Some(transfer::sleep_until_writable(link.fifo(), *nap))
        }
        Ok(()) if route == Route::Ring && ring.route() == route && !has_room(ring, needed) => {
            end.counters.slept();
            // No longer: readers that no longer take part do not tell.
            let limit = Duration::from_millis(ATTENTION.into()).min(*nap);
            let slept_at = clock::ticks();
            let slept = transfer::sleep_until_lonely_or_rung(link.fifo(), link.bell_fd(), limit);
            end.patience.woke(slept_at, bell.rung_at(), ring.readers_cpu());
            Some(slept)
        }
        _ => None,
    };
    bell.writer_woke();
    counted.map_err(broken)?;
    match slept {
        None => Ok(()),
        Some(Ok(ready)) if ready.peer_gone => Err(Stop::NoReader),
        Some(Ok(_)) => {
            *nap = longer(*nap);
            Ok(())
        }
        Some(Err(Errno::INTR)) => Err(Stop::Interrupted),
        Some(Err(error)) => Err(error.into()),
    }
}

const _: () = assert!(PIPE_BUF == transfer::PIPE_BUF);

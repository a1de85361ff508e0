//! Writing a FIFO whose ring this process shares.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millstream_ring::{Ring, Route};
use millstream_sys::{Errno, clock, cpu, signals, transfer};

use super::company::Link;
use super::routes::{self, ATTENTION, Way, is_half_full};
use crate::buffers::{gathered_for_one_call, unwritten};
use crate::end::End;
use crate::error::broken;
use crate::policy::{ASK_EVERY, Effort, FIRST_NAP, Look, longer};
use crate::writer::room::{has_room, needed};
use crate::writer::stop::Stop;

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
            Err(stop) => stop.report(),
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
    let now = clock::ticks();
    ask_for_readers(link, ring, now)?;
    let writers = ring.lock_writers(&parker).map_err(broken)?;
    match routes::way(link, &parker, &writers, now) {
        Ok(Way::Ring) => {}
        Ok(Way::Fifo) => return attempt_fifo(end, link, buffers, done, total),
        Ok(Way::Full) => return Ok(Attempt::NoRoom),
        Err(error) if error.raw_os_error() == Some(Errno::PIPE.raw_os_error()) => return Err(Stop::NoReader),
        Err(error) => return Err(error.into()),
    }
    let room = writers.room(total - done).map_err(broken)?;
    if room.len() < needed(total) {
        return Ok(Attempt::NoRoom);
    }
    let len = room.len().min(total - done);
    link.segment().populate(room.touches(len))?;
    link.segment().populate(room.notes())?;
    writers.note_end(room, len);
    let count = writers.write(room, unwritten(buffers, done), cpu::current());
    end.counters.moved(count);
    drop(writers);
    if ring.readers_wait() {
        raise_bell(end, link);
    }
    Ok(Attempt::Moved(count))
}

/// With the writers locked: no participant writes in between.
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

/// Now and then: whether a reader is left.
#[inline]
fn ask_for_readers(link: &Link, ring: &Ring<'_>, now: u64) -> Result<(), Stop> {
    if now.wrapping_sub(link.asked_at.load(Relaxed)) < ASK_EVERY || ring.route() != Route::Ring {
        return Ok(());
    }
    if transfer::readiness(link.fifo())?.peer_gone {
        return Err(Stop::NoReader);
    }
    link.asked_at.store(now, Relaxed);
    Ok(())
}

/// The bytes have been written: the next call finds an error that occurs here.
#[cold]
fn raise_bell(end: &End, link: &Link) {
    if link.ring().bell().raise(&link.parker(&end.counters), &link.doorbell()) == Ok(true) {
        end.counters.woke_peer();
    }
}

fn wait(end: &End, link: &Link, needed: usize, nap: &mut Duration) -> Result<(), Stop> {
    let ring = link.ring();
    link.see_to_mark();
    // A writer whose sleep ended by a timeout without room sleeps on.
    if *nap == FIRST_NAP && ring.route() == Route::Ring && end.was_blocking()? {
        let is_over = || has_room(ring, needed) || ring.route() != Route::Ring;
        let mut effort = Effort::default();
        let is_much = |_| !is_half_full(ring);
        let look = end.patience.look_for_much(ring.readers_cpu(), is_over, is_much, &mut effort);
        end.counters.waited(effort);
        if matches!(look, Look::Found | Look::KeepLooking) && end.is_blocking()? {
            return Ok(());
        }
    }
    if end.is_blocking()? { sleep(end, link, ring, needed, nap) } else { must_not_sleep(end, link, ring, needed) }
}

fn must_not_sleep(end: &End, link: &Link, ring: &Ring<'_>, needed: usize) -> Result<(), Stop> {
    // A writer may have died between filling the ring and notifying. We do not sleep, which would notify on its behalf.
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

fn sleep(end: &End, link: &Link, ring: &Ring<'_>, needed: usize, nap: &mut Duration) -> Result<(), Stop> {
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
            // No longer: a reader that is not active does not notify.
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

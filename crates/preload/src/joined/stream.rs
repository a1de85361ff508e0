//! `read` and `write` of a pipe whose stream is in the ring.
//!
//! A side that finds nothing to do first spins for a while, or yields the CPU to the other side. Then it sleeps in a call
//! that is what the kernel's pipe would have made of it: the reader in `read(2)` of the backing pipe, which ends with the last
//! writer; the writer on a futex that the kernel marks when the reader's thread ends. So signals, `SA_RESTART`, end of
//! stream and death are the kernel's own.

use core::ffi::c_int;
use millstream_ring::channel::{Channel, Moved, Woken};
use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;

use super::calls::read_by_kernel;
use super::calls::{read_from_kernel, write_to_kernel};
use super::copy::copy;
use super::end::{End, READER, READERS_SLEEP, WRITER};
use super::faults;
use super::held::Held;
use super::ring_memory::{empty, fill};
use super::{kernel, promised, retreat, wait};
use crate::counted;

/// The most that one call of the kernel moves.
const LARGEST: usize = 0x7fff_f000;
/// So long a writer sleeps before it asks the kernel for the reader's end. A robust mutex that the reader has locked since it attached
/// has taken the place of the mark of its death.
const TRUST_NS: u64 = 500_000_000;

/// `write(2)` to the ring; what does not get there any more goes to the backing pipe.
pub(super) fn write(channel: &Channel, fd: c_int, source: *const u8, len: usize) -> isize {
    let len = len.min(LARGEST);
    let cpu = kernel::cpu();
    channel.note_writers_cpu(cpu);
    // On another CPU the reader can begin with the first piece; on this one it would only take the CPU away.
    let wakes_early = !channel.reader_is_on(cpu);
    let mut done = 0;
    loop {
        let (from, rest) = (source.wrapping_add(done), len - done);
        if channel.reader_is_gone() {
            retreat::because_of(&WRITER, Fate::Untold);
        }
        match copying(&WRITER, || channel.put(rest, |spans| fill(channel, spans, from))) {
            Moved::Bytes(moved) => {
                done += moved;
                WRITER.tally.moved(moved);
                if wakes_early || done == len {
                    wake_reader(channel);
                }
                if done == len {
                    return len as isize;
                }
            }
            Moved::Nothing => {
                wake_reader(channel);
                if wait_for_room(channel, fd, rest, done > 0) == kernel::EINTR {
                    return if done > 0 { done as isize } else { kernel::EINTR };
                }
            }
            left @ (Moved::Frozen | Moved::Absent) => {
                if matches!(left, Moved::Absent) {
                    retreat::all(Fate::Nowhere);
                }
                let moved = match retreat::follow(&WRITER) {
                    true => write_to_kernel(WRITER.file(fd), from, rest),
                    false => kernel::EMFILE,
                };
                return match usize::try_from(moved) {
                    Ok(moved) => (done + moved) as isize,
                    Err(_) if done > 0 => done as isize,
                    Err(_) => moved,
                };
            }
        }
    }
}

/// Does `copy`, a copy to or from the ring of `end`.
fn copying<T>(end: &End, copy: impl FnOnce() -> T) -> T {
    if end.is_copying.is_set() {
        // This is a handler, or one has jumped out of a copy.
        retreat::because_of(end, Fate::Handler);
    }
    end.is_copying.set(true);
    let outcome = faults::caught(end, copy);
    end.is_copying.set(false);
    outcome
}

/// Wakes the reader if it sleeps. A handler that comes before has detached the pipe, which is seen here.
fn wake_reader(channel: &Channel) {
    if channel.reader_sleeps() {
        let _held = Held::all();
        if WRITER.is_in(channel) && channel.wake_reader(&WRITER) {
            WRITER.tally.woke();
        }
    }
}

fn wait_for_room(channel: &Channel, fd: c_int, len: usize, has_written: bool) -> isize {
    let cpu = kernel::cpu();
    channel.note_writers_cpu(cpu);
    if wait::without_sleep(&WRITER, || channel.room_for(len), channel.reader_is_on(cpu)) {
        return 0;
    }
    let Some(value) = channel.writer_will_sleep(len) else { return 0 };
    WRITER.tally.slept();
    // Once something was written a signal ends the call; before, it is as if the call had not been made.
    let outcome = match has_written {
        true => kernel::wait(channel.room_word(), value, Some(TRUST_NS)),
        false => kernel::wait_resumed(channel.room_word(), value, TRUST_NS),
    };
    if outcome == kernel::ETIMEDOUT && kernel::has_no_reader(fd) {
        channel.note_reader_gone();
    }
    outcome
}

/// `read(2)` from the ring; from the backing pipe when the ring is frozen. Does not sleep while the bell rings.
pub(super) fn read(channel: &Channel, fd: c_int, target: *mut u8, len: usize, bell: Option<c_int>) -> isize {
    let len = len.min(LARGEST);
    channel.note_readers_cpu(kernel::cpu());
    if channel.is_woken()
        && let Some(moved) = take_token(channel, fd, target, len)
    {
        return moved;
    }
    loop {
        let mut done = 0;
        let last = loop {
            match copying(&READER, || channel.get(len - done, |spans| empty(channel, spans, target.wrapping_add(done))))
            {
                Moved::Bytes(moved) => {
                    done += moved;
                    READER.tally.moved(moved);
                }
                other => break other,
            }
            let_writer_know(channel);
            if done == len {
                break Moved::Nothing;
            }
        };
        if matches!(last, Moved::Absent) {
            return read_in_vain(fd, target, len, done);
        }
        if done > 0 {
            return done as isize;
        }
        if matches!(last, Moved::Frozen) {
            if !retreat::follow(&READER) {
                return kernel::EMFILE;
            }
            if promised::is_only_rung(fd, bell) {
                return promised::RUNG;
            }
            return read_from_kernel(READER.file(fd), target, len);
        }
        match wait_for_bytes(channel, fd, target, len, bell) {
            None => {}
            Some(kernel::EFAULT) => return read_in_vain(fd, target, len, 0),
            Some(moved) => return moved,
        }
    }
}

/// Some of the target is not there: the kernel is asked how much of it gets what is behind the first `done` bytes.
fn read_in_vain(fd: c_int, target: *mut u8, len: usize, done: usize) -> isize {
    retreat::all(Fate::Nowhere);
    if !retreat::follow(&READER) {
        return if done > 0 { done as isize } else { kernel::EMFILE };
    }
    let fd = READER.file(fd);
    if done > 0 && kernel::bytes_in(fd) == 0 {
        return done as isize;
    }
    let moved = read_from_kernel(fd, target.wrapping_add(done), len - done);
    if moved < 0 && done > 0 { done as isize } else { done as isize + moved }
}

/// The wake token of a reader that polled, and took nothing. It can be taken only where bytes are read, as it may turn out to be one of
/// the stream by now. `None`: it is, or is not there yet.
#[cold]
fn take_token(channel: &Channel, fd: c_int, target: *mut u8, len: usize) -> Option<isize> {
    // A handler leaves it to whose sleep it has interrupted.
    if !READERS_SLEEP.begin() {
        return None;
    }
    let result = fetch(channel, fd, target, len, Fetch::Now);
    READERS_SLEEP.end();
    result.filter(|&result| result != kernel::EFAULT)
}

fn let_writer_know(channel: &Channel) {
    if channel.takes_writers_wait() {
        kernel::wake_all(channel.room_word());
        READER.tally.woke();
    }
}

/// `None`: look at the ring again. Otherwise what the call returns.
fn wait_for_bytes(channel: &Channel, fd: c_int, target: *mut u8, len: usize, bell: Option<c_int>) -> Option<isize> {
    let cpu = kernel::cpu();
    channel.note_readers_cpu(cpu);
    if wait::without_sleep(&READER, || channel.bytes_waiting(), channel.writer_is_on(cpu)) {
        return None;
    }
    if !READERS_SLEEP.begin() {
        retreat::all(Fate::Handler);
        return None;
    }
    let result = sleep_for_bytes(channel, fd, target, len, bell);
    READERS_SLEEP.end();
    result
}

fn sleep_for_bytes(channel: &Channel, fd: c_int, target: *mut u8, len: usize, bell: Option<c_int>) -> Option<isize> {
    // A token that was sent for an earlier sleep may still be there; it then ends this one.
    channel.begin_sleep();
    if channel.has_bytes_before_sleep() {
        channel.end_sleep();
        return None;
    }
    READER.tally.slept();
    fetch(channel, fd, target, len, bell.map_or(Fetch::Asleep, Fetch::WithBell))
}

/// How bytes are awaited.
#[derive(Clone, Copy)]
enum Fetch {
    Asleep,
    WithBell(c_int),
    /// Not at all.
    Now,
}

/// Takes out of the backing pipe what is there, into the program's buffer, which stays as it was if that is none of the stream. `None`:
/// look at the ring again. Otherwise what the call returns.
fn fetch(channel: &Channel, fd: c_int, target: *mut u8, len: usize, how: Fetch) -> Option<isize> {
    let mut before = 0_u8;
    // SAFETY: from the program's buffer to a variable, and back.
    let is_there =
        faults::caught(&READER, || unsafe { copy(target, &raw mut before, 1) && copy(&raw const before, target, 1) });
    let result = match how {
        _ if !is_there => kernel::EFAULT,
        Fetch::Asleep => read_by_kernel(fd, target, len),
        Fetch::WithBell(bell) if promised::is_only_rung(fd, Some(bell)) => promised::RUNG,
        // What was there a moment ago may be gone: a writer that detaches takes its own token out.
        Fetch::WithBell(_) | Fetch::Now => kernel::read_now(fd, target, len),
    };
    let outcome = fetched(channel, fd, result, matches!(how, Fetch::Asleep));
    if is_there && !matches!(outcome, Some(1..)) {
        // SAFETY: as above.
        faults::caught(&READER, || unsafe { copy(&raw const before, target, 1) });
    }
    outcome
}

#[inline(always)]
fn fetched(channel: &Channel, fd: c_int, result: isize, waits: bool) -> Option<isize> {
    match (channel.wakes_up(result.max(0).cast_unsigned(), &READERS_SLEEP), result) {
        (Woken::ByToken, _) => None,
        (Woken::ByStream, _) => Some(counted::note(fd, Direction::Read, result)),
        // Whatever the handler has done.
        (_, kernel::EINTR) => Some(result),
        (_, kernel::EAGAIN) if !waits => None,
        (Woken::ByEndWithBytes, _) => None,
        (Woken::ByNothing, _) => Some(result),
    }
}

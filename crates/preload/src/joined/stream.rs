//! `read` and `write` of a pipe whose stream is in the ring.
//!
//! A side that finds nothing to do first spins for a while, or yields the CPU to the other side. Then it sleeps in a call
//! that is what the kernel's pipe would have made of it: the reader in `read(2)` of the backing pipe, which ends with the last
//! writer; the writer on a futex that the kernel marks when the reader's thread ends. So signals, `SA_RESTART`, end of
//! stream and death are the kernel's own.

use core::ffi::c_int;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;

use super::calls::read_by_kernel;
use super::end::{READER, WRITER};
use super::signals::{Held, copying};
use super::slot::{Moved, READER_GONE, Slot, WRITER_WAITS, sleep};
use super::wait::Found;
use super::{kernel, nap, promised, read_from_kernel, retreat, tally, wait, write_to_kernel};

/// The most that one call of the kernel moves.
const LARGEST: usize = 0x7fff_f000;
/// So long a writer sleeps before it asks the kernel for the reader's end. A robust mutex that the reader has locked since it attached
/// has taken the place of the mark of its death.
const TRUST_NS: u64 = 500_000_000;

/// `write(2)` to the ring; what does not get there any more goes to the backing pipe.
pub(super) fn write(slot: &Slot, fd: c_int, source: *const u8, len: usize) -> isize {
    let len = len.min(LARGEST);
    let cpu = kernel::cpu();
    slot.note_writers_cpu(cpu);
    // On another CPU the reader can begin with the first piece; on this one it would only take the CPU away.
    let rings_early = !slot.reader_is_on(cpu);
    let mut done = 0;
    loop {
        let (from, rest) = (source.wrapping_add(done), len - done);
        if slot.space.0.load(Relaxed) & READER_GONE != 0 {
            retreat::because_of(&WRITER, Fate::Untold);
        }
        match copying(&WRITER, || slot.put(from, rest)) {
            Moved::Bytes(moved) => {
                done += moved;
                WRITER.tally.moved(moved);
                if rings_early || done == len {
                    ring(slot, fd);
                }
                if done == len {
                    return len as isize;
                }
            }
            Moved::Nothing => {
                ring(slot, fd);
                if wait_for_room(slot, fd, rest, done > 0) == kernel::EINTR {
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

/// Wakes the reader if it sleeps. The exchange that counted the bytes is a full fence (edge E3). A handler must not come between
/// the word and the byte: it could move the stream in front of that byte. One that has come before has moved it already.
fn ring(slot: &Slot, fd: c_int) {
    let state = &slot.sleep.0;
    if state.load(SeqCst) == sleep::ASLEEP {
        let _held = Held::all();
        if WRITER.is_in(slot) && state.compare_exchange(sleep::ASLEEP, sleep::RINGING, SeqCst, Relaxed).is_ok() {
            // A byte that is there wakes the reader as well, and a backing pipe that a foreign process has filled would take none.
            if kernel::bytes_in(fd) == 0 {
                kernel::write(fd, [nap::TOKEN].as_ptr(), 1);
            }
            // The reader may have it by now.
            let _ = state.compare_exchange(sleep::RINGING, sleep::RUNG, SeqCst, Relaxed);
            WRITER.tally.woke();
        }
    }
}

fn wait_for_room(slot: &Slot, fd: c_int, len: usize, has_written: bool) -> isize {
    let cpu = kernel::cpu();
    slot.note_writers_cpu(cpu);
    if wait::without_sleep(&WRITER, || slot.room_for(len), slot.reader_is_on(cpu)) {
        return 0;
    }
    let word = &slot.space.0;
    let value = word.fetch_or(WRITER_WAITS, SeqCst) | WRITER_WAITS;
    if value & READER_GONE != 0 || slot.room_for(len) != Found::Nothing {
        return 0;
    }
    WRITER.tally.slept();
    // Once something was written a signal ends the call; before, it is as if the call had not been made.
    let outcome = match has_written {
        true => kernel::wait(word, value, Some(TRUST_NS)),
        false => kernel::wait_resumed(word, value, TRUST_NS),
    };
    if outcome == kernel::ETIMEDOUT && kernel::has_no_reader(fd) {
        word.fetch_or(READER_GONE, SeqCst);
    }
    outcome
}

/// `read(2)` from the ring; from the backing pipe when the ring is frozen. Does not sleep while the bell rings.
pub(super) fn read(slot: &Slot, fd: c_int, target: *mut u8, len: usize, bell: Option<c_int>) -> isize {
    let len = len.min(LARGEST);
    slot.note_readers_cpu(kernel::cpu());
    if sleep::is_rung(slot.sleep.0.load(SeqCst))
        && let Some(moved) = take_bell(slot, fd, target, len)
    {
        return moved;
    }
    loop {
        let mut done = 0;
        let last = loop {
            match copying(&READER, || slot.get(target.wrapping_add(done), len - done)) {
                Moved::Bytes(moved) => {
                    done += moved;
                    READER.tally.moved(moved);
                }
                other => break other,
            }
            let_writer_know(slot);
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
        match wait_for_bytes(slot, fd, target, len, bell) {
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
fn take_bell(slot: &Slot, fd: c_int, target: *mut u8, len: usize) -> Option<isize> {
    // A handler leaves it to whose sleep it has interrupted.
    if !nap::begin() {
        return None;
    }
    let result = fetch(slot, fd, target, len, Fetch::Now);
    nap::end();
    result.filter(|&result| result != kernel::EFAULT)
}

fn let_writer_know(slot: &Slot) {
    let word = &slot.space.0;
    if word.load(SeqCst) & WRITER_WAITS != 0 {
        word.fetch_and(!WRITER_WAITS, SeqCst);
        kernel::wake_all(word);
        READER.tally.woke();
    }
}

/// `None`: look at the ring again. Otherwise what the call returns.
fn wait_for_bytes(slot: &Slot, fd: c_int, target: *mut u8, len: usize, bell: Option<c_int>) -> Option<isize> {
    let cpu = kernel::cpu();
    slot.note_readers_cpu(cpu);
    if wait::without_sleep(&READER, || slot.bytes_waiting(), slot.writer_is_on(cpu)) {
        return None;
    }
    if !nap::begin() {
        retreat::all(Fate::Handler);
        return None;
    }
    let result = sleep_for_bytes(slot, fd, target, len, bell);
    nap::end();
    result
}

fn sleep_for_bytes(slot: &Slot, fd: c_int, target: *mut u8, len: usize, bell: Option<c_int>) -> Option<isize> {
    let state = &slot.sleep.0;
    // A byte that was sent for an earlier sleep may still be there; it then ends this one.
    let _ = state.compare_exchange(sleep::AWAKE, sleep::ASLEEP, SeqCst, Relaxed);
    if slot.bytes_waiting() != Found::Nothing {
        let _ = state.compare_exchange(sleep::ASLEEP, sleep::AWAKE, SeqCst, Relaxed);
        return None;
    }
    READER.tally.slept();
    fetch(slot, fd, target, len, bell.map_or(Fetch::Asleep, Fetch::WithBell))
}

/// How bytes are awaited.
#[derive(Clone, Copy)]
enum Fetch {
    Asleep,
    WithBell(c_int),
    /// Not at all.
    Now,
}

/// Takes out of the backing pipe what is there. `None`: look at the ring again. Otherwise what the call returns.
fn fetch(slot: &Slot, fd: c_int, target: *mut u8, len: usize, how: Fetch) -> Option<isize> {
    let read = || match how {
        Fetch::Asleep => read_by_kernel(fd, target, len),
        Fetch::WithBell(bell) if promised::is_only_rung(fd, Some(bell)) => promised::RUNG,
        // What was there a moment ago may be gone: a writer that moves the stream takes its own token out.
        Fetch::WithBell(_) | Fetch::Now => kernel::read_now(fd, target, len),
    };
    let waits = matches!(how, Fetch::Asleep);
    nap::with_buffer(target, || fetched(slot, fd, read(), waits))
        .unwrap_or_else(|| fetched(slot, fd, kernel::EFAULT, waits))
}

fn fetched(slot: &Slot, fd: c_int, result: isize, waits: bool) -> Option<isize> {
    let state = &slot.sleep.0;
    // The state is looked at before the note is: a handler makes the note first.
    match (result, state.load(SeqCst)) {
        (1, sleep::RUNG | sleep::RINGING) => {
            state.store(sleep::AWAKE, SeqCst);
            None
        }
        (1, _) if nap::is_noted() => None,
        // Of the stream: the content has been moved meanwhile, or a foreign process writes to the backing pipe.
        (1.., _) => {
            let _ = state.compare_exchange(sleep::ASLEEP, sleep::AWAKE, SeqCst, Relaxed);
            slot.agreement.0.taken_early.fetch_add(result as u32, SeqCst);
            Some(tally::count(fd, Direction::Read, result))
        }
        (result, _) => {
            // If it was rung meanwhile, the token ends the next sleep.
            let _ = state.compare_exchange(sleep::ASLEEP, sleep::AWAKE, SeqCst, Relaxed);
            let is_more = slot.bytes_waiting() != Found::Nothing;
            match result {
                // Whatever the handler has done.
                kernel::EINTR => Some(result),
                kernel::EAGAIN if !waits => None,
                // Its last bytes, and the writer was gone before it rang.
                _ if is_more => None,
                _ => Some(result),
            }
        }
    }
}

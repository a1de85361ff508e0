//! What a read or a write of an end does: first a step nearer to the ring, then the ring or the kernel.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use millstream_ring::channel::Channel;
use millstream_sys::fate::Fate;

use super::calls::{read_from_kernel, write_to_kernel};
use super::end::{End, READER, Stage, WRITER};
use super::forked::begin_as_child;
use super::held::Held;
use super::own_process::{has_one_thread, is_own_process};
use super::{kernel, meet, own_process, promised, retreat, stream};

fn leave_if_not_alone(end: &End) {
    if end.is_promised() {
        // Several threads know that each end is used by one of them at a time, and no child uses it.
    } else if !is_own_process() {
        begin_as_child();
    } else if !has_one_thread() && (!own_process::has_threads() || end.holds_both.load(Relaxed)) {
        // They were made past this library, or one may be using the opposite end.
        retreat::all(Fate::Threads);
    }
}

/// With a bell, of a promised end, it may return [`promised::RUNG`] instead of sleeping.
#[inline(never)]
pub(super) fn read_input(fd: c_int, buffer: *mut u8, len: usize, bell: Option<c_int>) -> isize {
    match READER.call(|| read_attached(fd, buffer, len, bell)) {
        Some(moved) => moved,
        None if leave_to_threads(&READER) => read_from_kernel(fd, buffer, len),
        None => kernel::EMFILE,
    }
}

/// Another thread has this end. `false`: its pipe could not be given back, because no file can be opened for it.
#[cold]
fn leave_to_threads(end: &'static End) -> bool {
    if !is_own_process() {
        begin_as_child();
        return true;
    }
    if end.channel().is_some() {
        retreat::because_of(end, Fate::Threads);
    }
    let is_left = retreat::follow(end);
    let _held = Held::all();
    if is_left && end.stage() != Stage::Ring {
        end.give_up();
    }
    is_left
}

/// Before a call that takes bytes out of the input: a step nearer to the ring.
#[inline(never)]
pub(super) fn advance_reader() {
    leave_if_not_alone(&READER);
    match (READER.stage(), READER.channel()) {
        (Stage::Counted, _) if READER.is_due() => meet::accept(),
        (Stage::Wants, Some(channel)) => meet::prove(&READER, channel),
        (Stage::Ready, Some(channel)) if !READER.is_in_kernel() => meet::meet_writer(channel),
        _ => {}
    }
}

fn read_attached(fd: c_int, buffer: *mut u8, len: usize, bell: Option<c_int>) -> isize {
    advance_reader();
    if let (Stage::Ring, Some(channel)) = (READER.stage(), READER.channel())
        && len > 0
        && can_be_memory(buffer, len)
    {
        return stream::read(channel, fd, buffer, len, bell);
    }
    if promised::is_only_rung(fd, bell) {
        return promised::RUNG;
    }
    READER.in_kernel(|| read_from_kernel(fd, buffer, len))
}

#[inline(never)]
pub(super) fn write_output(fd: c_int, buffer: *const u8, len: usize) -> isize {
    match WRITER.call(|| write_attached(fd, buffer, len)) {
        Some(moved) => moved,
        None if leave_to_threads(&WRITER) => write_to_kernel(fd, buffer, len),
        None => kernel::EMFILE,
    }
}

/// Before a call that puts so many bytes into the output: a step nearer to the ring.
#[inline(never)]
pub(super) fn advance_writer(len: usize) {
    leave_if_not_alone(&WRITER);
    match (WRITER.stage(), WRITER.channel()) {
        // Of no bytes: it tells nothing of what is to come, and Perl ends each of its writes with one.
        _ if len == 0 => {}
        (Stage::Counted, _) if WRITER.is_due() => meet::offer(),
        (Stage::Offers, Some(channel)) if meet::is_accepted(channel) && WRITER.may_try() => meet::want(channel),
        (Stage::Offers, _) if WRITER.is_due() => meet::look_after_offer(),
        (Stage::Wants, Some(channel)) if WRITER.is_due() => meet::prove(&WRITER, channel),
        _ => {}
    }
}

/// Whether the reader now waits for the call that comes to be the last to the backing pipe.
pub(super) fn announces(channel: &Channel) -> bool {
    WRITER.stage() == Stage::Ready && !WRITER.is_in_kernel() && meet::announce(channel)
}

fn write_attached(fd: c_int, buffer: *const u8, len: usize) -> isize {
    advance_writer(len);
    if let (Stage::Ring, Some(channel)) = (WRITER.stage(), WRITER.channel())
        && len > 0
        && can_be_memory(buffer, len)
    {
        return stream::write(channel, fd, buffer, len);
    }
    let Some(channel) = WRITER.channel().filter(|&channel| announces(channel)) else {
        return WRITER.in_kernel(|| write_to_kernel(fd, buffer, len));
    };
    let first = len.min(meet::LAST_BYTES);
    let moved = WRITER.in_kernel(|| write_to_kernel(fd, buffer, first));
    meet::await_reader(channel, moved > 0);
    if moved.cast_unsigned() < len && moved.cast_unsigned() == first {
        return moved + write_output(fd, buffer.wrapping_add(first), len - first).max(0);
    }
    moved
}

/// Where no memory can be the kernel is to say `EFAULT`, so the pipe goes back to it first.
fn can_be_memory(buffer: *const u8, len: usize) -> bool {
    /// The first page is never mapped, and above this are no addresses of programs, unless they ask for some.
    const ADDRESSES: core::ops::Range<usize> = 4096..1 << 47;
    let start = buffer as usize;
    let can_be = ADDRESSES.contains(&start) && len <= ADDRESSES.end - start;
    if !can_be {
        retreat::all(Fate::Nowhere);
    }
    can_be
}

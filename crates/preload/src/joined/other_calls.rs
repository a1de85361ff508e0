//! `readv`, `writev`, `splice` and `sendfile`: at an attached end they move bytes of the ring, and elsewhere they count as `read` and
//! `write` do. Where calls are not this library's ([`super::calls`]) they go on as any other guarded function.

use core::ffi::{c_int, c_uint};

use millstream_ring::channel::Channel;
use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;
use millstream_sys::pipe::PIPE_BUF;

use super::attached::{advance_reader, advance_writer, announces, read_input, write_output};
use super::copy::copy;
use super::end::{End, READER, Stage, WRITER};
use super::faults;
use super::spliced::{Call, Kernel};
use super::{kernel, meet, notice, other_names, retreat};
use crate::counted;

use crate::glibc;

/// `struct iovec`: an address and a length.
type Piece = [usize; 2];
/// `IOV_MAX`.
const PIECES: usize = 1024;

/// `readv(2)`.
pub(super) extern "C" fn readv_here(fd: c_int, pieces: *const Piece, count: c_int) -> isize {
    vector(&READER, fd, pieces, count)
}

/// `writev(2)`.
pub(super) extern "C" fn writev_here(fd: c_int, pieces: *const Piece, count: c_int) -> isize {
    vector(&WRITER, fd, pieces, count)
}

fn vector(end: &End, fd: c_int, pieces: *const Piece, count: c_int) -> isize {
    glibc::returned_from_kernel(if end.is_at(fd) {
        // These are glibc's where there are several threads.
        end.uses.during(|| at_end(end, fd, pieces, count)).unwrap_or(kernel::EINTR)
    } else if other_names::leave_if_one(fd) {
        notice::passed(end, fd, in_kernel(end, fd, pieces, count))
    } else {
        kernel::EMFILE
    })
}

#[inline(never)]
fn in_kernel(end: &End, fd: c_int, pieces: *const Piece, count: c_int) -> isize {
    let direction = if end.is_reader() { Direction::Read } else { Direction::Written };
    counted::note(fd, direction, kernel::vector(end.is_reader(), fd, pieces, count))
}

fn at_end(end: &End, fd: c_int, pieces: *const Piece, count: c_int) -> isize {
    let in_kernel = || in_kernel(end, fd, pieces, count);
    // A call of no bytes tells nothing, and one of more is never known before it is made.
    if end.is_reader() {
        advance_reader()
    } else {
        advance_writer(1)
    }
    if end.stage() == Stage::Ring {
        return match usize::try_from(count) {
            Ok(count) if count <= PIECES && faults::would_catch(end) => in_turn(end, fd, pieces, count),
            _ => None,
        }
        .unwrap_or_else(|| if retreat::before_a_call(Fate::Nowhere) { in_kernel() } else { kernel::EMFILE });
    }
    let announced = end.channel().filter(|&channel: &&Channel| !end.is_reader() && announces(channel));
    let moved = end.in_kernel(in_kernel);
    if let Some(channel) = announced {
        meet::await_reader(channel, moved > 0);
    }
    moved
}

/// One piece after the other. `None`: the list is not there, and nothing has been moved.
fn in_turn(end: &End, fd: c_int, pieces: *const Piece, count: usize) -> Option<isize> {
    let piece = |at: usize| {
        let mut piece: Piece = [0; 2];
        // SAFETY: to a variable of its own.
        let is_there = unsafe { copy(pieces.wrapping_add(at).cast(), piece.as_mut_ptr().cast(), size_of::<Piece>()) };
        is_there.then_some(piece)
    };
    let mut all = 0_usize;
    for at in 0..count {
        // What the kernel refuses as a whole.
        all = piece(at)?[1].checked_add(all).filter(|&all| all <= isize::MAX.cast_unsigned())?;
    }
    if !end.is_reader() && count > 1 && all <= PIPE_BUF {
        return together(fd, count, piece);
    }
    let mut done = 0_usize;
    for at in 0..count {
        let [base, len] = match piece(at) {
            Some(piece) => piece,
            // A handler has taken the list away.
            None if done > 0 => break,
            None => return None,
        };
        if len == 0 {
            continue;
        }
        // What a reader has makes an answer.
        if done > 0 && end.is_reader() && READER.channel().and_then(Channel::has_bytes) != Some(true) {
            break;
        }
        let moved = match end.is_reader() {
            true => read_input(fd, base as *mut u8, len, None),
            false => write_output(fd, base as *const u8, len),
        };
        let Ok(moved) = usize::try_from(moved) else {
            return Some(if done > 0 { done.cast_signed() } else { moved });
        };
        done += moved;
        if moved < len {
            break;
        }
    }
    Some(done.cast_signed())
}

/// So little that it must not be mixed with others.
fn together(fd: c_int, count: usize, piece: impl Fn(usize) -> Option<Piece>) -> Option<isize> {
    let (mut room, mut filled) = ([0_u8; PIPE_BUF], 0);
    for at in 0..count {
        let [base, len] = piece(at)?;
        let target = room.get_mut(filled..filled + len)?;
        // SAFETY: to a variable of its own.
        if !unsafe { copy(base as *const u8, target.as_mut_ptr(), len) } {
            return None;
        }
        filled += len;
    }
    Some(write_output(fd, room.as_ptr(), filled))
}

/// `splice(2)`.
pub(super) extern "C" fn splice_here(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: usize,
    flags: c_uint,
) -> isize {
    let call = Call { from, to, len, kernel: Kernel::Splice { from_at, to_at, flags } };
    glibc::returned_from_kernel(call.answer())
}

/// `sendfile(2)`.
pub(super) extern "C" fn sendfile_here(to: c_int, from: c_int, at: *mut i64, len: usize) -> isize {
    let call = Call { from, to, len, kernel: Kernel::Sendfile { at } };
    glibc::returned_from_kernel(call.answer())
}

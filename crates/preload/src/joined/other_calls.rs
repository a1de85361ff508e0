//! `readv`, `writev`, `splice` and `sendfile`: at an attached end they move bytes of the ring, and elsewhere they count as `read` and
//! `write` do. Where calls are not this library's ([`super::calls`]) they go on in glibc.

use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;

use millstream_sys::fate::Fate;
use millstream_sys::ledger::Direction;

use super::end::{End, READER, Stage, WRITER};
use super::faults::copy;
use super::slot::Slot;
use super::spliced::Call;
use super::{advance_reader, advance_writer, announces, calls, kernel, meet, notice, other_names, retreat, tally};
use super::{read_input, write_output};
use crate::glibc::{self, Behind};

static READV: Behind = Behind::new("readv");
static WRITEV: Behind = Behind::new("writev");
static SPLICE: Behind = Behind::new("splice");
static SENDFILE: Behind = Behind::new("sendfile");

/// `struct iovec`: an address and a length.
type Piece = [usize; 2];
/// Writes of up to this many bytes are not mixed with others (`pipe(7)`).
const PIPE_BUF: usize = 4096;
/// `IOV_MAX`.
const PIECES: usize = 1024;

type Vector = unsafe extern "C-unwind" fn(c_int, *const Piece, c_int) -> isize;

/// `readv(2)`.
///
/// # Safety
/// As for `readv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, pieces: *const Piece, count: c_int) -> isize {
    // SAFETY: the signature is that of glibc's function, and the caller's promise the same.
    unsafe { vector(&READER, &READV, fd, pieces, count) }
}

/// `writev(2)`.
///
/// # Safety
/// As for `writev(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, pieces: *const Piece, count: c_int) -> isize {
    // SAFETY: as above.
    unsafe { vector(&WRITER, &WRITEV, fd, pieces, count) }
}

/// # Safety
/// `behind` is one of the two functions above; as for it.
unsafe fn vector(end: &End, behind: &Behind, fd: c_int, pieces: *const Piece, count: c_int) -> isize {
    let direction = if end.is_reader() { Direction::Read } else { Direction::Written };
    if !calls::are_ours() {
        // SAFETY: the caller's promise.
        return unsafe {
            let behind: Vector = behind.function_for(fd as usize, 0);
            tally::count(fd, direction, behind(fd, pieces, count))
        };
    }
    let in_kernel = || tally::count(fd, direction, kernel::vector(end.is_reader(), fd, pieces, count));
    glibc::returned_from_kernel(if end.is_at(fd) {
        end.uses.during(|| at_end(end, fd, pieces, count, &in_kernel))
    } else if other_names::leave_if_one(fd) {
        notice::passed(end, fd, in_kernel())
    } else {
        kernel::EMFILE
    })
}

fn at_end(end: &End, fd: c_int, pieces: *const Piece, count: c_int, in_kernel: &dyn Fn() -> isize) -> isize {
    // A call of no bytes tells nothing, and one of more is never known before it is made.
    if end.is_reader() {
        advance_reader()
    } else {
        advance_writer(1)
    }
    let is_attached = || end.stage() == Stage::Ring;
    if is_attached() {
        return match usize::try_from(count) {
            Ok(count) if count <= PIECES => in_turn(end, fd, pieces, count),
            _ => None,
        }
        .unwrap_or_else(|| if retreat::all(Fate::Nowhere) { in_kernel() } else { kernel::EMFILE });
    }
    let announced = end.slot().filter(|&slot: &&Slot| !end.is_reader() && announces(slot));
    let moved = end.in_kernel(in_kernel);
    if let Some(slot) = announced {
        meet::await_reader(slot, moved > 0);
    }
    moved
}

/// One piece after the other. `None`: the list is not there, and nothing has been moved.
fn in_turn(end: &End, fd: c_int, pieces: *const Piece, count: usize) -> Option<isize> {
    let piece = |at: usize| {
        let mut piece = [0; 2];
        // SAFETY: to a variable of its own.
        let is_there = unsafe { copy(pieces.wrapping_add(at).cast(), piece.as_mut_ptr().cast(), size_of::<Piece>()) };
        is_there.then_some(piece)
    };
    let mut all = 0_usize;
    for at in 0..count {
        all = all.saturating_add(piece(at)?[1]);
    }
    if !end.is_reader() && count > 1 && all <= PIPE_BUF {
        return together(fd, count, piece);
    }
    let mut done = 0_usize;
    for at in 0..count {
        let [base, len] = piece(at)?;
        if len == 0 {
            continue;
        }
        // What a reader has makes an answer.
        if done > 0 && end.is_reader() && READER.slot().and_then(Slot::has_bytes) != Some(true) {
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

type Splice = unsafe extern "C-unwind" fn(c_int, *mut i64, c_int, *mut i64, usize, c_uint) -> isize;

/// `splice(2)`.
///
/// # Safety
/// As for `splice(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: usize,
    flags: c_uint,
) -> isize {
    const KNOWN: u32 = 15;
    const NONBLOCK: u32 = 2;
    if !calls::are_ours() {
        // SAFETY: the signature is that of glibc's function, and the caller's promise the same.
        let moved = unsafe {
            let behind: Splice = SPLICE.function_for(from as usize, 0);
            behind(from, from_at, to, to_at, len, flags)
        };
        return counted(from, to, moved);
    }
    let kernel = |len| kernel::splice(from, from_at, to, to_at, len, flags);
    let asks_kernel = !from_at.is_null() || !to_at.is_null() || flags & !KNOWN != 0;
    let call = Call { from, to, len, waits: flags & NONBLOCK == 0, name: c"splice", kernel: &kernel };
    glibc::returned_from_kernel(call.answer(asks_kernel))
}

type Sendfile = unsafe extern "C-unwind" fn(c_int, c_int, *mut i64, usize) -> isize;

/// `sendfile(2)`.
///
/// # Safety
/// As for `sendfile(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, at: *mut i64, len: usize) -> isize {
    if !calls::are_ours() {
        // SAFETY: as above.
        let moved = unsafe {
            let behind: Sendfile = SENDFILE.function_for(to as usize, 0);
            behind(to, from, at, len)
        };
        return counted(from, to, moved);
    }
    let kernel = |len| kernel::sendfile(to, from, at, len);
    // The kernel takes nothing from a pipe here.
    let asks_kernel = at != null_mut() || READER.is_at(from);
    let call = Call { from, to, len, waits: true, name: c"sendfile", kernel: &kernel };
    glibc::returned_from_kernel(call.answer(asks_kernel))
}

/// The same function.
///
/// # Safety
/// As for `sendfile(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(to: c_int, from: c_int, at: *mut i64, len: usize) -> isize {
    // SAFETY: the caller's promise is the same.
    unsafe { sendfile(to, from, at, len) }
}

fn counted(from: c_int, to: c_int, moved: isize) -> isize {
    tally::count(from, Direction::Read, moved);
    tally::count(to, Direction::Written, moved)
}

//! What stdio does with descriptors: inside glibc it calls `read`, `write` and `close` by address, past every name that a library
//! could stand in front of. But it does so through the table of functions that each kind of stream has (`_IO_jump_t`), and glibc
//! exports one of these tables. Its neighbours, for files that are mapped and for the pipes of `popen`, have the same functions in
//! the same places.
//!
//! ```text
//!   printf ──▶ _IO_file_jumps[WRITE] ──▶ write_stream (here) ──▶ write of a pipe that is counted or attached
//!                                              └── otherwise ──▶ _IO_file_write (glibc)
//! ```
//!
//! The tables are in memory that the loader has made read-only. Each entry is replaced by one store, so it does not matter whether
//! other threads use them meanwhile.

use core::ffi::c_int;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{calls, guard, kernel};
use crate::names;

/// Places in a table.
const READ: usize = 14;
const WRITE: usize = 15;
const CLOSE: usize = 17;
const ENTRIES: usize = 21;

/// Bytes from one table to the next: as large as they are, or aligned as the compiler likes.
const STRIDES: [usize; 2] = [ENTRIES * 8, (ENTRIES * 8).next_multiple_of(32)];
const PAGE: usize = 4096;

/// glibc's functions.
static READ_REAL: AtomicUsize = AtomicUsize::new(0);
static WRITE_REAL: AtomicUsize = AtomicUsize::new(0);
static CLOSE_REAL: AtomicUsize = AtomicUsize::new(0);

type Move = unsafe extern "C-unwind" fn(*mut Stream, *mut u8, isize) -> isize;
type Close = unsafe extern "C-unwind" fn(*mut Stream) -> c_int;

/// The beginning of `FILE`, which programs know as well (`bits/types/struct_FILE.h`).
#[repr(C)]
pub(super) struct Stream {
    flags: c_int,
    _pointers: [usize; 13],
    fd: c_int,
    _flags2: c_int,
    _old_offset: i64,
    _column: [u8; 8],
    _lock: usize,
    offset: i64,
}

const _: () = assert!(core::mem::offset_of!(Stream, fd) == 112 && core::mem::offset_of!(Stream, offset) == 144);

/// An address in glibc's code; 0 before [`interpose`].
pub(super) fn place_in_glibc() -> usize {
    READ_REAL.load(Relaxed)
}

/// Puts our functions into the tables. `false`: this C library has none, or they cannot be changed; then nothing is.
pub(super) fn interpose() -> bool {
    let Some((exported, protected)) = names::table_of_streams() else { return false };
    let reals = [READ, WRITE, CLOSE].map(|place| entry(exported, place));
    for (word, real) in [&READ_REAL, &WRITE_REAL, &CLOSE_REAL].into_iter().zip(reals) {
        word.store(real, Relaxed);
    }
    let is_of_files = |table: &usize| entry(*table, READ) == reals[0] && entry(*table, WRITE) == reals[1];
    let tables = || tables_beside(exported, &protected).filter(is_of_files);
    let (first, last) = tables().fold((exported, exported), |(first, last), table| (first.min(table), last.max(table)));
    let (start, end) = (first & !(PAGE - 1), (last + ENTRIES * 8).next_multiple_of(PAGE));
    if !kernel::make_writable(start, end - start) {
        return false;
    }
    for table in tables() {
        // SAFETY: words of the range that was just made writable; other threads may read them.
        let word = |place: usize| unsafe { &*((table + place * 8) as *const AtomicUsize) };
        if word(CLOSE).load(Relaxed) == reals[2] {
            word(CLOSE).store(close_stream as *const () as usize, Relaxed);
        }
        word(WRITE).store(write_stream as *const () as usize, Relaxed);
        word(READ).store(read_stream as *const () as usize, Relaxed);
    }
    kernel::make_readable(start, end - start)
}

/// The exported table and its neighbours: two words of zeros, then functions.
fn tables_beside(exported: usize, protected: &Range<usize>) -> impl Iterator<Item = usize> {
    let is_table = |table: &usize| {
        protected.contains(table)
            && protected.contains(&(table + ENTRIES * 8 - 1))
            && entry(*table, 0) == 0
            && entry(*table, 1) == 0
            && (2..=CLOSE).all(|place| entry(*table, place) != 0)
    };
    let others = STRIDES.into_iter().flat_map(move |stride| {
        let forth = (1..).map(move |n| exported + n * stride).take_while(is_table);
        let back = (1..).map(move |n| exported - n * stride).take_while(is_table);
        forth.chain(back)
    });
    core::iter::once(exported).chain(others)
}

fn entry(table: usize, place: usize) -> usize {
    // SAFETY: a word of what the loader has made read-only, see `tables_beside`.
    unsafe { ((table + place * 8) as *const usize).read() }
}

/// `_IO_file_read`.
unsafe extern "C-unwind" fn read_stream(stream: *mut Stream, buffer: *mut u8, len: isize) -> isize {
    // SAFETY: a stream that stdio reads.
    let fd = unsafe { (*stream).fd };
    if calls::are_ours() {
        return calls::read_here(fd, buffer, len.cast_unsigned());
    }
    // SAFETY: glibc's function, called as it was.
    unsafe { core::mem::transmute::<usize, Move>(READ_REAL.load(Relaxed))(stream, buffer, len) }
}

/// `_IO_file_write`, which writes all of it or says that it could not.
unsafe extern "C-unwind" fn write_stream(stream: *mut Stream, buffer: *mut u8, len: isize) -> isize {
    const ERROR_SEEN: c_int = 0x20;
    // SAFETY: a stream that stdio writes.
    let fd = unsafe { (*stream).fd };
    if !calls::are_ours() {
        // SAFETY: glibc's function, called as it was.
        return unsafe { core::mem::transmute::<usize, Move>(WRITE_REAL.load(Relaxed))(stream, buffer, len) };
    }
    let mut done = 0;
    while done < len {
        let moved = calls::write_here(fd, buffer.wrapping_offset(done), (len - done).cast_unsigned());
        if moved < 0 {
            // SAFETY: as above.
            unsafe { (*stream).flags |= ERROR_SEEN };
            break;
        }
        done += moved;
    }
    // SAFETY: as above.
    unsafe {
        if (*stream).offset >= 0 {
            (*stream).offset += done as i64;
        }
    }
    done
}

/// `_IO_file_close`.
unsafe extern "C-unwind" fn close_stream(stream: *mut Stream) -> c_int {
    if guard::are_up() {
        // SAFETY: a stream that stdio closes.
        return guard::close(unsafe { (*stream).fd });
    }
    // SAFETY: glibc's function, called as it was.
    unsafe { core::mem::transmute::<usize, Close>(CLOSE_REAL.load(Relaxed))(stream) }
}

//! What stdio does with descriptors: inside glibc it calls `read`, `write` and `close` by address, past every name that a library
//! could stand in front of. But it does so through the table of functions that each kind of stream has (`_IO_jump_t`), and glibc
//! exports one of these tables, that of files. Those of wide characters, of files that are mapped and of `popen` have the same
//! functions side by side, and are found by them.
//!
//! ```text
//!   printf ──▶ _IO_file_jumps[WRITE] ──▶ write_stream (here) ──▶ write of a pipe that is counted or attached
//!                                              └── otherwise ──▶ _IO_file_write (glibc)
//! ```
//!
//! The tables are in memory that the loader has made read-only. They are changed while the process has one thread.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millstream_sys::fate::Fate;

use super::end::{READER, WRITER};
use super::{calls, guard, guard_flags, kernel, other_names, retreat};
use crate::names::CLibrary;

/// Places in a table.
const READ: usize = 14;
const WRITE: usize = 15;
const CLOSE: usize = 17;

const PAGE: usize = 4096;

/// glibc's functions. What closes a stream differs by its kind, and each has an entry of its own here.
static READ_REAL: AtomicUsize = AtomicUsize::new(0);
static WRITE_REAL: AtomicUsize = AtomicUsize::new(0);
static CLOSE_REAL: [AtomicUsize; KINDS] = [const { AtomicUsize::new(0) }; KINDS];
const KINDS: usize = 4;
/// The first kind is that of files, whose close is nothing but the kernel's.
const FILE: usize = 0;

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

/// Puts our functions into the tables. `false`: they cannot be changed, or one is of a kind too many; then nothing is.
pub(super) fn interpose(glibc: &CLibrary) -> bool {
    let entry = |table: usize, place: usize| {
        // SAFETY: a word of what the loader has made read-only.
        unsafe { ((table + place * 8) as *const usize).read() }
    };
    let (read, write) = (entry(glibc.table, READ), entry(glibc.table, WRITE));
    READ_REAL.store(read, Relaxed);
    WRITE_REAL.store(write, Relaxed);
    CLOSE_REAL[FILE].store(entry(glibc.table, CLOSE), Relaxed);
    let words = (glibc.protected.start + READ * 8..glibc.protected.end - (CLOSE - READ + 1) * 8).step_by(8);
    let tables = || {
        words
            .clone()
            .map(|at| at - READ * 8)
            .filter(|&table| entry(table, READ) == read && entry(table, WRITE) == write)
    };
    if !tables().all(|table| kind_that_closes_by(entry(table, CLOSE)).is_some()) {
        return false;
    }
    let (first, last) = tables().fold((glibc.table, glibc.table), |(first, last), at| (first.min(at), last.max(at)));
    let (start, end) = (first & !(PAGE - 1), (last + (CLOSE + 1) * 8).next_multiple_of(PAGE));
    if !kernel::make_writable(start, end - start) {
        return false;
    }
    let mut table = first;
    while table <= last {
        let is_one = entry(table, READ) == read && entry(table, WRITE) == write;
        if let Some(kind) = is_one.then(|| kind_that_closes_by(entry(table, CLOSE))).flatten() {
            // SAFETY: words of the range that was just made writable.
            let word = |place: usize| unsafe { &*((table + place * 8) as *const AtomicUsize) };
            word(READ).store(read_stream as *const () as usize, Relaxed);
            word(WRITE).store(write_stream as *const () as usize, Relaxed);
            word(CLOSE).store(that_closes(kind) as *const () as usize, Relaxed);
        }
        table += 8;
    }
    kernel::make_readable(start, end - start)
}

/// The kind of streams that are closed by this function, which is a new one if it has not been seen.
fn kind_that_closes_by(real: usize) -> Option<usize> {
    (0..KINDS).find(|&kind| {
        let word = &CLOSE_REAL[kind];
        let _ = word.compare_exchange(0, real, Relaxed, Relaxed);
        word.load(Relaxed) == real
    })
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

/// No table: the loader would relocate it.
fn that_closes(kind: usize) -> Close {
    match kind {
        0 => close_stream::<0>,
        1 => close_stream::<1>,
        2 => close_stream::<2>,
        _ => close_stream::<3>,
    }
}

/// What closes a stream of this kind.
unsafe extern "C-unwind" fn close_stream<const KIND: usize>(stream: *mut Stream) -> c_int {
    if guard_flags::are_up() {
        // SAFETY: a stream that stdio closes.
        let fd = unsafe { (*stream).fd };
        if KIND == FILE {
            return guard::close(fd);
        }
        // `pclose` waits for the command as well.
        if (READER.is_at(fd) || WRITER.is_at(fd)) && !retreat::before_a_call(Fate::called(c"pclose")) {
            return guard::refuse() as c_int;
        }
        other_names::forget(fd);
    }
    // SAFETY: glibc's function, called as it was.
    unsafe { core::mem::transmute::<usize, Close>(CLOSE_REAL[KIND].load(Relaxed))(stream) }
}

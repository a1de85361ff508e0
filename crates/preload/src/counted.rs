//! Counting: the functions that move bytes, each followed by a note in the ledger when a pipe was involved.
//!
//! What a descriptor is gets asked of the kernel after every transfer (one `fstat`). Remembering it would be faster and
//! sometimes wrong: descriptors are closed and reused in places that nobody can stand in front of, inside glibc too.
//! This library is only loaded when the user asked for statistics.
//!
//! Not seen: stdio, which calls the kernel from inside glibc, and programs that do not load this library.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use millstream_sys::fd::BorrowedFd;
use millstream_sys::ledger::{self, Direction, Ledger, Origin, Program};
use millstream_sys::pipe;
use millstream_sys::settings::Settings;

use crate::descriptor::borrow;
#[cfg(not(all(feature = "ring", target_arch = "x86_64")))]
use crate::glibc;

/// Null until the start, and for ever where there is no ledger to be had.
static LEDGER: AtomicPtr<Ledger> = AtomicPtr::new(core::ptr::null_mut());
/// The program's name, as in [`Program`].
static NAME: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Joins the run's ledger.
pub(crate) fn start(settings: &Settings<'_>) {
    let Some(ledger) = settings.ledger.and_then(ledger::attach) else { return };
    for (to, word) in NAME.iter().zip(Program::new(0, &millstream_sys::own_name()).name_words()) {
        to.store(word, Relaxed);
    }
    LEDGER.store(core::ptr::from_ref(ledger).cast_mut(), Relaxed);
}

/// Nothing is counted any more: it takes system calls that this program may be killed for.
pub(crate) fn stop() {
    LEDGER.store(core::ptr::null_mut(), Relaxed);
}

/// Notes a pipe that this process has just made.
pub(crate) fn record(end: BorrowedFd<'_>, origin: Origin) {
    if let Some(ledger) = ledger()
        && let Some(identity) = pipe::identity(end)
    {
        ledger.record(identity.inode, origin, pipe::capacity(end).unwrap_or(0) as u64, Some(this_program()));
    }
}

fn ledger() -> Option<&'static Ledger> {
    // SAFETY: null, or a mapping that lasts as long as the process image; it only holds atomics.
    unsafe { LEDGER.load(Relaxed).as_ref() }
}

/// Asked anew each time: after a fork the number is another.
fn this_program() -> Program {
    let [first, last] = &NAME;
    Program::from_words(millstream_sys::own_pid(), [first.load(Relaxed), last.load(Relaxed)])
}

/// Notes that `moved` bytes (if positive) went through `fd`, and passes the number on. Leaves errno alone.
#[inline(never)]
pub(crate) fn count(fd: c_int, direction: Direction, moved: isize) -> isize {
    if moved > 0
        && let Some(ledger) = ledger()
        && let Some(end) = borrow(&fd)
        && let Some(identity) = pipe::identity(end)
        && identity.device == ledger.pipe_device()
    {
        let capacity = || pipe::capacity(end).unwrap_or(0) as u64;
        let _end = ledger.count(identity.inode, direction, moved.unsigned_abs() as u64, capacity, this_program());
        #[cfg(all(feature = "ring", target_arch = "x86_64"))]
        if let (Some(end), Some(fate)) = (_end, crate::joined::fate_of_other_use(fd)) {
            end.set_fate(fate);
        }
    }
    moved
}

/// Where the ledger counts for the pipe that `fd` is an end of.
#[cfg(all(feature = "ring", target_arch = "x86_64"))]
pub(crate) fn end_of(fd: c_int, direction: Direction) -> Option<&'static ledger::SharedEnd> {
    let (ledger, end) = (ledger()?, borrow(&fd)?);
    let identity = pipe::identity(end).filter(|identity| identity.device == ledger.pipe_device())?;
    ledger.end(identity.inode, direction, || pipe::capacity(end).unwrap_or(0) as u64)
}

#[cfg(all(feature = "ring", target_arch = "x86_64"))]
pub(crate) use elsewhere::{read, write};

/// Calls that [`crate::joined`] does not count because they are glibc's.
#[cfg(all(feature = "ring", target_arch = "x86_64"))]
mod elsewhere {
    use super::*;
    use crate::glibc::Behind;

    static READ: Behind = Behind::new(c"read");
    static WRITE: Behind = Behind::new(c"write");

    /// # Safety
    /// As for `read(2)`.
    pub(crate) unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, size: usize) -> isize {
        // SAFETY: the signature is that of glibc's function, and the caller's promise is the same.
        let moved = unsafe {
            let behind: unsafe extern "C-unwind" fn(c_int, *mut c_void, usize) -> isize = READ.function();
            behind(fd, buffer, size)
        };
        count(fd, Direction::Read, moved)
    }

    /// # Safety
    /// As for `write(2)`.
    pub(crate) unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, size: usize) -> isize {
        // SAFETY: the signature is that of glibc's function, and the caller's promise is the same.
        let moved = unsafe {
            let behind: unsafe extern "C-unwind" fn(c_int, *const c_void, usize) -> isize = WRITE.function();
            behind(fd, buffer, size)
        };
        count(fd, Direction::Written, moved)
    }
}

/// `read(2)` as programs built with `_FORTIFY_SOURCE` call it.
///
/// # Safety
/// As for `read(2)`; `room` is the size of the buffer.
#[cfg(not(all(feature = "ring", target_arch = "x86_64")))]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(fd: c_int, buffer: *mut c_void, size: usize, room: usize) -> isize {
    if size > room {
        glibc::chk_fail();
    }
    // SAFETY: the caller's promise is the same.
    unsafe { read(fd, buffer, size) }
}

/// Defines functions that call the one behind them, so cancellation and errno are the C library's own, and then run
/// `$after` on its result.
macro_rules! counted {
    ($behind:ident; $($name:ident ( $($argument:ident: $kind:ty),* ), $moved:ident => $after:expr;)*) => {
        mod $behind {
            use crate::glibc::Behind;
            $(
                #[allow(non_upper_case_globals)]
                pub(super) static $name: Behind = Behind::new(
                    match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("the name of a function"),
                    },
                );
            )*
        }
        $(
            #[doc = concat!("`", stringify!($name), "(2)`.")]
            ///
            /// # Safety
            /// As for the function of the same name in glibc.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> isize {
                // SAFETY: the signature is that of glibc's function.
                let behind: unsafe extern "C-unwind" fn($($kind),*) -> isize = unsafe { $behind::$name.function() };
                // SAFETY: the caller's promise is the same.
                let $moved = unsafe { behind($($argument),*) };
                $after;
                $moved
            }
        )*
    };
}

#[cfg(not(all(feature = "ring", target_arch = "x86_64")))]
counted! {
    behind_moves;
    read(fd: c_int, buffer: *mut c_void, size: usize), moved => count(fd, Direction::Read, moved);
    write(fd: c_int, buffer: *const c_void, size: usize), moved => count(fd, Direction::Written, moved);
}

counted! {
    behind;
    readv(fd: c_int, parts: *const c_void, parts_len: c_int), moved => count(fd, Direction::Read, moved);
    writev(fd: c_int, parts: *const c_void, parts_len: c_int), moved => count(fd, Direction::Written, moved);
    splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, size: usize, flags: c_uint),
        moved => (count(from, Direction::Read, moved), count(to, Direction::Written, moved));
    tee(from: c_int, to: c_int, size: usize, flags: c_uint), moved => count(to, Direction::Written, moved);
    vmsplice(fd: c_int, parts: *const c_void, parts_len: usize, flags: c_uint),
        moved => count(fd, vmsplice_direction(fd), moved);
    sendfile(to: c_int, from: c_int, offset: *mut i64, size: usize),
        moved => (count(from, Direction::Read, moved), count(to, Direction::Written, moved));
    sendfile64(to: c_int, from: c_int, offset: *mut i64, size: usize),
        moved => (count(from, Direction::Read, moved), count(to, Direction::Written, moved));
}

/// `vmsplice` goes the way its end goes.
fn vmsplice_direction(fd: c_int) -> Direction {
    match borrow(&fd).map(pipe::is_writable) {
        Some(Ok(true)) => Direction::Written,
        _ => Direction::Read,
    }
}

//! Counting: the functions that move bytes, each followed by a note in the run's counters when a pipe was involved.
//!
//! They stand between the functions that programs call ([`crate::joined`]) and glibc's, in a run with statistics only.
//!
//! What a descriptor is gets asked of the kernel after every transfer (one `fstat`). Remembering it would be faster and
//! sometimes wrong: descriptors are closed and reused in places that cannot be hooked, inside glibc too.
//!
//! Not seen: stdio, which calls the kernel from inside glibc, and programs that do not load this library.

use core::ffi::{CStr, c_int, c_uint, c_void};

use millstream_sys::ledger::Direction;
use millstream_sys::pipe;

use crate::counters::{self, counters, is_wanted, this_program};
use crate::descriptor::borrow;
use crate::joined;

/// Counts what has gone through the kernel, if the run counts, and passes the number on.
#[inline(always)] // each call of a program comes through here
pub(crate) fn note(fd: c_int, direction: Direction, moved: isize) -> isize {
    if counters::counts() { count(fd, direction, moved) } else { moved }
}

/// Notes that `moved` bytes (if positive) went through `fd`, and passes the number on. Leaves errno alone.
#[cold]
#[inline(never)]
fn count(fd: c_int, direction: Direction, moved: isize) -> isize {
    if moved > 0
        && let Some(ledger) = counters()
        && let Some(end) = borrow(&fd)
        && let Some(identity) = pipe::identity(end)
        && identity.device == ledger.pipe_device()
    {
        let capacity = || pipe::capacity(end).unwrap_or(0) as u64;
        let end = ledger.count(identity.inode, direction, moved.unsigned_abs() as u64, capacity, this_program());
        if let (Some(end), Some(fate)) = (end, joined::reason_of_other_use(fd)) {
            end.set_reason(fate);
        }
    }
    moved
}

/// Defines functions that call the one behind them, so cancellation and errno are the C library's own, and then run
/// `$after` on its result.
macro_rules! counted {
    ($($name:ident ( $($argument:ident: $kind:ty),* ), $moved:ident => $after:expr;)*) => {
        mod behind {
            use crate::behind::Behind;
            $(
                #[allow(non_upper_case_globals)]
                pub(super) static $name: Behind = Behind::new(stringify!($name));
            )*
        }
        mod counting {
            use super::*;
            $(
                /// # Safety
                /// As for the function of the same name in glibc.
                #[cold]
                #[inline(never)]
                pub(super) unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> isize {
                    // SAFETY: the signature is that of glibc's function.
                    let behind: unsafe extern "C-unwind" fn($($kind),*) -> isize = unsafe { behind::$name.function() };
                    // SAFETY: the caller's promise is the same.
                    let $moved = unsafe { behind($($argument),*) };
                    $after;
                    $moved
                }
            )*
        }
        /// The function that counts in the place of the one of this name. `None`: there is none, or the run does not count.
        pub(crate) fn function(name: &CStr) -> Option<usize> {
            if !is_wanted() {
                return None;
            }
            match name.to_bytes() {
                $(name if name == stringify!($name).as_bytes() => Some(counting::$name as *const () as usize),)*
                _ => None,
            }
        }
        // Where nothing is attached these names stand for nothing else.
        #[cfg(not(target_arch = "x86_64"))]
        mod exported {
            use super::*;
            $(
                /// # Safety
                /// As for the function of the same name in glibc.
                #[unsafe(no_mangle)]
                pub unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> isize {
                    // SAFETY: the caller's promise is the same.
                    unsafe { counting::$name($($argument),*) }
                }
            )*
        }
    };
}

counted! {
    read(fd: c_int, buffer: *mut c_void, size: usize), moved => count(fd, Direction::Read, moved);
    write(fd: c_int, buffer: *const c_void, size: usize), moved => count(fd, Direction::Written, moved);
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

//! Counting: the functions that move bytes, each followed by a note in the run's counters when a pipe was involved.
//!
//! They stand between the functions that programs call ([`crate::joined`]) and glibc's, in a run with statistics only.
//!
//! What a descriptor is gets asked of the kernel after every transfer (one `fstat`). Remembering it would be faster and
//! sometimes wrong: descriptors are closed and reused in places that cannot be hooked, inside glibc too.
//!
//! Not seen: stdio, which calls the kernel from inside glibc, and programs that do not load this library.

use core::ffi::{CStr, c_int, c_uint, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

use millstream_sys::fd::BorrowedFd;
use millstream_sys::ledger::{self, Direction, Ledger, Origin, Program};
use millstream_sys::pipe;
use millstream_sys::settings::{LedgerAddress, Settings};

use crate::descriptor::borrow;
use crate::joined;

/// Whether the run counts.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// Null until the start, and for ever where the counters cannot be mapped.
static LEDGER: AtomicPtr<Ledger> = AtomicPtr::new(core::ptr::null_mut());
/// The program's name, as in [`Program`].
static NAME: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Maps the run's counters, if the run counts.
pub(crate) fn start(settings: &Settings<'_>) {
    if let Some(address) = settings.ledger {
        IS_WANTED.store(true, Relaxed);
        joined::start_counting();
        attach(address);
    }
}

#[cold]
#[inline(never)]
fn attach(address: LedgerAddress<'_>) {
    let Some(ledger) = ledger::attach(address) else { return };
    for (to, word) in NAME.iter().zip(Program::new(0, &millstream_sys::own_name()).name_words()) {
        to.store(word, Relaxed);
    }
    LEDGER.store(core::ptr::from_ref(ledger).cast_mut(), Relaxed);
    // A program that makes its system calls by itself is noticed by this alone.
    expect_calls(0, Direction::Read);
    expect_calls(1, Direction::Written);
}

#[inline(never)]
fn expect_calls(fd: c_int, direction: Direction) {
    if let (Some(ledger), Some(end)) = (counters(), borrow(&fd))
        && let Some(identity) = pipe::identity(end)
        && identity.device == ledger.pipe_device()
    {
        ledger.expect_calls(identity.inode, direction);
    }
}

/// Whether the run counts, though this process may not, or not any more.
pub(crate) fn is_wanted() -> bool {
    IS_WANTED.load(Relaxed)
}

/// Nothing is counted any more: it takes system calls that this program may be killed for.
pub(crate) fn stop() {
    LEDGER.store(core::ptr::null_mut(), Relaxed);
}

/// Notes a pipe that this process has just made.
pub(crate) fn record(end: BorrowedFd<'_>, origin: Origin) {
    if let Some(ledger) = counters()
        && let Some(identity) = pipe::identity(end)
    {
        ledger.record(identity.inode, origin, pipe::capacity(end).unwrap_or(0) as u64, Some(this_program()));
    }
}

/// Whether this process counts.
#[inline]
pub(crate) fn counts() -> bool {
    !LEDGER.load(Relaxed).is_null()
}

fn counters() -> Option<&'static Ledger> {
    // SAFETY: null, or a mapping that lasts as long as the process image; it only holds atomics.
    unsafe { LEDGER.load(Relaxed).as_ref() }
}

/// Asked anew each time: after a fork the number is another.
fn this_program() -> Program {
    let [first, last] = &NAME;
    Program::from_words(millstream_sys::own_pid(), [first.load(Relaxed), last.load(Relaxed)])
}

/// Notes that `moved` bytes (if positive) went through `fd`, and passes the number on. Leaves errno alone.
#[cold]
#[inline(never)]
pub(crate) fn count(fd: c_int, direction: Direction, moved: isize) -> isize {
    if moved > 0
        && let Some(ledger) = counters()
        && let Some(end) = borrow(&fd)
        && let Some(identity) = pipe::identity(end)
        && identity.device == ledger.pipe_device()
    {
        let capacity = || pipe::capacity(end).unwrap_or(0) as u64;
        let end = ledger.count(identity.inode, direction, moved.unsigned_abs() as u64, capacity, this_program());
        if let (Some(end), Some(fate)) = (end, joined::reason_of_other_use(fd)) {
            end.set_fate(fate);
        }
    }
    moved
}

/// The counters of the pipe that `fd` is an end of.
pub(crate) fn end_of(fd: c_int, direction: Direction) -> Option<&'static ledger::SharedEnd> {
    let (ledger, end) = (counters()?, borrow(&fd)?);
    let identity = pipe::identity(end).filter(|identity| identity.device == ledger.pipe_device())?;
    ledger.end(identity.inode, direction, || pipe::capacity(end).unwrap_or(0) as u64)
}

/// Defines functions that call the one behind them, so cancellation and errno are the C library's own, and then run
/// `$after` on its result.
macro_rules! counted {
    ($($name:ident ( $($argument:ident: $kind:ty),* ), $moved:ident => $after:expr;)*) => {
        mod behind {
            use crate::glibc::Behind;
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

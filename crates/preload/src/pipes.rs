//! `pipe`, `pipe2` and `popen`: as ever, and then the new pipe is made large.

use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering::Relaxed;

use millstream_sys::fd::BorrowedFd;
use millstream_sys::ledger::Origin;
use millstream_sys::{pipe, raw};

use crate::glibc::{self, Behind};
use crate::start::{DESCRIPTOR_LIMIT, PIPE_BYTES};

/// `pipe(2)`.
///
/// # Safety
/// As for `pipe(2)`: `ends` points to room for two integers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe(ends: *mut [c_int; 2]) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { pipe2(ends, 0) }
}

/// `pipe2(2)`.
///
/// # Safety
/// As for `pipe2(2)`: `ends` points to room for two integers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pipe2(ends: *mut [c_int; 2], flags: c_int) -> c_int {
    // SAFETY: the caller's promise is the same.
    let outcome = unsafe { raw::pipe2(ends, flags) };
    if outcome.is_ok() {
        // SAFETY: the kernel has just written both numbers there.
        let [reader, _] = unsafe { ends.read() };
        welcome(reader, Origin::Pipe);
    }
    glibc::returned(outcome)
}

/// `popen(3)`. glibc makes the pipe inside, out of our sight; by the time it returns the command may already be using
/// it, and the kernel moves what waits in the pipe to the larger one.
///
/// # Safety
/// As for `popen(3)`: both are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut glibc::File {
    static BEHIND: Behind = Behind::new(c"popen");
    // SAFETY: the signature is that of glibc's function.
    let behind: unsafe extern "C-unwind" fn(*const c_char, *const c_char) -> *mut glibc::File =
        unsafe { BEHIND.function() };
    // SAFETY: the caller's promise is the same.
    let stream = unsafe { behind(command, mode) };
    if !stream.is_null() {
        // SAFETY: a stream that has just been opened.
        welcome(unsafe { glibc::fileno(stream) }, Origin::Popen);
    }
    stream
}

/// Enlarges the pipe that `fd` is an end of, unless a program chose a size for it.
pub(crate) fn enlarge_untouched(fd: c_int) {
    if let Some(end) = borrow(&fd)
        && pipe::is_untouched(end)
    {
        enlarge(end);
    }
}

/// What is done for each new pipe. A refusal is no error: the pipe then is what the kernel made.
fn welcome(fd: c_int, _origin: Origin) {
    let Some(end) = borrow(&fd) else { return };
    if u64::from(fd.unsigned_abs()) < DESCRIPTOR_LIMIT.load(Relaxed) {
        enlarge(end);
    }
    #[cfg(feature = "count")]
    crate::counted::record(end, _origin);
}

fn enlarge(end: BorrowedFd<'_>) {
    match PIPE_BYTES.load(Relaxed) {
        0 => {}
        bytes => pipe::request_capacity(end, bytes as usize),
    }
}

/// The descriptor as a type, for the length of a call. It belongs to the program, which may even have passed a number
/// that is not open: the kernel then answers EBADF, and no memory is at stake.
pub(crate) fn borrow(fd: &c_int) -> Option<BorrowedFd<'_>> {
    // SAFETY: not -1, which the type reserves; used for calls that are valid for any open file.
    (*fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(*fd) })
}

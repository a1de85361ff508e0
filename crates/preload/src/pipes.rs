//! `pipe`, `pipe2` and `popen`: as ever, and then the new pipe is made large.

use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering::Relaxed;

use millstream_sys::fd::BorrowedFd;
use millstream_sys::ledger::Origin;
use millstream_sys::{Errno, pipe};

use crate::glibc;
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
    // The pointer goes to the kernel as it came: a bad one is answered with EFAULT, not with a crash in here.
    // SAFETY: the arguments are those of this system call.
    let result = unsafe { glibc::syscall(pipe::PIPE2_CALL, ends, flags) };
    if result == 0 {
        // SAFETY: the kernel has just written both numbers there.
        let [reader, _] = unsafe { ends.read() };
        welcome(reader, Origin::Pipe);
    }
    result as c_int
}

/// `popen(3)`. glibc makes the pipe inside, out of our sight; by the time it returns the command may already be using
/// it, and the kernel moves what waits in the pipe to the larger one.
///
/// # Safety
/// As for `popen(3)`: both are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn popen(command: *const c_char, mode: *const c_char) -> *mut glibc::File {
    // SAFETY: the caller's promise is the same.
    let stream = unsafe { glibc::popen(command, mode) };
    if !stream.is_null() {
        // SAFETY: a stream that has just been opened.
        welcome(unsafe { glibc::fileno(stream) }, Origin::Popen);
    }
    stream
}

/// Enlarges the pipe that `fd` is an end of if it still has the size that the kernel gave it. A program that chose a
/// size of its own keeps it.
pub(crate) fn enlarge_untouched(fd: c_int) {
    if let Some(end) = borrow(&fd)
        && pipe::capacity(end) == Ok(pipe::DEFAULT_CAPACITY)
    {
        enlarge(end, PIPE_BYTES.load(Relaxed));
    }
}

/// What is done for each new pipe. A refusal is no error: the pipe then is what the kernel made.
fn welcome(fd: c_int, _origin: Origin) {
    let Some(end) = borrow(&fd) else { return };
    if u64::from(fd.unsigned_abs()) < DESCRIPTOR_LIMIT.load(Relaxed) {
        enlarge(end, PIPE_BYTES.load(Relaxed));
    }
    #[cfg(feature = "count")]
    crate::counted::record(end, _origin);
}

/// Asks for `bytes`, and for half of it, and so on, as long as the kernel says that it is too much for this user and
/// half is still more than a pipe has anyway.
fn enlarge(end: BorrowedFd<'_>, mut bytes: u64) {
    if bytes == 0 {
        return;
    }
    while pipe::set_capacity(end, bytes as usize) == Err(Errno::PERM) && bytes / 2 > pipe::DEFAULT_CAPACITY as u64 {
        bytes /= 2;
    }
}

/// The descriptor as a type, for the length of a call. It belongs to the program, which may even have passed a number
/// that is not open: the kernel then answers EBADF, and no memory is at stake.
pub(crate) fn borrow(fd: &c_int) -> Option<BorrowedFd<'_>> {
    // SAFETY: not -1, which the type reserves; used for calls that are valid for any open file.
    (*fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(*fd) })
}

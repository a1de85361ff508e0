//! `pipe`, `pipe2` and `popen`: as ever, and then the new pipe is made large, at once or when another program gets an end of it. `fcntl`: as ever, but a size that the program has chosen stays.
//!
//! The pipes of a program that makes threads get the kernel's size back before it starts. The threads of a program share the CPUs with
//! the program at the other side, and a thread that sleeps rarely is rarely moved to another CPU. With large pipes one side stands longer
//! in the way of the thread for which all wait.

use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

use millstream_sys::fd::BorrowedFd;
use millstream_sys::ledger::Origin;
use millstream_sys::settings::Sizing;
use millstream_sys::settled::{self, By};
use millstream_sys::{pipe, raw};

use crate::behind::Behind;
use crate::descriptor::borrow;
use crate::glibc;
use crate::{counters, joined, lines, quota};

/// [`Sizing::bytes`]; 0, that is hands off, until the start and when there are no settings.
static PIPE_BYTES: AtomicU64 = AtomicU64::new(0);
/// [`Sizing::is_chosen`].
static IS_CHOSEN: AtomicBool = AtomicBool::new(false);

static POPEN: Behind = Behind::new("popen");
static FCNTL: Behind = Behind::new("fcntl");

/// Begins to enlarge: pipes that are made from now on, and those that stand on the standard input and output. A program
/// that is not in the run's hands may have made these: a static shell, a Go program.
pub(crate) fn start(sizing: &Sizing) {
    quota::start(sizing);
    PIPE_BYTES.store(sizing.bytes, Relaxed);
    IS_CHOSEN.store(sizing.is_chosen, Relaxed);
    enlarge_standard();
}

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
        joined::expect_starts();
        if is_for_itself(flags) {
            joined::has_pipe();
        }
        // Where the user has said how large pipes are to be, all are.
        if !is_for_itself(flags) || IS_CHOSEN.load(Relaxed) {
            enlarge_new(reader);
        }
        record(reader, Origin::Pipe);
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
    // SAFETY: the signature is that of glibc's function.
    let behind: unsafe extern "C-unwind" fn(*const c_char, *const c_char) -> *mut glibc::File =
        unsafe { POPEN.function() };
    // SAFETY: the caller's promise is the same.
    let stream = unsafe { behind(command, mode) };
    if !stream.is_null() {
        // SAFETY: a stream that has just been opened.
        let fd = unsafe { glibc::fileno(stream) };
        enlarge_new(fd);
        record(fd, Origin::Popen);
        // SAFETY: glibc has read the same string.
        unsafe { lines::flush_new(stream, mode) };
        joined::has_pipe();
    }
    stream
}

/// The same function.
///
/// # Safety
/// As for `popen(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _IO_popen(command: *const c_char, mode: *const c_char) -> *mut glibc::File {
    // SAFETY: the caller's promise is the same.
    unsafe { popen(command, mode) }
}

/// `fcntl(2)`, whose third argument is in a register if there is one.
///
/// # Safety
/// As for `fcntl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the C library's function takes its third argument from the same register, whether there is one or not.
    let behind: unsafe extern "C-unwind" fn(c_int, c_int, usize) -> c_int =
        unsafe { FCNTL.function_for(fd as usize, command as usize) };
    // SAFETY: the caller's promise is the same.
    let answer = unsafe { behind(fd, command, argument) };
    if command == F_SETPIPE_SZ && answer >= 0 {
        choose_size(fd);
    }
    answer
}

/// The same function.
///
/// # Safety
/// As for `fcntl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { fcntl(fd, command, argument) }
}

/// The same function, for programs built for files of any size.
///
/// # Safety
/// As for `fcntl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { fcntl(fd, command, argument) }
}

const F_SETPIPE_SZ: c_int = 1031;

/// Notes that a program has chosen the size.
#[cold]
#[inline(never)]
pub(crate) fn choose_size(fd: c_int) {
    if let Some(end) = borrow(&fd) {
        settled::settle(end, By::Program);
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) fn size_is_chosen(fd: c_int) -> bool {
    borrow(&fd).is_some_and(|end| settled::is_settled(end, By::Program))
}

/// Whether a program that makes such a pipe means to use an end itself. A shell gives both ends to others, and does not have them closed
/// when it becomes another program.
fn is_for_itself(flags: c_int) -> bool {
    const O_CLOEXEC: c_int = 0o2_000_000;
    flags & O_CLOEXEC != 0
}

/// Enlarges the pipes on the standard input and output, as another program begins. A pipe that a program has made for itself is enlarged
/// here, when it has given an end to another program: where it forks and goes on, both ends have the habits of one program, and Python's
/// `multiprocessing` is slower with a larger pipe, as each piece that comes is more than its allocator keeps.
pub(crate) fn enlarge_standard() {
    for fd in 0..2 {
        enlarge_untouched(fd);
    }
}

/// Enlarges the pipe that `fd` is an end of, unless a program chose a size for it, or has threads.
fn enlarge_untouched(fd: c_int) {
    if let Some(end) = borrow(&fd)
        && pipe::is_untouched(end)
        && !settled::is_settled_at_all(end)
    {
        enlarge(end);
    }
}

/// Gives the pipes on the standard input and output the kernel's size back, before this process becomes a program that makes threads.
/// Done before that program and the one on the other side have been loaded, because a pipe in which more waits stays as it is.
#[cold]
#[inline(never)] // gives its stack back before its caller needs its own
pub(crate) fn leave_to_threads() {
    let bytes = PIPE_BYTES.load(Relaxed) as usize;
    // The memory of an attached pipe may hold more than a small one could take back.
    if !joined::leave() {
        return;
    }
    // Where the user has said how large pipes are to be, they are.
    if bytes <= pipe::DEFAULT_CAPACITY || IS_CHOSEN.load(Relaxed) {
        return;
    }
    for fd in 0..2 {
        let Some(end) = borrow(&fd) else { continue };
        let had = pipe::capacity(end);
        let is_ours = had == Ok(bytes) && !settled::is_settled(end, By::Program);
        if had != Ok(pipe::DEFAULT_CAPACITY) && !is_ours {
            continue;
        }
        // First: the program on the other side may be looking at this moment.
        settled::settle(end, By::Run);
        if is_ours && pipe::set_capacity(end, pipe::DEFAULT_CAPACITY).is_err() {
            settled::unsettle(end, By::Run);
        }
    }
}

/// Before memory carries the pipe, which holds as much as the pipe: the reasons for which it was left at the kernel's size, threads that
/// its program could have made and a program that forks, are none then.
#[cfg(target_arch = "x86_64")]
pub(crate) fn enlarge_to_join(fd: c_int) {
    if let Some(end) = borrow(&fd)
        && pipe::is_untouched(end)
        && !settled::is_settled(end, By::Program)
    {
        enlarge(end);
    }
}

/// A refusal is no error: the pipe then is what the kernel made.
fn enlarge_new(fd: c_int) {
    if let Some(end) = borrow(&fd) {
        enlarge(end);
    }
}

fn record(fd: c_int, origin: Origin) {
    if let Some(end) = borrow(&fd) {
        counters::record(end, origin);
    }
}

fn enlarge(end: BorrowedFd<'_>) {
    let bytes = PIPE_BYTES.load(Relaxed);
    if bytes > 0 && quota::allows(end, bytes) {
        pipe::request_capacity(end, bytes as usize);
    }
}

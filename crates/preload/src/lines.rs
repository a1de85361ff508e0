//! `run --unbuffered`: stdio flushes at line ends, as it does at a terminal, and not when its buffer is full.
//!
//! glibc chooses how a stream is buffered at the first write, and keeps a choice that `setvbuf(3)` made before. The library
//! makes it as the program starts, for the standard output, and for the streams that `popen(3)` opens for writing. A program
//! that calls `setvbuf` itself has the last word. With no buffer given the call allocates nothing, and no other thread has
//! the stream yet whose lock it takes.

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millstream_sys::settings::Settings;

use crate::glibc::File;
use crate::names;

/// [`Settings::flushes_lines`].
static ARE_WANTED: AtomicBool = AtomicBool::new(false);

/// Sets the standard output to lines, if the run wants that.
pub(crate) fn start(settings: &Settings<'_>) {
    if settings.flushes_lines {
        ARE_WANTED.store(true, Relaxed);
        flush_standard_output();
    }
}

/// Whether every program is to flush at line ends, and so to have this library.
pub(crate) fn are_wanted() -> bool {
    ARE_WANTED.load(Relaxed)
}

#[cold]
#[inline(never)]
fn flush_standard_output() {
    let stdout = names::variable(c"stdout") as *const *mut File;
    // SAFETY: null, or the C library's variable, which no code changes before the program begins.
    if let Some(&stream) = unsafe { stdout.as_ref() } {
        flush_at_line_ends(stream);
    }
}

/// The same for a stream that `popen(3)` has just opened.
///
/// # Safety
/// `mode` is a C string.
pub(crate) unsafe fn flush_new(stream: *mut File, mode: *const c_char) {
    // A stream for reading that is set to lines has the standard output flushed before each read.
    // SAFETY: the caller's promise.
    if are_wanted() && unsafe { CStr::from_ptr(mode) }.to_bytes().contains(&b'w') {
        flush_at_line_ends(stream);
    }
}

#[cold]
#[inline(never)]
fn flush_at_line_ends(stream: *mut File) {
    /// `_IOLBF`.
    const LINES: c_int = 1;
    type SetBuffer = unsafe extern "C" fn(*mut File, *mut c_char, c_int, usize) -> c_int;
    let address = names::behind(c"setvbuf");
    if address.is_null() || stream.is_null() {
        return;
    }
    // SAFETY: the C library's function of this name and type, and a stream of the C library before its first use.
    unsafe {
        core::mem::transmute::<*mut core::ffi::c_void, SetBuffer>(address)(stream, core::ptr::null_mut(), LINES, 0)
    };
}

//! Cooperative mode: a program promises how it uses its standard input and output. Then `millstream run` can move their
//! bytes through shared memory, though the program has several threads and makes system calls by itself.
//!
//! `docs/joining.md` has the promise. A program that breaks it loses bytes of the stream or waits for ever; memory
//! stays safe. Outside of such a run nothing is promised, and there is neither an [`Input`] nor an [`Output`].
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::Errno;

type Promise = unsafe extern "C" fn(c_int) -> c_int;
type Read = unsafe extern "C" fn(*mut u8, usize, c_int) -> isize;
type Write = unsafe extern "C" fn(*const u8, usize) -> isize;

/// The standard input, a pipe that may attach.
#[derive(Debug)]
pub struct Input {
    read: Read,
}

/// The standard output, a pipe that may attach.
#[derive(Debug)]
pub struct Output {
    write: Write,
}

impl Input {
    /// Promises that from now on one thread reads the standard input, through this value only, and that the process
    /// does nothing else with it. The thread lives as long as the process, and holds no robust lock while it reads or
    /// between two reads. `None`: nothing is promised, because this is not a run in which it would help.
    pub fn promise() -> Option<Input> {
        let read = function(c"millstream_promised_read_1")?;
        // SAFETY: the library that has this name gives it this type.
        let read = unsafe { core::mem::transmute::<*mut c_void, Read>(read) };
        is_promised(0).then_some(Input { read })
    }

    /// `read(2)`. Returns `None` instead of sleeping when there is a `bell` and it can be read.
    ///
    /// # Errors
    /// Those of `read(2)`.
    pub fn read(&self, buffer: &mut [u8], bell: Option<BorrowedFd<'_>>) -> Result<Option<usize>, Errno> {
        let bell = bell.map_or(-1, |bell| bell.as_raw_fd());
        // SAFETY: the buffer and its length.
        match outcome(unsafe { (self.read)(buffer.as_mut_ptr(), buffer.len(), bell) }) {
            Err(Errno::CANCELED) => Ok(None),
            outcome => outcome.map(Some),
        }
    }
}

impl Output {
    /// Promises that from now on one thread at a time writes the standard output, through this value only, and that the
    /// process does nothing else with it. `None`: nothing is promised, because this is not a run in which it would
    /// help.
    pub fn promise() -> Option<Output> {
        let write = function(c"millstream_promised_write_1")?;
        // SAFETY: the library that has this name gives it this type.
        let write = unsafe { core::mem::transmute::<*mut c_void, Write>(write) };
        is_promised(1).then_some(Output { write })
    }

    /// `write(2)`.
    ///
    /// # Errors
    /// Those of `write(2)`; with `EPIPE` comes SIGPIPE.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        // SAFETY: the bytes and their number.
        outcome(unsafe { (self.write)(bytes.as_ptr(), bytes.len()) })
    }
}

fn is_promised(descriptor: c_int) -> bool {
    function(c"millstream_promise_1").is_some_and(|promise| {
        // SAFETY: the library that has this name gives it this type; it remembers a flag.
        unsafe { core::mem::transmute::<*mut c_void, Promise>(promise)(descriptor) == 1 }
    })
}

/// A function of the library that the run has put into this process, if it is one.
fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a C string; nothing is called.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

fn outcome(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-(result as i32)))
}

//! What is asked of an end and told to it.

use std::ffi::{c_char, c_int};
use std::mem::size_of;
use std::os::fd::AsRawFd;

use libc::{size_t, ssize_t};
use millstream_pipe::Statistics;

use crate::errors::{IN_PLACE, INVALID, NO_END, NOT_THERE, count, number, status};
use crate::handle::{AnyEnd, any, ms_end};

/// Calls a method that both ends of a pipe have, or one that those of a broadcast have.
macro_rules! either {
    ($end:expr, $name:ident => $call:expr, $reader:ident => $read:expr, $writer:ident => $write:expr) => {
        // SAFETY: the caller's promise.
        match unsafe { any($end) }.ok_or(NO_END)? {
            AnyEnd::Reader(handle) => {
                let $name = handle.end();
                $call
            }
            AnyEnd::Writer(handle) => {
                let $name = handle.end();
                $call
            }
            AnyEnd::BroadcastReader(handle) => {
                let $reader = handle.end();
                $read
            }
            AnyEnd::BroadcastWriter(handle) => {
                let $writer = handle.end();
                $write
            }
        }
    };
}

/// A descriptor for poll(2), select(2), epoll(7) and what is built on them: ready exactly when that end of a kernel pipe would be.
/// Only to be watched, never to be read, written or closed. It lasts as long as the handle: take it out of an epoll set before
/// ms_close(), because another process may have inherited it, and the set would keep it. From the first call on, every
/// change between empty and not empty, or full and not full, costs the process that makes it a system call.
///
/// Returns the descriptor, or -1 with errno: EBADF, EMFILE, ENOMEM.
///
/// # Safety
/// `end` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_fileno(end: *mut ms_end) -> c_int {
    number(
        (|| either!(end, end => Ok(end.readiness()?.as_raw_fd()), reader => Ok(reader.fileno()?), _writer => Err(NOT_THERE)))(
        ),
    )
}

/// Whether calls on this end return EAGAIN instead of sleeping; also those of its other handles, and of other processes that have
/// inherited it.
///
/// Returns 0, or -1 with errno: EBADF.
///
/// # Safety
/// `end` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_set_nonblock(end: *mut ms_end, nonblocking: c_int) -> c_int {
    status((|| {
        let yes = nonblocking != 0;
        either!(
            end,
            end => end.set_nonblocking(yes)?,
            reader => reader.set_nonblocking(yes),
            writer => writer.alone()?.set_nonblocking(yes)
        );
        Ok(())
    })())
}

/// Bytes that the pipe holds when full.
///
/// Returns them, or -1 with errno: EBADF, EIO, ENOMEM.
///
/// # Safety
/// `end` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_capacity(end: *mut ms_end) -> ssize_t {
    count((|| {
        either!(
            end,
            end => Ok(end.capacity()?),
            reader => Ok(reader.capacity()),
            writer => Ok(writer.alone()?.capacity())
        )
    })())
}

/// Makes the pipe larger or smaller while it is in use (`F_SETPIPE_SZ`): size is rounded up to a power of two of at least 4096.
/// Bytes that wait are kept.
///
/// Returns the new capacity, or -1 with errno: EBUSY if more bytes wait than it would hold, or some are reserved or shown; EPERM
/// if it grows beyond what this user may have; EINVAL above 2 GiB; EBADF. The capacity is what it was before then.
///
/// # Safety
/// `end` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_set_capacity(end: *mut ms_end, size: size_t) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise. Changed while bytes are shown or reserved it would give them back.
        match unsafe { any(end) }.ok_or(NO_END)? {
            AnyEnd::Reader(handle) => Ok(handle.idle().ok_or(IN_PLACE)?.set_capacity(size)?),
            AnyEnd::Writer(handle) => Ok(handle.idle().ok_or(IN_PLACE)?.set_capacity(size)?),
            AnyEnd::BroadcastReader(_) | AnyEnd::BroadcastWriter(_) => Err(NOT_THERE),
        }
    })())
}

/// Bytes that wait to be read (`FIONREAD`).
///
/// Returns them, or -1 with errno: EBADF, EIO, ENOMEM.
///
/// # Safety
/// `end` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_readable(end: *mut ms_end) -> ssize_t {
    count((|| {
        either!(
            end,
            end => Ok(end.bytes_readable()?),
            reader => Ok(reader.bytes_readable()),
            _writer => Err(NOT_THERE)
        )
    })())
}

/// What a handle has done since it was made. Other handles to the same end, and children of a fork, count for themselves. Start
/// from MS_STATISTICS_INIT: later versions add members.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ms_statistics {
    /// sizeof(ms_statistics)
    pub size: size_t,
    /// Bytes moved, in whatever way.
    pub bytes: u64,
    /// Of these, the bytes that the kernel's pipe has carried.
    pub bytes_through_kernel: u64,
    /// Of these, the bytes that ms_copy_to() and ms_copy_from() have moved.
    pub bytes_copied: u64,
    /// Of these, the bytes that the program has worked on in the pipe itself.
    pub bytes_in_place: u64,
    /// Of these, the bytes that the reader has copied straight out of the writer's memory.
    pub bytes_single_copy: u64,
    /// Times that bytes were moved.
    pub transfers: u64,
    /// Times that the end looked for the other side without sleeping.
    pub spins: u64,
    /// Times that it yielded the CPU.
    pub yields: u64,
    /// Times that it slept.
    pub sleeps: u64,
    /// Times that it woke the other side.
    pub wakes: u64,
}

impl From<Statistics> for ms_statistics {
    fn from(counted: Statistics) -> ms_statistics {
        ms_statistics {
            size: size_of::<ms_statistics>(),
            bytes: counted.bytes,
            bytes_through_kernel: counted.bytes_through_kernel,
            bytes_copied: counted.bytes_spliced,
            bytes_in_place: counted.bytes_in_place,
            bytes_single_copy: counted.bytes_direct,
            transfers: counted.transfers,
            spins: counted.spins,
            yields: counted.yields,
            sleeps: counted.sleeps,
            wakes: counted.wakes,
        }
    }
}

/// Fills as much of the statistics as their size says and this version knows; members that it does not know become 0.
///
/// Returns 0, or -1 with errno: EINVAL for a size that is too small, EBADF.
///
/// # Safety
/// `end` is null or a handle; `statistics` leads to as many bytes as its `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_stats(end: *mut ms_end, statistics: *mut ms_statistics) -> c_int {
    status((|| {
        if statistics.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the caller's promise.
        let size = unsafe { (&raw const (*statistics).size).read_unaligned() };
        if size < size_of::<ms_statistics>() {
            return Err(INVALID);
        }
        let counted = either!(
            end,
            end => end.statistics(),
            reader => reader.statistics(),
            writer => writer.alone()?.statistics()
        );
        let counted = ms_statistics { size, ..counted.into() };
        // SAFETY: the caller's promise.
        unsafe {
            statistics.write_unaligned(counted);
            statistics.cast::<u8>().add(size_of::<ms_statistics>()).write_bytes(0, size - size_of::<ms_statistics>());
        }
        Ok(())
    })())
}

/// The version of the library that is in use, as "0.1.0". MS_VERSION is that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn ms_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

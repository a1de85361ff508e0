//! Bytes are read and written.

use std::ffi::{c_int, c_void};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::BorrowedFd;
use std::slice;

use libc::{iovec, size_t, ssize_t};
use millstream_pipe::{Reader, Writer};

use crate::broadcast_ends::{BroadcastReader, BroadcastWriter};
use crate::errors::{Errno, IN_PLACE, INVALID, NO_END, count};
use crate::handle::{Handle, ms_reader, ms_writer};

/// Most buffers of one call (`UIO_MAXIOV` of Linux).
const MOST_BUFFERS: usize = 1024;

/// Reads up to size bytes, as read(2) from a pipe: what waits, or sleeps until something does.
///
/// Returns the number of bytes; 0 at the end of the stream, when no writer is left, and for a size of 0. Or -1 with errno:
/// EAGAIN if nothing waits and the end is non-blocking; EINTR; EBADF; EFAULT for NULL; EBUSY between ms_peek() and ms_consume(); EIO if another
/// process has damaged the shared memory; ENOBUFS if this reader of a lossy broadcast was too slow. No error has taken a byte.
///
/// # Safety
/// `reader` is null or a handle; `buffer` leads to `size` bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_read(reader: *mut ms_reader, buffer: *mut c_void, size: size_t) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let (pipe, buffer) = unsafe { (Handle::<Reader>::of(reader), bytes_mut(buffer, size)?) };
        let Some(pipe) = pipe else {
            // SAFETY: the caller's promise.
            return unsafe { read_broadcast(reader, &mut [IoSliceMut::new(buffer)]) };
        };
        let mut reader = pipe.idle().ok_or(IN_PLACE)?;
        Ok(reader.read(buffer)?)
    })())
}

/// Reads into several buffers, one after the other, as readv(2).
///
/// Returns and errors as ms_read(); EINVAL for fewer than 0 or more than 1024 buffers.
///
/// # Safety
/// `reader` is null or a handle; `buffers` leads to `buffer_count` buffers, each of which can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_readv(reader: *mut ms_reader, buffers: *const iovec, buffer_count: c_int) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let (pipe, buffers) = unsafe { (Handle::<Reader>::of(reader), vector(buffers, buffer_count)?) };
        let mut slices = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            // SAFETY: the caller's promise.
            slices.push(IoSliceMut::new(unsafe { bytes_mut(buffer.iov_base, buffer.iov_len) }?));
        }
        let Some(pipe) = pipe else {
            // SAFETY: the caller's promise.
            return unsafe { read_broadcast(reader, &mut slices) };
        };
        let mut reader = pipe.idle().ok_or(IN_PLACE)?;
        Ok(reader.read_vectored(&mut slices)?)
    })())
}

/// Writes size bytes, as write(2) to a pipe: up to PIPE_BUF (4096) bytes at once or not at all, and sleeps until all are
/// written, unless the end is non-blocking.
///
/// Returns the number of bytes: fewer than size only if the end is non-blocking or a signal handler ran. Or -1 with errno:
/// EPIPE, after SIGPIPE, if no reader is left; EAGAIN; EINTR; EBADF; EBUSY between ms_reserve() and ms_commit(), or at a
/// broadcast that another thread writes to; EIO; ENOMEM or ENOSPC if there is no memory for the bytes; ESTALE as
/// ms_add_reader().
///
/// # Safety
/// `writer` is null or a handle; `buffer` leads to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_write(writer: *mut ms_writer, buffer: *const c_void, size: size_t) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let (pipe, buffer) = unsafe { (Handle::<Writer>::of(writer), bytes(buffer, size)?) };
        let Some(pipe) = pipe else {
            // SAFETY: the caller's promise.
            return unsafe { write_broadcast(writer, &[IoSlice::new(buffer)]) };
        };
        let mut writer = pipe.idle().ok_or(IN_PLACE)?;
        Ok(writer.write(buffer)?)
    })())
}

/// Writes several buffers, one after the other, as writev(2): up to PIPE_BUF bytes together at once or not at all.
///
/// Returns and errors as ms_write(); EINVAL for fewer than 0 or more than 1024 buffers.
///
/// # Safety
/// `writer` is null or a handle; `buffers` leads to `buffer_count` buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_writev(writer: *mut ms_writer, buffers: *const iovec, buffer_count: c_int) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let (pipe, buffers) = unsafe { (Handle::<Writer>::of(writer), vector(buffers, buffer_count)?) };
        let mut slices = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            // SAFETY: the caller's promise.
            slices.push(IoSlice::new(unsafe { bytes(buffer.iov_base, buffer.iov_len) }?));
        }
        let Some(pipe) = pipe else {
            // SAFETY: the caller's promise.
            return unsafe { write_broadcast(writer, &slices) };
        };
        let mut writer = pipe.idle().ok_or(IN_PLACE)?;
        Ok(writer.write_vectored(&slices)?)
    })())
}

/// Moves size bytes, or all until the end of the stream, from the pipe to a file, a socket or any other descriptor, without a
/// buffer of the program. Sleeps while the pipe is empty and a writer is left. SSIZE_MAX means all.
///
/// Returns the number of bytes: size, unless the stream has ended or something came between, as a signal or a full disk; the
/// next call says what. 0 at the end of the stream. Or -1 with errno, if nothing was moved: those of ms_read() and those of
/// writing to the descriptor. What the descriptor does not take still waits in the pipe.
///
/// # Safety
/// `reader` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_copy_to(reader: *mut ms_reader, fd: c_int, size: size_t) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let reader = unsafe { Handle::<Reader>::of(reader) }.ok_or(NO_END)?.idle().ok_or(IN_PLACE)?;
        Ok(reader.copy_to(open(&fd)?, at_most(size))? as usize)
    })())
}

/// Moves size bytes, or all until its end, from a file, a socket or any other descriptor into the pipe, without a buffer of the
/// program. Sleeps while the pipe is full, and while the descriptor gives nothing. SSIZE_MAX means all.
///
/// Returns the number of bytes: size, unless the file has ended or something came between; the next call says what. 0 at the
/// end of the file. Or -1 with errno, if nothing was moved: those of ms_write() and those of reading from the descriptor. What
/// the pipe does not take still waits there.
///
/// # Safety
/// `writer` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_copy_from(writer: *mut ms_writer, fd: c_int, size: size_t) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let writer = unsafe { Handle::<Writer>::of(writer) }.ok_or(NO_END)?.idle().ok_or(IN_PLACE)?;
        Ok(writer.copy_from(open(&fd)?, at_most(size))? as usize)
    })())
}

/// # Safety
/// `reader` is null or a handle.
#[cold]
unsafe fn read_broadcast(reader: *mut ms_reader, buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Handle::<BroadcastReader>::of(reader) }.ok_or(NO_END)?.end().read(buffers)
}

/// # Safety
/// `writer` is null or a handle.
#[cold]
unsafe fn write_broadcast(writer: *mut ms_writer, buffers: &[IoSlice<'_>]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Handle::<BroadcastWriter>::of(writer) }.ok_or(NO_END)?.end().write(buffers)
}

/// A result must be told from an error.
fn at_most(size: size_t) -> u64 {
    size.min(isize::MAX as usize) as u64
}

fn open(fd: &c_int) -> Result<BorrowedFd<'_>, Errno> {
    // SAFETY: the program's; the kernel says EBADF if it is not open. -1 is no descriptor at all.
    if *fd < 0 { Err(NO_END) } else { Ok(unsafe { BorrowedFd::borrow_raw(*fd) }) }
}

/// # Safety
/// `buffer` leads to `size` bytes; null is allowed if there are none.
unsafe fn bytes<'b>(buffer: *const c_void, size: size_t) -> Result<&'b [u8], Errno> {
    match size {
        0 => Ok(&[]),
        _ if buffer.is_null() => Err(Errno(libc::EFAULT)),
        // SAFETY: the caller's promise; no object is longer.
        _ => Ok(unsafe { slice::from_raw_parts(buffer.cast(), size.min(isize::MAX as usize)) }),
    }
}

/// # Safety
/// `buffer` leads to `size` bytes that can be written; null is allowed if there are none. They need not have been written before:
/// the pipe only writes to them.
unsafe fn bytes_mut<'b>(buffer: *mut c_void, size: size_t) -> Result<&'b mut [u8], Errno> {
    match size {
        0 => Ok(&mut []),
        _ if buffer.is_null() => Err(Errno(libc::EFAULT)),
        // SAFETY: as in `bytes`.
        _ => Ok(unsafe { slice::from_raw_parts_mut(buffer.cast(), size.min(isize::MAX as usize)) }),
    }
}

/// # Safety
/// `buffers` leads to `buffer_count` buffers; null is allowed if there are none.
unsafe fn vector<'b>(buffers: *const iovec, buffer_count: c_int) -> Result<&'b [iovec], Errno> {
    match usize::try_from(buffer_count) {
        Ok(0) => Ok(&[]),
        Ok(len) if len <= MOST_BUFFERS && !buffers.is_null() => {
            // SAFETY: the caller's promise.
            Ok(unsafe { slice::from_raw_parts(buffers, len) })
        }
        Ok(len) if len <= MOST_BUFFERS => Err(Errno(libc::EFAULT)),
        _ => Err(INVALID),
    }
}

//! One writer and several readers that each see every byte. Their handles are an `ms_writer` and `ms_reader`s like any other.

use std::ffi::c_int;
use std::io::ErrorKind;

use libc::{size_t, ssize_t};
use millstream_pipe::broadcast::Reader;

use crate::broadcast_ends::{BroadcastReader, BroadcastWriter};
use crate::descriptor::to_take_over;
use crate::errors::{Errno, INVALID, NO_END, count, status};
use crate::handle::{Handle, ms_reader, ms_writer};
use crate::options::{MS_LOSSY, MS_NONBLOCK, ms_options};

/// Readers of one broadcast.
const MOST_READERS: usize = 64;

/// Makes a broadcast: one writer, and reader_count readers (1 to 64) that each see every byte, which is copied once for all. The
/// slowest reader decides how fast the writer is. With MS_LOSSY the writer never waits for a reader: one that is behind by more
/// than the capacity gets ENOBUFS from ms_read(), and ms_lost() says how many bytes it will never see. MS_NONBLOCK is the only other
/// flag that is allowed.
///
/// The handles are closed by ms_close(), read and written by ms_read(), ms_readv(), ms_write() and ms_writev(), and asked and told
/// by ms_set_nonblock(), ms_capacity() and ms_stats(). Readers also have ms_fileno(), which may be ready once in vain, ms_readable()
/// and ms_export(), for ms_attach_broadcast(). Functions that only pipes have fail with EBADF or EOPNOTSUPP. Only one thread at a
/// time may use the writer: a second gets EBUSY. A reader that is closed or killed frees its place. When none is left, writing
/// fails with EPIPE; when the writer is gone, readers read 0 after all bytes.
///
/// Returns 0, or -1 with errno: EINVAL for another number of readers or options that make no sense; those of ms_pipe().
///
/// # Safety
/// `writer` leads to room for a pointer, `readers` to room for `reader_count`; `options` as for ms_pipe().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_broadcast(
    writer: *mut *mut ms_writer,
    readers: *mut *mut ms_reader,
    reader_count: size_t,
    options: *const ms_options,
) -> c_int {
    status((|| {
        if writer.is_null() || readers.is_null() || !(1..=MOST_READERS).contains(&reader_count) {
            return Err(INVALID);
        }
        // SAFETY: the caller's promise.
        let options = unsafe { ms_options::read(options) }?.with_at_most(MS_NONBLOCK | MS_LOSSY)?;
        let (write_end, read_ends) = options.for_broadcast().readers(reader_count).create()?;
        // SAFETY: the caller's promise.
        unsafe {
            writer.write(Handle::give(BroadcastWriter::new(write_end)));
            for (index, end) in read_ends.into_iter().enumerate() {
                readers.add(index).write(Handle::give(BroadcastReader::new(end)));
            }
        }
        Ok(())
    })())
}

/// One more reader of a broadcast, which sees what is written from now on.
///
/// Returns 0, or -1 with errno: EUSERS if there are 64; EBUSY if another thread uses the writer; ESTALE in a process whose copy of
/// the writer, from before a fork, does not know a reader that another copy has added; EBADF, EMFILE, ENFILE.
///
/// # Safety
/// `writer` is null or a handle; `reader` leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_add_reader(writer: *mut ms_writer, reader: *mut *mut ms_reader) -> c_int {
    status((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<BroadcastWriter>::of(writer) }.ok_or(NO_END)?;
        if reader.is_null() {
            return Err(INVALID);
        }
        let added = handle.end().alone()?.add_reader().map_err(|error| match error.raw_os_error() {
            None if error.kind() == ErrorKind::QuotaExceeded => Errno(libc::EUSERS),
            _ => error.into(),
        })?;
        // SAFETY: the caller's promise.
        unsafe { reader.write(Handle::give(BroadcastReader::new(added))) };
        Ok(())
    })())
}

/// Readers of a broadcast that are left.
///
/// Returns their number, or -1 with errno: EBADF; EBUSY if another thread uses the writer.
///
/// # Safety
/// `writer` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reader_count(writer: *mut ms_writer) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<BroadcastWriter>::of(writer) }.ok_or(NO_END)?;
        Ok(handle.end().alone()?.readers()?)
    })())
}

/// All bytes that a reader of a lossy broadcast has lost so far, as far as ms_read() and ms_readv() have told it by ENOBUFS.
///
/// Returns 0, or -1 with errno: EBADF, EINVAL for NULL.
///
/// # Safety
/// `reader` is null or a handle; `bytes` leads to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_lost(reader: *const ms_reader, bytes: *mut u64) -> c_int {
    status((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<BroadcastReader>::of(reader) }.ok_or(NO_END)?;
        if bytes.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the caller's promise.
        unsafe { bytes.write(handle.end().lost()) };
        Ok(())
    })())
}

/// Takes over a reader of a broadcast, from ms_export() of a process of the same user, while that process or the writer lives.
///
/// Returns 0; the descriptor then belongs to the handle. Or -1 with errno: EINVAL if it is no such reader, EBADF; EMFILE and its
/// like. The descriptor is closed then, unless errno is EBADF or it is no read end of a pipe.
///
/// # Safety
/// `reader` leads to room for a pointer; nothing else uses the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_attach_broadcast(reader: *mut *mut ms_reader, fd: c_int) -> c_int {
    status((|| {
        let fd = to_take_over(fd, !reader.is_null(), libc::O_WRONLY)?;
        let end = Handle::give(BroadcastReader::new(Reader::attach(fd)?));
        // SAFETY: the caller's promise.
        unsafe { reader.write(end) };
        Ok(())
    })())
}

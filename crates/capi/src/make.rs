//! Pipes are made, opened, received, given away and closed.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;

use millstream_pipe::{Fifo, Reader, Writer};

use crate::broadcast_ends::{BroadcastReader, BroadcastWriter};
use crate::descriptor::to_take_over;
use crate::errors::{IN_PLACE, INVALID, NO_END, NOT_THERE, number, status};
use crate::handle::{AnyEnd, Handle, any, ms_end, ms_reader, ms_writer};
use crate::options::{FOR_PIPES, MS_TRUST_PEERS, ms_options};

/// Makes a pipe, as pipe2(2) does: blocking, both ends closed on exec, unless the options say otherwise. NULL for the options
/// means the defaults. A pipe takes three descriptors.
///
/// Returns 0, or -1 with errno: EMFILE, ENFILE, ENOMEM; EPERM for a capacity above what this user may have; EINVAL and E2BIG
/// for options that make no sense or are of a later version.
///
/// # Safety
/// `reader` and `writer` lead to room for a pointer each; `options` is null or leads to as many bytes as its `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_pipe(
    reader: *mut *mut ms_reader,
    writer: *mut *mut ms_writer,
    options: *const ms_options,
) -> c_int {
    status((|| {
        if reader.is_null() || writer.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the caller's promise.
        let options = unsafe { ms_options::read(options) }?.with_at_most(FOR_PIPES)?;
        let (read_end, write_end) = options.for_pipe().create()?;
        // SAFETY: the caller's promise.
        unsafe {
            reader.write(Handle::give(read_end));
            writer.write(Handle::give(write_end));
        }
        Ok(())
    })())
}

/// Opens the FIFO at a path, which mkfifo(3) has made. Any program may have the other end. For a side that is not wanted pass
/// NULL; opening one side waits until the other is open too, unless MS_NONBLOCK is set.
///
/// Returns 0, or -1 with errno: those of open(2); ENXIO for writing with MS_NONBLOCK if nothing has it open for reading;
/// EINTR; EINVAL if something else is at the path, if both pointers are NULL, or for options that make no sense.
///
/// # Safety
/// `reader` and `writer` are null or lead to room for a pointer each; `path` is a C string; `options` as for ms_pipe().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_fifo_open(
    reader: *mut *mut ms_reader,
    writer: *mut *mut ms_writer,
    path: *const c_char,
    options: *const ms_options,
) -> c_int {
    status((|| {
        if path.is_null() {
            return Err(INVALID);
        }
        // SAFETY: the caller's promise.
        let (options, path) = unsafe { (ms_options::read(options)?.with_at_most(FOR_PIPES)?, CStr::from_ptr(path)) };
        let sides = options.for_fifo().read(!reader.is_null()).write(!writer.is_null());
        let ends = Fifo::open(OsStr::from_bytes(path.to_bytes()), &sides)?;
        // SAFETY: the promise of MS_TRUST_PEERS; where an end was asked for there is room for a pointer.
        unsafe {
            if let Some(mut end) = ends.reader {
                if options.has(MS_TRUST_PEERS) {
                    end.trust_peers();
                }
                reader.write(Handle::give(end));
            }
            if let Some(mut end) = ends.writer {
                if options.has(MS_TRUST_PEERS) {
                    end.trust_peers();
                }
                writer.write(Handle::give(end));
            }
        }
        Ok(())
    })())
}

/// Another handle to the same read end, as dup(2) makes it. The end is closed when all its handles are.
///
/// Returns 0, or -1 with errno: EMFILE, EBADF.
///
/// # Safety
/// `reader` is null or a handle; `copy` leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_dup_reader(reader: *const ms_reader, copy: *mut *mut ms_reader) -> c_int {
    status((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<Reader>::of(reader) }.ok_or(NO_END)?;
        if copy.is_null() {
            return Err(INVALID);
        }
        let clone = Handle::give(handle.end().try_clone()?);
        // SAFETY: the caller's promise.
        unsafe { copy.write(clone) };
        Ok(())
    })())
}

/// Another handle to the same write end, as dup(2) makes it. The end is closed when all its handles are.
///
/// Returns 0, or -1 with errno: EMFILE, EBADF.
///
/// # Safety
/// `writer` is null or a handle; `copy` leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_dup_writer(writer: *const ms_writer, copy: *mut *mut ms_writer) -> c_int {
    status((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<Writer>::of(writer) }.ok_or(NO_END)?;
        if copy.is_null() {
            return Err(INVALID);
        }
        let clone = Handle::give(handle.end().try_clone()?);
        // SAFETY: the caller's promise.
        unsafe { copy.write(clone) };
        Ok(())
    })())
}

/// Closes a handle, which is not used again. What was shown or reserved is given back: bytes that were not consumed stay in
/// the pipe, if MS_TRUST_PEERS is set; without it they were read ahead and are gone.
///
/// Returns 0, or -1 with errno: EBADF for NULL; for the writer of a FIFO the error of putting the last bytes into the kernel's
/// FIFO. The handle is closed then, too.
///
/// # Safety
/// `end` is null or a handle, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_close(end: *mut ms_end) -> c_int {
    status((|| {
        // SAFETY: the caller's promise.
        unsafe {
            match any(end).ok_or(NO_END)? {
                AnyEnd::Reader(_) => drop(Handle::<Reader>::take_back(end.cast())),
                AnyEnd::Writer(_) => Handle::<Writer>::take_back(end.cast()).ok_or(NO_END)?.close()?,
                AnyEnd::BroadcastReader(_) => drop(Handle::<BroadcastReader>::take_back(end.cast())),
                AnyEnd::BroadcastWriter(_) => drop(Handle::<BroadcastWriter>::take_back(end.cast())),
            }
        }
        Ok(())
    })())
}

/// Takes over the read end of any pipe or FIFO: inherited, or received over a Unix socket. If it comes from ms_export() of a
/// process of the same user that still has the other end, the bytes go through shared memory again; otherwise the kernel
/// carries them, and everything works the same.
///
/// Returns 0; the descriptor then belongs to the handle. Or -1 with errno: EBADF if it is not open for reading, EINVAL if it is
/// no pipe or FIFO; EMFILE and its like. The descriptor is closed then, unless errno is EBADF or EINVAL.
///
/// # Safety
/// `reader` leads to room for a pointer; nothing else uses the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_attach_reader(reader: *mut *mut ms_reader, fd: c_int) -> c_int {
    status((|| {
        let fd = to_take_over(fd, !reader.is_null(), libc::O_WRONLY)?;
        let end = Handle::give(Reader::attach(fd)?);
        // SAFETY: the caller's promise.
        unsafe { reader.write(end) };
        Ok(())
    })())
}

/// Takes over the write end of any pipe or FIFO, as ms_attach_reader() does a read end.
///
/// # Safety
/// As for ms_attach_reader().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_attach_writer(writer: *mut *mut ms_writer, fd: c_int) -> c_int {
    status((|| {
        let fd = to_take_over(fd, !writer.is_null(), libc::O_RDONLY)?;
        let end = Handle::give(Writer::attach(fd)?);
        // SAFETY: the caller's promise.
        unsafe { writer.write(end) };
        Ok(())
    })())
}

/// Gives an end away as a plain descriptor of a kernel pipe, closed on exec, for a program that need not know millstream: bytes
/// that wait were put into that pipe first. The handle is not used again. While the descriptor is open anywhere the kernel
/// carries the bytes; ms_attach_reader() and ms_attach_writer() change that. The descriptor of a broadcast's reader is for
/// ms_attach_broadcast() only.
///
/// Returns the descriptor, or -1 with errno: EBUSY if bytes of the handle are shown, reserved or read ahead; the handle can be
/// used on then, and after EOPNOTSUPP, for the writer of a broadcast. After other errors it is closed: ENOBUFS if more bytes wait than this user may have in a kernel pipe, EMFILE.
///
/// # Safety
/// `end` is null or a handle, and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_export(end: *mut ms_end) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let exported = unsafe {
            match any(end).ok_or(NO_END)? {
                AnyEnd::Reader(reader) => {
                    if reader.idle().ok_or(IN_PLACE)?.buffered() > 0 {
                        return Err(IN_PLACE);
                    }
                    Handle::<Reader>::take_back(end.cast()).ok_or(NO_END)?.into_fd()?
                }
                AnyEnd::Writer(writer) => {
                    writer.idle().ok_or(IN_PLACE)?;
                    Handle::<Writer>::take_back(end.cast()).ok_or(NO_END)?.into_fd()?
                }
                AnyEnd::BroadcastReader(_) => {
                    Handle::<BroadcastReader>::take_back(end.cast()).ok_or(NO_END)?.into_fd()?
                }
                AnyEnd::BroadcastWriter(_) => return Err(NOT_THERE),
            }
        };
        Ok(exported.into_raw_fd())
    })())
}

//! Bytes are looked at and made where they are, without a copy.

use std::ffi::c_int;
use std::io::BufRead;

use libc::{iovec, size_t, ssize_t};
use millstream_pipe::{Reader, Writer};

use crate::errors::{IN_PLACE, INVALID, NO_END, count, status};
use crate::handle::{Handle, ms_reader, ms_writer};

/// Shows up to size bytes that wait, without taking them; sleeps until there are some. They lie in two pieces: those of the
/// second follow those of the first, which is empty only if both are. They can be read until ms_consume() or ms_close(), by
/// this thread and whatever it lets see them; the handle is this thread's for so long. Called again before ms_consume() it
/// shows the same bytes, whatever has come meanwhile.
///
/// With MS_TRUST_PEERS the pieces lead into the pipe itself: other readers wait until ms_consume(), and if this process dies
/// the bytes were never taken. Without it up to 1 MiB is read ahead into memory of the handle: other readers do not see them any
/// more, what is not consumed is the next that this handle reads, and fork() copies it, as it does the buffers of stdio.
///
/// Returns the number of bytes; 0 at the end of the stream, and for a size of 0. Or -1 with errno: those of ms_read().
///
/// # Safety
/// `reader` is null or a handle that no other thread uses; `pieces` leads to room for two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_peek(reader: *mut ms_reader, pieces: *mut iovec, size: size_t) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<Reader>::of_mut(reader) }.ok_or(NO_END)?;
        if pieces.is_null() {
            return Err(INVALID);
        }
        let borrowed = handle.end_mut().borrow_up_to(size)?;
        let mut shown = 0;
        for (index, segment) in borrowed.segments().into_iter().enumerate() {
            // What was read ahead for an earlier call may be more.
            let len = segment.len().min(size - shown);
            // SAFETY: the caller's promise: there is room for two, and there are two.
            unsafe { pieces.add(index).write(piece(segment.as_ptr(), len)) };
            shown += len;
        }
        borrowed.keep();
        handle.set_in_place(shown);
        Ok(shown)
    })())
}

/// Takes the first bytes of what ms_peek() has shown. What is left is the next that is read. Wakes a writer that waits for
/// room.
///
/// Returns 0, or -1 with errno: EINVAL for more bytes than were shown; EBADF. They are still shown then.
///
/// # Safety
/// As for ms_peek(). What was shown is not read any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_consume(reader: *mut ms_reader, size: size_t) -> c_int {
    status((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<Reader>::of_mut(reader) }.ok_or(NO_END)?;
        if size > handle.in_place() {
            return Err(INVALID);
        }
        handle.set_in_place(0);
        handle.end_mut().consume(size);
        Ok(())
    })())
}

/// Reserves room for up to size bytes, to be filled in any order and committed; sleeps as a write of so many would. The room
/// lies in two pieces: what is in the second follows what is in the first. What is in it before is any bytes. It can be filled
/// until ms_commit() or ms_close(), by this thread and whatever it lets fill it; the handle is this thread's for so long.
///
/// With MS_TRUST_PEERS the pieces lead into the pipe itself, other writers wait until ms_commit(), and if this process dies
/// nothing of it was written. Without it they are memory of the handle, which ms_commit() writes.
///
/// Returns the number of bytes that there is room for, at least 1 and at most size; 0 only for a size of 0. Or -1 with errno:
/// those of ms_write(). What was reserved before and not committed is given back first.
///
/// # Safety
/// `writer` is null or a handle that no other thread uses; `pieces` leads to room for two.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_reserve(writer: *mut ms_writer, pieces: *mut iovec, size: size_t) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<Writer>::of_mut(writer) }.ok_or(NO_END)?;
        if pieces.is_null() {
            return Err(INVALID);
        }
        handle.set_in_place(0);
        drop(handle.end_mut().reserved());
        let mut reservation = handle.end_mut().reserve(size)?;
        let reserved = reservation.len();
        for (index, segment) in reservation.segments_mut().into_iter().enumerate() {
            // SAFETY: the caller's promise: there is room for two, and there are two.
            unsafe { pieces.add(index).write(piece(segment.as_mut_ptr(), segment.len())) };
        }
        reservation.keep();
        handle.set_in_place(reserved);
        Ok(reserved)
    })())
}

/// Writes the first bytes of the room that ms_reserve() has given; the rest is given back. Wakes a reader that waits.
///
/// Returns the number of bytes written; or -1 with errno: those of ms_write(), after which nothing of the room was written;
/// EPERM with MS_TRUST_PEERS in the child of a fork, whose parent has reserved the room; EINVAL for more bytes than were
/// reserved, which stay reserved then.
///
/// # Safety
/// As for ms_reserve(). The room is not written to any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ms_commit(writer: *mut ms_writer, size: size_t) -> ssize_t {
    count((|| {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::<Writer>::of_mut(writer) }.ok_or(NO_END)?;
        if size > handle.in_place() {
            return Err(INVALID);
        }
        handle.set_in_place(0);
        match handle.end_mut().reserved() {
            Some(reservation) => Ok(reservation.commit(size)?),
            None if size == 0 => Ok(0),
            // Another thread has used the handle and so given it back.
            None => Err(IN_PLACE),
        }
    })())
}

fn piece(start: *const u8, len: usize) -> iovec {
    iovec { iov_base: start.cast_mut().cast(), iov_len: len }
}

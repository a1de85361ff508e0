//! On trial: `libmillstream`, by the functions that C programs call.
#![allow(unsafe_code, reason = "the functions take pointers")]

use std::ffi::c_int;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::ptr;

use millstream_capi as c;
use rustix::fd::{BorrowedFd, OwnedFd};

use crate::{BetweenProcesses, End, Implementation, Polled, ReadEnd, WriteEnd};

/// millstream's pipe, as C programs have it.
#[derive(Debug)]
pub enum C {}

/// The read end: a handle that is closed when this is dropped.
#[derive(Debug)]
pub struct Reader(*mut c::ms_reader);

/// The write end.
#[derive(Debug)]
pub struct Writer(*mut c::ms_writer);

// SAFETY: `millstream.h` lets any number of threads use a handle; these tests do not work in place.
unsafe impl Send for Reader {}
// SAFETY: as above.
unsafe impl Sync for Reader {}
// SAFETY: as above.
unsafe impl Send for Writer {}
// SAFETY: as above.
unsafe impl Sync for Writer {}

impl Implementation for C {
    type Reader = Reader;
    type Writer = Writer;

    fn pipe() -> io::Result<(Reader, Writer)> {
        let (mut reader, mut writer) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: room for both handles.
        number_of(unsafe { c::ms_pipe(&raw mut reader, &raw mut writer, ptr::null()) })?;
        Ok((Reader(reader), Writer(writer)))
    }
}

impl BetweenProcesses for C {}

/// What a function has returned; an error if that is -1.
fn number_of(outcome: c_int) -> io::Result<c_int> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome) }
}

fn count_of(outcome: isize) -> io::Result<usize> {
    usize::try_from(outcome).map_err(|_| io::Error::last_os_error())
}

macro_rules! common {
    ($end:ident, $dup:ident, $attach:ident) => {
        impl End for $end {
            fn try_clone(&self) -> io::Result<Self> {
                let mut copy = ptr::null_mut();
                // SAFETY: an open handle, and room for another.
                number_of(unsafe { c::$dup(self.0, &raw mut copy) })?;
                Ok($end(copy))
            }

            fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
                // SAFETY: an open handle.
                number_of(unsafe { c::ms_set_nonblock(self.0.cast(), yes.into()) }).map(drop)
            }

            fn capacity(&self) -> io::Result<usize> {
                // SAFETY: an open handle.
                count_of(unsafe { c::ms_capacity(self.0.cast()) })
            }

            fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
                // SAFETY: an open handle.
                count_of(unsafe { c::ms_set_capacity(self.0.cast(), bytes) })
            }

            fn bytes_readable(&self) -> io::Result<usize> {
                // SAFETY: an open handle.
                count_of(unsafe { c::ms_readable(self.0.cast()) })
            }
        }

        impl Polled for $end {
            fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
                // SAFETY: an open handle, which the descriptor belongs to.
                unsafe { Ok(BorrowedFd::borrow_raw(number_of(c::ms_fileno(self.0.cast()))?)) }
            }

            fn into_descriptor(self) -> io::Result<OwnedFd> {
                let handle = ManuallyDrop::new(self).0;
                // SAFETY: an open handle, which is not used again; the new descriptor is ours.
                unsafe { Ok(OwnedFd::from_raw_fd(number_of(c::ms_export(handle.cast()))?)) }
            }

            fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
                let mut handle = ptr::null_mut();
                // SAFETY: room for the handle; nothing else uses the descriptor.
                match number_of(unsafe { c::$attach(&raw mut handle, descriptor.as_raw_fd()) }) {
                    Ok(_) => {
                        let _ = descriptor.into_raw_fd();
                        Ok($end(handle))
                    }
                    // These leave it to the caller, others have closed it.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::EBADF | libc::EINVAL)) => Err(error),
                    Err(error) => {
                        let _ = descriptor.into_raw_fd();
                        Err(error)
                    }
                }
            }
        }

        impl Drop for $end {
            fn drop(&mut self) {
                // SAFETY: an open handle, which is not used again.
                unsafe { c::ms_close(self.0.cast()) };
            }
        }
    };
}

common!(Reader, ms_dup_reader, ms_attach_reader);
common!(Writer, ms_dup_writer, ms_attach_writer);

impl ReadEnd for Reader {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: an open handle and a buffer.
        count_of(unsafe { c::ms_read(self.0, buffer.as_mut_ptr().cast(), buffer.len()) })
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        // SAFETY: an open handle; `IoSliceMut` is an iovec.
        count_of(unsafe { c::ms_readv(self.0, buffers.as_ptr().cast(), buffers.len() as c_int) })
    }
}

impl WriteEnd for Writer {
    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        // SAFETY: an open handle and a buffer.
        count_of(unsafe { c::ms_write(self.0, buffer.as_ptr().cast(), buffer.len()) })
    }

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: an open handle; `IoSlice` is an iovec.
        count_of(unsafe { c::ms_writev(self.0, buffers.as_ptr().cast(), buffers.len() as c_int) })
    }
}

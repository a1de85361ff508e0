//! Descriptors that belong to the program.

use core::ffi::c_int;

use millstream_sys::fd::BorrowedFd;

/// The descriptor as a type, for the length of a call. It belongs to the program, which may even have passed a number
/// that is not open: the kernel then answers EBADF, and no memory is at stake.
pub(crate) fn borrow(fd: &c_int) -> Option<BorrowedFd<'_>> {
    // SAFETY: not -1, which the type reserves; used for calls that are valid for any open file.
    (*fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(*fd) })
}

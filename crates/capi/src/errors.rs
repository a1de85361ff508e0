//! Errors as C has them: -1, and a number in `errno`.

use std::ffi::{CStr, c_char, c_int};
use std::io;

use libc::ssize_t;
use millstream_pipe::PipeError;
use millstream_pipe::broadcast::LostError;

/// What a function could not do, as `errno` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// A pointer that is null, or leads to no end of the kind that is asked for.
pub(crate) const NO_END: Errno = Errno(libc::EBADF);
/// An argument makes no sense.
pub(crate) const INVALID: Errno = Errno(libc::EINVAL);
/// Bytes of the handle are shown or reserved.
pub(crate) const IN_PLACE: Errno = Errno(libc::EBUSY);
/// A function that ends of a broadcast do not have.
pub(crate) const NOT_THERE: Errno = Errno(libc::EOPNOTSUPP);

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        let refusal =
            || error.get_ref().and_then(|inner| inner.downcast_ref::<PipeError>()).map(PipeError::raw_os_error);
        let lost = || LostError::of(&error).map(|lost| lost.raw_os_error());
        // Without a number: another process has damaged the shared memory, or a FIFO could not take the last bytes.
        Errno(error.raw_os_error().or_else(refusal).or_else(lost).unwrap_or(libc::EIO))
    }
}

impl Errno {
    fn set(self) {
        // SAFETY: the address of this thread's `errno`.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

/// 0, or -1 with `errno`.
pub(crate) fn status(outcome: Result<(), Errno>) -> c_int {
    outcome.map_or_else(
        |error| {
            error.set();
            -1
        },
        |()| 0,
    )
}

/// A count or descriptor, or -1 with `errno`.
pub(crate) fn number(outcome: Result<c_int, Errno>) -> c_int {
    outcome.unwrap_or_else(|error| {
        error.set();
        -1
    })
}

/// A count of bytes, or -1 with `errno`.
#[inline]
pub(crate) fn count(outcome: Result<usize, Errno>) -> ssize_t {
    match outcome {
        // No transfer is longer than `isize::MAX`.
        Ok(bytes) => bytes.cast_signed(),
        Err(error) => {
            error.set();
            -1
        }
    }
}

/// What an error number means when it comes from a function of this library, and what to do about it. Always a text, which
/// lasts as long as the program.
#[unsafe(no_mangle)]
pub extern "C" fn ms_strerror(error: c_int) -> *const c_char {
    let text: &CStr = match error {
        0 => c"no error",
        libc::EAGAIN => c"the end is non-blocking, and nothing can be moved now; wait until ms_fileno() is ready",
        libc::EBADF => c"no such end: NULL, or a writer where a reader is wanted, or the other way round",
        libc::EBUSY => {
            c"bytes of this handle are shown or reserved, or more wait than the pipe would hold; ms_consume(), ms_commit() or read first; of a broadcast: another thread uses the writer"
        }
        libc::E2BIG => c"an option is set that this version of libmillstream does not know; install a newer one",
        libc::EFAULT => c"a buffer is NULL, and is not empty",
        libc::EINTR => c"a signal handler without SA_RESTART ran while the call waited; call again",
        libc::EINVAL => c"an argument is out of range, or the descriptor is no pipe or FIFO",
        libc::EIO => {
            c"another process has damaged the memory of this pipe, whose bytes cannot be trusted; of ms_close(): the FIFO did not take the last bytes"
        }
        libc::EMFILE => c"this process has too many open files; a pipe needs three descriptors, see 'ulimit -n'",
        libc::ENFILE => c"the system has too many open files",
        libc::ENOBUFS => {
            c"this reader of a lossy broadcast was too slow, and ms_lost() says what it has lost; of ms_export(): more bytes wait than the kernel lets this user have in a pipe, so read some first, or raise /proc/sys/fs/pipe-max-size"
        }
        libc::ENOLCK => c"524288 write ends of this pipe have been given away and are still open; close some",
        libc::ENOMEM => c"no memory; for bytes in a pipe: read some, or raise the limit of the control group",
        libc::ENOSPC => c"no memory for the bytes in the pipe; of ms_copy_to(): no space left on the device",
        libc::ENXIO => c"nothing has the FIFO open for reading, and the call was not to wait",
        libc::EOVERFLOW => c"a descriptor's number is too large to be given away; make the pipe before other files are opened",
        libc::EPERM => {
            c"a capacity above what this user may have, or the child of a fork commits what its parent has reserved"
        }
        libc::EPIPE => c"no reader is left: what is written would never be read",
        libc::EOPNOTSUPP => c"an end of a broadcast does not have this function; see ms_broadcast()",
        libc::ESTALE => c"another copy of this writer, from before a fork, has added a reader; write through that copy",
        libc::EUSERS => c"the broadcast has 64 readers, which is the most; close one first",
        libc::EACCES => c"no permission for this FIFO, or for a directory on the way to it",
        libc::ENOENT => c"there is nothing at this path; make the FIFO with mkfifo()",
        _ => c"an error of the kernel; see errno(3)",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_refusal_reaches_errno() {
        let (_reader, writer) = millstream_pipe::pipe().unwrap();
        let error = millstream_pipe::Reader::attach(writer.into_fd().unwrap()).unwrap_err();
        assert_eq!(Errno::from(error), Errno(libc::EBADF));
    }

    #[test]
    fn error_without_number_means_damage() {
        assert_eq!(Errno::from(io::Error::other("broken")), Errno(libc::EIO));
    }

    #[test]
    fn text_exists_for_every_number() {
        for error in -1..200 {
            // SAFETY: a C string that lasts.
            let text = unsafe { CStr::from_ptr(ms_strerror(error)) };
            assert!(!text.is_empty(), "{error}");
        }
    }
}

//! Marks by which the programs of a run tell each other that the size of a pipe is settled.
//!
//! A mark is a lock of one byte (`F_OFD_SETLK`) far behind anything that a program would lock. It belongs to the open
//! file description of one end: every process that has that end shares it, whatever program it becomes. The kernel
//! drops it with the last of their descriptors.
#![allow(unsafe_code)]

use core::ffi::c_int;

use linux_raw_sys::general::{F_GETLK, F_OFD_SETLK, F_RDLCK, F_UNLCK, F_WRLCK, SEEK_SET, flock};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::raw;

/// What settled the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A program, with `F_SETPIPE_SZ`.
    Program,
    /// The run: the size is the kernel's, for a program that makes threads.
    Run,
}

/// Between the marks of the exclusivity check and those of advertised memory (`preload/src/joined`): 0x6d736a6f696e0000
/// and 16 further.
const FIRST: i64 = 0x6d73_6a6f_696e_0004;

impl By {
    /// The place of the read end's mark; that of the write end comes next.
    fn place(self) -> i64 {
        match self {
            By::Program => FIRST,
            By::Run => FIRST + 2,
        }
    }
}

/// Settles the size of the pipe that `end` belongs to. It is not settled where the kernel refuses the mark.
pub fn settle(end: impl AsFd, by: By) {
    settle_end(end.as_fd(), by);
}

#[inline(never)]
fn settle_end(end: BorrowedFd<'_>, by: By) {
    // The kernel refuses a write lock on a read end, and a read lock on a write end.
    if lock(end, F_OFD_SETLK, F_RDLCK, by.place(), 1).is_none() {
        lock(end, F_OFD_SETLK, F_WRLCK, by.place() + 1, 1);
    }
}

/// Removes a mark of this end's open file description.
pub fn unsettle(end: impl AsFd, by: By) {
    lock(end.as_fd(), F_OFD_SETLK, F_UNLCK, by.place(), 2);
}

/// Whether a holder of either end settled it in this way.
pub fn is_settled(end: impl AsFd, by: By) -> bool {
    is_marked(end.as_fd(), by.place(), 2)
}

/// Whether a program or the run settled it.
pub fn is_settled_at_all(end: impl AsFd) -> bool {
    is_marked(end.as_fd(), FIRST, 4)
}

#[inline(never)]
fn is_marked(end: BorrowedFd<'_>, start: i64, len: i64) -> bool {
    // A lock of the process conflicts with all locks of open file descriptions, also with those of this process.
    lock(end, F_GETLK, F_WRLCK, start, len).is_some_and(|found| found != F_UNLCK as i16)
}

/// Makes a call on locks. Returns the kind of lock that the kernel answers; `None` if it refuses.
#[inline(never)]
fn lock(end: BorrowedFd<'_>, command: u32, kind: u32, start: i64, len: i64) -> Option<i16> {
    let mut lock = flock { l_type: kind as i16, l_whence: SEEK_SET as i16, l_start: start, l_len: len, l_pid: 0 };
    // SAFETY: the lock is read and written during the call.
    let outcome = unsafe { raw::fcntl(end.as_raw_fd(), command as c_int, (&raw mut lock) as usize) };
    outcome.ok().map(|_| lock.l_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipe;

    #[test]
    fn both_ends_see_a_mark_until_its_end_is_closed() {
        let _guard = crate::children::none();
        for (by, other) in [(By::Program, By::Run), (By::Run, By::Program)] {
            for settles_reader in [true, false] {
                let (reader, writer) = pipe::create().unwrap();
                assert!(!is_settled(&reader, by) && !is_settled(&writer, by));
                settle(if settles_reader { &reader } else { &writer }, by);
                assert!(is_settled(&reader, by) && is_settled(&writer, by) && is_settled_at_all(&reader));
                assert!(!is_settled(&reader, other) && !is_settled(&writer, other));
                let (marked, rest) = if settles_reader { (reader, writer) } else { (writer, reader) };
                let copy = rustix::io::dup(&marked).unwrap();
                drop(marked);
                assert!(is_settled(&rest, by), "a copy has the same description");
                drop(copy);
                assert!(!is_settled(&rest, by) && !is_settled_at_all(&rest));
            }
        }
    }

    #[test]
    fn both_ends_may_have_the_mark() {
        let (reader, writer) = pipe::create().unwrap();
        settle(&reader, By::Run);
        settle(&writer, By::Run);
        drop(reader);
        assert!(is_settled(&writer, By::Run));
    }

    #[test]
    fn file_that_is_no_pipe_is_never_settled() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        assert!(!is_settled(&file, By::Program));
    }
}

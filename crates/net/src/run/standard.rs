//! The standard streams. Where one is a pipe of millstream's library and the other side is one of ours too, shared
//! memory carries its bytes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use millstream_pipe::{Reader, Writer};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{inherited, pipe};

/// Whether there was nothing at a standard descriptor when the program was started, as after `>&-`. The runtime of Rust
/// opens `/dev/null` there, where everything would be lost without a word.
pub(super) fn is_closed(descriptor: i32) -> bool {
    inherited::closed_standard_descriptors().any(|closed| closed == descriptor)
}

/// The standard input, if it is the end of a pipe of the library whose memory can be found. There is nothing at its
/// number afterwards: while a plain descriptor of the end is open anywhere the kernel carries the bytes.
pub(super) fn reader() -> Option<Reader> {
    let reader = exported(io::stdin(), Access::Read, Reader::attach)?;
    (reader.has_ring() && inherited::replace_input_by_nothing().is_ok()).then_some(reader)
}

/// The same of the standard output.
pub(super) fn writer() -> Option<Writer> {
    let writer = exported(io::stdout(), Access::Write, Writer::attach)?;
    (writer.has_ring() && inherited::replace_output_by_nothing().is_ok()).then_some(writer)
}

/// A standard stream as an end of the library, if it is one that the library exported.
fn exported<End, E>(stream: impl AsFd, access: Access, attach: impl FnOnce(OwnedFd) -> Result<End, E>) -> Option<End> {
    if !is_exported(stream.as_fd(), access) {
        return None;
    }
    attach(stream.as_fd().try_clone_to_owned().ok()?).ok()
}

/// Whether the library exported this end: it has marked such ends, and only another open file can see the mark. Every
/// other program pays for three system calls, and not for settings and what else attaching needs.
fn is_exported(end: BorrowedFd<'_>, access: Access) -> bool {
    let has_mark = |own| transfer::any_mark(own).is_ok_and(|mark| mark.is_some());
    pipe::is_anonymous(end) == Ok(true) && transfer::reopened(end, access, true).is_ok_and(has_mark)
}

//! FIFOs, and pipes of millstream's library that stand at the standard streams: shared memory carries their bytes where the
//! other side is one of ours too.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use millstream_pipe::{FifoOptions, Reader, Statistics, Writer};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{inherited, pipe};

use crate::graph::{Network, Target, Work};

pub(super) fn is_fifo(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Whether the network reads or writes FIFOs.
pub(super) fn are_in(network: &Network) -> bool {
    network.nodes.iter().any(|node| match &node.work {
        Work::Read(Some(path)) | Work::Write(Target::File(path) | Target::Append(path)) => is_fifo(path),
        _ => false,
    })
}

/// Waits until somebody writes it.
pub(super) fn reader(path: &Path) -> io::Result<Reader> {
    FifoOptions::new().ring(true).open_reader(path)
}

/// Waits until somebody reads it.
pub(super) fn writer(path: &Path) -> io::Result<Writer> {
    FifoOptions::new().ring(true).open_writer(path)
}

/// The standard input, if it is the end of a pipe of the library whose memory can be found. There is nothing at its number
/// afterwards: while a plain descriptor of the end is open anywhere the kernel carries the bytes.
pub(super) fn input() -> Option<Reader> {
    let reader = given(io::stdin(), Access::Read, Reader::attach)?;
    (reader.has_ring() && inherited::replace_input_by_nothing().is_ok()).then_some(reader)
}

/// The same of the standard output.
pub(super) fn output() -> Option<Writer> {
    let writer = given(io::stdout(), Access::Write, Writer::attach)?;
    (writer.has_ring() && inherited::replace_output_by_nothing().is_ok()).then_some(writer)
}

/// A standard stream as an end of the library, if it is one that the library gave away.
fn given<End, E>(stream: impl AsFd, access: Access, attach: impl FnOnce(OwnedFd) -> Result<End, E>) -> Option<End> {
    if !is_given(stream.as_fd(), access) {
        return None;
    }
    attach(stream.as_fd().try_clone_to_owned().ok()?).ok()
}

/// Whether this is an end that the library gave away: those have a mark, which only another open file can see. Every other program
/// pays for three system calls, and not for settings and what else attaching needs.
fn is_given(end: BorrowedFd<'_>, access: Access) -> bool {
    let has_mark = |own| transfer::any_mark(own).is_ok_and(|mark| mark.is_some());
    pipe::is_anonymous(end) == Ok(true) && transfer::reopened(end, access, true).is_ok_and(has_mark)
}

/// Bytes that did not pass the kernel.
pub(super) fn in_memory(statistics: Statistics) -> u64 {
    statistics.bytes - statistics.bytes_through_kernel
}

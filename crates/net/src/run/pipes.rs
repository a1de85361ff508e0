//! FIFOs, and pipes of millstream's library that stand at the standard streams: shared memory carries their bytes where the
//! other side is one of ours too.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use millstream_pipe::{FifoOptions, Reader, Statistics, Writer};
use millstream_sys::inherited;

use crate::graph::{Network, Target, Work};

pub(super) fn is_fifo(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Whether the network reads or writes FIFOs.
pub(super) fn are_in(network: &Network) -> bool {
    network.nodes.iter().any(|node| match &node.work {
        Work::Read(Some(path)) | Work::Write(Target::File(path) | Target::Append(path)) => is_fifo(path),
        Work::Read(None) | Work::Write(Target::Stdout) | Work::Transform(_) => false,
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
    let reader = Reader::attach(io::stdin().as_fd().try_clone_to_owned().ok()?).ok()?;
    (reader.has_ring() && inherited::replace_input_by_nothing().is_ok()).then_some(reader)
}

/// The same of the standard output.
pub(super) fn output() -> Option<Writer> {
    let writer = Writer::attach(io::stdout().as_fd().try_clone_to_owned().ok()?).ok()?;
    (writer.has_ring() && inherited::replace_output_by_nothing().is_ok()).then_some(writer)
}

/// Bytes that did not pass the kernel.
pub(super) fn in_memory(statistics: Statistics) -> u64 {
    statistics.bytes - statistics.bytes_through_kernel
}

//! FIFOs: shared memory carries their bytes where the other side is one of ours too.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use millstream_pipe::{FifoOptions, Reader, Writer};

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

/// Opens a FIFO to read; waits until a writer opens it.
pub(super) fn reader(path: &Path) -> io::Result<Reader> {
    FifoOptions::new().ring(true).open_reader(path)
}

/// Opens a FIFO to write; waits until a reader opens it.
pub(super) fn writer(path: &Path) -> io::Result<Writer> {
    FifoOptions::new().ring(true).open_writer(path)
}

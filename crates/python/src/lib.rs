//! The native part of the Python package `millstream`: ends of pipes, and messages through them.
//!
//! `end` has what both ends share, `reader` and `writer` are the two, `in_place` is work without a copy, `arena` memory
//! beside a pipe for it, `broadcast` has several readers, `array` gives memory a shape, `gathered` is what a child has
//! said, `call` is how a call waits: without Python's lock, and interrupted by Python's signal handlers. What Python
//! programs see is made of this in `millstream/*.py`.
//!
//! Nothing here relies on Python's lock. Classes are frozen; what changes in them is behind a lock of its own (`end`, `in_place`) or is
//! the pipe's, whose calls threads may make at the same time.
#![allow(unsafe_code, reason = "buffers of Python objects")]
#![deny(unsafe_op_in_unsafe_fn)]

use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

mod arena;
mod array;
mod broadcast;
mod call;
mod end;
mod gathered;
mod in_place;
mod reader;
mod writer;

#[pymodule(gil_used = false)]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::arena::Arena;
    #[pymodule_export]
    use super::array::Array;
    #[pymodule_export]
    use super::broadcast::BroadcastReader;
    #[pymodule_export]
    use super::broadcast::BroadcastWriter;
    #[pymodule_export]
    use super::gathered::Gathered;
    #[pymodule_export]
    use super::in_place::InPlace;
    #[pymodule_export]
    use super::in_place::Part;
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::writer::Writer;

    /// A new pipe: its read end and its write end.
    #[pyfunction]
    #[pyo3(signature = (capacity=None, trust=false))]
    fn pipe(capacity: Option<usize>, trust: bool) -> PyResult<(Reader, Writer)> {
        let mut builder = millstream_pipe::Builder::new();
        if let Some(bytes) = capacity {
            builder = builder.capacity(bytes);
        }
        if trust {
            // SAFETY: the program promises it by the argument; the documentation of `millstream.pipe` says what.
            builder = unsafe { builder.trust_peers() };
        }
        let (reader, writer) = builder.create().map_err(|refused| match (refused.raw_os_error(), capacity) {
            (Some(number @ (libc::EPERM | libc::EINVAL)), Some(bytes)) => PyOSError::new_err((
                number,
                format!(
                    "capacity of {bytes} bytes is above the limit (use at most that of /proc/sys/fs/pipe-max-size)"
                ),
            )),
            _ => call::error(refused),
        })?;
        Ok((Reader::new(reader), Writer::new(writer)))
    }

    /// A new broadcast: its writer and its readers.
    #[pyfunction]
    #[pyo3(signature = (readers, capacity=None, lossy=false))]
    fn broadcast(
        readers: usize,
        capacity: Option<usize>,
        lossy: bool,
    ) -> PyResult<(BroadcastWriter, Vec<BroadcastReader>)> {
        super::broadcast::create(readers, capacity, lossy)
    }

    /// A bytearray to be filled, whose bytes have any value.
    #[pyfunction]
    fn bytearray_to_fill(py: Python<'_>, size: usize) -> PyResult<Bound<'_, PyAny>> {
        reader::bytearray_to_fill(py, size)
    }

    /// The read end of the FIFO at a path, when something has it open for writing.
    #[pyfunction]
    fn fifo_reader(py: Python<'_>, path: PathBuf, blocking: bool) -> PyResult<Reader> {
        let options = millstream_pipe::FifoOptions::new().nonblocking(!blocking);
        call::wait(py, || options.open_reader(&path)).map(Reader::new)
    }

    /// The write end of the FIFO at a path, when something has it open for reading.
    #[pyfunction]
    fn fifo_writer(py: Python<'_>, path: PathBuf, blocking: bool) -> PyResult<Writer> {
        let options = millstream_pipe::FifoOptions::new().nonblocking(!blocking);
        call::wait(py, || options.open_writer(&path)).map(Writer::new)
    }
}

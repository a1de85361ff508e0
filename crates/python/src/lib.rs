//! The native part of the Python package `millstream`: ends of pipes, and messages through them.
//!
//! `end` has what both ends share, `reader` and `writer` are the two, `call` is how a call waits: without Python's lock, and
//! interrupted by Python's signal handlers. What Python programs see is made of this in `millstream/*.py`.
#![allow(unsafe_code, reason = "buffers of Python objects")]
#![deny(unsafe_op_in_unsafe_fn)]

use pyo3::prelude::*;

mod call;
mod end;
mod reader;
mod writer;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::writer::Writer;

    /// A new pipe: its read end and its write end.
    #[pyfunction]
    #[pyo3(signature = (capacity=None))]
    fn pipe(capacity: Option<usize>) -> PyResult<(Reader, Writer)> {
        let builder = millstream_pipe::Builder::new();
        let builder = match capacity {
            Some(bytes) => builder.capacity(bytes),
            None => builder,
        };
        let (reader, writer) = builder.create().map_err(call::error)?;
        Ok((Reader::new(reader), Writer::new(writer)))
    }
}

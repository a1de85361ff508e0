//! One writer and several readers that each see every byte.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, TryLockError};

use millstream_pipe::Statistics;
use millstream_pipe::broadcast::{Builder, LostError, Reader, Writer};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

use crate::call::{error, wait_if_blocking};
use crate::end::Shared;
use crate::reader::writable;
use crate::writer::readable;

/// A reading end of a broadcast.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct BroadcastReader(Shared<Reader>);

/// The writing end of a broadcast.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct BroadcastWriter(Shared<Mutex<Writer>>);

/// Makes both.
pub(crate) fn create(
    readers: usize,
    capacity: Option<usize>,
    lossy: bool,
) -> PyResult<(BroadcastWriter, Vec<BroadcastReader>)> {
    let mut builder = Builder::new().readers(readers).lossy(lossy);
    if let Some(bytes) = capacity {
        builder = builder.capacity(bytes);
    }
    let (writer, readers) = builder.create().map_err(|failed| match failed.raw_os_error() {
        None => PyValueError::new_err(failed.to_string()),
        Some(_) => error(failed),
    })?;
    let readers = readers.into_iter().map(BroadcastReader::new).collect();
    Ok((BroadcastWriter(Shared::new(Mutex::new(writer))), readers))
}

impl BroadcastReader {
    fn new(end: Reader) -> BroadcastReader {
        BroadcastReader(Shared::new(end))
    }
}

/// The writer for one call. Another thread that is in a call may sleep there, so this one does not wait for it.
fn alone(writer: &Mutex<Writer>) -> PyResult<MutexGuard<'_, Writer>> {
    match writer.try_lock() {
        Ok(writer) => Ok(writer),
        Err(TryLockError::Poisoned(writer)) => Ok(writer.into_inner()),
        Err(TryLockError::WouldBlock) => {
            Err(PyBufferError::new_err("another thread uses this writer; have threads take turns by a lock"))
        }
    }
}

fn counted(statistics: &Statistics) -> BTreeMap<&'static str, u64> {
    [
        ("bytes", statistics.bytes),
        ("transfers", statistics.transfers),
        ("spins", statistics.spins),
        ("yields", statistics.yields),
        ("sleeps", statistics.sleeps),
        ("wakes", statistics.wakes),
    ]
    .into()
}

#[pymethods]
impl BroadcastReader {
    /// Reads what waits into a writable buffer, or sleeps until something does. Returns the number of bytes: 0 at the end of
    /// the stream, None if the end is non-blocking and nothing waits, less than 0 if so many are lost.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
        let end = self.0.open()?;
        let mut buffer = PyUntypedBuffer::get(buffer)?;
        // SAFETY: the buffer stays where it is until it is released, at the end of this function.
        let bytes = unsafe { writable(&mut buffer) }?;
        wait_if_blocking(py, || match { &*end }.read(bytes) {
            Ok(count) => Ok(count as i64),
            Err(error) => match LostError::of(&error) {
                Some(LostError { bytes }) => Ok(-bytes.cast_signed()),
                None => Err(error),
            },
        })
    }

    /// A descriptor that is ready when the end is, or once in vain: to be watched, never to be read or closed.
    fn fileno(&self) -> PyResult<i32> {
        Ok(self.0.open()?.readiness().map_err(error)?.as_raw_fd())
    }

    /// Whether the end is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Whether reading sleeps.
    fn set_blocking(&self, blocking: bool) -> PyResult<()> {
        self.0.open()?.set_nonblocking(!blocking);
        Ok(())
    }

    /// Bytes that this reader can be behind.
    #[getter]
    fn capacity(&self) -> PyResult<usize> {
        Ok(self.0.open()?.capacity())
    }

    /// Whether it loses bytes when it is too slow.
    #[getter]
    fn lossy(&self) -> PyResult<bool> {
        Ok(self.0.open()?.is_lossy())
    }

    /// Bytes that wait to be read.
    #[getter]
    fn waiting(&self) -> PyResult<usize> {
        Ok(self.0.open()?.bytes_readable())
    }

    /// What the end has done so far.
    fn statistics(&self) -> PyResult<BTreeMap<&'static str, u64>> {
        Ok(counted(&self.0.open()?.statistics()))
    }

    /// Gives the end away as a descriptor, for a program that attaches it. This object is closed.
    fn detach(&self, py: Python<'_>) -> PyResult<i32> {
        let end = self.0.take()?;
        Ok(py.detach(|| end.into_fd()).map_err(error)?.into_raw_fd())
    }

    /// The reader that a descriptor from `detach` stands for. It takes the descriptor over.
    #[staticmethod]
    fn attach(py: Python<'_>, fd: i32) -> PyResult<BroadcastReader> {
        if fd < 0 {
            return Err(PyValueError::new_err("a descriptor is not negative"));
        }
        // SAFETY: not -1. The caller gives it up, as with `os.fdopen`.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        py.detach(|| Reader::attach(fd)).map(BroadcastReader::new).map_err(error)
    }

    /// Closes the end, and frees its place.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let end = self.0.close()?;
        py.detach(|| drop(end));
        Ok(())
    }
}

#[pymethods]
impl BroadcastWriter {
    /// Writes the bytes of a buffer and returns how many: all, unless a signal handler ran; None if the end is non-blocking
    /// and the slowest reader has left no room.
    fn write(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let end = self.0.open()?;
        let buffer = PyUntypedBuffer::get(buffer)?;
        // SAFETY: the buffer stays where it is until it is released, at the end of this function.
        let bytes = unsafe { readable(&buffer) }?;
        let mut alone = alone(&end)?;
        let writer = &mut *alone;
        wait_if_blocking(py, || writer.write(bytes))
    }

    /// Whether the end is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Whether writing sleeps.
    fn set_blocking(&self, blocking: bool) -> PyResult<()> {
        alone(&*self.0.open()?)?.set_nonblocking(!blocking);
        Ok(())
    }

    /// Bytes that the slowest reader can be behind.
    #[getter]
    fn capacity(&self) -> PyResult<usize> {
        Ok(alone(&*self.0.open()?)?.capacity())
    }

    /// Whether slow readers lose bytes.
    #[getter]
    fn lossy(&self) -> PyResult<bool> {
        Ok(alone(&*self.0.open()?)?.is_lossy())
    }

    /// Readers that are left.
    #[getter]
    fn readers(&self) -> PyResult<usize> {
        alone(&*self.0.open()?)?.readers().map_err(error)
    }

    /// One more reader, for which the next byte is the first.
    fn add_reader(&self) -> PyResult<BroadcastReader> {
        alone(&*self.0.open()?)?.add_reader().map(BroadcastReader::new).map_err(error)
    }

    /// What the end has done so far.
    fn statistics(&self) -> PyResult<BTreeMap<&'static str, u64>> {
        Ok(counted(&alone(&*self.0.open()?)?.statistics()))
    }

    /// Closes the end: the end of the stream for every reader.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let end = self.0.close()?;
        py.detach(|| drop(end));
        Ok(())
    }
}

//! Bytes of a pipe, or room in it, that a program works on in place.
//!
//! While the program has them the end itself is here, so that nothing else can use it; it goes back when they are given back. Views of the
//! bytes are counted: they cannot be given back while one is left.

use std::ffi::c_int;
use std::io::BufRead;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::call::{error, wait};
use crate::end::Shared;

/// Bytes that wait in a pipe, or room for some, as a buffer.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct InPlace {
    end: Mutex<Kept>,
    /// Of the first byte, and how many there are.
    start: usize,
    len: usize,
    is_readonly: bool,
    views: AtomicUsize,
}

enum Kept {
    Reader(millstream_pipe::Reader, Shared<millstream_pipe::Reader>),
    Writer(millstream_pipe::Writer, Shared<millstream_pipe::Writer>),
    /// It was given back.
    Nothing,
}

impl InPlace {
    /// Up to `size` bytes that wait, or that come.
    pub(crate) fn of_reader(
        py: Python<'_>,
        shared: &Shared<millstream_pipe::Reader>,
        size: usize,
    ) -> PyResult<InPlace> {
        let mut end = shared.take_in_place()?;
        let shown = wait(py, || {
            let borrowed = end.borrow_up_to(size)?;
            let [first, _] = borrowed.segments();
            let piece = (first.as_ptr() as usize, first.len().min(size));
            borrowed.keep();
            Ok(piece)
        });
        InPlace::of(shown, true, |is_kept| {
            if is_kept {
                return Kept::Reader(end, shared.clone());
            }
            shared.give_back(end);
            Kept::Nothing
        })
    }

    /// Room for up to `size` bytes.
    pub(crate) fn of_writer(
        py: Python<'_>,
        shared: &Shared<millstream_pipe::Writer>,
        size: usize,
    ) -> PyResult<InPlace> {
        let mut end = shared.take_in_place()?;
        let shown = wait(py, || {
            let mut room = end.reserve(size)?;
            let [first, _] = room.segments_mut();
            let piece = (first.as_mut_ptr() as usize, first.len());
            room.keep();
            Ok(piece)
        });
        InPlace::of(shown, false, |is_kept| {
            if is_kept {
                return Kept::Writer(end, shared.clone());
            }
            shared.give_back(end);
            Kept::Nothing
        })
    }

    fn of(piece: PyResult<(usize, usize)>, is_readonly: bool, keep: impl FnOnce(bool) -> Kept) -> PyResult<InPlace> {
        let kept = keep(piece.is_ok());
        let (start, len) = piece?;
        Ok(InPlace { end: Mutex::new(kept), start, len, is_readonly, views: AtomicUsize::new(0) })
    }

    fn take(&self) -> Kept {
        std::mem::replace(&mut self.end.lock().unwrap_or_else(PoisonError::into_inner), Kept::Nothing)
    }
}

#[pymethods]
impl InPlace {
    fn __len__(&self) -> usize {
        self.len
    }

    /// Takes the first `count` bytes out of the pipe, or writes them, and gives the rest back. Done twice it does nothing.
    fn finish(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        if self.views.load(SeqCst) > 0 {
            return Err(PyBufferError::new_err("a view of these bytes still exists"));
        }
        if count > self.len {
            return Err(PyValueError::new_err(format!("{count} bytes of {}", self.len)));
        }
        match self.take() {
            Kept::Reader(mut end, shared) => {
                py.detach(|| end.consume(count));
                shared.give_back(end);
                Ok(())
            }
            Kept::Writer(mut end, shared) => {
                let committed = py.detach(|| end.reserved().map_or(Ok(0), |room| room.commit(count)));
                shared.give_back(end);
                match committed.map_err(error)? {
                    all if all == count => Ok(()),
                    // A signal came in between: of more than PIPE_BUF bytes that were not the pipe's own memory.
                    some => Err(PyBufferError::new_err(format!("only {some} of {count} bytes were written"))),
                }
            }
            Kept::Nothing => Ok(()),
        }
    }

    /// # Safety
    /// Called by Python, with room for a view.
    unsafe fn __getbuffer__(slf: PyRef<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let is_kept = !matches!(*slf.end.lock().unwrap_or_else(PoisonError::into_inner), Kept::Nothing);
        if !is_kept {
            return Err(PyBufferError::new_err("these bytes were given back"));
        }
        // SAFETY: the bytes stay where they are until `finish`, which fails while there are views. The view keeps this object.
        let outcome = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                slf.start as *mut _,
                slf.len.cast_signed(),
                slf.is_readonly.into(),
                flags,
            )
        };
        if outcome != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        slf.views.fetch_add(1, SeqCst);
        Ok(())
    }

    /// # Safety
    /// Called by Python for each view.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.views.fetch_sub(1, SeqCst);
    }
}

/// Forgotten by the program: the end goes back, and with it what was not taken or written.
impl Drop for InPlace {
    fn drop(&mut self) {
        match self.take() {
            Kept::Reader(mut end, shared) => {
                end.consume(0);
                shared.give_back(end);
            }
            Kept::Writer(mut end, shared) => {
                drop(end.reserved());
                shared.give_back(end);
            }
            Kept::Nothing => {}
        }
    }
}

//! Bytes of a pipe, or room in it, that a program works on in place.
//!
//! While the program has them the end itself is here, so that nothing else can use it; it goes back when they are given back. Views of the
//! bytes are counted: they cannot be given back while one is left. One lock guards the count and the end, so a thread that makes a view
//! and one that gives the bytes back cannot both succeed.

use std::ffi::c_int;
use std::io::{self, BufRead};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::arena::{Arena, Run};
use crate::call::{error, wait};
use crate::end::Shared;

/// How long a whole message may take to come into the ring: the time of a copy. A writer that waits for room might never add the
/// rest.
const PATIENCE: Duration = Duration::from_micros(200);

/// Bytes that wait in a pipe, or room for some, as a buffer.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct InPlace {
    /// Locked for an instant, without a call into Python: what [`Shared`] says of its lock holds here too.
    held: Mutex<Held>,
    /// Of the first byte, and how many there are.
    start: usize,
    len: usize,
    /// The same of what follows at the other end of the ring, which only parts show.
    wrapped: (usize, usize),
    /// Bytes that are taken when the program forgets this.
    taken_at_drop: usize,
    is_readonly: bool,
}

struct Held {
    end: Kept,
    views: usize,
}

impl Held {
    fn new(end: Kept) -> Mutex<Held> {
        Mutex::new(Held { end, views: 0 })
    }
}

/// A view of the bytes, until it is dropped.
struct Viewed<'a>(&'a InPlace);

impl Drop for Viewed<'_> {
    fn drop(&mut self) {
        self.0.end_view();
    }
}

enum Kept {
    Reader(millstream_pipe::Reader, Shared<millstream_pipe::Reader>),
    Writer(millstream_pipe::Writer, Shared<millstream_pipe::Writer>),
    /// Blocks of an arena, and no end: it is free for other calls.
    Run(Py<Arena>, Run),
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

    /// The next `size` bytes, of which none is left in the pipe afterwards. `None` if they do not come together in time.
    pub(crate) fn of_whole(
        py: Python<'_>,
        shared: &Shared<millstream_pipe::Reader>,
        size: usize,
    ) -> PyResult<Option<InPlace>> {
        let mut end = shared.take_in_place()?;
        let until = Instant::now() + PATIENCE;
        let shown = wait(py, || whole_of(&mut end, size, until));
        match shown {
            Ok(Some([(start, len), wrapped])) => Ok(Some(InPlace {
                held: Held::new(Kept::Reader(end, shared.clone())),
                start,
                len,
                wrapped,
                taken_at_drop: size,
                is_readonly: true,
            })),
            outcome => {
                shared.give_back(end);
                outcome.map(|_| None)
            }
        }
    }

    /// The buffers of a message in an arena.
    pub(crate) fn of_run(arena: &Bound<'_, Arena>, run: Run) -> InPlace {
        InPlace {
            held: Held::new(Kept::Run(arena.clone().unbind(), run)),
            start: arena.get().address(run.offset),
            len: run.len,
            wrapped: (0, 0),
            taken_at_drop: run.len,
            is_readonly: true,
        }
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
        Ok(InPlace { held: Held::new(kept), start, len, wrapped: (0, 0), taken_at_drop: 0, is_readonly })
    }

    /// Of bytes that go on at the other end of the ring.
    fn copy_of_wrapped<'py>(&self, py: Python<'py>, offset: usize, count: usize) -> PyResult<Bound<'py, PyByteArray>> {
        let first = self.len - offset;
        let _viewed = self.view()?;
        PyByteArray::new_with(py, count, |copy| {
            // SAFETY: the bytes stay where they are until `finish`, which fails while there is a view. Nothing writes to them.
            let (head, tail) = unsafe {
                (
                    std::slice::from_raw_parts((self.start + offset) as *const u8, first),
                    std::slice::from_raw_parts(self.wrapped.0 as *const u8, count - first),
                )
            };
            copy[..first].copy_from_slice(head);
            copy[first..].copy_from_slice(tail);
            Ok(())
        })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A view that is counted, unless the bytes were given back.
    fn view(&self) -> PyResult<Viewed<'_>> {
        let mut held = self.lock();
        if matches!(held.end, Kept::Nothing) {
            return Err(PyBufferError::new_err("these bytes were given back"));
        }
        held.views += 1;
        Ok(Viewed(self))
    }

    fn end_view(&self) {
        self.lock().views -= 1;
    }

    /// The end, if no view is left. Only one call gets it.
    fn take(&self) -> PyResult<Kept> {
        let mut held = self.lock();
        if held.views > 0 {
            return Err(PyBufferError::new_err("a view of these bytes still exists"));
        }
        Ok(std::mem::replace(&mut held.end, Kept::Nothing))
    }
}

#[pymethods]
impl InPlace {
    fn __len__(&self) -> usize {
        self.len
    }

    /// Takes the first `count` bytes out of the pipe, or writes them, and gives the rest back. Done twice it does nothing.
    fn finish(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let all = self.len + self.wrapped.1;
        if count > all {
            return Err(PyValueError::new_err(format!("{count} bytes of {all}")));
        }
        match self.take()? {
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
            Kept::Run(arena, run) => {
                arena.get().free(run);
                Ok(())
            }
            Kept::Nothing => Ok(()),
        }
    }

    /// `count` bytes from `offset` on: where they are, or as a copy if they do not lie in one piece.
    fn part<'py>(slf: Bound<'py, Self>, offset: usize, count: usize) -> PyResult<Bound<'py, PyAny>> {
        let (py, piece) = (slf.py(), slf.get());
        drop(piece.view()?);
        let until = offset.checked_add(count).filter(|&until| until <= piece.len + piece.wrapped.1);
        let until = until.ok_or_else(|| PyValueError::new_err("the part is outside of the bytes"))?;
        let start = match () {
            () if until <= piece.len => piece.start + offset,
            () if offset >= piece.len => piece.wrapped.0 + (offset - piece.len),
            () => return piece.copy_of_wrapped(py, offset, count).map(Bound::into_any),
        };
        Ok(Part { piece: slf.clone().unbind(), start, len: count }.into_pyobject(py)?.into_any())
    }

    /// # Safety
    /// Called by Python, with room for a view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (start, len) = (slf.get().start, slf.get().len);
        // SAFETY: passed on.
        unsafe { show(&slf, slf.as_any(), (start, len), view, flags) }
    }

    /// # Safety
    /// Called by Python for each view.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.end_view();
    }
}

/// Some of the bytes of a pipe, as a buffer.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct Part {
    piece: Py<InPlace>,
    start: usize,
    len: usize,
}

#[pymethods]
impl Part {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    /// Called by Python, with room for a view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let part = slf.get();
        // SAFETY: passed on.
        unsafe { show(part.piece.bind(slf.py()), slf.as_any(), (part.start, part.len), view, flags) }
    }

    /// # Safety
    /// Called by Python for each view.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.piece.get().end_view();
    }
}

/// Shows bytes of `piece` through `exporter`, which keeps it.
///
/// # Safety
/// There is room for a view.
unsafe fn show(
    piece: &Bound<'_, InPlace>,
    exporter: &Bound<'_, PyAny>,
    (start, len): (usize, usize),
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let piece = piece.get();
    let viewed = piece.view()?;
    // SAFETY: the bytes stay where they are until `finish`, which fails while there are views. The view keeps the exporter.
    let outcome = unsafe {
        let readonly = c_int::from(piece.is_readonly);
        ffi::PyBuffer_FillInfo(view, exporter.as_ptr(), start as *mut _, len.cast_signed(), readonly, flags)
    };
    if outcome != 0 {
        return Err(PyErr::fetch(exporter.py()));
    }
    // It ends when Python releases the buffer.
    std::mem::forget(viewed);
    Ok(())
}

/// Where the next `size` bytes are, with those at the other end of the ring, when all have come. `None`: there is not so much
/// room, not so much comes in time, or the stream ends. Then nothing was taken.
fn whole_of(end: &mut millstream_pipe::Reader, size: usize, until: Instant) -> io::Result<Option<[(usize, usize); 2]>> {
    if !end.has_ring() || size > end.capacity()? {
        return Ok(None);
    }
    // What fills more than a half of the ring comes in pieces: its writer waits until much of the ring is free.
    let until = if size > end.capacity()? / 2 { Instant::now() } else { until };
    loop {
        let borrowed = end.borrow_up_to(size)?;
        let places = borrowed.segments().map(|segment| (segment.as_ptr() as usize, segment.len()));
        if borrowed.len() == size {
            borrowed.keep();
            return Ok(Some(places));
        }
        if borrowed.is_empty() || Instant::now() >= until {
            return Ok(None);
        }
        drop(borrowed);
        std::thread::yield_now();
    }
}

/// Forgotten by the program: the end goes back, and with it what was not taken or written.
impl Drop for InPlace {
    fn drop(&mut self) {
        // There is no view: each keeps this object.
        match self.take().unwrap_or(Kept::Nothing) {
            Kept::Reader(mut end, shared) => {
                end.consume(self.taken_at_drop);
                shared.give_back(end);
            }
            Kept::Writer(mut end, shared) => {
                drop(end.reserved());
                shared.give_back(end);
            }
            Kept::Run(arena, run) => arena.get().free(run),
            Kept::Nothing => {}
        }
    }
}

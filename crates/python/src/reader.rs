//! The read end, and messages that come out of it.

use std::ffi::c_char;
use std::io::Read;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyEOFError, PyMemoryError, PyOSError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList};

use crate::arena::{Arena, Run, places};
use crate::call::{wait, wait_if_blocking};
use crate::end::{Shared, common};
use crate::in_place::InPlace;
use crate::writer::{BUFFERS, IN_ARENA, WORD};

/// The read end of a pipe.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct Reader(pub(crate) Shared<millstream_pipe::Reader>);

impl Reader {
    pub(crate) fn new(end: millstream_pipe::Reader) -> Reader {
        Reader(Shared::new(end))
    }
}

common!(Reader);

#[pymethods]
impl Reader {
    /// Reads what waits into a writable buffer, or sleeps until something does. Returns the number of bytes: 0 at the end of the
    /// stream, None if the end is non-blocking and nothing waits.
    fn readinto(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let end = self.0.open()?;
        let mut buffer = PyUntypedBuffer::get(buffer)?;
        // SAFETY: the buffer stays where it is until it is released, at the end of this function.
        let bytes = unsafe { writable(&mut buffer) }?;
        wait_if_blocking(py, || { &*end }.read(bytes))
    }

    /// The next message, as the bytes that were sent and copies of the buffers that were sent beside them. With `maxlength` a longer
    /// one is not received: None.
    #[pyo3(signature = (maxlength=None, arena=None))]
    fn receive<'py>(
        &self,
        py: Python<'py>,
        maxlength: Option<usize>,
        arena: Option<&Bound<'py, Arena>>,
    ) -> PyResult<Option<Message<'py>>> {
        let end = self.0.open()?;
        let header = Header::read(py, &end)?;
        let beside = header.read_beside(py, &end)?;
        let sizes = beside.iter().flat_map(|beside| &beside.sizes);
        let all = sizes.fold(header.len, |sum, &size| sum.saturating_add(size));
        if maxlength.is_some_and(|most| all > most) {
            return Ok(None);
        }
        header.read_message(py, &end, beside, arena).map(Some)
    }

    /// The next message without the buffers beside it, and the lengths of these. They follow in the stream, or are in the arena: the
    /// third value.
    #[pyo3(signature = (arena=None))]
    fn receive_message<'py>(&self, py: Python<'py>, arena: Option<&Bound<'py, Arena>>) -> PyResult<MessageAlone<'py>> {
        let end = self.0.open()?;
        let header = Header::read(py, &end)?;
        let beside = header.read_beside(py, &end)?;
        let message = bytes_of(py, &end, header.len)?;
        let Some(beside) = beside else { return Ok((message, None, None)) };
        let piece = beside.run(arena)?.map(|(arena, run)| InPlace::of_run(arena, run));
        Ok((message, Some(beside.sizes), piece))
    }

    /// Buffers beside a message.
    fn receive_buffers<'py>(&self, py: Python<'py>, sizes: Vec<usize>) -> PyResult<Bound<'py, PyList>> {
        buffers_of(py, &*self.0.open()?, sizes)
    }

    /// The next `size` bytes where they are, if all are in the pipe at once. Forgotten, they are taken.
    fn borrow_whole(&self, py: Python<'_>, size: usize) -> PyResult<Option<InPlace>> {
        InPlace::of_whole(py, &self.0, size)
    }

    /// The next message straight into a writable buffer, from `offset` on; returns its length. One that is too long, or has
    /// buffers beside it, is returned as `receive` does.
    #[pyo3(signature = (buffer, offset=0, arena=None))]
    fn receive_into<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
        offset: usize,
        arena: Option<&Bound<'py, Arena>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let end = self.0.open()?;
        let mut target = PyUntypedBuffer::get(buffer)?;
        // SAFETY: the buffer stays where it is until it is released, at the end of this function.
        let bytes = unsafe { writable(&mut target) }?;
        let header = Header::read(py, &end)?;
        if !header.has_buffers
            && let Some(room) = bytes.get_mut(offset..offset.saturating_add(header.len))
        {
            fill(py, &end, room)?;
            return Ok(header.len.into_pyobject(py)?.into_any());
        }
        let beside = header.read_beside(py, &end)?;
        Ok(header.read_message(py, &end, beside, arena)?.into_pyobject(py)?.into_any())
    }

    /// Up to `size` bytes that wait, where they are; sleeps until there are some. None at the end of the stream.
    fn borrow(&self, py: Python<'_>, size: usize) -> PyResult<InPlace> {
        InPlace::of_reader(py, &self.0, size)
    }

    /// Closes the handle.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let end = self.0.close()?;
        py.detach(|| drop(end));
        Ok(())
    }
}

/// The bytes of a message, and the buffers beside it.
type Message<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyList>>);
/// The bytes of a message, and of the buffers beside it their lengths and where they lie, if that is in the arena.
type MessageAlone<'py> = (Bound<'py, PyBytes>, Option<Vec<usize>>, Option<InPlace>);

/// What a message begins with.
struct Header {
    len: usize,
    has_buffers: bool,
    is_in_arena: bool,
}

/// Where the buffers beside a message are.
struct Beside {
    sizes: Vec<usize>,
    /// Of their run in the arena. Otherwise they follow in the pipe.
    offset: Option<usize>,
}

impl Beside {
    fn run<'a, 'py>(&self, arena: Option<&'a Bound<'py, Arena>>) -> PyResult<Option<(&'a Bound<'py, Arena>, Run)>> {
        let Some(offset) = self.offset else { return Ok(None) };
        let none = || PyOSError::new_err("bad message: its buffers are in an arena that this end does not have");
        let arena = arena.ok_or_else(none)?;
        Ok(Some((arena, arena.get().run_of_message(offset, &self.sizes)?)))
    }

    /// Copies of the buffers, in order.
    fn receive<'py>(
        self,
        py: Python<'py>,
        end: &millstream_pipe::Reader,
        arena: Option<&Bound<'py, Arena>>,
    ) -> PyResult<Bound<'py, PyList>> {
        match self.run(arena)? {
            None => buffers_of(py, end, self.sizes),
            Some((arena, run)) => {
                let copies = copies_of(py, arena.get(), run, &self.sizes);
                arena.get().free(run);
                copies
            }
        }
    }
}

fn copies_of<'py>(py: Python<'py>, arena: &Arena, run: Run, sizes: &[usize]) -> PyResult<Bound<'py, PyList>> {
    let copies = PyList::empty(py);
    for (at, len) in places(sizes) {
        // SAFETY: of the run, which the caller frees afterwards.
        let bytes = unsafe { arena.bytes(run.offset + at, len) };
        let copy = bytearray_to_fill(py, len)?;
        let mut buffer = PyUntypedBuffer::get(&copy)?;
        // SAFETY: released at the end of this turn.
        let target = unsafe { writable(&mut buffer) }?;
        py.detach(|| target.copy_from_slice(bytes));
        copies.append(copy)?;
    }
    Ok(copies)
}

impl Header {
    fn read(py: Python<'_>, end: &millstream_pipe::Reader) -> PyResult<Header> {
        let mut word = [0; WORD];
        let mut had = 0;
        while had < WORD {
            match wait(py, || { end }.read(&mut word[had..]))? {
                0 if had == 0 => return Err(PyEOFError::new_err(())),
                0 => return Err(cut_short()),
                count => had += count,
            }
            if had < WORD {
                py.check_signals()?;
            }
        }
        let word = u64::from_le_bytes(word);
        let (has_buffers, is_in_arena) = (word & BUFFERS != 0, word & IN_ARENA != 0);
        Ok(Header { len: (word & !(BUFFERS | IN_ARENA)) as usize, has_buffers, is_in_arena })
    }

    /// Where the buffers beside a message are, if there are some: what follows its header.
    fn read_beside(&self, py: Python<'_>, end: &millstream_pipe::Reader) -> PyResult<Option<Beside>> {
        if !self.has_buffers {
            return Ok(None);
        }
        let offset = self.is_in_arena.then(|| word_of(py, end)).transpose()?;
        let count = word_of(py, end)?;
        let mut words = Vec::new();
        let bytes = count.checked_mul(WORD).ok_or_else(|| PyMemoryError::new_err(()))?;
        words.try_reserve_exact(bytes).map_err(|_| PyMemoryError::new_err(()))?;
        words.resize(bytes, 0);
        fill(py, end, &mut words)?;
        let sizes = words.as_chunks::<WORD>().0.iter().map(|&word| u64::from_le_bytes(word) as usize).collect();
        Ok(Some(Beside { sizes, offset }))
    }

    /// What follows these.
    fn read_message<'py>(
        &self,
        py: Python<'py>,
        end: &millstream_pipe::Reader,
        beside: Option<Beside>,
        arena: Option<&Bound<'py, Arena>>,
    ) -> PyResult<Message<'py>> {
        let message = bytes_of(py, end, self.len)?;
        Ok((message, beside.map(|beside| beside.receive(py, end, arena)).transpose()?))
    }
}

fn word_of(py: Python<'_>, end: &millstream_pipe::Reader) -> PyResult<usize> {
    let mut word = [0; WORD];
    fill(py, end, &mut word)?;
    Ok(u64::from_le_bytes(word) as usize)
}

fn buffers_of<'py>(py: Python<'py>, end: &millstream_pipe::Reader, sizes: Vec<usize>) -> PyResult<Bound<'py, PyList>> {
    let buffers = PyList::empty(py);
    for size in sizes {
        buffers.append(bytearray_of(py, end, size)?)?;
    }
    Ok(buffers)
}

/// Makes an object of so many bytes, which for null have any value.
type MakeObject = unsafe extern "C" fn(*const c_char, ffi::Py_ssize_t) -> *mut ffi::PyObject;
/// Where the bytes of an object begin.
type BytesOfObject = unsafe extern "C" fn(*mut ffi::PyObject) -> *mut c_char;

fn bytes_of<'py>(py: Python<'py>, end: &millstream_pipe::Reader, len: usize) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: the two belong to one type.
    unsafe { filled_object(py, end, len, ffi::PyBytes_FromStringAndSize, ffi::PyBytes_AsString) }?
        .cast_into()
        .map_err(Into::into)
}

fn bytearray_of<'py>(py: Python<'py>, end: &millstream_pipe::Reader, len: usize) -> PyResult<Bound<'py, PyByteArray>> {
    // SAFETY: as above.
    unsafe { filled_object(py, end, len, ffi::PyByteArray_FromStringAndSize, ffi::PyByteArray_AsString) }?
        .cast_into()
        .map_err(Into::into)
}

/// A new object with the next `len` bytes, without the zeros that Python would fill it with first. Only this call knows it while
/// they are read.
///
/// # Safety
/// Both functions are those of one type.
unsafe fn filled_object<'py>(
    py: Python<'py>,
    end: &millstream_pipe::Reader,
    len: usize,
    make: MakeObject,
    bytes_of_object: BytesOfObject,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the caller's promise.
    let (object, bytes) = unsafe { object_to_fill(py, len, make, bytes_of_object) }?;
    fill(py, end, bytes)?;
    Ok(object)
}

/// A new bytes object whose bytes have any value: the caller fills it before anything else sees it.
pub(crate) fn bytes_to_fill(py: Python<'_>, len: usize) -> PyResult<(Bound<'_, PyBytes>, &mut [u8])> {
    // SAFETY: the two belong to one type.
    let (object, bytes) = unsafe { object_to_fill(py, len, ffi::PyBytes_FromStringAndSize, ffi::PyBytes_AsString) }?;
    Ok((object.cast_into()?, bytes))
}

/// Where the bytes of an object begin, which nothing else knows yet.
pub(crate) fn start_of_bytes(object: &Bound<'_, PyBytes>) -> *mut u8 {
    // SAFETY: of this type.
    unsafe { ffi::PyBytes_AsString(object.as_ptr()).cast() }
}

/// A new bytearray whose bytes have any value: the caller fills it before anything else sees it.
pub(crate) fn bytearray_to_fill(py: Python<'_>, len: usize) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the two belong to one type.
    Ok(unsafe { object_to_fill(py, len, ffi::PyByteArray_FromStringAndSize, ffi::PyByteArray_AsString) }?.0)
}

/// # Safety
/// Both functions are those of one type.
unsafe fn object_to_fill<'py>(
    py: Python<'py>,
    len: usize,
    make: MakeObject,
    bytes_of_object: BytesOfObject,
) -> PyResult<(Bound<'py, PyAny>, &'py mut [u8])> {
    let size = ffi::Py_ssize_t::try_from(len).map_err(|_| PyMemoryError::new_err(()))?;
    // SAFETY: the caller's promise; the object has `size` bytes.
    let (object, bytes) = unsafe {
        let object = Bound::from_owned_ptr_or_err(py, make(std::ptr::null(), size))?;
        let start = bytes_of_object(object.as_ptr()).cast::<u8>();
        (object, std::slice::from_raw_parts_mut(start, len))
    };
    prepare(bytes);
    Ok((object, bytes))
}

/// From so many bytes on a new object is a mapping of its own, of which the kernel would hand out page by page what is about to be
/// overwritten: that takes twice as long as the copy.
const LARGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// Asks for huge pages under the bytes of a large new object.
fn prepare(bytes: &mut [u8]) {
    if bytes.len() >= LARGE {
        let start = (bytes.as_mut_ptr() as usize).next_multiple_of(HUGE_PAGE);
        let end = (bytes.as_mut_ptr() as usize + bytes.len()) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: advice on whole pages inside of the object, which changes no byte.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Reads until the buffer is full.
fn fill(py: Python<'_>, end: &millstream_pipe::Reader, bytes: &mut [u8]) -> PyResult<()> {
    let mut had = 0;
    while had < bytes.len() {
        match wait(py, || { end }.read(&mut bytes[had..]))? {
            0 => return Err(cut_short()),
            count => had += count,
        }
        // A call that a signal has cut short is not an error.
        if had < bytes.len() {
            py.check_signals()?;
        }
    }
    Ok(())
}

fn cut_short() -> PyErr {
    PyOSError::new_err("got end of file during message")
}

/// The bytes of a buffer that can be written to.
///
/// # Safety
/// They are not used after the buffer is released. Another thread of the program may write to them at the same time: what they
/// have is then any of the two, as with every `readinto`.
pub(crate) unsafe fn writable(buffer: &mut PyUntypedBuffer) -> PyResult<&mut [u8]> {
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("a writable buffer in one piece is needed"));
    }
    match buffer.len_bytes() {
        0 => Ok(&mut []),
        // SAFETY: so long, writable and in one piece; the caller's promise.
        len => Ok(unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast(), len) }),
    }
}

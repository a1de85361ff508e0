//! The write end, and messages that go into it.
//!
//! A message begins with a word, its length; the highest bit says that buffers come beside it. Then a word with their number and
//! one for the length of each follow. After that the message itself, which may end in zeros, and the buffers. The next bit says that
//! the buffers lie in the arena, and none in the pipe: a word with the place of their run comes before their number. All words are
//! little-endian and have eight bytes. What is no longer than PIPE_BUF arrives as a whole, whatever other writers do.

use std::io::{self, IoSlice, Write};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::arena::Arena;
use crate::call::{error, wait, wait_if_blocking};
use crate::end::{Shared, common};
use crate::in_place::InPlace;

/// Bytes of a word.
pub(crate) const WORD: usize = 8;
/// In the first word: buffers come beside the message.
pub(crate) const BUFFERS: u64 = 1 << 63;
/// In the first word as well: they lie in the arena.
pub(crate) const IN_ARENA: u64 = 1 << 62;

/// The write end of a pipe.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct Writer(pub(crate) Shared<millstream_pipe::Writer>);

impl Writer {
    pub(crate) fn new(end: millstream_pipe::Writer) -> Writer {
        Writer(Shared::new(end))
    }
}

common!(Writer);

#[pymethods]
impl Writer {
    /// Writes the bytes of a buffer and returns how many: all, unless a signal handler ran; None if the end is non-blocking
    /// and the pipe is full.
    fn write(&self, py: Python<'_>, buffer: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        let end = self.0.open()?;
        let buffer = PyUntypedBuffer::get(buffer)?;
        // SAFETY: the buffer stays where it is until it is released, at the end of this function.
        let bytes = unsafe { readable(&buffer) }?;
        wait_if_blocking(py, || { &*end }.write(bytes))
    }

    /// Sends a message, and buffers beside it: in the arena, if there is one and it has room.
    #[pyo3(signature = (message, buffers=None, arena=None))]
    fn send(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        buffers: Option<Vec<Bound<'_, PyAny>>>,
        arena: Option<&Bound<'_, Arena>>,
    ) -> PyResult<()> {
        let end = self.0.open()?;
        let message = PyUntypedBuffer::get(message)?;
        let buffers: Option<Vec<_>> =
            buffers.map(|list| list.iter().map(PyUntypedBuffer::get).collect::<PyResult<_>>()).transpose()?;
        // SAFETY: the buffers stay where they are until they are released, at the end of this function.
        let (bytes, beside) = unsafe {
            let beside = buffers.iter().flatten().map(|buffer| readable(buffer)).collect::<PyResult<Vec<_>>>()?;
            (readable(&message)?, beside)
        };
        if let Some(arena) = arena.map(Bound::get)
            && !beside.is_empty()
            && send_in_arena(py, &end, bytes, &beside, arena)?
        {
            return Ok(());
        }
        let mut words = vec![bytes.len() as u64];
        let mut padding = 0;
        if buffers.is_some() {
            padding = padding_of(&end, (2 + beside.len()) * WORD + bytes.len());
            words[0] = (bytes.len() + padding) as u64 | BUFFERS;
            words.push(beside.len() as u64);
            words.extend(beside.iter().map(|buffer| buffer.len() as u64));
        }
        let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let parts = [header.as_slice(), bytes, &[0; ALIGNMENT][..padding]].into_iter().chain(beside);
        let mut parts: Vec<_> = parts.filter(|part| !part.is_empty()).map(IoSlice::new).collect();
        write_all(py, &end, &mut parts)
    }

    /// Sends a message if it does not have to wait, and returns whether. Only while no other handle writes.
    ///
    /// The kernel may fill no more than the half of each of its pages, so twice as much room is enough.
    fn send_if_room(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<bool> {
        let end = self.0.open()?;
        let message = PyUntypedBuffer::get(message)?;
        // SAFETY: the buffer stays where it is until it is released, at the end of this function.
        let bytes = unsafe { readable(&message) }?;
        let used = end.bytes_readable().map_err(error)?.saturating_add(WORD + bytes.len());
        if used > end.capacity().map_err(error)? / 2 {
            return Ok(false);
        }
        let header = (bytes.len() as u64).to_le_bytes();
        let mut parts = [IoSlice::new(&header), IoSlice::new(bytes)];
        write_all(py, &end, &mut parts).map(|()| true)
    }

    /// Sends several messages in one call.
    fn send_many(&self, py: Python<'_>, messages: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let end = self.0.open()?;
        let messages = messages.iter().map(PyUntypedBuffer::get).collect::<PyResult<Vec<_>>>()?;
        // SAFETY: the buffers stay where they are until they are released, at the end of this function.
        let all = unsafe { messages.iter().map(|message| readable(message)).collect::<PyResult<Vec<_>>>() }?;
        let headers: Vec<_> = all.iter().map(|bytes| (bytes.len() as u64).to_le_bytes()).collect();
        let parts = headers.iter().zip(all).flat_map(|(header, bytes)| [header, bytes]);
        let mut parts: Vec<_> = parts.filter(|part| !part.is_empty()).map(IoSlice::new).collect();
        write_all(py, &end, &mut parts)
    }

    /// Room for up to `size` bytes, to be filled; sleeps as a write of so many would.
    fn reserve(&self, py: Python<'_>, size: usize) -> PyResult<InPlace> {
        InPlace::of_writer(py, &self.0, size)
    }

    /// Closes the handle. At a FIFO that puts the last bytes into it, and says if they could not be.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(end) = self.0.close()? else { return Ok(()) };
        py.detach(|| match std::sync::Arc::try_unwrap(end) {
            Ok(end) => end.close(),
            // Another thread is writing; its call closes it.
            Err(_) => Ok(()),
        })
        .map_err(error)
    }
}

/// Whether the arena had room for the buffers.
fn send_in_arena(
    py: Python<'_>,
    end: &millstream_pipe::Writer,
    message: &[u8],
    buffers: &[&[u8]],
    arena: &Arena,
) -> PyResult<bool> {
    let Some(run) = arena.put(py, buffers)? else { return Ok(false) };
    let words = [message.len() as u64 | BUFFERS | IN_ARENA, run.offset as u64, buffers.len() as u64];
    let words = words.into_iter().chain(buffers.iter().map(|buffer| buffer.len() as u64));
    let mut whole: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    whole.extend_from_slice(message);
    // A message of which a part has gone is the last one of its pipe.
    write_all(py, end, &mut [IoSlice::new(&whole)]).inspect_err(|_| arena.free(run))?;
    Ok(true)
}

/// Of buffers in the ring.
const ALIGNMENT: usize = 64;

/// Bytes behind a message, which pickle ignores, for aligned buffers behind them. If another handle has written into the pipe, or
/// the kernel takes a part of the message, they are not aligned: that costs time and nothing else.
fn padding_of(end: &millstream_pipe::Writer, before_buffers: usize) -> usize {
    let counted = end.statistics();
    let not_in_ring = counted.bytes_through_kernel + counted.bytes_direct;
    let at = counted.bytes.wrapping_sub(not_in_ring).wrapping_add(before_buffers as u64);
    (at.wrapping_neg() % ALIGNMENT as u64) as usize
}

/// More than one call takes (`UIO_MAXIOV`) is written in several.
const MOST_PARTS: usize = 1024;

fn write_all(py: Python<'_>, end: &millstream_pipe::Writer, mut parts: &mut [IoSlice<'_>]) -> PyResult<()> {
    while !parts.is_empty() {
        let some = parts.len().min(MOST_PARTS);
        let count = wait(py, || match { end }.write_vectored(&parts[..some]) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            outcome => outcome,
        })?;
        IoSlice::advance_slices(&mut parts, count);
        // The interrupted part of a call is not an error.
        if !parts.is_empty() {
            py.check_signals()?;
        }
    }
    Ok(())
}

/// The bytes of a buffer.
///
/// # Safety
/// They are not used after the buffer is released. Another thread of the program may write to them at the same time: what is sent
/// is then any of the two, as with every `write`.
pub(crate) unsafe fn readable(buffer: &PyUntypedBuffer) -> PyResult<&[u8]> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("a buffer in one piece is needed"));
    }
    match buffer.len_bytes() {
        0 => Ok(&[]),
        // SAFETY: so long and in one piece; the caller's promise.
        len => Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), len) }),
    }
}

//! Bytes whose number is known only at their end, read straight into the object that they become.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use millstream_sys::transfer;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::wait;
use crate::reader::{bytes_to_fill, start_of_bytes};

/// Bytes of the first object: as much as a pipe is likely to have, and less than makes malloc map memory.
const FIRST: usize = 120 << 10;
/// Of the next one. Above 32 MiB malloc always maps memory, and can move it without a copy. Pages that nothing comes
/// into are never made.
const MAPPED: usize = 64 << 20;

const PAGE: usize = 4096;
/// Bytes whose pages are made at once: that takes less time than a fault for each, and they stay in the cache until
/// they are filled. Huge pages would take less still, but where a hypervisor has got them back it makes them anew,
/// which took ten times as long.
const AHEAD: usize = 256 << 10;

/// What was read so far.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct Gathered {
    state: Mutex<State>,
    /// Whether an object is copied to become larger.
    copies: bool,
}

#[derive(Default)]
struct State {
    /// Known to nothing else until it is whole. The first `len` of its bytes were read.
    object: Option<Py<PyBytes>>,
    len: usize,
    capacity: usize,
    /// Bytes whose pages exist, of an object that is mapped.
    ahead: usize,
}

#[pymethods]
impl Gathered {
    /// With `copies` it does without what is not in Python's stable interface.
    #[new]
    #[pyo3(signature = (copies=false))]
    fn new(copies: bool) -> Gathered {
        Gathered { state: Mutex::default(), copies }
    }

    /// Reads what waits behind a descriptor, or waits for something; returns how many bytes, 0 at the end of the
    /// stream.
    fn read(&self, py: Python<'_>, fd: i32) -> PyResult<usize> {
        if fd < 0 {
            return Err(PyValueError::new_err("a descriptor is not negative"));
        }
        // Taken out, so that nothing else has it while it is filled without the lock.
        let mut state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        if state.len == state.capacity {
            state.grow(py, self.copies)?;
        }
        let room = state.room(py)?;
        if state.capacity >= MAPPED && state.ahead <= state.len {
            let count = room.len().min(AHEAD);
            populate(&mut room[..count]);
            state.ahead = state.len + count;
        }
        // SAFETY: open until the call ends, as for `os.read`.
        let count = wait(py, || Ok(transfer::read_one(unsafe { BorrowedFd::borrow_raw(fd) }, room)?));
        state.len += count.as_ref().unwrap_or(&0);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        count
    }

    /// All that was read. Afterwards there is nothing.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        let len = state.len;
        state.resize(py, len, self.copies)?;
        Ok(state.object.map_or_else(|| PyBytes::new(py, b""), |object| object.into_bound(py)))
    }
}

impl State {
    fn grow(&mut self, py: Python<'_>, copies: bool) -> PyResult<()> {
        let capacity = match self.capacity {
            0 => FIRST,
            capacity if capacity < MAPPED => MAPPED,
            capacity => capacity.checked_add(capacity / 2).ok_or_else(|| PyMemoryError::new_err(()))?,
        };
        self.resize(py, capacity, copies)
    }

    fn resize(&mut self, py: Python<'_>, capacity: usize, copies: bool) -> PyResult<()> {
        if capacity == self.capacity {
            return Ok(());
        }
        let object = match (self.object.take(), resizer().filter(|_| !copies)) {
            (Some(object), Some(resize)) if capacity > 0 => resized(py, object, capacity, resize)?,
            (before, _) => {
                let (object, bytes) = bytes_to_fill(py, capacity)?;
                if let Some(before) = before {
                    bytes[..self.len].copy_from_slice(&before.as_bytes(py)[..self.len]);
                }
                object.unbind()
            }
        };
        (self.object, self.capacity) = (Some(object), capacity);
        Ok(())
    }

    /// What can be filled yet.
    fn room(&self, py: Python<'_>) -> PyResult<&'static mut [u8]> {
        let object = self.object.as_ref().ok_or_else(|| PyMemoryError::new_err(()))?;
        let start = start_of_bytes(object.bind(py));
        // SAFETY: the bytes of an object that nothing else knows. The caller keeps it, and uses them no longer than it
        // does.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.add(self.len), self.capacity - self.len) })
    }
}

/// Makes the whole pages inside of `bytes`. Where that fails, touching them does it, or fails.
fn populate(bytes: &mut [u8]) {
    let start = (bytes.as_mut_ptr() as usize).next_multiple_of(PAGE);
    let end = (bytes.as_mut_ptr() as usize + bytes.len()) / PAGE * PAGE;
    if start < end {
        // SAFETY: whole pages inside of an object, of which no byte changes.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_POPULATE_WRITE) };
    }
}

type Resize = unsafe extern "C" fn(*mut *mut ffi::PyObject, ffi::Py_ssize_t) -> c_int;

/// CPython's function that makes a bytes object larger or smaller, where it is if that goes. It is not in the stable
/// interface, though every version has it: so it is looked for.
fn resizer() -> Option<Resize> {
    static FOUND: OnceLock<Option<Resize>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: a name.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_PyBytes_Resize".as_ptr()) };
        // SAFETY: the type that CPython's headers declare it with, from 3.11 to 3.15.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, Resize>(found) })
    })
}

fn resized(py: Python<'_>, object: Py<PyBytes>, size: usize, resize: Resize) -> PyResult<Py<PyBytes>> {
    let size = ffi::Py_ssize_t::try_from(size).map_err(|_| PyMemoryError::new_err(()))?;
    let mut object = object.into_ptr();
    // SAFETY: a bytes object with one reference, ours, and no hash yet. It takes the reference and gives one of the new
    // object, or null with an exception set.
    let object = unsafe {
        resize(&raw mut object, size);
        Bound::from_owned_ptr_or_err(py, object)?
    };
    Ok(object.cast_into::<PyBytes>()?.unbind())
}

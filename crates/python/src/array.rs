//! Memory with a format and a shape, as a buffer: what `memoryview.cast` makes of native formats only.

use std::ffi::{CString, c_int};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

/// The memory of another object, seen as an array.
#[pyclass(frozen, module = "millstream._native")]
pub(crate) struct Array {
    /// Keeps the memory where it is.
    memory: PyUntypedBuffer,
    len: usize,
    itemsize: usize,
    format: CString,
    shape: Vec<isize>,
    strides: Vec<isize>,
    is_c_contiguous: bool,
    is_fortran_contiguous: bool,
}

#[pymethods]
impl Array {
    /// An array of `shape` over the first bytes of `memory`, in the order of C or of Fortran.
    #[new]
    fn new(
        memory: &Bound<'_, PyAny>,
        format: &str,
        itemsize: usize,
        shape: Vec<isize>,
        is_fortran: bool,
    ) -> PyResult<Array> {
        let memory = PyUntypedBuffer::get(memory)?;
        if !memory.is_c_contiguous() && !memory.is_fortran_contiguous() {
            return Err(PyBufferError::new_err("memory in one piece is needed"));
        }
        let len = size_of(itemsize, &shape).filter(|&len| len <= memory.len_bytes());
        let len = len.ok_or_else(|| PyValueError::new_err("the memory is too small for the shape"))?;
        let strides = strides_of(itemsize, &shape, is_fortran);
        // With one long dimension, or none, the two orders are the same.
        let is_both = len == 0 || shape.iter().filter(|&&count| count > 1).count() < 2;
        Ok(Array {
            memory,
            len,
            itemsize,
            format: CString::new(format)?,
            shape,
            strides,
            is_c_contiguous: is_both || !is_fortran,
            is_fortran_contiguous: is_both || is_fortran,
        })
    }

    /// # Safety
    /// Called by Python, with room for a view.
    unsafe fn __getbuffer__(slf: PyRef<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        slf.check(flags)?;
        let has = |flag: c_int| flags & flag == flag;
        let has_dimensions = !slf.shape.is_empty();
        // SAFETY: room for a view. What it leads to lives as long as this object, which it keeps.
        unsafe {
            (*view).buf = slf.memory.buf_ptr();
            (*view).len = slf.len.cast_signed();
            (*view).itemsize = slf.itemsize.cast_signed();
            (*view).readonly = slf.memory.readonly().into();
            (*view).ndim = if has(ffi::PyBUF_ND) { slf.shape.len() as c_int } else { 1 };
            (*view).format = if_asked(has(ffi::PyBUF_FORMAT), slf.format.as_ptr());
            (*view).shape = if_asked(has_dimensions && has(ffi::PyBUF_ND), slf.shape.as_ptr());
            (*view).strides = if_asked(has_dimensions && has(ffi::PyBUF_STRIDES), slf.strides.as_ptr());
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }
}

impl Array {
    /// Whether a consumer that asks with these flags can use the memory.
    fn check(&self, flags: c_int) -> PyResult<()> {
        let has = |flag: c_int| flags & flag == flag;
        if has(ffi::PyBUF_WRITABLE) && self.memory.readonly() {
            return Err(PyBufferError::new_err("the array is read-only"));
        }
        let needs_c = has(ffi::PyBUF_C_CONTIGUOUS) || !has(ffi::PyBUF_STRIDES);
        if needs_c && !self.is_c_contiguous || has(ffi::PyBUF_F_CONTIGUOUS) && !self.is_fortran_contiguous {
            return Err(PyBufferError::new_err("the array is not in the order that is needed"));
        }
        Ok(())
    }
}

/// Python does not write through these pointers.
fn if_asked<T>(is_asked: bool, pointer: *const T) -> *mut T {
    if is_asked { pointer.cast_mut() } else { std::ptr::null_mut() }
}

/// Bytes of the array: `None` if a dimension is negative, or if its strides could overflow.
fn size_of(itemsize: usize, shape: &[isize]) -> Option<usize> {
    let mut len = itemsize;
    let mut span = itemsize;
    for &count in shape {
        let count = usize::try_from(count).ok()?;
        len = len.checked_mul(count)?;
        span = span.checked_mul(count.max(1)).filter(|&span| isize::try_from(span).is_ok())?;
    }
    Some(len)
}

fn strides_of(itemsize: usize, shape: &[isize], is_fortran: bool) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = itemsize.cast_signed();
    for number in 0..shape.len() {
        let at = if is_fortran { number } else { shape.len() - 1 - number };
        strides[at] = stride;
        stride *= shape[at].max(1);
    }
    strides
}

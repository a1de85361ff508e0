//! What both ends have: they are open or closed, and threads may close one while others use it.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// An end until it is closed. A thread that uses it when another closes it keeps it open until its call returns.
pub(crate) struct Shared<E>(Mutex<Option<Arc<E>>>);

impl<E> Shared<E> {
    pub(crate) fn new(end: E) -> Shared<E> {
        Shared(Mutex::new(Some(Arc::new(end))))
    }

    /// The end, to be used.
    pub(crate) fn open(&self) -> PyResult<Arc<E>> {
        self.lock().clone().ok_or_else(|| PyValueError::new_err("I/O operation on closed pipe"))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    /// The end, to be closed.
    pub(crate) fn take(&self) -> Option<Arc<E>> {
        self.lock().take()
    }

    /// The end for the caller alone: not while another thread uses it.
    pub(crate) fn take_alone(&self) -> PyResult<E> {
        let mut end = self.lock();
        let taken = end.take().ok_or_else(|| PyValueError::new_err("I/O operation on closed pipe"))?;
        Arc::try_unwrap(taken).map_err(|used| {
            *end = Some(used);
            PyValueError::new_err("another thread uses the pipe")
        })
    }

    /// Only for an instant, and with Python's lock or without: no call is made meanwhile.
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The methods that both ends have.
macro_rules! common {
    ($end:ident) => {
        #[pymethods]
        impl $end {
            /// A descriptor that is ready when the end is: to be watched, never to be read or closed.
            fn fileno(&self) -> PyResult<i32> {
                use std::os::fd::AsRawFd;
                Ok(self.0.open()?.readiness().map_err($crate::call::error)?.as_raw_fd())
            }

            /// Whether the end is closed.
            #[getter]
            fn closed(&self) -> bool {
                self.0.is_closed()
            }

            /// Another handle to the same end, as `os.dup`.
            fn dup(&self) -> PyResult<$end> {
                Ok($end::new(self.0.open()?.try_clone().map_err($crate::call::error)?))
            }

            /// Whether calls sleep, as `os.set_blocking`.
            fn set_blocking(&self, blocking: bool) -> PyResult<()> {
                self.0.open()?.set_nonblocking(!blocking).map_err($crate::call::error)
            }

            /// Bytes that the pipe holds when full.
            #[getter]
            fn capacity(&self) -> PyResult<usize> {
                self.0.open()?.capacity().map_err($crate::call::error)
            }

            /// Makes the pipe larger or smaller; returns its new capacity.
            fn set_capacity(&self, size: usize) -> PyResult<usize> {
                self.0.open()?.set_capacity(size).map_err($crate::call::error)
            }

            /// Bytes that wait to be read.
            #[getter]
            fn waiting(&self) -> PyResult<usize> {
                self.0.open()?.bytes_readable().map_err($crate::call::error)
            }

            /// What the handle has done so far.
            fn statistics(&self) -> PyResult<std::collections::BTreeMap<&'static str, u64>> {
                let counted = self.0.open()?.statistics();
                Ok([
                    ("bytes", counted.bytes),
                    ("bytes_through_kernel", counted.bytes_through_kernel),
                    ("transfers", counted.transfers),
                    ("spins", counted.spins),
                    ("yields", counted.yields),
                    ("sleeps", counted.sleeps),
                    ("wakes", counted.wakes),
                ]
                .into())
            }

            /// Gives the end away as a plain descriptor of a kernel pipe, for any program. The handle is closed.
            fn detach(&self, py: Python<'_>) -> PyResult<i32> {
                use std::os::fd::IntoRawFd;
                let end = self.0.take_alone()?;
                Ok(py.detach(|| end.into_fd()).map_err($crate::call::error)?.into_raw_fd())
            }

            /// The end that a descriptor stands for: inherited, received, or from `detach`. It takes the descriptor over.
            #[staticmethod]
            fn attach(py: Python<'_>, fd: i32) -> PyResult<$end> {
                use std::os::fd::{FromRawFd, OwnedFd};
                if fd < 0 {
                    return Err(pyo3::exceptions::PyValueError::new_err("a descriptor is not negative"));
                }
                // SAFETY: not -1. The caller gives it up, as with `os.fdopen`.
                let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                Ok($end::new(py.detach(|| millstream_pipe::$end::attach(fd)).map_err($crate::call::error)?))
            }
        }
    };
}
pub(crate) use common;

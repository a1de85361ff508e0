//! What both ends have: they are open or closed, and threads may close one while others use it.

use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, ThreadId};

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// An end until it is closed. A thread that uses it when another closes it keeps it open until its call returns.
///
/// The lock is taken only by a thread that is attached to Python, for an instant and without a call into Python. So no thread has it when
/// another forks by `os.fork`: with Python's lock the forking thread has that one, and without it CPython stops all attached threads
/// first, which it can only do between two steps of Python. The child never waits for a thread that it does not have.
pub(crate) struct Shared<E>(Arc<Mutex<State<E>>>);

enum State<E> {
    Open(Open<E>),
    /// The program works on its bytes: [`crate::in_place`].
    InPlace,
    Closed,
}

struct Open<E> {
    /// Beside this reference there is one for each of the users.
    end: Arc<E>,
    /// The threads that are in a call with it.
    users: Vec<ThreadId>,
    /// [`FORKS`] when that was true.
    forks: u64,
}

/// How often the process that this one is a copy of, and those before it, have forked.
static FORKS: AtomicU64 = AtomicU64::new(0);

fn count_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Relaxed);
    }
    // SAFETY: the function does nothing that a child may not do. If there is no memory for it, ends that another thread was using at
    // a fork stay open in the child.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

impl<E> Open<E> {
    fn new(end: E) -> Open<E> {
        Open { end: Arc::new(end), users: Vec::new(), forks: FORKS.load(Relaxed) }
    }

    /// In the child of a fork: the calls of threads that it does not have will never end.
    fn forget_users_of_parent(&mut self) {
        let forks = FORKS.load(Relaxed);
        if self.forks != forks {
            let own = thread::current().id();
            for _ in self.users.iter().filter(|&&user| user != own) {
                // SAFETY: the reference of a thread that is not in this process, so it is not used again. This is done before
                // another thread of this process can get one, as each looks here first.
                unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.end)) };
            }
            self.users.retain(|&user| user == own);
            self.forks = forks;
        }
    }
}

/// An end that the current thread is in a call with.
pub(crate) struct InUse<E> {
    end: Arc<E>,
    shared: Shared<E>,
}

impl<E> Deref for InUse<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.end
    }
}

/// In an attached thread, as everything here.
impl<E> Drop for InUse<E> {
    fn drop(&mut self) {
        if let State::Open(open) = &mut *self.shared.lock() {
            let own = thread::current().id();
            if let Some(at) = open.users.iter().position(|&user| user == own) {
                open.users.swap_remove(at);
            }
        }
    }
}

impl<E> Clone for Shared<E> {
    fn clone(&self) -> Shared<E> {
        Shared(self.0.clone())
    }
}

impl<E> Shared<E> {
    pub(crate) fn new(end: E) -> Shared<E> {
        count_forks();
        Shared(Arc::new(Mutex::new(State::Open(Open::new(end)))))
    }

    /// The end, to be used.
    pub(crate) fn open(&self) -> PyResult<InUse<E>> {
        match &mut *self.lock() {
            State::Open(open) => {
                open.users.push(thread::current().id());
                Ok(InUse { end: open.end.clone(), shared: self.clone() })
            }
            State::InPlace => Err(in_use_in_place()),
            State::Closed => Err(closed()),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(*self.lock(), State::Closed)
    }

    /// The end, to be closed; `None` if it was before.
    pub(crate) fn close(&self) -> PyResult<Option<Arc<E>>> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Closed) {
            State::Open(open) => Ok(Some(open.end)),
            State::InPlace => {
                *state = State::InPlace;
                Err(in_use_in_place())
            }
            State::Closed => Ok(None),
        }
    }

    /// The end for the caller alone, for ever: not while another thread uses it.
    pub(crate) fn take(&self) -> PyResult<E> {
        self.take_and_leave(State::Closed)
    }

    /// The end for the caller alone, until it is given back.
    pub(crate) fn take_in_place(&self) -> PyResult<E> {
        self.take_and_leave(State::InPlace)
    }

    pub(crate) fn give_back(&self, end: E) {
        *self.lock() = State::Open(Open::new(end));
    }

    fn take_and_leave(&self, left: State<E>) -> PyResult<E> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, left) {
            State::Open(Open { end, users, forks }) => Arc::try_unwrap(end).map_err(|end| {
                *state = State::Open(Open { end, users, forks });
                PyBufferError::new_err("another thread uses the pipe")
            }),
            State::InPlace => {
                *state = State::InPlace;
                Err(in_use_in_place())
            }
            State::Closed => {
                *state = State::Closed;
                Err(closed())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Open(open) = &mut *state {
            open.forget_users_of_parent();
        }
        state
    }
}

fn in_use_in_place() -> PyErr {
    PyBufferError::new_err("bytes of this pipe are borrowed, or room in it is reserved")
}

fn closed() -> PyErr {
    PyValueError::new_err("I/O operation on closed pipe")
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
                let end = self.0.take()?;
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

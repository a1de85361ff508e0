//! Calls that may wait: without Python's lock, and with Python's signal handlers.

use std::io::{self, ErrorKind};

use millstream_pipe::PipeError;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// The `OSError`, or one of its kinds, for an error of a pipe.
pub(crate) fn error(error: io::Error) -> PyErr {
    let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<PipeError>());
    match error.raw_os_error().or(refusal.map(PipeError::raw_os_error)) {
        // Python takes the kind from the number.
        Some(number) if refusal.is_none() => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, text))
        }
        Some(number) => PyOSError::new_err((number, error.to_string())),
        None => PyOSError::new_err((libc::EIO, error.to_string())),
    }
}

/// Does `call` without Python's lock until no signal interrupts it. A signal handler that raises, as that of Ctrl-C, ends it.
pub(crate) fn wait<T: Send>(py: Python<'_>, mut call: impl FnMut() -> io::Result<T> + Send) -> PyResult<T> {
    loop {
        match py.detach(&mut call) {
            Err(interrupted) if interrupted.kind() == ErrorKind::Interrupted => py.check_signals()?,
            outcome => return outcome.map_err(error),
        }
    }
}

/// The same for a non-blocking end: `None` if it would have to wait.
pub(crate) fn wait_if_blocking<T: Send>(
    py: Python<'_>,
    call: impl FnMut() -> io::Result<T> + Send,
) -> PyResult<Option<T>> {
    let mut call = call;
    wait(py, move || match call() {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        outcome => outcome.map(Some),
    })
}

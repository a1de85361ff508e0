//! What a failed call on a FIFO tells the user.

use std::io;
use std::path::Path;

use millstream_command::failure::Failure;
use millstream_pipe::PipeError;

/// What was tried, and how to go on where that is not plain.
pub(super) fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    let refusal = error.get_ref().is_some_and(|inner| inner.is::<PipeError>());
    let advice = match error.kind() {
        io::ErrorKind::NotFound if verb != "make" => "; make it with 'millstream fifo create'",
        io::ErrorKind::AlreadyExists => "; 'millstream fifo stat' says what is there",
        _ if refusal => "; 'millstream fifo create' makes one",
        // ENXIO, for which the standard library has no word.
        _ if error.raw_os_error() == Some(6) => "; it has no reader; leave --nonblock away to wait for one",
        _ => "",
    };
    Failure::own(format!("cannot {verb} '{}': {error}{advice}", path.display()))
}

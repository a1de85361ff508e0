//! Transforms in Python: a file with a function, which a small driver runs in a process of its own, like a command.

use std::process::ExitStatus;

use millstream_net::{Data, Entry, Stage, TransformError};

use crate::exec::{Exec, failed};

/// The program that runs the function of the file between the pipes.
const DRIVER: &str = include_str!("python/driver.py");

/// The status of the driver after it has reported an error.
const FAILED: i32 = 86;

/// `python`
pub(crate) static PYTHON: Entry = Entry {
    name: "python",
    usage: "python FILE [ARGUMENT...]",
    summary: "what the function transform(chunks) of a Python file yields: it gets an iterator of bytes; arguments in sys.argv",
    takes: Data::Any,
    gives: Data::Any,
    build: |arguments| {
        let Some(file) = arguments.first() else { return Err("FILE is missing".into()) };
        match std::fs::metadata(file) {
            Err(error) => return Err(format!("'{file}': cannot be read: {error}")),
            Ok(metadata) if !metadata.is_file() => {
                return Err(format!("'{file}': cannot be read: it is no regular file"));
            }
            Ok(_) => {}
        }
        let words = ["python3", "-c", DRIVER].map(String::from).into_iter().chain(arguments.iter().cloned());
        Ok(Stage::exported(Exec::new(words.collect(), told)))
    },
};

/// An exception is a fault of the transform: the status of the driver says nothing more.
fn told(status: ExitStatus, words: &str) -> TransformError {
    let has_told = status.code() == Some(FAILED) && !words.is_empty();
    if has_told { TransformError::new(words) } else { failed(status, words) }
}

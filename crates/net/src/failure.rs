//! Why a network stops.

use std::fmt;
use std::io;

/// What a transform finds wrong, in a few words that can follow "at byte 17: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    what: String,
    place: Place,
}

/// Where a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// So many bytes after the start of the current input.
    Within(usize),
    /// At this byte of the stream.
    At(u64),
}

impl Fault {
    /// A fault at the start of what was being read.
    pub fn new(what: impl Into<String>) -> Fault {
        Fault { what: what.into(), place: Place::Within(0) }
    }

    /// The same, so many bytes after the start of what was being read.
    #[must_use]
    pub fn after(mut self, bytes: usize) -> Fault {
        self.place = Place::Within(bytes);
        self
    }

    /// The same, at this byte of the stage's whole input: for a transform that finds out later that something was wrong.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Fault {
        self.place = Place::At(offset);
        self
    }

    /// The same, if what was being read began at this byte of the stage's whole input.
    #[must_use]
    pub fn counted_from(self, start: u64) -> Fault {
        let offset = self.offset(start);
        self.at(offset)
    }

    /// The byte of the whole input, if what was being read began at `start`.
    pub(crate) fn offset(&self, start: u64) -> u64 {
        match self.place {
            Place::Within(bytes) => start + bytes as u64,
            Place::At(offset) => offset,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::new(error.to_string())
    }
}

/// Why a network did not run to its end.
#[derive(Debug)]
pub enum Failure {
    /// A transform could not go on.
    Stage {
        /// As it was written.
        stage: String,
        /// Bytes of its input before the fault.
        offset: u64,
        /// What was wrong.
        fault: Fault,
    },
    /// A source could not be read.
    Source {
        /// Its name.
        name: String,
        /// Bytes read before.
        offset: u64,
        /// What the system says.
        error: io::Error,
    },
    /// A sink could not be written.
    Sink {
        /// Its name.
        name: String,
        /// Bytes written before.
        offset: u64,
        /// What the system says.
        error: io::Error,
    },
    /// The network was not run: what is wrong with it.
    Unfit(String),
}

impl Failure {
    /// The same once more, for another thread.
    pub(crate) fn copy(&self) -> Failure {
        let again = |error: &io::Error| match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        match self {
            Failure::Stage { stage, offset, fault } => {
                Failure::Stage { stage: stage.clone(), offset: *offset, fault: fault.clone() }
            }
            Failure::Source { name, offset, error } => {
                Failure::Source { name: name.clone(), offset: *offset, error: again(error) }
            }
            Failure::Sink { name, offset, error } => {
                Failure::Sink { name: name.clone(), offset: *offset, error: again(error) }
            }
            Failure::Unfit(what) => Failure::Unfit(what.clone()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Stage { stage, offset, fault } => write!(f, "{stage}: at byte {offset} of its input: {fault}"),
            Failure::Source { name, offset, error } => write!(f, "cannot read {name}, after {offset} bytes: {error}"),
            Failure::Sink { name, offset, error } => write!(f, "cannot write {name}, after {offset} bytes: {error}"),
            Failure::Unfit(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}

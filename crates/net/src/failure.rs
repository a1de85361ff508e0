//! Why a network stops.

use std::fmt;
use std::io;

/// What a transform finds wrong, in a few words that can follow "at byte 17: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    what: String,
    /// Bytes of the current input before the place of the fault.
    within: usize,
}

impl Fault {
    /// A fault at the start of what was being read.
    pub fn new(what: impl Into<String>) -> Fault {
        Fault { what: what.into(), within: 0 }
    }

    /// The same, so many bytes further on.
    #[must_use]
    pub fn after(mut self, bytes: usize) -> Fault {
        self.within = bytes;
        self
    }

    pub(crate) fn within(&self) -> u64 {
        self.within as u64
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

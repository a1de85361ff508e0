//! Why a network stops.

use std::fmt;
use std::io;

/// What a transform finds wrong, in a few words that can follow "at byte 17: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformError {
    what: String,
    position: Position,
    cause: Cause,
}

/// With what can be told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Data,
    /// The number of the error.
    System(i32),
    /// The exit status.
    Command(u8),
}

/// What a [`TransformError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransformErrorKind {
    /// The bytes are not what the transform takes, or it cannot do its work on them.
    Data,
    /// The system refused something.
    System,
    /// A command failed that the transform ran, or it could not be run.
    Command,
}

/// Where a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// So many bytes after the start of the current input.
    Within(usize),
    /// At this byte of the stream.
    At(u64),
}

impl TransformError {
    /// A fault at the start of what was being read.
    pub fn new(what: impl Into<String>) -> TransformError {
        TransformError { what: what.into(), position: Position::Within(0), cause: Cause::Data }
    }

    /// The same, so many bytes after the start of what was being read.
    #[must_use]
    pub fn after(mut self, bytes: usize) -> TransformError {
        self.position = Position::Within(bytes);
        self
    }

    /// The same, at this byte of the stage's whole input: for a transform that finds out later that something was
    /// wrong.
    #[must_use]
    pub fn at(mut self, offset: u64) -> TransformError {
        self.position = Position::At(offset);
        self
    }

    /// The same, if what was being read began at this byte of the stage's whole input.
    #[must_use]
    pub fn counted_from(self, start: u64) -> TransformError {
        let offset = self.offset(start);
        self.at(offset)
    }

    /// The same, of a command for which a shell would give this exit status.
    #[must_use]
    pub fn with_exit_status(mut self, status: u8) -> TransformError {
        self.cause = Cause::Command(status);
        self
    }

    /// What it is about.
    pub fn kind(&self) -> TransformErrorKind {
        match self.cause {
            Cause::Data => TransformErrorKind::Data,
            Cause::System(_) => TransformErrorKind::System,
            Cause::Command(_) => TransformErrorKind::Command,
        }
    }

    /// Of a command the exit status that a shell would give: its own, 128 + N if signal N killed it, 127 if there is no
    /// such command, 126 if it cannot be run.
    pub fn exit_status(&self) -> Option<u8> {
        match self.cause {
            Cause::Command(status) => Some(status),
            Cause::Data | Cause::System(_) => None,
        }
    }

    /// The number of the system's error, if it was one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self.cause {
            Cause::System(number) => Some(number),
            Cause::Data | Cause::Command(_) => None,
        }
    }

    /// The byte of the whole input, if what was being read began at `start`.
    pub(crate) fn offset(&self, start: u64) -> u64 {
        match self.position {
            Position::Within(bytes) => start + bytes as u64,
            Position::At(offset) => offset,
        }
    }
}

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for TransformError {}

impl From<io::Error> for TransformError {
    fn from(error: io::Error) -> TransformError {
        let cause = error.raw_os_error().map_or(Cause::Data, Cause::System);
        TransformError { cause, ..TransformError::new(error.to_string()) }
    }
}

/// Why a network did not run to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum NetworkError {
    /// A transform could not go on.
    Stage {
        /// As it was written.
        stage: String,
        /// Bytes of its input before the fault.
        offset: u64,
        /// What was wrong.
        fault: TransformError,
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
    Invalid(String),
}

/// What a [`NetworkError`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NetworkErrorKind {
    /// A transform could not go on.
    Transform,
    /// A source could not be read.
    Source,
    /// A sink could not be written.
    Sink,
    /// The network was not run.
    Invalid,
}

impl NetworkError {
    /// What it is about.
    pub fn kind(&self) -> NetworkErrorKind {
        match self {
            NetworkError::Stage { .. } => NetworkErrorKind::Transform,
            NetworkError::Source { .. } => NetworkErrorKind::Source,
            NetworkError::Sink { .. } => NetworkErrorKind::Sink,
            NetworkError::Invalid(_) => NetworkErrorKind::Invalid,
        }
    }

    /// The number of the system's error, if it was one.
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            NetworkError::Stage { fault, .. } => fault.raw_os_error(),
            NetworkError::Source { error, .. } | NetworkError::Sink { error, .. } => error.raw_os_error(),
            NetworkError::Invalid(_) => None,
        }
    }
}

impl NetworkError {
    /// The exit status that a shell would give, if it was a command that failed.
    pub fn exit_status(&self) -> Option<u8> {
        match self {
            NetworkError::Stage { fault, .. } => fault.exit_status(),
            NetworkError::Source { .. } | NetworkError::Sink { .. } | NetworkError::Invalid(_) => None,
        }
    }

    pub(crate) fn no_thread(error: &io::Error) -> NetworkError {
        NetworkError::Invalid(format!("cannot start a thread: {error}; allow fewer"))
    }

    /// The same once more, for another thread.
    pub(crate) fn copy(&self) -> NetworkError {
        let again = |error: &io::Error| match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        match self {
            NetworkError::Stage { stage, offset, fault } => {
                NetworkError::Stage { stage: stage.clone(), offset: *offset, fault: fault.clone() }
            }
            NetworkError::Source { name, offset, error } => {
                NetworkError::Source { name: name.clone(), offset: *offset, error: again(error) }
            }
            NetworkError::Sink { name, offset, error } => {
                NetworkError::Sink { name: name.clone(), offset: *offset, error: again(error) }
            }
            NetworkError::Invalid(what) => NetworkError::Invalid(what.clone()),
        }
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkError::Stage { stage, offset, fault } => {
                write!(f, "{stage}: at byte {offset} of its input: {fault}")
            }
            NetworkError::Source { name, offset, error } => {
                write!(f, "cannot read {name}, after {offset} bytes: {error}")
            }
            NetworkError::Sink { name, offset, error } => {
                write!(f, "cannot write {name}, after {offset} bytes: {error}")
            }
            NetworkError::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for NetworkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NetworkError::Stage { fault, .. } => Some(fault),
            NetworkError::Source { error, .. } | NetworkError::Sink { error, .. } => Some(error),
            NetworkError::Invalid(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_the_system_is_kept() {
        let fault = TransformError::from(io::Error::from_raw_os_error(28)).after(7);
        assert_eq!((fault.kind(), fault.raw_os_error()), (TransformErrorKind::System, Some(28)));
        let error = NetworkError::Stage { stage: "x".into(), offset: 0, fault };
        assert_eq!((error.kind(), error.raw_os_error()), (NetworkErrorKind::Transform, Some(28)));
        let error = NetworkError::Sink { name: "x".into(), offset: 0, error: io::Error::from_raw_os_error(32) };
        assert_eq!((error.kind(), error.raw_os_error()), (NetworkErrorKind::Sink, Some(32)));
        assert!(std::error::Error::source(&error).is_some());
        let error = NetworkError::Stage { stage: "x".into(), offset: 0, fault: TransformError::new("no number") };
        assert_eq!((error.raw_os_error(), error.exit_status()), (None, None));
    }

    #[test]
    fn exit_status_of_a_command_is_kept_in_copies() {
        let fault = TransformError::new("the command ended with status 7").with_exit_status(7).counted_from(3);
        assert_eq!(fault.kind(), TransformErrorKind::Command);
        let error = NetworkError::Stage { stage: "exec x".into(), offset: 3, fault };
        assert_eq!((error.exit_status(), error.copy().exit_status()), (Some(7), Some(7)));
    }
}

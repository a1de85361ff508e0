//! Why a write ends early, and what its caller gets then.

use std::io;

use millstream_sys::{Errno, signals};

/// Why a write ends early.
pub(crate) enum Stop {
    /// Found by us: the kernel has not sent SIGPIPE.
    NoReader,
    /// A signal handler ran.
    Interrupted,
    Error(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Error(error)
    }
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Stop {
        Stop::Error(error.into())
    }
}

impl Stop {
    /// The error for the caller. Sends the thread SIGPIPE if no reader is left, as the kernel does.
    pub(crate) fn report(self) -> io::Error {
        match self {
            Stop::Interrupted => Errno::INTR.into(),
            Stop::NoReader => {
                signals::send_sigpipe_to_this_thread();
                Errno::PIPE.into()
            }
            Stop::Error(error) => error,
        }
    }
}

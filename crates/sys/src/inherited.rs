//! What this process was given at its start and the Rust runtime changes before `main`.
//!
//! The runtime ignores SIGPIPE and opens `/dev/null` on standard descriptors that are closed. A program that is to step
//! aside for another must hand on what it was itself given, so both are noted here before the runtime runs.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fd::{FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

use crate::Errno;

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Whether SIGPIPE was ignored when the process started.
pub fn sigpipe_was_ignored() -> bool {
    SIGPIPE_WAS_IGNORED.load(Relaxed)
}

/// Replaces the standard input by `/dev/null`. A copy of its descriptor made before is then the only one in this
/// process.
///
/// # Errors
/// `EMFILE`, or there is no `/dev/null`. Nothing has changed then.
pub fn replace_input_by_nothing() -> Result<(), Errno> {
    rustix::stdio::dup2_stdin(nothing(OFlags::RDONLY)?)
}

/// Replaces the standard output by `/dev/null`.
///
/// # Errors
/// As for [`replace_input_by_nothing`].
pub fn replace_output_by_nothing() -> Result<(), Errno> {
    rustix::stdio::dup2_stdout(nothing(OFlags::WRONLY)?)
}

fn nothing(access: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::open(c"/dev/null", access | OFlags::CLOEXEC, Mode::empty())
}

/// A copy of the descriptor of this number, with the same offset.
///
/// # Errors
/// `EBADF`: none is open. `EMFILE`.
pub fn copy_of(fd: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: F_DUPFD_CLOEXEC takes numbers and touches no memory.
    match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) } {
        // SAFETY: the descriptor is new, so nothing else owns it.
        copy if copy >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::BADF)),
    }
}

/// Which of the descriptors 0, 1 and 2 were closed when the process started.
pub fn closed_standard_descriptors() -> impl Iterator<Item = i32> {
    (0..).zip(&WAS_CLOSED).filter(|(_, closed)| closed.load(Relaxed)).map(|(fd, _)| fd)
}

// SAFETY: the C library calls the functions of this section once, before `main` and on the only thread. Ours calls
// nothing but async-signal-safe functions and stores to atomics.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = note;

extern "C" fn note() {
    let mut action = core::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; the kernel fills `action`, for which all zeros is valid too.
    let action = unsafe {
        libc::sigaction(libc::SIGPIPE, core::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    SIGPIPE_WAS_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Relaxed);
    for (fd, closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: F_GETFD takes a number and touches no memory.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1, Relaxed);
    }
}

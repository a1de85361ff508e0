//! A sleep of the reader, where a signal handler or another thread finds it.
//!
//! It may come when the kernel has taken the wake token out of the backing pipe, and the reader has not yet said so. The reader is then
//! told that what it has is none of the stream. It may also read by itself, while the sleep that it has interrupted goes on behind it in
//! the kernel: no writer would wake that one any more, so the pipe goes back to the kernel.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::SeqCst;

use super::end::READER;
use super::faults::{self, copy};

/// The wake token.
pub(super) const TOKEN: u8 = b'!';

static IS_ASLEEP: AtomicBool = AtomicBool::new(false);
/// The token that the sleep has taken is known to others.
static IS_NOTED: AtomicBool = AtomicBool::new(false);

/// `false`: this is a signal handler that has interrupted a sleep, or one has jumped out of it.
pub(super) fn begin() -> bool {
    let is_first = !IS_ASLEEP.swap(true, SeqCst);
    if is_first {
        // That note is of an earlier sleep, whose reader knew the token by the state of the pipe.
        IS_NOTED.store(false, SeqCst);
    }
    is_first
}

pub(super) fn end() {
    IS_ASLEEP.store(false, SeqCst);
}

/// Does `read`, which the kernel ends with bytes in `buffer`. A call that moves no byte of the stream leaves the buffer as it was.
/// `None`: the program has no memory there.
pub(super) fn with_buffer(buffer: *mut u8, read: impl FnOnce() -> Option<isize>) -> Option<Option<isize>> {
    let mut before = 0_u8;
    // SAFETY: from the program's buffer to a variable, and back.
    let is_there =
        faults::caught(&READER, || unsafe { copy(buffer, &raw mut before, 1) && copy(&raw const before, buffer, 1) });
    if !is_there {
        return None;
    }
    let outcome = read();
    if !matches!(outcome, Some(1..)) {
        // SAFETY: as above.
        faults::caught(&READER, || unsafe { copy(&raw const before, buffer, 1) });
    }
    Some(outcome)
}

/// The token has been taken, which only a reader of this process can have done: its sleep is told, if it has not said so itself.
pub(super) fn note_taken() {
    IS_NOTED.store(true, SeqCst);
}

/// After the sleep: whether another has dealt with the token.
pub(super) fn is_noted() -> bool {
    IS_NOTED.swap(false, SeqCst)
}

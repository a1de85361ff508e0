//! A sleep of the reader, where a signal handler finds it that has interrupted it.
//!
//! The handler may come when the kernel has taken the wake token out of the backing pipe, and the reader has not yet said so: the token
//! is then nowhere but in the reader's buffer. It may also read by itself, while the sleep that it has interrupted goes on behind it in
//! the kernel: no writer would wake that one any more, so the pipe goes back to the kernel.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicBool, AtomicPtr};

use super::end::READER;
use super::faults::{self, copy};

/// The wake token.
pub(super) const BELL: u8 = b'!';

static IS_ASLEEP: AtomicBool = AtomicBool::new(false);
/// The buffer into which the kernel is to read. Null while no reader sleeps in a read.
static BUFFER: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// A handler has found the token in the buffer.
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
    BUFFER.store(core::ptr::null_mut(), SeqCst);
    IS_ASLEEP.store(false, SeqCst);
}

/// Does `read`, which the kernel ends with bytes in `buffer`. A call that moves no byte leaves the buffer as it was. `None`: the
/// program has no memory there.
pub(super) fn with_buffer(buffer: *mut u8, read: impl FnOnce() -> Option<isize>) -> Option<Option<isize>> {
    let (mut before, nothing) = (0_u8, 0_u8);
    // SAFETY: between the program's buffer and a variable. A token that an earlier call has left there must not count for this one.
    if !faults::caught(&READER, || unsafe { copy(buffer, &raw mut before, 1) && copy(&raw const nothing, buffer, 1) }) {
        return None;
    }
    BUFFER.store(buffer, SeqCst);
    let outcome = read();
    if !matches!(outcome, Some(1..)) {
        // SAFETY: as above.
        faults::caught(&READER, || unsafe { copy(&raw const before, buffer, 1) });
    }
    Some(outcome)
}

/// Where the reader was woken and the backing pipe is empty: whether this is a handler, and the sleep that it has interrupted has the
/// token. That sleep is told that what it has is none of the stream.
pub(super) fn has_bell() -> bool {
    let (buffer, mut byte) = (BUFFER.load(SeqCst), 0_u8);
    // SAFETY: from the buffer of the interrupted sleep to a variable.
    let has_it =
        !buffer.is_null() && faults::caught(&READER, || unsafe { copy(buffer, &raw mut byte, 1) }) && byte == BELL;
    if has_it {
        IS_NOTED.store(true, SeqCst);
    }
    has_it
}

/// After the sleep: whether a handler has dealt with the token.
pub(super) fn is_noted() -> bool {
    IS_NOTED.swap(false, SeqCst)
}

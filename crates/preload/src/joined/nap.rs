//! A sleep of the reader, where a signal handler finds it that has interrupted it.
//!
//! Such a handler may come when the kernel has taken the byte that rings out of the shadow, and nothing was made of it yet: then that
//! byte is nowhere but here, and who waited for it in the shadow would wait for ever. It may also read by itself, while the sleep that
//! it has interrupted goes on behind it in the kernel: then nobody would ring for that one any more, so the pipe goes back to the
//! kernel.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU8};

use super::faults::copy;
use super::kernel;

/// The byte that rings.
pub(super) const BELL: u8 = b'!';

static IS_ASLEEP: AtomicBool = AtomicBool::new(false);
/// What the kernel has brought. Not [`BELL`] when the sleep begins.
static BYTE: AtomicU8 = AtomicU8::new(0);
/// A handler has dealt with the byte.
static IS_NOTED: AtomicBool = AtomicBool::new(false);
/// The byte is of the stream, and the program's memory for it was gone when it came.
static IS_KEPT: AtomicBool = AtomicBool::new(false);

/// `false`: this is a signal handler that has interrupted a sleep, or one has jumped out of it.
pub(super) fn begin() -> bool {
    let is_first = !IS_ASLEEP.swap(true, SeqCst);
    if is_first {
        BYTE.store(0, SeqCst);
    }
    is_first
}

/// Once everybody knows what has come.
pub(super) fn end() {
    IS_ASLEEP.store(false, SeqCst);
}

/// Where the kernel is to put the byte.
pub(super) fn room() -> *mut u8 {
    BYTE.as_ptr()
}

/// Where the reader was rung and the shadow is empty: whether this is a handler, and the sleep that it has interrupted has the byte.
/// That sleep is told that what it has is none of the stream.
pub(super) fn has_bell() -> bool {
    let has_it = IS_ASLEEP.load(SeqCst) && BYTE.load(SeqCst) == BELL;
    if has_it {
        IS_NOTED.store(true, SeqCst);
    }
    has_it
}

/// After the sleep: whether a handler has dealt with the byte.
pub(super) fn is_noted() -> bool {
    IS_NOTED.swap(false, SeqCst)
}

/// The byte is of the stream: what the call returns. Where it cannot go to `target` the next one has it.
pub(super) fn deliver(target: *mut u8) -> isize {
    // SAFETY: to what the program gave for the purpose.
    let is_there = unsafe { copy(room(), target, 1) };
    IS_KEPT.store(!is_there, Relaxed);
    if is_there { 1 } else { kernel::EFAULT }
}

/// Whether a call before this one has left a byte.
pub(super) fn is_kept() -> bool {
    IS_KEPT.load(Relaxed)
}

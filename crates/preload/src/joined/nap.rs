//! A sleep of the reader, where a signal handler finds it that has interrupted it.
//!
//! Such a handler may come when the kernel has taken the byte that rings out of the shadow, and nothing was made of it yet: then that
//! byte is nowhere but here, and who waited for it in the shadow would wait for ever. It may also read by itself, while the sleep that
//! it has interrupted goes on behind it in the kernel: then nobody would ring for that one any more, so the pipe goes back to the
//! kernel.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use super::faults::copy;
use super::kernel;

/// The byte that rings.
pub(super) const BELL: u8 = b'!';

static IS_ASLEEP: AtomicBool = AtomicBool::new(false);
/// What the kernel has brought. Not [`BELL`] while nobody sleeps.
static BYTE: AtomicU8 = AtomicU8::new(0);
/// A handler has dealt with the byte.
static IS_NOTED: AtomicBool = AtomicBool::new(false);
/// A byte of the stream for which the program's memory was gone when it came: the next that its pipe gives.
static KEPT: AtomicU8 = AtomicU8::new(0);
/// The pipe that it is of. 0: there is none.
static KEPT_OF: AtomicU64 = AtomicU64::new(0);
/// The process whose call it was: a forked child has a copy, and a byte is read once.
static KEPT_BY: AtomicU32 = AtomicU32::new(0);

/// `false`: this is a signal handler that has interrupted a sleep, or one has jumped out of it.
pub(super) fn begin() -> bool {
    let is_first = !IS_ASLEEP.swap(true, SeqCst);
    if is_first {
        // That note is of an earlier sleep: a handler made it when the byte was known, and nobody had to ask.
        IS_NOTED.store(false, SeqCst);
    }
    is_first
}

/// Once everybody knows what has come.
pub(super) fn end() {
    BYTE.store(0, SeqCst);
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

/// The byte is of the stream of this pipe: what the call returns. Where it cannot go to `target` the next one has it.
pub(super) fn deliver(inode: u64, target: *mut u8) -> isize {
    // SAFETY: to what the program gave for the purpose.
    if unsafe { copy(room(), target, 1) } {
        return 1;
    }
    KEPT.store(BYTE.load(SeqCst), Relaxed);
    KEPT_BY.store(millstream_sys::own_pid(), Relaxed);
    KEPT_OF.store(inode, SeqCst);
    kernel::EFAULT
}

/// The same for the byte that is kept.
pub(super) fn deliver_kept(target: *mut u8) -> isize {
    let inode = KEPT_OF.swap(0, SeqCst);
    // SAFETY: as above.
    if unsafe { copy(KEPT.as_ptr(), target, 1) } {
        return 1;
    }
    KEPT_OF.store(inode, SeqCst);
    kernel::EFAULT
}

/// Whether a call before this one has left a byte of this pipe.
pub(super) fn is_kept(inode: u64) -> bool {
    KEPT_OF.load(Relaxed) == inode
}

/// Whether one has left a byte of any, in this process or one that it was forked from.
pub(super) fn keeps() -> bool {
    KEPT_OF.load(Relaxed) != 0
}

pub(super) fn is_kept_by_this_process(inode: u64) -> bool {
    is_kept(inode) && KEPT_BY.load(Relaxed) == millstream_sys::own_pid()
}

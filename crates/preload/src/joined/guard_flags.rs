//! Whether guarded calls are looked at: while the guards are up, and once a process has had several threads.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Which calls the entries of [`super::interposed`] bring to [`super::guard`]: none, or all. [`UP`] and
/// [`WITH_THREADS`].
pub(super) static WATCHED: AtomicU8 = AtomicU8::new(0);
/// The guards are up.
const UP: u8 = 1;
/// The process has had several threads.
const WITH_THREADS: u8 = 2;

pub(super) fn are_up() -> bool {
    WATCHED.load(SeqCst) & UP != 0
}

/// Whether calls come here at all.
pub(super) fn are_watched() -> bool {
    WATCHED.load(Relaxed) != 0
}

pub(super) fn has_threads() -> bool {
    WATCHED.load(Relaxed) & WITH_THREADS != 0
}

/// From now on every guarded call comes here.
pub(super) fn expect_threads() {
    WATCHED.fetch_or(WITH_THREADS, SeqCst);
}

pub(super) fn put_up() {
    WATCHED.fetch_or(UP, SeqCst);
}

/// Whether they were up.
pub(super) fn take_down() -> bool {
    WATCHED.fetch_and(!UP, SeqCst) & UP != 0
}

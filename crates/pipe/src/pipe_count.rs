//! How many pipes with shared memory this process has, and whether it may have one more.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::settings;

/// Pipes with shared memory that this process has: its own, inherited and attached ones.
static PIPES: AtomicUsize = AtomicUsize::new(0);

/// Whether this process may have one more pipe with shared memory.
pub(crate) fn is_another_allowed() -> bool {
    PIPES.load(Relaxed) < settings::pipes_max()
}

/// One pipe with shared memory, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(());

impl Counted {
    pub(crate) fn new() -> Counted {
        PIPES.fetch_add(1, Relaxed);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        PIPES.fetch_sub(1, Relaxed);
    }
}

//! What changes more than one word of an end holds signals back, as a handler may call anything of ours at any instant,
//! and keeps other threads from doing the same. Copies need no protection: a handler that finds one interrupted freezes
//! the ring, so that the copy is not counted, and the interrupted call does it again through the kernel.

use millstream_sys::raw;

use super::own_process::{self, OwnPage};

const ALL: u64 = u64::MAX;

/// Signals held back, and other threads kept from doing the same, until this is dropped.
pub(super) struct Held {
    before: u64,
    lock: Option<&'static OwnPage>,
}

impl Held {
    pub(super) fn all() -> Held {
        let before = raw::block_signals(ALL);
        Held { before, lock: own_process::lock() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(page) = self.lock {
            own_process::unlock(page);
        }
        raw::set_signal_mask(self.before);
    }
}

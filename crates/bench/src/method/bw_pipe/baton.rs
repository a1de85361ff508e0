//! How the reader tells the writer to go: through shared memory, because a wake-up by the kernel would be part of what
//! is timed.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use millstream_sys::shared::Shared;
use millstream_sys::{Errno, clock};

/// On lines of their own: each is written by one side.
const READY: usize = 0;
const GO: usize = 128;
const BYTES: usize = GO + 8;

/// Passed to and fro between two processes that each have a copy from before the fork.
pub(in crate::method) struct Baton {
    words: Shared,
    idle: fn(),
    passes: u64,
}

impl Baton {
    /// `idle` is called while waiting.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(in crate::method) fn new(idle: fn()) -> Result<Baton, Errno> {
        Ok(Baton { words: Shared::anonymous(4096)?, idle, passes: 0 })
    }

    /// The writer's side: everything before is written; waits until more is wanted, and returns how many bytes.
    pub(in crate::method) fn await_go(&mut self) -> u64 {
        self.passes += 1;
        self.words.word(READY).store(self.passes, Release);
        self.wait_for(GO);
        self.words.word(BYTES).load(Relaxed)
    }

    /// The reader's side: waits until the writer is ready, asks it for `bytes`, and returns when that was
    /// ([`clock::raw_nanoseconds`]).
    pub(in crate::method) fn go(&mut self, bytes: u64) -> u64 {
        self.passes += 1;
        self.wait_for(READY);
        self.words.word(BYTES).store(bytes, Relaxed);
        // Before the store: on one CPU the writer may run for a while as soon as it may go.
        let start = clock::raw_nanoseconds();
        self.words.word(GO).store(self.passes, Release);
        start
    }

    fn wait_for(&self, offset: usize) {
        while self.words.word(offset).load(Acquire) < self.passes {
            (self.idle)();
        }
    }
}

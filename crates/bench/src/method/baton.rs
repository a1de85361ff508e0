//! How the reader tells the writer to go.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use millstream_sys::shared::Shared;
use millstream_sys::{Errno, clock};

/// Passed to and fro between a writer and a reader.
pub(crate) trait Baton {
    /// The writer's side: everything before is written; waits until more is wanted, and returns how many bytes.
    fn await_go(&mut self) -> Result<u64, String>;

    /// The reader's side: waits until the writer is ready, asks it for `bytes`, and returns when that was
    /// ([`clock::raw_nanoseconds`]).
    fn go(&mut self, bytes: u64) -> Result<u64, String>;
}

/// On lines of their own: each is written by one side.
const READY: usize = 0;
const GO: usize = 128;
const BYTES: usize = GO + 8;

/// Between two processes that each have a copy from before the fork: through shared memory, because a wake-up by the
/// kernel would be part of what is timed.
pub(crate) struct SharedBaton {
    words: Shared,
    idle: fn(),
    passes: u64,
}

impl SharedBaton {
    /// `idle` is called while waiting.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new(idle: fn()) -> Result<SharedBaton, Errno> {
        Ok(SharedBaton { words: Shared::anonymous(4096)?, idle, passes: 0 })
    }

    fn wait_for(&self, offset: usize) {
        while self.words.word(offset).load(Acquire) < self.passes {
            (self.idle)();
        }
    }
}

impl Baton for SharedBaton {
    fn await_go(&mut self) -> Result<u64, String> {
        self.passes += 1;
        self.words.word(READY).store(self.passes, Release);
        self.wait_for(GO);
        Ok(self.words.word(BYTES).load(Relaxed))
    }

    fn go(&mut self, bytes: u64) -> Result<u64, String> {
        self.passes += 1;
        self.wait_for(READY);
        self.words.word(BYTES).store(bytes, Relaxed);
        // Before the store: on one CPU the writer may run for a while as soon as it may go.
        let start = clock::raw_nanoseconds();
        self.words.word(GO).store(self.passes, Release);
        Ok(start)
    }
}

//! The state of a pipe: where its next bytes go.

/// Where writers put new bytes. Readers always take what is in the ring first. They read the backing pipe only when the
/// ring is empty and the state sends the stream there. Bytes keep their order because the state changes under the lock
/// of the writers, and back to the ring only while the backing pipe is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `Shared`: into the ring.
    Ring,
    /// `Kernel`: into the backing pipe, which a program without millstream can share.
    Shadow,
    /// `Draining`: into the backing pipe, after all that the ring holds. A process is flushing the ring, or died while
    /// it did.
    Moving,
}

/// [`Route::Shadow`] in idle mode: only a reader that sleeps in the backing pipe has brought the stream there.
pub(crate) const QUIET: u32 = 3;

impl Route {
    pub(crate) fn from_word(word: u32) -> Route {
        match word {
            0 => Route::Ring,
            2 => Route::Moving,
            // QUIET too. A word that only a hostile peer can have written means the state that needs no trust.
            _ => Route::Shadow,
        }
    }

    pub(crate) fn word(self) -> u32 {
        match self {
            Route::Ring => 0,
            Route::Shadow => 1,
            Route::Moving => 2,
        }
    }
}

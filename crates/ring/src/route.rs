//! Where the bytes of a pipe go.

/// Where writers put new bytes. Readers always take what is in the ring first, and look into the shadow only when the
/// ring is empty and the route leads there: bytes keep their order because the route changes under the lock of the
/// writers, and back to the ring only while the shadow is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Into the ring.
    Ring,
    /// Into the kernel pipe, which a program without millstream can share.
    Shadow,
    /// Into the kernel pipe, and first all that the ring holds: somebody is just doing that, or died while doing it.
    Moving,
}

/// [`Route::Shadow`], and nothing but a quiet reader has brought the stream there.
pub(crate) const QUIET: u32 = 3;

impl Route {
    pub(crate) fn from_word(word: u32) -> Route {
        match word {
            0 => Route::Ring,
            2 => Route::Moving,
            // QUIET too. What a hostile peer may have written is treated as the route that needs no trust.
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

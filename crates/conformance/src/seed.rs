//! Where random tests begin and how long they go on. Each run begins elsewhere, prints where, and can be repeated: the
//! environment decides if it says so.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// `MILLSTREAM_SEED`, or else another number in each run; the same all through a process.
///
/// # Panics
/// When the variable is no number.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    *SEED.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        // Short enough to be typed.
        number("MILLSTREAM_SEED").unwrap_or(now % 1_000_000_000_000)
    })
}

/// A number that the environment gives.
///
/// # Panics
/// When the variable is no number.
pub fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}: {text} is no number")))
}

//! What a launch must keep to, whatever does the work: a time, and what comes out.

use std::time::Duration;

/// One launch: the longest pipeline over the largest file on one busy CPU.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

/// What must come out.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub(super) bytes: u64,
    pub(super) sum: u64,
}

impl Expected {
    pub(super) fn check(self, bytes: u64, sum: u64) -> Result<(), String> {
        match (bytes == self.bytes, sum == self.sum) {
            (true, true) => Ok(()),
            (false, _) => Err(format!("{bytes} bytes came out where {} went in", self.bytes)),
            (true, false) => Err("the sum of what came out is wrong".into()),
        }
    }
}

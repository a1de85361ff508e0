//! No more than so many bytes a second.

use std::time::{Duration, Instant};

/// A limit, as a time that each byte takes. Time that was not used is not saved up for more than [`Rate::SAVED`].
pub(crate) struct Rate {
    bytes_per_second: f64,
    /// When what was let through until now would have taken its time.
    due: Instant,
}

impl Rate {
    const SAVED: Duration = Duration::from_millis(50);

    pub(crate) fn new(bytes_per_second: u64) -> Rate {
        Rate { bytes_per_second: bytes_per_second as f64, due: Instant::now() }
    }

    /// How many bytes go at once: those of a twentieth of a second.
    pub(crate) fn piece(&self) -> usize {
        (self.bytes_per_second / 20.0).clamp(1.0, 1e9) as usize
    }

    /// How long to wait before so many bytes may go, as of now. They count as gone.
    pub(crate) fn wait_for(&mut self, bytes: usize, now: Instant) -> Duration {
        self.due = self.due.max(now.checked_sub(Rate::SAVED).unwrap_or(now));
        let wait = self.due.saturating_duration_since(now);
        self.due += Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time_and_little_of_it_is_saved() {
        let mut rate = Rate::new(1000);
        assert_eq!(rate.piece(), 50);
        let begun = rate.due;
        let at = |ms| begun + Duration::from_millis(ms);
        let waits: Vec<u128> =
            [at(0), at(0), at(10), at(500), at(500), at(500)].map(|now| rate.wait_for(50, now).as_millis()).to_vec();
        // The fourth had 50 ms saved, which are used up by itself.
        assert_eq!(waits, [0, 50, 90, 0, 0, 50]);
    }
}

//! The clock of transforms. Tests have a virtual one, which advances only when a transform waits.

use std::time::{Duration, Instant};

pub(crate) trait Clock: Send {
    /// The time since some moment in the past.
    fn now(&self) -> Duration;

    /// Sleeps for `time`.
    fn wait(&mut self, time: Duration);
}

/// The monotonic clock of the machine; its time begins with the first call of `now`.
#[derive(Default)]
pub(crate) struct Monotonic(std::sync::OnceLock<Instant>);

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.0.get_or_init(Instant::now).elapsed()
    }

    fn wait(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A virtual clock. Its clones share the time and a list of all waits.
    #[derive(Clone, Default)]
    pub(crate) struct Virtual(pub(crate) Arc<Mutex<(Duration, Vec<Duration>)>>);

    impl Virtual {
        /// Advances the time without a wait.
        pub(crate) fn pass(&self, time: Duration) {
            self.0.lock().unwrap().0 += time;
        }
    }

    impl Clock for Virtual {
        fn now(&self) -> Duration {
            self.0.lock().unwrap().0
        }

        fn wait(&mut self, time: Duration) {
            let mut clock = self.0.lock().unwrap();
            clock.0 += time;
            clock.1.push(time);
        }
    }
}

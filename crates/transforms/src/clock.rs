//! Time, as transforms see it. Tests have a clock of their own, which goes only when somebody waits.

use std::time::{Duration, Instant};

pub(crate) trait Clock: Send {
    /// Since some moment in the past.
    fn now(&self) -> Duration;

    /// Returns when so much time has passed.
    fn wait(&mut self, time: Duration);
}

/// The clock of the machine, from the first question on.
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

    /// Several hold it; it notes each wait.
    #[derive(Clone, Default)]
    pub(crate) struct Virtual(pub(crate) Arc<Mutex<(Duration, Vec<Duration>)>>);

    impl Virtual {
        /// Time passes without anybody waiting for it.
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

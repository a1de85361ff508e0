//! A transform outside of this program, as a stage of a line that is read from.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::upstream::{BUFFER, Upstream, failure};
use crate::error::NetworkError;
use crate::external::{Control, Drain, Feed, Started};

/// A transform outside of this program, and the thread that feeds it.
pub(super) struct Fed {
    drain: Box<dyn Drain>,
    control: Arc<dyn Control>,
    feeder: Option<JoinHandle<Result<(), NetworkError>>>,
    text: String,
    drained: u64,
}

impl Fed {
    pub(super) fn start(above: Box<dyn Upstream>, started: Started, text: String) -> Result<Fed, NetworkError> {
        let Started { mut feeds, mut drains, control } = started;
        let (Some(feed), Some(drain)) = (feeds.pop(), drains.pop()) else {
            return Err(NetworkError::Invalid(format!("{text}: has no input or no output")));
        };
        let (name, stopped) = (text.clone(), Arc::clone(&control));
        let feeder = thread::Builder::new().name("feed".into()).spawn(move || feed_all(above, feed, &*stopped, &name));
        match feeder {
            Ok(feeder) => Ok(Fed { drain, control, feeder: Some(feeder), text, drained: 0 }),
            Err(error) => {
                control.stop();
                Err(NetworkError::Invalid(format!("cannot start a thread: {error}")))
            }
        }
    }

    /// What became of everything above.
    fn fed(&mut self) -> Result<(), NetworkError> {
        let Some(feeder) = self.feeder.take() else { return Ok(()) };
        feeder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Upstream for Fed {
    fn pull(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        match self.drain.drain(out) {
            // A fault above is why the transform got no more: it comes first.
            Ok(0) => self.fed().map(|()| 0),
            Ok(count) => {
                self.drained += count as u64;
                Ok(count)
            }
            Err(fault) => Err(self.fed().err().unwrap_or_else(|| failure(&self.text, self.drained, fault))),
        }
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        // It wakes the feeder, whose next write finds no reader.
        self.control.stop();
        let _ = self.fed();
    }
}

fn feed_all(
    mut above: Box<dyn Upstream>,
    mut feed: Box<dyn Feed>,
    control: &dyn Control,
    text: &str,
) -> Result<(), NetworkError> {
    let fed = feed_until_end(&mut *above, &mut *feed, text);
    let outcome = fed.and_then(|fed| feed.end().map_err(|fault| failure(text, fed, fault)));
    if outcome.is_err() {
        control.stop();
    }
    outcome
}

/// Returns how many bytes were fed.
fn feed_until_end(above: &mut dyn Upstream, feed: &mut dyn Feed, text: &str) -> Result<u64, NetworkError> {
    let mut buffer = vec![0; BUFFER];
    let mut fed_before = 0;
    loop {
        let count = above.pull(&mut buffer)?;
        if count == 0 {
            return Ok(fed_before);
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match feed.feed(rest).map_err(|fault| failure(text, fed_before, fault))? {
                0 => return Ok(fed_before),
                fed => {
                    fed_before += fed as u64;
                    rest = &rest[fed..];
                }
            }
        }
    }
}

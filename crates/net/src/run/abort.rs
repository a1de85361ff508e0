//! How a failure in one thread of a network ends all other threads.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use super::wake::Notifier;
use crate::error::NetworkError;

type Stop = Arc<dyn Fn() + Send + Sync>;

/// Known to every thread of a network.
#[derive(Clone, Default)]
pub(super) struct Abort(Arc<State>);

#[derive(Default)]
struct State {
    is_set: AtomicBool,
    known: Mutex<Known>,
    /// To the sources that may block for ever.
    notifier: Option<Notifier>,
}

#[derive(Default)]
struct Known {
    /// The first failure. Each later one may be its consequence.
    first: Option<NetworkError>,
    /// Ends everything else: external transforms, and threads that wait for a turn.
    stops: Vec<Stop>,
}

impl Abort {
    pub(super) fn new(notifier: Option<Notifier>) -> Abort {
        Abort(Arc::new(State { notifier, ..State::default() }))
    }

    /// Adds a function that is called when the network fails, or now if it has failed.
    pub(super) fn add(&self, stop: impl Fn() + Send + Sync + 'static) {
        let stop: Stop = Arc::new(stop);
        self.known().stops.push(Arc::clone(&stop));
        if self.is_set() {
            stop();
        }
    }

    /// The network has failed. Only the first failure counts; a copy of this one is handed back.
    pub(super) fn fail(&self, failure: NetworkError) -> NetworkError {
        let copy = failure.copy();
        let mut known = self.known();
        known.first.get_or_insert(failure);
        self.0.is_set.store(true, SeqCst);
        let stops = known.stops.clone();
        drop(known);
        stops.iter().for_each(|stop| stop());
        self.notify_sources();
        copy
    }

    /// Has the sources check whether more is wanted.
    pub(super) fn notify_sources(&self) {
        if let Some(notifier) = &self.0.notifier {
            notifier.notify();
        }
    }

    /// The first failure, or this one if there was none before.
    pub(super) fn first(&self, failure: NetworkError) -> NetworkError {
        self.outcome().err().unwrap_or(failure)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.is_set.load(SeqCst)
    }

    /// The first failure, if there was one.
    pub(super) fn outcome(&self) -> Result<(), NetworkError> {
        self.known().first.as_ref().map_or(Ok(()), |failure| Err(failure.copy()))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

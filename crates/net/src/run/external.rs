//! A transform that works outside of this program: what is pushed into each of its inputs, and a thread for each of its outputs,
//! which waits for what comes.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::abort::Abort;
use super::count::Counter;
use super::push::{Flow, Push};
use crate::chunk::Chunk;
use crate::error::{NetworkError, TransformError};
use crate::external::{Control, Drain, Ends, Export, Feed, Started};

/// One input.
pub(super) struct Elsewhere {
    feed: Box<dyn Feed>,
    counter: Arc<Counter>,
    shared: Arc<Shared>,
    /// Nothing follows, or no more is wanted.
    is_over: bool,
}

/// One output, and what it feeds.
pub(super) struct Below {
    pub(super) counter: Arc<Counter>,
    pub(super) out: Chunk,
    pub(super) next: Box<dyn Push>,
}

/// What a network has around it.
pub(super) struct Around {
    pub(super) text: String,
    pub(super) abort: Abort,
    /// Of the node itself.
    pub(super) counter: Arc<Counter>,
}

struct Shared {
    around: Around,
    control: Arc<dyn Control>,
    /// Of every input.
    counters: Vec<Arc<Counter>>,
    /// Inputs that are not over.
    inputs: AtomicUsize,
    /// Outputs of which something may come.
    outputs: AtomicUsize,
    /// The network has failed: nothing below may be finished.
    is_broken_off: AtomicBool,
    /// Taken by the input that is over last.
    drains: Mutex<Vec<JoinHandle<Result<(), NetworkError>>>>,
}

impl Shared {
    fn failure(&self, fault: TransformError) -> NetworkError {
        let fed = self.counters.iter().map(|counter| counter.bytes_in()).sum();
        NetworkError::Stage { stage: self.around.text.clone(), offset: fault.offset(fed), fault }
    }

    /// What became of the work, which is over or about to be.
    fn outcome(&self) -> Result<(), NetworkError> {
        let drains = std::mem::take(&mut *self.drains.lock().unwrap_or_else(PoisonError::into_inner));
        let mut outcome = Ok(());
        for drain in drains {
            outcome = outcome.and(drain.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        outcome
    }
}

/// Starts it, with a counter for each input and what is below each output. Returns what its inputs are pushed into.
pub(super) fn start(
    transform: Box<dyn Export>,
    ends: &Ends,
    counters: Vec<Arc<Counter>>,
    below: Vec<Below>,
    around: Around,
) -> Result<Vec<Elsewhere>, NetworkError> {
    let started = transform.start(ends);
    let Started { feeds, drains, control } = started.map_err(|fault| {
        let failure = NetworkError::Stage { stage: around.text.clone(), offset: 0, fault };
        around.abort.fail(failure)
    })?;
    let stopped = Arc::clone(&control);
    around.abort.add(move || stopped.stop());
    around.counter.set_control(&control);
    let shared = Arc::new(Shared {
        around,
        control,
        inputs: AtomicUsize::new(feeds.len()),
        outputs: AtomicUsize::new(drains.len()),
        is_broken_off: AtomicBool::new(false),
        drains: Mutex::default(),
        counters,
    });
    let inputs = feeds.into_iter().zip(&shared.counters).map(|(feed, counter)| {
        let (counter, shared) = (Arc::clone(counter), Arc::clone(&shared));
        Elsewhere { feed, counter, shared, is_over: false }
    });
    let inputs: Vec<Elsewhere> = inputs.collect();
    for (drain, below) in drains.into_iter().zip(below) {
        let mut drained = Drained { drain, shared: Arc::clone(&shared), below };
        let thread = thread::Builder::new().spawn(move || {
            let outcome = drained.run();
            drained.shared.outputs.fetch_sub(1, AcqRel);
            drained.shared.around.abort.notify_sources();
            outcome
        });
        // Without the thread, what was started is stopped as the inputs go out of scope.
        let thread =
            thread.map_err(|error| NetworkError::Invalid(format!("cannot start a thread: {error}; allow fewer")))?;
        shared.drains.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }
    Ok(inputs)
}

impl Elsewhere {
    /// This input is over. The last one waits for the work: what it still writes, and how it ends.
    fn is_over(&mut self) -> Result<(), NetworkError> {
        let was_over = std::mem::replace(&mut self.is_over, true);
        if !was_over && self.shared.inputs.fetch_sub(1, AcqRel) == 1 { self.shared.outcome() } else { Ok(()) }
    }
}

impl Push for Elsewhere {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let mut bytes: &[u8] = chunk.bytes();
        while !bytes.is_empty() {
            let (feed, counter) = (&mut self.feed, &self.counter);
            match counter.timed(|| feed.feed(bytes)) {
                // A command that reads no more may have ended well, or not.
                Ok(0) => return self.is_over().map(|()| Flow::Enough),
                Ok(count) => {
                    counter.count(count, 0, count);
                    bytes = &bytes[count..];
                }
                Err(fault) => return Err(self.shared.failure(fault)),
            }
        }
        Ok(Flow::More)
    }

    fn check_demand(&mut self) -> Result<Flow, NetworkError> {
        match self.is_over || self.shared.outputs.load(Acquire) == 0 {
            true => self.is_over().map(|()| Flow::Enough),
            false => Ok(Flow::More),
        }
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        self.feed.end().map_err(|fault| self.shared.failure(fault))?;
        self.is_over()
    }
}

/// Neither threads nor what was started are left behind.
impl Drop for Elsewhere {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.is_broken_off.store(true, Relaxed);
            self.shared.control.stop();
            let _ = self.is_over();
        }
    }
}

/// One output, in its thread.
struct Drained {
    drain: Box<dyn Drain>,
    shared: Arc<Shared>,
    below: Below,
}

impl Drained {
    fn run(&mut self) -> Result<(), NetworkError> {
        self.push_all().map_err(|failure| {
            self.shared.control.stop();
            match self.shared.is_broken_off.load(Relaxed) {
                true => failure,
                false => self.shared.around.abort.fail(failure),
            }
        })
    }

    fn push_all(&mut self) -> Result<(), NetworkError> {
        let Below { counter, out, next } = &mut self.below;
        loop {
            out.clear();
            let count = self.drain.drain(out.free()).map_err(|fault| self.shared.failure(fault))?;
            if count == 0 {
                break;
            }
            counter.count(0, count, count);
            out.grow(count);
            if next.push(out)? == Flow::Enough {
                self.drain.has_enough();
                return Ok(());
            }
        }
        if self.shared.is_broken_off.load(Relaxed) { Ok(()) } else { next.finish() }
    }
}

//! A transform that works outside of this program: a node for each of its inputs, and a thread for each of its outputs,
//! which waits for bytes and pushes them on.

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
pub(super) struct ExternalInput {
    feed: Box<dyn Feed>,
    counter: Arc<Counter>,
    shared: Arc<Shared>,
    /// Nothing follows, or no more is wanted.
    is_over: bool,
}

/// What one output feeds.
pub(super) struct Downstream {
    pub(super) counter: Arc<Counter>,
    pub(super) out: Chunk,
    pub(super) next: Box<dyn Push>,
}

/// The node of the transform, in its network.
pub(super) struct Context {
    /// What it is called in messages.
    pub(super) text: String,
    pub(super) abort: Abort,
    /// Of the node itself.
    pub(super) counter: Arc<Counter>,
}

struct Shared {
    context: Context,
    control: Arc<dyn Control>,
    /// Of every input.
    counters: Vec<Arc<Counter>>,
    /// Inputs that are not over.
    inputs: AtomicUsize,
    /// Outputs of which something may come.
    outputs: AtomicUsize,
    /// The network has failed: nothing below may be finished.
    is_aborted: AtomicBool,
    /// Taken by the input that is over last.
    drains: Mutex<Vec<JoinHandle<Result<(), NetworkError>>>>,
}

impl Shared {
    fn failure(&self, fault: TransformError) -> NetworkError {
        let fed = self.counters.iter().map(|counter| counter.bytes_in()).sum();
        NetworkError::Stage { stage: self.context.text.clone(), offset: fault.offset(fed), fault }
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

/// Starts a transform, with a counter for each input and what is below each output. Returns a node for each input.
pub(super) fn start(
    transform: Box<dyn Export>,
    ends: &Ends,
    counters: Vec<Arc<Counter>>,
    below: Vec<Downstream>,
    context: Context,
) -> Result<Vec<ExternalInput>, NetworkError> {
    let started = transform.start(ends);
    let Started { feeds, drains, control } = started.map_err(|fault| {
        let failure = NetworkError::Stage { stage: context.text.clone(), offset: 0, fault };
        context.abort.fail(failure)
    })?;
    let stopped = Arc::clone(&control);
    context.abort.add(move || stopped.stop());
    context.counter.set_control(&control);
    let shared = Arc::new(Shared {
        context,
        control,
        inputs: AtomicUsize::new(feeds.len()),
        outputs: AtomicUsize::new(drains.len()),
        is_aborted: AtomicBool::new(false),
        drains: Mutex::default(),
        counters,
    });
    let inputs = feeds.into_iter().zip(&shared.counters).map(|(feed, counter)| {
        let (counter, shared) = (Arc::clone(counter), Arc::clone(&shared));
        ExternalInput { feed, counter, shared, is_over: false }
    });
    let inputs: Vec<ExternalInput> = inputs.collect();
    for (drain, below) in drains.into_iter().zip(below) {
        // Without the thread, the transform is stopped as the inputs go out of scope.
        let thread = ExternalOutput { drain, shared: Arc::clone(&shared), below }.spawn()?;
        shared.drains.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }
    Ok(inputs)
}

impl ExternalInput {
    /// Nothing more goes into this input. The last one waits until the transform has written everything and ended.
    fn close(&mut self) -> Result<(), NetworkError> {
        let was_over = std::mem::replace(&mut self.is_over, true);
        if !was_over && self.shared.inputs.fetch_sub(1, AcqRel) == 1 { self.shared.outcome() } else { Ok(()) }
    }
}

impl Push for ExternalInput {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let mut bytes: &[u8] = chunk.bytes();
        while !bytes.is_empty() {
            let (feed, counter) = (&mut self.feed, &self.counter);
            match counter.timed(|| feed.feed(bytes)) {
                // A command that reads no more may have ended well, or not.
                Ok(0) => return self.close().map(|()| Flow::Enough),
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
            true => self.close().map(|()| Flow::Enough),
            false => Ok(Flow::More),
        }
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        self.feed.end().map_err(|fault| self.shared.failure(fault))?;
        self.close()
    }
}

/// Leaves neither threads nor the transform behind.
impl Drop for ExternalInput {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.is_aborted.store(true, Relaxed);
            self.shared.control.stop();
            let _ = self.close();
        }
    }
}

/// One output, in its thread.
struct ExternalOutput {
    drain: Box<dyn Drain>,
    shared: Arc<Shared>,
    below: Downstream,
}

impl ExternalOutput {
    fn spawn(mut self) -> Result<JoinHandle<Result<(), NetworkError>>, NetworkError> {
        let thread = thread::Builder::new().spawn(move || {
            let outcome = self.run();
            self.shared.outputs.fetch_sub(1, AcqRel);
            self.shared.context.abort.notify_sources();
            outcome
        });
        thread.map_err(|error| NetworkError::no_thread(&error))
    }

    fn run(&mut self) -> Result<(), NetworkError> {
        self.push_all().map_err(|failure| {
            self.shared.control.stop();
            match self.shared.is_aborted.load(Relaxed) {
                true => failure,
                false => self.shared.context.abort.fail(failure),
            }
        })
    }

    fn push_all(&mut self) -> Result<(), NetworkError> {
        let Downstream { counter, out, next } = &mut self.below;
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
        if self.shared.is_aborted.load(Relaxed) { Ok(()) } else { next.finish() }
    }
}

//! A transform that works outside of this program, and the thread that waits for what comes of it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread::{self, JoinHandle};

use super::bell::Rope;
use super::count::Counter;
use super::{Flow, Push};
use crate::chunk::Chunk;
use crate::error::{NetworkError, TransformError};
use crate::exported::{Drain, Export, Feed, Halves};

/// The half that bytes are pushed into.
pub(super) struct Elsewhere {
    feed: Box<dyn Feed>,
    shared: Arc<Shared>,
    /// `None` once its outcome is known.
    drain: Option<JoinHandle<Result<(), NetworkError>>>,
}

struct Shared {
    text: String,
    counter: Arc<Counter>,
    /// The network has failed: nothing below may be finished.
    is_broken_off: AtomicBool,
    /// Nothing comes any more.
    is_over: AtomicBool,
}

impl Shared {
    fn failure(&self, fault: TransformError) -> NetworkError {
        NetworkError::Stage { stage: self.text.clone(), offset: fault.offset(self.counter.bytes_in()), fault }
    }
}

impl Elsewhere {
    pub(super) fn start(
        transform: Box<dyn Export>,
        text: String,
        counter: Arc<Counter>,
        out: Chunk,
        next: Box<dyn Push>,
        rope: Option<Rope>,
    ) -> Result<Elsewhere, NetworkError> {
        let (is_broken_off, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared { text, counter, is_broken_off, is_over });
        let Halves { feed, drain } = transform.start().map_err(|fault| shared.failure(fault))?;
        let mut other = Drained { drain, shared: Arc::clone(&shared), out, next };
        let mut elsewhere = Elsewhere { feed, shared, drain: None };
        let thread = thread::Builder::new().spawn(move || {
            let outcome = other.run();
            other.shared.is_over.store(true, Release);
            if let Some(rope) = rope {
                rope.ring();
            }
            outcome
        });
        // Without the thread, what was started is stopped as this goes out of scope.
        elsewhere.drain = Some(
            thread.map_err(|error| NetworkError::Invalid(format!("cannot start a thread: {error}; allow fewer")))?,
        );
        Ok(elsewhere)
    }

    /// What became of the work, which is over or about to be.
    fn outcome(&mut self) -> Result<(), NetworkError> {
        let Some(thread) = self.drain.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Push for Elsewhere {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let mut bytes: &[u8] = chunk.bytes();
        while !bytes.is_empty() {
            let (feed, counter) = (&mut self.feed, &self.shared.counter);
            match counter.timed(|| feed.feed(bytes)) {
                // Who reads no more may have ended well, or not; and what it still writes has to be waited for.
                Ok(0) => return self.outcome().map(|()| Flow::Enough),
                Ok(count) => {
                    counter.count(count, 0, count);
                    bytes = &bytes[count..];
                }
                Err(fault) => return Err(self.shared.failure(fault)),
            }
        }
        Ok(Flow::More)
    }

    fn look(&mut self) -> Result<Flow, NetworkError> {
        match self.drain.is_none() || self.shared.is_over.load(Acquire) {
            true => self.outcome().map(|()| Flow::Enough),
            false => Ok(Flow::More),
        }
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        self.feed.end();
        self.outcome()
    }
}

/// Neither the thread nor what was started is left behind.
impl Drop for Elsewhere {
    fn drop(&mut self) {
        if self.drain.is_some() {
            self.shared.is_broken_off.store(true, Relaxed);
            self.feed.break_off();
            let _ = self.outcome();
        }
    }
}

/// The half that bytes come out of.
struct Drained {
    drain: Box<dyn Drain>,
    shared: Arc<Shared>,
    out: Chunk,
    next: Box<dyn Push>,
}

impl Drained {
    fn run(&mut self) -> Result<(), NetworkError> {
        let outcome = self.push_all();
        if outcome.is_err() {
            self.drain.break_off();
        }
        outcome
    }

    fn push_all(&mut self) -> Result<(), NetworkError> {
        loop {
            self.out.clear();
            let count = self.drain.drain(self.out.free()).map_err(|fault| self.shared.failure(fault))?;
            if count == 0 {
                break;
            }
            self.shared.counter.count(0, count, count);
            self.out.grow(count);
            if self.next.push(&mut self.out)? == Flow::Enough {
                self.drain.has_enough();
                return Ok(());
            }
        }
        if self.shared.is_broken_off.load(Relaxed) { Ok(()) } else { self.next.finish() }
    }
}

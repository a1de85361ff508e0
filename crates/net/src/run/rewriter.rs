//! A transform that writes other bytes than it reads.

use std::sync::Arc;

use super::count::Counter;
use super::push::{Flow, Push};
use crate::chunk::Chunk;
use crate::error::{NetworkError, TransformError};
use crate::transform::{Next, Rewrite};

pub(super) struct Rewriter {
    transform: Box<dyn Rewrite>,
    text: String,
    counter: Arc<Counter>,
    out: Chunk,
    next: Box<dyn Push>,
}

impl Rewriter {
    pub(super) fn new(
        transform: Box<dyn Rewrite>,
        text: String,
        counter: Arc<Counter>,
        out: Chunk,
        next: Box<dyn Push>,
    ) -> Rewriter {
        Rewriter { transform, text, counter, out, next }
    }

    /// Has the transform read all of `input`, and hands on what it writes: whenever the buffer is full, and at the end,
    /// so that nothing waits here for bytes that may not come for hours.
    fn feed(&mut self, mut input: &[u8], ends: bool) -> Result<Flow, NetworkError> {
        loop {
            self.out.clear();
            let (transform, room) = (&mut self.transform, self.out.free());
            let step = self.counter.timed(|| transform.step(input, room, ends)).map_err(|fault| self.failure(fault))?;
            let is_idle = step.consumed == 0 && step.produced == 0 && step.next == Next::More;
            if is_idle && (ends || !input.is_empty()) {
                return Err(
                    self.failure(TransformError::new("the transform neither reads nor writes, and wants to go on"))
                );
            }
            self.counter.count(step.consumed, step.produced, self.transform.copied(&step));
            self.out.grow(step.produced);
            input = &input[step.consumed..];
            if self.out.len() > 0 && self.next.push(&mut self.out)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
            match step.next {
                Next::Done => {
                    self.next.finish()?;
                    return Ok(Flow::Enough);
                }
                Next::More if input.is_empty() && step.produced == 0 && !ends => return Ok(Flow::More),
                Next::More => {}
            }
        }
    }

    fn failure(&self, fault: TransformError) -> NetworkError {
        NetworkError::Stage { stage: self.text.clone(), offset: fault.offset(self.counter.bytes_in()), fault }
    }
}

impl Push for Rewriter {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        self.feed(chunk.bytes(), false)
    }

    fn check_demand(&mut self) -> Result<Flow, NetworkError> {
        self.next.check_demand()
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        self.feed(&[], true).map(|_| ())
    }
}

//! A transform that works on the buffer of the one before it.

use std::sync::Arc;

use super::count::Counter;
use super::{Flow, Push};
use crate::chunk::Chunk;
use crate::failure::{Failure, Fault};
use crate::transform::InPlace;

pub(super) struct Fused {
    transform: Box<dyn InPlace>,
    text: String,
    offset: u64,
    counter: Arc<Counter>,
    next: Box<dyn Push>,
}

impl Fused {
    pub(super) fn new(transform: Box<dyn InPlace>, text: String, counter: Arc<Counter>, next: Box<dyn Push>) -> Fused {
        Fused { transform, text, offset: 0, counter, next }
    }

    fn failure(&self, fault: Fault) -> Failure {
        Failure::Stage { stage: self.text.clone(), offset: self.offset + fault.within(), fault }
    }
}

impl Push for Fused {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, Failure> {
        let (transform, offset) = (&mut self.transform, self.offset);
        let applied = self.counter.timed(|| transform.apply(offset, chunk.bytes_mut()));
        applied.map_err(|fault| self.failure(fault))?;
        self.offset += chunk.len() as u64;
        self.counter.count(chunk.len(), chunk.len(), 0);
        let flow = self.next.push(chunk)?;
        if flow == Flow::Enough {
            self.transform.broken_off().map_err(|fault| self.failure(fault))?;
        }
        Ok(flow)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.transform.finish().map_err(|fault| self.failure(fault))?;
        self.next.finish()
    }
}

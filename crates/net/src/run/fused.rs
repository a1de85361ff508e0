//! Transforms that work on the buffer of the stage before them.

use std::sync::Arc;
use std::time::Instant;

use super::count::Counter;
use super::push::{Flow, Push};
use super::sink::Sink;
use crate::chunk::Chunk;
use crate::error::{NetworkError, TransformError};
use crate::transform::InPlace;

/// Bytes that go through all stages of a chain before the next do: they stay in the first-level cache meanwhile, where
/// a pass takes half of what it takes in the second-level one.
const BLOCK: usize = 16 << 10;

/// One block of so many is timed, for all: to read the clock takes a tenth of what a stage takes.
const TIMED: usize = 8;

/// A transform in place.
pub(super) struct FusedStage {
    pub(super) transform: Box<dyn InPlace>,
    pub(super) text: String,
    pub(super) counter: Arc<Counter>,
    /// Its sidecar: a file beside the stream.
    pub(super) beside: Option<Sink>,
}

impl FusedStage {
    fn failure(&self, offset: u64, fault: TransformError) -> NetworkError {
        NetworkError::Stage { stage: self.text.clone(), offset: fault.offset(offset), fault }
    }
}

/// Transforms one after the other. If there are several, each works on any piece of the stream.
pub(super) struct Chain(Vec<FusedStage>);

impl Chain {
    pub(super) fn new(stages: Vec<FusedStage>) -> Chain {
        Chain(stages)
    }

    /// Has all of them work on bytes that begin at `offset` of the stream. Does not count them: a worker group may do a
    /// piece twice.
    pub(super) fn apply(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), NetworkError> {
        let (block, timed) = if self.0.len() > 1 { (BLOCK, TIMED) } else { (bytes.len().max(1), 1) };
        let (mut at, end_of_all) = (offset, offset + bytes.len() as u64);
        for (place, bytes) in bytes.chunks_mut(block).enumerate() {
            let mut start = (place % timed == 0).then(Instant::now);
            for stage in &mut self.0 {
                let applied = stage.transform.apply(at, bytes);
                if let Some(start) = &mut start {
                    let end = Instant::now();
                    // The block stands for those that are not timed behind it.
                    let all = (end_of_all - at).min((block * timed) as u64);
                    stage.counter.add_time((end - *start).mul_f64(all as f64 / bytes.len() as f64));
                    *start = end;
                }
                applied.map_err(|fault| stage.failure(at, fault))?;
            }
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// So many bytes went through all of them.
    pub(super) fn count(&self, bytes: usize) {
        self.0.iter().for_each(|stage| stage.counter.count(bytes, bytes, 0));
    }

    /// Nothing more is wanted, after so many bytes: the last transform learns it first.
    pub(super) fn finish_early(&mut self, offset: u64) -> Result<(), NetworkError> {
        self.0.iter_mut().rev().try_for_each(|stage| {
            let told = stage.transform.finish_early();
            told.map_err(|fault| stage.failure(offset, fault))
        })
    }

    /// The stream has ended after so many bytes.
    pub(super) fn finish(&mut self, offset: u64) -> Result<(), NetworkError> {
        self.0.iter_mut().try_for_each(|stage| {
            let told = stage.transform.finish();
            told.map_err(|fault| stage.failure(offset, fault))
        })
    }

    /// All is well: writes the sidecars.
    fn write_beside(&mut self) -> Result<(), NetworkError> {
        for stage in &mut self.0 {
            if let Some(mut beside) = stage.beside.take() {
                beside.push(&mut Chunk::from(&*stage.transform.written_beside()))?;
                beside.finish()?;
            }
        }
        Ok(())
    }
}

/// A chain and all below it.
pub(super) struct Fused {
    chain: Chain,
    offset: u64,
    next: Box<dyn Push>,
}

impl Fused {
    pub(super) fn new(chain: Chain, next: Box<dyn Push>) -> Fused {
        Fused { chain, offset: 0, next }
    }

    fn goes_on(&mut self, flow: Flow) -> Result<Flow, NetworkError> {
        if flow == Flow::Enough {
            self.chain.finish_early(self.offset)?;
        }
        Ok(flow)
    }
}

impl Push for Fused {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        self.chain.apply(self.offset, chunk.bytes_mut())?;
        self.chain.count(chunk.len());
        self.offset += chunk.len() as u64;
        let flow = self.next.push(chunk)?;
        self.goes_on(flow)
    }

    fn check_demand(&mut self) -> Result<Flow, NetworkError> {
        let flow = self.next.check_demand()?;
        self.goes_on(flow)
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        self.chain.finish(self.offset)?;
        self.next.finish()?;
        self.chain.write_beside()
    }
}

/// What a buffered stage does to its bytes: nothing.
pub(super) struct Untouched;

impl InPlace for Untouched {
    fn apply(&mut self, _offset: u64, _bytes: &mut [u8]) -> Result<(), TransformError> {
        Ok(())
    }
}

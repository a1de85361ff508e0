//! One stream into several nodes.

use std::sync::Arc;

use super::count::Counter;
use super::push::{Flow, Push};
use crate::chunk::Chunk;
use crate::error::NetworkError;

pub(super) struct Split {
    /// `None`: has had enough.
    branches: Vec<Option<Box<dyn Push>>>,
    /// All but the last get a copy, because they may change what they get.
    copy: Chunk,
    counter: Arc<Counter>,
}

impl Split {
    pub(super) fn new(branches: Vec<Box<dyn Push>>, buffer_bytes: usize, counter: &Arc<Counter>) -> Split {
        let branches = branches.into_iter().map(Some).collect();
        Split { branches, copy: Chunk::of(buffer_bytes), counter: Arc::clone(counter) }
    }

    fn flow(&self) -> Flow {
        if self.branches.iter().any(Option::is_some) { Flow::More } else { Flow::Enough }
    }
}

impl Push for Split {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let Some(last) = self.branches.iter().rposition(Option::is_some) else { return Ok(Flow::Enough) };
        for (place, slot) in self.branches.iter_mut().enumerate() {
            let Some(branch) = slot else { continue };
            let flow = if place == last {
                branch.push(chunk)?
            } else {
                self.copy.copy_from(chunk);
                self.counter.count(0, 0, chunk.len());
                branch.push(&mut self.copy)?
            };
            if flow == Flow::Enough {
                *slot = None;
            }
        }
        Ok(self.flow())
    }

    fn check_demand(&mut self) -> Result<Flow, NetworkError> {
        for slot in &mut self.branches {
            if let Some(branch) = slot
                && branch.check_demand()? == Flow::Enough
            {
                *slot = None;
            }
        }
        Ok(self.flow())
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        self.branches.iter_mut().flatten().try_for_each(|branch| branch.finish())
    }
}

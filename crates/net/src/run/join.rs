//! Several streams into one node, one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Flow, Push};
use crate::chunk::Chunk;
use crate::error::NetworkError;

/// The node, for each of those that feed it. They run one after the other; the lock is for the threads in which they do.
#[derive(Clone)]
pub(super) struct Joined(Arc<Mutex<Inputs>>);

struct Inputs {
    node: Box<dyn Push>,
    /// That have not ended.
    left: usize,
    has_enough: bool,
}

impl Joined {
    pub(super) fn new(node: Box<dyn Push>, inputs: usize) -> Joined {
        Joined(Arc::new(Mutex::new(Inputs { node, left: inputs, has_enough: false })))
    }

    fn inputs(&self) -> MutexGuard<'_, Inputs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Push for Joined {
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError> {
        let mut inputs = self.inputs();
        if inputs.has_enough {
            return Ok(Flow::Enough);
        }
        let flow = inputs.node.push(chunk)?;
        inputs.has_enough = flow == Flow::Enough;
        Ok(flow)
    }

    fn look(&mut self) -> Result<Flow, NetworkError> {
        let mut inputs = self.inputs();
        if !inputs.has_enough {
            inputs.has_enough = inputs.node.look()? == Flow::Enough;
        }
        Ok(if inputs.has_enough { Flow::Enough } else { Flow::More })
    }

    fn finish(&mut self) -> Result<(), NetworkError> {
        let mut inputs = self.inputs();
        inputs.left -= 1;
        if inputs.left == 0 && !inputs.has_enough { inputs.node.finish() } else { Ok(()) }
    }
}

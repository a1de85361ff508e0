//! A network that its caller writes into.

use std::io::Write;
use std::sync::{Arc, Mutex};

use super::abort::Abort;
use super::build::Builder;
use super::count::Counter;
use super::environment::Environment;
use super::push::{Flow, Push};
use super::spool::Spools;
use super::unfinished::UnfinishedFiles;
use crate::catalogue::Catalogue;
use crate::check::check;
use crate::chunk::Chunk;
use crate::error::NetworkError;
use crate::graph::{Network, Work};
use crate::plan::{Options, Plan};

/// A line of transforms whose source is what the caller writes, and whose sink is the caller's too.
pub struct Pour {
    /// `None` once everything below was finished.
    first: Option<Box<dyn Push>>,
    chunk: Chunk,
    abort: Abort,
}

impl Pour {
    /// Makes the transforms of a line; its source and its sink are not opened. What comes out is written to `output`.
    ///
    /// # Errors
    /// [`NetworkError::Invalid`], as [`run`](super::run); and if it is no line.
    pub fn new(
        network: &Network,
        catalogue: Catalogue<'_>,
        options: &Options,
        output: Arc<Mutex<dyn Write + Send>>,
    ) -> Result<Pour, NetworkError> {
        if !network.is_line() {
            return Err(NetworkError::Invalid("only a network without splits and merges can be written into".into()));
        }
        let sink = network.nodes.iter().find(|node| matches!(node.work, Work::Write(_)));
        let outputs = sink.map(|sink| (sink.name.clone(), output)).into_iter().collect();
        let environment = Environment { outputs, ..Environment::default() };
        let mut checked = check(network, catalogue)?;
        checked.limit(options.timeout);
        let plan = Plan::of(&checked, options)?;
        let counters: Vec<Arc<Counter>> = network.nodes.iter().map(|_| Arc::default()).collect();
        let (files, abort) = (UnfinishedFiles::default(), Abort::default());
        let mut builder = Builder {
            plan: &plan,
            catalogue,
            counters: &counters,
            environment: &environment,
            files: &files,
            abort: &abort,
            spools: &Spools::default(),
            shared: Vec::new(),
            inputs: Vec::new(),
        };
        // No file is read, so there is one group, which is part of what follows.
        let (_, first) = builder.first(0, false, &mut checked)?;
        Ok(Pour { first: Some(first), chunk: Chunk::of(plan.buffer_bytes), abort })
    }

    /// Writes all of `bytes` into the network. What follows the point from which it wants no more is dropped, as by
    /// `head`.
    ///
    /// # Errors
    /// [`NetworkError`]. Then the output is of no use.
    pub fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), NetworkError> {
        while let Some(first) = &mut self.first
            && !bytes.is_empty()
        {
            self.chunk.clear();
            let room = self.chunk.free();
            let count = bytes.len().min(room.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.chunk.grow(count);
            bytes = &bytes[count..];
            if first.push(&mut self.chunk).map_err(|failure| self.abort.first(failure))? == Flow::Enough {
                self.first = None;
            }
        }
        Ok(())
    }

    /// Nothing follows: everything that is still in the network is written.
    ///
    /// # Errors
    /// As [`Pour::write_all`].
    pub fn finish(mut self) -> Result<(), NetworkError> {
        let finished = self.first.take().map_or(Ok(()), |mut first| first.finish());
        finished.map_err(|failure| self.abort.first(failure))
    }
}

impl std::fmt::Debug for Pour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pour").finish_non_exhaustive()
    }
}

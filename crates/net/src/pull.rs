//! A line of transforms that is read from: each read pulls as many bytes through it as it needs.
//!
//! [`run`](mod@crate::run) pushes a whole stream through a network. A file system is asked for bytes instead, now and
//! then, and by a caller that may never come back. So this runs in the caller's thread, holds one buffer a stage, and
//! stops at any byte. Only a transform outside of this program has a thread of its own, which feeds it.

mod fed;
mod input;
mod upstream;

use crate::catalogue::Catalogue;
use crate::check::check;
use crate::error::NetworkError;
use crate::external::Ends;
use crate::graph::{Network, Work};
use crate::plan::Options;
use crate::transform::{Kind, OUTPUT_MIN, Stage};

use fed::Fed;
use upstream::{BUFFER, Changed, Rewritten, Source, Upstream, failure};

pub use input::Input;

/// A line of transforms over an input.
pub struct Pull {
    top: Box<dyn Upstream>,
    /// Bytes that came out and were not asked for yet: the caller had less room than a transform needs.
    left: Vec<u8>,
    taken: usize,
}

impl Pull {
    /// Makes the transforms of a line. Its source and its sink are not looked at.
    ///
    /// # Errors
    /// [`NetworkError::Invalid`]: not a line, a transform that does not exist or takes no such arguments, or one that
    /// writes a file of its own.
    pub fn new(
        network: &Network,
        catalogue: Catalogue<'_>,
        options: &Options,
        input: Input,
    ) -> Result<Pull, NetworkError> {
        if !network.is_line() {
            return Err(NetworkError::Invalid("only a network without splits and merges can be read from".into()));
        }
        let mut checked = check(network, catalogue)?;
        checked.limit(options.timeout);
        let offset = input.offset;
        let mut top: Box<dyn Upstream> = Box::new(Source::new(input));
        for (node, stage) in network.nodes.iter().zip(&mut checked.stages) {
            let (Work::Transform(_), Some((_, stage))) = (&node.work, stage.take()) else { continue };
            top = stacked(top, stage, node.work.to_line(), offset, options)?;
        }
        Ok(Pull { top, left: Vec::new(), taken: 0 })
    }

    /// Reads some bytes to the start of `out`. Returns how many; 0 at the end, when all stages have found their input
    /// complete.
    ///
    /// # Errors
    /// [`NetworkError`]. Then no further bytes can be had.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        if self.taken == self.left.len() {
            if out.len() >= OUTPUT_MIN {
                return self.top.pull(out);
            }
            self.left.resize(BUFFER, 0);
            let count = self.top.pull(&mut self.left);
            self.left.truncate(*count.as_ref().unwrap_or(&0));
            self.taken = 0;
            count?;
        }
        let count = out.len().min(self.left.len() - self.taken);
        out[..count].copy_from_slice(&self.left[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }

    /// Reads until `out` is full. Returns how many bytes there were: fewer only at the end.
    ///
    /// # Errors
    /// As [`Pull::read`].
    pub fn fill(&mut self, out: &mut [u8]) -> Result<usize, NetworkError> {
        let mut filled = 0;
        while filled < out.len() {
            match self.read(&mut out[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

impl std::fmt::Debug for Pull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull").finish_non_exhaustive()
    }
}

fn stacked(
    above: Box<dyn Upstream>,
    stage: Stage,
    text: String,
    offset: u64,
    options: &Options,
) -> Result<Box<dyn Upstream>, NetworkError> {
    if stage.beside.is_some() {
        return Err(NetworkError::Invalid(format!(
            "{text}: writes a file of its own, which nothing that is only read can do"
        )));
    }
    Ok(match stage.kind {
        Kind::InPlace(_, transform) => Box::new(Changed::new(above, transform, text, offset)),
        Kind::Rewrite(mut transform) => {
            if stage.keeps != (0..=0) {
                transform.may_keep(options.memory.clamp(*stage.keeps.start(), *stage.keeps.end()));
            }
            transform.use_threads(options.threads.max(1));
            Box::new(Rewritten::new(above, transform, text))
        }
        // It only holds back what is pushed.
        Kind::Buffer(_) => above,
        Kind::Exported(transform) => {
            let started = transform.start(&Ends::plain()).map_err(|fault| failure(&text, 0, fault))?;
            Box::new(Fed::start(above, started, text)?)
        }
    })
}

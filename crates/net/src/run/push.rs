//! How bytes go from a node to those below it.

use crate::chunk::Chunk;
use crate::error::NetworkError;

/// Whether more is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    Enough,
}

/// A node and all below it.
pub(super) trait Push: Send {
    /// Takes the bytes of a chunk, which it may change.
    fn push(&mut self, chunk: &mut Chunk) -> Result<Flow, NetworkError>;

    /// No bytes have come, but a thread has ended: finds out whether more is wanted.
    fn check_demand(&mut self) -> Result<Flow, NetworkError>;

    /// Nothing follows. Not called after [`Flow::Enough`].
    fn finish(&mut self) -> Result<(), NetworkError>;
}

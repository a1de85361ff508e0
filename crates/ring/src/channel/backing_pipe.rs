//! What the protocol asks of the kernel.

use super::positions::Span;
use super::words::Channel;
use crate::sync::channel::AtomicU32;

/// The calls of the kernel that the protocol needs, of one end. None of them waits, but where it says so.
pub trait BackingPipe {
    /// So often a side waits for the other in one attempt to detach.
    const PAUSES: u32;

    /// Bytes in the backing pipe.
    fn bytes(&self) -> usize;
    /// Whether the process at the other side is gone.
    fn peer_is_gone(&self) -> bool;
    /// Whether the pipe has no read end any more, so what the ring holds is to go nowhere. Only of the writer.
    fn has_no_reader(&self) -> bool;
    /// Puts [`TOKEN`](super::TOKEN) in. Only of the writer.
    fn put_token(&self);
    /// Takes the token out, or says that none is there. `None`: the system has no file left for that.
    fn take_token(&self) -> Option<bool>;
    /// Has `put` called with a descriptor by which bytes get into the backing pipe, unless the system has no file left.
    fn with_write_end(&self, put: impl FnMut(i32));
    /// Puts in as much of the ring's content as there is room for.
    fn put(&self, write_end: i32, channel: &Channel, content: [Span; 2]) -> Put;
    /// Waits for a moment, or while the word has this value.
    fn pause_at(&self, word: &AtomicU32, value: u32);
    /// Waits for a moment.
    fn pause(&self);
    /// Waits for a moment, or until the backing pipe holds something. Only of the reader.
    fn pause_for_bytes(&self);
    /// Wakes all that sleep on the word.
    fn wake_all(&self, word: &AtomicU32);
}

/// What became of bytes that were to go into the backing pipe.
pub enum Put {
    /// So many are there.
    Bytes(usize),
    /// There is no room at this moment.
    Full,
    /// There is no reader: they are to go nowhere.
    NoReader,
    /// The descriptor is not this pipe any more.
    OtherFile,
}

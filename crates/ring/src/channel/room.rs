//! How the writer of a full ring waits: on a word of which the reader knows, and which the kernel marks when the reader
//! dies.

use super::checks::{Check, fence_of_exchange, is_made};
use super::positions::Found;
use super::words::{Channel, READER_GONE, WRITER_WAITS};
use crate::sync::Ordering::{Relaxed, SeqCst};
use crate::sync::channel::AtomicU32;

impl Channel {
    /// Says that the writer waits for room for `len` bytes. Returns the value of [`room_word`](Self::room_word) while
    /// which it is to sleep; `None` if it need not sleep.
    pub fn writer_will_sleep(&self, len: usize) -> Option<u32> {
        let value = self.room.0.fetch_or(WRITER_WAITS, SeqCst) | WRITER_WAITS;
        fence_of_exchange(Check::FenceBeforeRoomSleep);
        let is_gone = value & READER_GONE != 0 && is_made(Check::ReaderGone);
        let has_room = is_made(Check::RoomBeforeSleep) && self.room_for(len) != Found::Nothing;
        (!is_gone && !has_room).then_some(value)
    }

    /// The futex on which the writer sleeps. While the channel is attached it holds the reader's thread, for the
    /// kernel.
    pub fn room_word(&self) -> &AtomicU32 {
        &self.room.0
    }

    /// After the reader has freed room: whether the caller has to wake the writer.
    #[inline]
    pub fn takes_writers_wait(&self) -> bool {
        let waits = self.room.0.load(SeqCst) & WRITER_WAITS != 0;
        if waits {
            self.room.0.fetch_and(!WRITER_WAITS, SeqCst);
        }
        waits
    }

    /// Whether the reader is known to be gone.
    #[inline]
    pub fn reader_is_gone(&self) -> bool {
        self.room.0.load(Relaxed) & READER_GONE != 0 && is_made(Check::ReaderGone)
    }

    /// The kernel has no reader any more, or the reader is about to close its end.
    pub fn note_reader_gone(&self) {
        self.room.0.fetch_or(READER_GONE, SeqCst);
    }
}

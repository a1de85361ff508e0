//! How both sides begin: the reader comes, both check their ends, and they agree while the backing pipe is empty.

use super::backing_pipe::BackingPipe;
use super::checks::{Check, is_made};
use super::words::{Arrival, Channel, Side, activation, state};
use crate::sync::Ordering::SeqCst;
use crate::sync::channel::AtomicU32;

impl Channel {
    /// The reader that wants to attach; its process is 0 if there is none.
    pub fn arrival(&self) -> Arrival {
        Arrival::of(self.agreement.0.reader.load(SeqCst))
    }

    /// `process` is the reader from now on. `false`: another one is.
    pub fn arrive(&self, process: u32, is_alive: impl FnOnce(u32) -> bool) -> bool {
        let before = self.arrival();
        if before.process != 0 && is_alive(before.process) {
            return false;
        }
        let now = before.next(process);
        self.agreement.0.reader.compare_exchange(before.word(), now.word(), SeqCst, SeqCst).is_ok()
    }

    /// `process` does not want to attach any more, if it is the reader.
    pub fn depart(&self, process: u32) {
        let before = self.arrival();
        let left = Arrival { process: 0, ..before };
        if before.process == process {
            let _ = self.agreement.0.reader.compare_exchange(before.word(), left.word(), SeqCst, SeqCst);
        }
    }

    /// The number of the arrival since which a side has its end for itself; 0: it has not checked.
    pub fn ready_word(&self, side: Side) -> &AtomicU32 {
        match side {
            Side::Writer => &self.agreement.0.writer_ready,
            Side::Reader => &self.agreement.0.reader_ready,
        }
    }

    /// Whether the reader has checked its end.
    pub fn reader_is_ready(&self) -> bool {
        self.agreement.0.reader_ready.load(SeqCst) != 0
    }

    /// The writer will wait for the reader, or does not any more.
    pub fn set_writer_waits(&self, waits: bool) {
        self.agreement.0.writer_waits.store(waits.into(), SeqCst);
    }

    /// Whether the writer waits for the reader, or is about to.
    pub fn writer_waits(&self) -> bool {
        self.agreement.0.writer_waits.load(SeqCst) != 0
    }

    /// The futex on which both wait for each other.
    pub fn activation_word(&self) -> &AtomicU32 {
        &self.agreement.0.activation
    }

    /// The reader has found the backing pipe empty, and waits. The caller wakes the writer.
    pub fn reader_waits(&self) {
        self.agreement.0.activation.store(activation::READER_WAITS, SeqCst);
    }

    /// The reader does not wait any more. Returns whether the writer has agreed: both use the ring.
    pub fn has_agreed(&self) -> bool {
        let word = &self.agreement.0.activation;
        word.compare_exchange(activation::READER_WAITS, activation::NONE, SeqCst, SeqCst) == Err(activation::AGREED)
    }

    /// The writer agrees, if the backing pipe of a reader that waits is empty: both use the ring from now on, which
    /// `prepare` has made ready for so many bytes. `false`: not yet. A reader that has looked before the last bytes
    /// were written is not kept waiting, and comes again when it has them.
    pub fn agree(&self, pipe: &impl BackingPipe, prepare: impl FnOnce() -> usize) -> bool {
        let agreement = &self.agreement.0;
        let word = &agreement.activation;
        if word.load(SeqCst) != activation::READER_WAITS {
            return false;
        }
        if pipe.bytes() != 0 && is_made(Check::BackingPipeEmpty) {
            let _ = word.compare_exchange(activation::READER_WAITS, activation::NONE, SeqCst, SeqCst);
            pipe.wake_all(word);
            return false;
        }
        let bytes = prepare();
        if !bytes.is_power_of_two() {
            return false;
        }
        agreement.bytes.store(bytes as u32, SeqCst);
        // Before the reader finds that both have agreed: it may detach at once.
        agreement.state.store(state::SHARED, SeqCst);
        let has_agreed = word.compare_exchange(activation::READER_WAITS, activation::AGREED, SeqCst, SeqCst).is_ok();
        if !has_agreed {
            agreement.state.store(state::BEFORE, SeqCst);
        }
        has_agreed
    }
}

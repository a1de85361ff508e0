//! What the processes of a launch tell each other through shared memory: when to start, when to stop, what went through.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use millstream_sys::shared::Shared;
use millstream_sys::{Errno, cpu};

use crate::engine::Launch;

/// How many processes are there, and that they start. Words that one process writes while others read them have lines
/// of their own.
const READY: usize = 0;
const GO: usize = 128;

/// A row for each pipe: what its reader says while its writer works, what its writer says, what the reader has seen.
const ROWS: usize = 256;
const ROW_BYTES: usize = 512;
const STOP: usize = 0;
const SENT: usize = 128;
const HAS_SENT: usize = SENT + 8;
const WARM_NS: usize = 256;
const WARM_BYTES: usize = WARM_NS + 8;
const NS: usize = WARM_NS + 16;
const BYTES: usize = WARM_NS + 24;
const READS: usize = WARM_NS + 32;
const HAS_READ: usize = WARM_NS + 40;

/// How often the first reader looks whether the others are done.
const GLANCE: Duration = Duration::from_micros(100);

/// What went through in a time.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) nanoseconds: u64,
    pub(super) bytes: u64,
    pub(super) reads: u64,
}

/// Each process has a copy from before the fork.
pub(super) struct Board {
    words: Shared,
    pairs: usize,
}

impl Board {
    /// For so many pipes.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn new(pairs: usize) -> Result<Board, Errno> {
        Ok(Board { words: Shared::anonymous(ROWS + pairs * ROW_BYTES)?, pairs })
    }

    /// Every process: waits until all are there.
    pub(super) fn start(&self) {
        let ready = self.words.word(READY).fetch_add(1, Relaxed) + 1;
        if ready == 2 * self.pairs as u64 {
            self.words.word(GO).store(1, Release);
        }
        while self.words.word(GO).load(Acquire) == 0 {
            cpu::give_way();
        }
    }

    /// The reader: its writer has written enough.
    pub(super) fn stop(&self, pair: usize) {
        self.store(pair, STOP, 1);
    }

    /// The writer: whether that is so.
    pub(super) fn is_stopped(&self, pair: usize) -> bool {
        self.load(pair, STOP) != 0
    }

    /// The writer, before it ends its stream: what it wrote.
    pub(super) fn tell_sent(&self, pair: usize, bytes: u64) {
        self.store(pair, SENT, bytes);
        self.store(pair, HAS_SENT, 1);
    }

    /// The reader, at the end of the stream: what was written, if the writer said so.
    pub(super) fn sent(&self, pair: usize) -> Option<u64> {
        (self.load(pair, HAS_SENT) != 0).then(|| self.load(pair, SENT))
    }

    /// The reader: what it measured, warming up and then.
    pub(super) fn tell_seen(&self, pair: usize, warm: Span, timed: Span) {
        let figures = [
            (WARM_NS, warm.nanoseconds),
            (WARM_BYTES, warm.bytes),
            (NS, timed.nanoseconds),
            (BYTES, timed.bytes),
            (READS, timed.reads),
            (HAS_READ, 1),
        ];
        figures.into_iter().for_each(|(offset, figure)| self.store(pair, offset, figure));
    }

    /// Waits until all readers have told their figures, and adds these up. A reader that died tells nothing: the parent
    /// then ends the process that waits here.
    pub(super) fn of_all_readers(&self) -> Launch {
        let (mut warm, mut timed, mut operations) = (0.0, 0.0, 0);
        for pair in 0..self.pairs {
            while self.load(pair, HAS_READ) == 0 {
                std::thread::sleep(GLANCE);
            }
            let rate = |bytes, ns| self.load(pair, bytes) as f64 * 1e3 / self.load(pair, ns).max(1) as f64;
            warm += rate(WARM_BYTES, WARM_NS);
            timed += rate(BYTES, NS);
            operations += self.load(pair, READS);
        }
        Launch { warmup: vec![warm], operations, ..Launch::of(timed) }
    }

    fn store(&self, pair: usize, offset: usize, value: u64) {
        self.words.word(ROWS + pair * ROW_BYTES + offset).store(value, Release);
    }

    fn load(&self, pair: usize, offset: usize) -> u64 {
        self.words.word(ROWS + pair * ROW_BYTES + offset).load(Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_readers_saw_is_put_together() {
        let board = Board::new(2).unwrap();
        assert_eq!(board.sent(1), None);
        board.tell_sent(1, 77);
        assert_eq!((board.sent(0), board.sent(1)), (None, Some(77)));
        let span = |nanoseconds, bytes, reads| Span { nanoseconds, bytes, reads };
        board.tell_seen(0, span(1000, 1000, 1), span(1000, 2000, 20));
        board.tell_seen(1, span(2000, 4000, 2), span(500, 500, 5));
        let seen = board.of_all_readers();
        assert_eq!((seen.warmup, seen.samples, seen.operations), (vec![3000.0], vec![3000.0], 25));
        board.stop(1);
        assert_eq!((board.is_stopped(0), board.is_stopped(1)), (false, true));
    }
}

//! What a writer and a reader do.
//!
//! ```text
//! writer   write compute write compute ...            until its reader says stop   tells bytes   ends the stream
//! reader   [warm-up: read compute ...] [timed: read compute ...]  stop  read to the end, compare bytes with what was told
//! ```
//!
//! Every byte that comes is compared with what was written, also while it is timed: a process that computes for
//! microseconds looks at its bytes anyway.

use std::io::Read;

use millstream_sys::clock;

use super::board::{Board, Span};
use super::runs::Run;
use super::work::Pauses;
use crate::method::messages::{Receiver, Sender};
use crate::transport::WriteEnd;

/// The part of a sample's time that comes before it, for the pipe to fill and the caches to warm.
const WARMUP: f64 = 0.1;

/// And no more of it than this: that is enough for every pipe.
const WARMUP_NS_MAX: f64 = 50e6;

/// The writer's part.
pub(super) fn write(
    end: Box<dyn WriteEnd>,
    size: usize,
    mut pauses: Pauses,
    board: &Board,
    pair: usize,
) -> Result<(), String> {
    let mut sender = Sender::new(end, size);
    board.start();
    while !board.is_stopped(pair) {
        sender.send()?;
        pauses.pause();
    }
    board.tell_sent(pair, sender.bytes());
    sender.finish();
    Ok(())
}

/// The reader's part.
pub(super) struct Reader<'a> {
    receiver: Receiver,
    pauses: Pauses,
    board: &'a Board,
    pair: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(end: Box<dyn Read>, run: Run, pauses: Pauses, board: &'a Board, pair: usize) -> Reader<'a> {
        Reader { receiver: Receiver::new(end, run.write, run.read), pauses, board, pair }
    }

    /// Reads for `seconds` and what it takes to warm up, then to the end, and tells the board.
    pub(super) fn run(&mut self, seconds: f64) -> Result<(), String> {
        let timed_ns = seconds * 1e9;
        self.board.start();
        let warm = self.read_for((timed_ns * WARMUP).min(WARMUP_NS_MAX) as u64)?;
        let timed = self.read_for(timed_ns as u64)?;
        self.board.stop(self.pair);
        while self.receiver.some_compared()? > 0 {}
        self.check_bytes()?;
        self.board.tell_seen(self.pair, warm, timed);
        Ok(())
    }

    /// Reads and computes until the time is over; what has begun is finished and counted, bytes and time.
    fn read_for(&mut self, nanoseconds: u64) -> Result<Span, String> {
        let (start, before) = (clock::raw_nanoseconds(), self.receiver.bytes());
        let mut reads = 0;
        loop {
            if self.receiver.some_compared()? == 0 {
                return Err(format!("the stream ended after {} bytes, before its time", self.receiver.bytes()));
            }
            self.pauses.pause();
            reads += 1;
            let passed = clock::raw_nanoseconds() - start;
            if passed >= nanoseconds {
                return Ok(Span { nanoseconds: passed, bytes: self.receiver.bytes() - before, reads });
            }
        }
    }

    fn check_bytes(&self) -> Result<(), String> {
        match (self.receiver.bytes(), self.board.sent(self.pair)) {
            (seen, Some(sent)) if seen == sent => Ok(()),
            (seen, Some(sent)) => Err(format!("{seen} bytes came where {sent} had been written")),
            (_, None) => Err("the stream ended before its writer had told what it wrote".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::Work;
    use super::super::{Board, SEED_RUN};
    use super::*;
    use crate::engine::Launch;
    use crate::engine::crew::{self, Post};
    use crate::engine::placement::Placement;
    use crate::method::messages::faulty::{Fault, Faulty, changed, doubled, killed, lost};
    use crate::transport::{Ends, Transport, kernel_pipe};

    /// Writes of 512 bytes for so long, or until a process fails.
    fn launch(seconds: f64, at: u64, fault: Fault) -> Result<Launch, String> {
        let Ends { writer, reader } = kernel_pipe::DEFAULT.connect(Placement::OneCpu)?;
        let (board, work) = (Board::new(1).unwrap(), Work::calibrated());
        let cpu = Placement::OneCpu.cpus()?[0];
        let posts = [Post { name: "writer", cpu }, Post { name: "reader", cpu }];
        crew::run_within(crew::LIMIT, &posts, move |index| match index {
            0 => {
                drop(reader);
                let end = Box::new(Faulty { inner: writer, at, fault, position: 0 });
                write(end, 512, work.pauses(0, 1), &board, 0).map(|()| None)
            }
            _ => {
                drop(writer);
                Reader::new(reader, SEED_RUN, work.pauses(20, 2), &board, 0).run(seconds)?;
                Ok(Some(board.of_all_readers()))
            }
        })
    }

    /// Longer than a launch may take: what ends it is the fault.
    const UNTIL_THE_FAULT: f64 = 1000.0;

    #[test]
    fn a_stream_without_fault_gives_a_rate_and_its_reads() {
        let seen = launch(0.02, u64::MAX, changed).unwrap();
        assert!(seen.samples[0] > 0.0 && seen.operations > 0, "{seen:?}");
    }

    #[test]
    fn a_byte_that_is_changed_lost_or_doubled_anywhere_gives_no_rate() {
        for fault in [changed, lost, doubled] {
            for at in [0, 100, 511, 70_000] {
                let why = launch(UNTIL_THE_FAULT, at, fault).unwrap_err();
                assert!(why.contains("the reader: byte ") && why.contains(" of the stream is wrong"), "{at}: {why}");
            }
        }
    }

    #[test]
    fn a_writer_that_dies_is_named() {
        let why = launch(UNTIL_THE_FAULT, 70_000, killed).unwrap_err();
        assert!(why.contains("the writer was killed by signal 9"), "{why}");
    }

    #[test]
    fn unannounced_bytes_give_no_rate() {
        let Ends { writer, reader } = kernel_pipe::DEFAULT.connect(Placement::OneCpu).unwrap();
        let board = Board::new(1).unwrap();
        let mut sender = Sender::new(writer, 512);
        sender.send().unwrap();
        sender.finish();
        let pauses = Work::calibrated().pauses(0, 1);
        let mut reader = Reader::new(reader, SEED_RUN, pauses, &board, 0);
        assert_eq!(reader.receiver.some_compared(), Ok(512));
        assert!(reader.check_bytes().unwrap_err().contains("before its writer had told"));
        board.tell_sent(0, 511);
        assert_eq!(reader.check_bytes(), Err("512 bytes came where 511 had been written".into()));
    }
}

//! What happens between the writer and the reader of one sample.
//!
//! | pass | bytes | writer | reader |
//! |---|---|---|---|
//! | 1 | 1 MiB | a pattern that tells positions | compares every byte |
//! | 2 | 4 MiB | what the workload writes | estimates the rate |
//! | 3 | 10 MiB, or what takes 8 ms | what the workload writes | **is timed**, compares the last bytes and the sum |
//! | 4 | one transfer | the pattern, where it stopped | compares every byte |
//!
//! Large transfers move more, so that each pass has a few; very small ones less, so that none takes a minute.
//!
//! Then the writer ends the stream, and the reader must find it ended. A byte that is lost or doubled in pass 2 or 3
//! shifts pass 4, and its pattern is off.

use std::io::Read;

use millstream_sys::clock;

use super::workload::{self, Timed, Workload};
use super::{Amount, Task};
use crate::engine::Launch;
use crate::method::baton::Baton;
use crate::page_aligned::PageAligned;
use crate::pattern;
use crate::transport::{Buffers, WriteEnd};

/// What a sample lasts at least, by the estimate. Starting and stopping cost a microsecond or two, and 2 ms would do; the
/// estimate comes from a short and cold pass and is low.
const TIMED_NS: f64 = 8e6;

/// What a sample lasts at most, by the estimate: bytes sent one by one would take half a minute.
const TIMED_NS_MAX: f64 = 500e6;

/// What a sample moves at most, should the estimate be wild.
const TIMED_BYTES_MAX: u64 = 1 << 30;

/// How many transfers the passes before it are at most.
const UNTIMED_TRANSFERS_MAX: u64 = 8192;

/// Once through the largest pipe that is compared by default, and twice through the ring.
const COMPARED_BYTES: u64 = 1 << 20;

/// Four times as much to warm up and to estimate from.
const REHEARSED_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Compared,
    Timed,
}

/// The writer's part.
pub(super) fn write(mut end: Box<dyn WriteEnd>, mut baton: impl Baton, task: Task) -> Result<(), String> {
    // The hot buffer never changes, and the others only when their turn has come: some transports look at them late.
    let mut hot = PageAligned::new(task.transfer);
    workload::fill_hot(&mut hot);
    let mut turns = Buffers::of(&*end, task.transfer);
    let mut position = 0;
    for pass in [Pass::Compared, Pass::Timed, Pass::Timed, Pass::Compared] {
        let begin = position;
        let end_of_pass = begin + baton.await_go()?;
        while position < end_of_pass {
            let bytes = match (pass, task.workload) {
                (Pass::Timed, Workload::Hot | Workload::Summed) => &*hot,
                (Pass::Timed, Workload::Fresh) => {
                    let buffer = turns.next();
                    buffer.fill(workload::fresh_byte((position - begin) / task.transfer as u64));
                    buffer
                }
                (Pass::Compared, _) => {
                    let buffer = turns.next();
                    pattern::fill(position, buffer);
                    buffer
                }
            };
            end.write_all(bytes).map_err(|error| format!("cannot write at byte {position}: {error}"))?;
            position += task.transfer as u64;
        }
    }
    end.finish();
    Ok(())
}

/// The reader's part; returns MB/s, those of the rehearsal as warm-up.
pub(super) fn read(end: Box<dyn Read>, baton: impl Baton, task: Task) -> Result<Launch, String> {
    let mut hot = vec![0; task.transfer];
    workload::fill_hot(&mut hot);
    let buffer = PageAligned::new(task.transfer);
    let mut reader = Reader { end, baton, buffer, hot, workload: task.workload, position: 0 };
    reader.compare(untimed_bytes(COMPARED_BYTES, task.transfer))?;
    let rehearsed = rehearsed_bytes(task.transfer);
    let estimated_ns = reader.time(rehearsed)?;
    let bytes = timed_bytes(rehearsed, estimated_ns, task);
    let nanoseconds = reader.time(bytes)?;
    reader.compare(task.transfer as u64)?;
    reader.expect_the_end()?;
    let rate = |bytes: u64, nanoseconds: u64| bytes as f64 * 1e3 / nanoseconds as f64;
    let warmup = vec![rate(rehearsed, estimated_ns)];
    Ok(Launch { warmup, ..Launch::of(rate(bytes, nanoseconds)) })
}

/// What pass 2 moves.
pub(super) fn rehearsed_bytes(transfer: usize) -> u64 {
    untimed_bytes(REHEARSED_BYTES, transfer)
}

fn untimed_bytes(bytes: u64, transfer: usize) -> u64 {
    whole_transfers(bytes.min(UNTIMED_TRANSFERS_MAX * transfer as u64), 2, transfer)
}

/// What pass 3 moves, where `bytes` took `nanoseconds`.
pub(super) fn timed_bytes(bytes: u64, nanoseconds: u64, task: Task) -> u64 {
    let within = |limit_ns: f64| (limit_ns * bytes as f64 / nanoseconds as f64) as u64;
    match task.amount {
        Amount::Exactly(wanted) => whole_transfers(wanted, 1, task.transfer),
        Amount::AtLeast(least) => {
            let wanted = within(TIMED_NS).max(least).min(within(TIMED_NS_MAX)).min(TIMED_BYTES_MAX);
            whole_transfers(wanted, 4, task.transfer)
        }
    }
}

/// At least `bytes` and at least `fewest` transfers.
fn whole_transfers(bytes: u64, fewest: u64, transfer: usize) -> u64 {
    bytes.div_ceil(transfer as u64).max(fewest) * transfer as u64
}

struct Reader<B> {
    end: Box<dyn Read>,
    baton: B,
    buffer: PageAligned,
    hot: Vec<u8>,
    workload: Workload,
    position: u64,
}

impl<B: Baton> Reader<B> {
    /// Reads once and returns how many bytes.
    fn some(&mut self) -> Result<usize, String> {
        match self.end.read(&mut self.buffer) {
            Ok(0) => Err(format!("the stream ended after {} bytes", self.position)),
            Ok(count) => Ok(count),
            Err(error) => Err(format!("cannot read at byte {}: {error}", self.position)),
        }
    }

    /// A pass whose bytes tell their positions.
    fn compare(&mut self, bytes: u64) -> Result<(), String> {
        self.baton.go(bytes)?;
        let end_of_pass = self.position + bytes;
        while self.position < end_of_pass {
            let count = self.some()?;
            if let Some(at) = pattern::first_difference(self.position, &self.buffer[..count]) {
                return Err(format!("byte {at} of the stream is wrong"));
            }
            self.position += count as u64;
        }
        self.expect_position(end_of_pass)
    }

    /// A timed pass; returns its nanoseconds, at least 1.
    fn time(&mut self, bytes: u64) -> Result<u64, String> {
        let begin = self.position;
        let end_of_pass = begin + bytes;
        let (mut last, mut sum) = (0, 0_u64);
        let start = self.baton.go(bytes)?;
        while self.position < end_of_pass {
            last = self.some()?;
            if self.workload == Workload::Summed {
                sum = sum.wrapping_add(workload::sum(self.position - begin, &self.buffer[..last]));
            }
            self.position += last as u64;
        }
        let nanoseconds = clock::raw_nanoseconds() - start;
        self.expect_position(end_of_pass)?;
        let (transfer, last) = (self.buffer.len(), &self.buffer[..last]);
        self.workload.verify(&Timed { transfer, hot: &self.hot, bytes, last, sum })?;
        Ok(nanoseconds.max(1))
    }

    fn expect_position(&self, wanted: u64) -> Result<(), String> {
        match self.position {
            seen if seen == wanted => Ok(()),
            seen => Err(format!("{seen} bytes came where {wanted} had been written")),
        }
    }

    fn expect_the_end(&mut self) -> Result<(), String> {
        match self.end.read(&mut self.buffer) {
            Ok(0) => Ok(()),
            Ok(more) => Err(format!("{more} bytes came after the last")),
            Err(error) => Err(format!("cannot read the end: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_whole_transfers() {
        let timed = |bytes, nanoseconds, transfer, amount| {
            timed_bytes(bytes, nanoseconds, Task { transfer, workload: Workload::Hot, amount })
        };
        let least = Amount::AtLeast(10 << 20);
        assert_eq!(whole_transfers(1000, 2, 300), 1200);
        assert_eq!(rehearsed_bytes(16 << 20), 32 << 20);
        assert_eq!(timed(1 << 20, 1_000_000, 4096, least), 10 << 20);
        assert_eq!(timed(1 << 20, 1_000_000, 16 << 20, least), 64 << 20);
        assert_eq!(timed(1 << 20, 1, 4096, least), 1 << 30);
        assert_eq!(rehearsed_bytes(1), 8192);
        assert_eq!(timed(8192, 8_192_000, 1, least), 500_000);
        assert_eq!(timed(1, 1, 65_536, Amount::Exactly(50_000_000)), 763 * 65_536);
        assert_eq!(timed(1, 1 << 40, 1, Amount::Exactly(3_000_000)), 3_000_000);
    }
}

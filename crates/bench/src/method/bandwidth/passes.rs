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
//! In place (`ends.rs`) the writer makes in the stream what it would have written: it fills, or copies the hot buffer. The reader takes
//! what it is shown, and adds up every byte in pass 3 whatever the workload is: one that looks at nothing where it lies would
//! measure nothing.
//!
//! Then the writer ends the stream, and the reader must find it ended. A byte that is lost or doubled in pass 2 or 3
//! shifts pass 4, and its pattern is off.

use millstream_sys::clock;

use super::ends::{Sink, Source};
use super::task::{Amount, Task};
use super::workload::{self, Timed, Workload};
use crate::engine::Launch;
use crate::method::baton::Baton;
use crate::page_aligned::PageAligned;
use crate::pattern;
use crate::transport::{Buffers, Fill, WriteEnd};

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

/// In their order.
const PASSES: [Pass; 4] = [Pass::Compared, Pass::Timed, Pass::Timed, Pass::Compared];

/// The writer's part.
pub(super) fn write(end: Sink, baton: impl Baton, task: Task) -> Result<(), String> {
    match end {
        Sink::Copying(end) => write_copying(end, baton, task),
        Sink::InPlace(end) => write_in_place(end, baton, task),
    }
}

fn write_copying(mut end: Box<dyn WriteEnd>, mut baton: impl Baton, task: Task) -> Result<(), String> {
    // The hot buffer never changes, and the others only when their turn has come: some transports look at them late.
    let mut hot = PageAligned::new(task.transfer);
    workload::fill_hot(&mut hot);
    let mut turns = Buffers::of(&*end, task.transfer);
    let mut position = 0;
    for pass in PASSES {
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

/// The same bytes, made in the stream.
fn write_in_place(mut end: Box<dyn Fill>, mut baton: impl Baton, task: Task) -> Result<(), String> {
    let mut hot = PageAligned::new(task.transfer);
    workload::fill_hot(&mut hot);
    let mut position = 0;
    for pass in PASSES {
        let begin = position;
        let end_of_pass = begin + baton.await_go()?;
        while position < end_of_pass {
            // A transfer that does not fit is made in parts.
            let transfer = (position - begin) / task.transfer as u64;
            let mut done = ((position - begin) % task.transfer as u64) as usize;
            let count = end.fill(task.transfer - done, &mut |place| {
                match (pass, task.workload) {
                    (Pass::Timed, Workload::Hot | Workload::Summed) => {
                        place.copy_from_slice(&hot[done..done + place.len()]);
                    }
                    (Pass::Timed, Workload::Fresh) => place.fill(workload::fresh_byte(transfer)),
                    (Pass::Compared, _) => pattern::fill(begin + transfer * task.transfer as u64 + done as u64, place),
                }
                done += place.len();
            });
            position += count.map_err(|error| format!("cannot write at byte {position}: {error}"))? as u64;
        }
    }
    end.finish();
    Ok(())
}

/// The reader's part; returns MB/s, those of the rehearsal as warm-up.
pub(super) fn read(end: Source, baton: impl Baton, task: Task) -> Result<Launch, String> {
    let mut hot = vec![0; task.transfer];
    workload::fill_hot(&mut hot);
    let mut reader = Reader { end, baton, hot, task, last: Vec::new(), position: 0 };
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
    end: Source,
    baton: B,
    hot: Vec<u8>,
    task: Task,
    /// The last bytes of a pass, where they are not in the buffer of the end.
    last: Vec<u8>,
    position: u64,
}

impl<B: Baton> Reader<B> {
    /// Takes some bytes; returns how many and what `look` says of them. The last before `end_of_pass` can be looked at once more.
    fn some<T>(&mut self, end_of_pass: u64, look: impl FnOnce(u64, &[u8]) -> T) -> Result<(usize, T), String> {
        let (position, last, is_kept) = (self.position, &mut self.last, self.end.is_in_place());
        let taken = self.end.take(|bytes| {
            if is_kept && position + bytes.len() as u64 == end_of_pass {
                last.clear();
                last.extend_from_slice(bytes);
            }
            (bytes.len(), look(position, bytes))
        });
        match taken {
            Ok((0, _)) => Err(format!("the stream ended after {position} bytes")),
            Ok(taken) => Ok(taken),
            Err(error) => Err(format!("cannot read at byte {position}: {error}")),
        }
    }

    /// A pass whose bytes tell their positions.
    fn compare(&mut self, bytes: u64) -> Result<(), String> {
        self.baton.go(bytes)?;
        let end_of_pass = self.position + bytes;
        while self.position < end_of_pass {
            let (count, difference) = self.some(end_of_pass, pattern::first_difference)?;
            if let Some(at) = difference {
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
        let is_summed = self.task.workload == Workload::Summed || self.end.is_in_place();
        let start = self.baton.go(bytes)?;
        while self.position < end_of_pass {
            let sum_of = |position, bytes: &[u8]| if is_summed { workload::sum(position - begin, bytes) } else { 0 };
            let (count, part) = self.some(end_of_pass, sum_of)?;
            (last, sum) = (count, sum.wrapping_add(part));
            self.position += count as u64;
        }
        let nanoseconds = clock::raw_nanoseconds() - start;
        self.expect_position(end_of_pass)?;
        // The compiler must not leave out a sum that the workload does not use.
        let sum =
            if self.task.workload == Workload::Summed { sum } else { std::hint::black_box(sum).wrapping_sub(sum) };
        let (transfer, last) = (self.task.transfer, self.end.last(last).unwrap_or(&self.last));
        self.task.workload.verify(&Timed { transfer, hot: &self.hot, bytes, last, sum })?;
        Ok(nanoseconds.max(1))
    }

    fn expect_position(&self, wanted: u64) -> Result<(), String> {
        match self.position {
            seen if seen == wanted => Ok(()),
            seen => Err(format!("{seen} bytes came where {wanted} had been written")),
        }
    }

    fn expect_the_end(&mut self) -> Result<(), String> {
        match self.end.take(<[u8]>::len) {
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

//! What happens between the writer and the reader of one sample.
//!
//! | pass | bytes | writer | reader |
//! |---|---|---|---|
//! | 1 | 1 MiB | a pattern that tells positions | compares every byte |
//! | 2 | 4 MiB | the hot buffer | estimates the rate |
//! | 3 | 10 MiB, or what takes 8 ms | the hot buffer | **is timed**, compares the last bytes |
//! | 4 | one transfer | the pattern, where it stopped | compares every byte |
//!
//! Large transfers move more, so that each pass has a few; very small ones less, so that none takes a minute.
//!
//! Then the writer ends the stream, and the reader must find it ended. A byte that is lost or doubled in a hot pass
//! shifts pass 4, and its pattern is off.

use std::io::Read;

use millstream_sys::clock;

use super::baton::Baton;
use crate::engine::Launch;
use crate::page_aligned::PageAligned;
use crate::pattern;
use crate::transport::WriteEnd;

/// What a sample moves at least: what the classic benchmark of pipes moves.
const TIMED_BYTES: u64 = 10 << 20;

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

/// The writer's part.
pub(super) fn write(mut end: Box<dyn WriteEnd>, mut baton: Baton, transfer: usize) -> Result<(), String> {
    let mut buffer = PageAligned::new(transfer);
    let mut position = 0;
    for is_hot in [false, true, true, false] {
        pattern::fill(0, &mut buffer);
        let end_of_pass = position + baton.await_go();
        while position < end_of_pass {
            if !is_hot {
                pattern::fill(position, &mut buffer);
            }
            end.write_all(&buffer).map_err(|error| format!("cannot write at byte {position}: {error}"))?;
            position += transfer as u64;
        }
    }
    end.finish();
    Ok(())
}

/// The reader's part; returns MB/s, those of the rehearsal as warm-up.
pub(super) fn read(end: Box<dyn Read>, baton: Baton, transfer: usize) -> Result<Launch, String> {
    let mut reader = Reader { end, baton, buffer: PageAligned::new(transfer), position: 0 };
    reader.compare(untimed_bytes(COMPARED_BYTES, transfer))?;
    let rehearsed = rehearsed_bytes(transfer);
    let estimated_ns = reader.time(rehearsed)?;
    let bytes = timed_bytes(rehearsed, estimated_ns, transfer);
    let nanoseconds = reader.time(bytes)?;
    reader.compare(transfer as u64)?;
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
pub(super) fn timed_bytes(bytes: u64, nanoseconds: u64, transfer: usize) -> u64 {
    let within = |limit_ns: f64| (limit_ns * bytes as f64 / nanoseconds as f64) as u64;
    let wanted = within(TIMED_NS).max(TIMED_BYTES).min(within(TIMED_NS_MAX)).min(TIMED_BYTES_MAX);
    whole_transfers(wanted, 4, transfer)
}

/// At least `bytes` and at least `fewest` transfers.
fn whole_transfers(bytes: u64, fewest: u64, transfer: usize) -> u64 {
    bytes.div_ceil(transfer as u64).max(fewest) * transfer as u64
}

struct Reader {
    end: Box<dyn Read>,
    baton: Baton,
    buffer: PageAligned,
    position: u64,
}

impl Reader {
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
        self.baton.go(bytes);
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

    /// A hot pass; returns its nanoseconds, at least 1.
    fn time(&mut self, bytes: u64) -> Result<u64, String> {
        let begin = self.position;
        let end_of_pass = begin + bytes;
        let mut last = 0;
        let start = self.baton.go(bytes);
        while self.position < end_of_pass {
            last = self.some()?;
            self.position += last as u64;
        }
        let nanoseconds = clock::raw_nanoseconds() - start;
        self.expect_position(end_of_pass)?;
        self.compare_hot(begin, last)?;
        Ok(nanoseconds.max(1))
    }

    /// The last `count` bytes against the hot buffer, which was written again and again from `begin`.
    fn compare_hot(&self, begin: u64, count: usize) -> Result<(), String> {
        let transfer = self.buffer.len();
        let offset = ((self.position - count as u64 - begin) % transfer as u64) as usize;
        let (head, tail) = self.buffer[..count].split_at(count.min(transfer - offset));
        match pattern::first_difference(offset as u64, head).or(pattern::first_difference(0, tail)) {
            Some(at) => Err(format!("byte {at} of the last transfer is wrong")),
            None => Ok(()),
        }
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
    use crate::transport::Ends;
    use std::io::{self, Write};
    use std::time::Duration;

    /// A stream within this process whose writer changes, drops or doubles what is written at one byte.
    struct Faulty {
        inner: Box<dyn WriteEnd>,
        position: u64,
        at: u64,
        fault: fn(&[u8], usize) -> Vec<u8>,
    }

    impl Write for Faulty {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let range = self.position..self.position + bytes.len() as u64;
            match range.contains(&self.at) {
                true => self.inner.write_all(&(self.fault)(bytes, (self.at - self.position) as usize))?,
                false => self.inner.write_all(bytes)?,
            }
            self.position = range.end;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl WriteEnd for Faulty {
        fn finish(self: Box<Self>) {
            self.inner.finish();
        }
    }

    fn sample(at: u64, fault: fn(&[u8], usize) -> Vec<u8>) -> Result<Launch, String> {
        use crate::engine::crew::{self, Post};
        use crate::engine::placement::Placement;
        use crate::transport::{Transport, kernel_pipe};
        let Ends { writer, reader } = kernel_pipe::DEFAULT.connect(Placement::OneCpu)?;
        let baton = Baton::new(Placement::OneCpu.idle()).unwrap();
        let cpu = Placement::OneCpu.cpus()?[0];
        let (posts, limit) = ([Post { name: "writer", cpu }, Post { name: "reader", cpu }], Duration::from_secs(3));
        crew::run_within(limit, &posts, move |index| match index {
            0 => {
                drop(reader);
                write(Box::new(Faulty { inner: writer, position: 0, at, fault }), baton, 4096).map(|()| None)
            }
            _ => {
                drop(writer);
                read(reader, baton, 4096).map(Some)
            }
        })
    }

    fn doubled(bytes: &[u8], index: usize) -> Vec<u8> {
        [&bytes[..=index], &bytes[index..]].concat()
    }

    fn changed(bytes: &[u8], index: usize) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[index] ^= 1;
        bytes
    }

    #[test]
    fn a_stream_without_fault_gives_a_rate() {
        let seen = sample(u64::MAX, changed).unwrap();
        assert!(seen.samples[0] > 0.0 && seen.warmup[0] > 0.0 && seen.samples.len() == 1, "{seen:?}");
    }

    #[test]
    fn a_changed_byte_is_found_where_bytes_are_compared() {
        let why = sample(5_000, changed).unwrap_err();
        assert!(why.contains("the reader: byte 5000 of the stream is wrong"), "{why}");
    }

    #[test]
    fn a_doubled_byte_anywhere_is_found() {
        for at in [5_000, COMPARED_BYTES + 77, COMPARED_BYTES + REHEARSED_BYTES + 5_000_000] {
            let why = sample(at, doubled).unwrap_err();
            assert!(["is wrong", "had been written"].iter().any(|part| why.contains(part)), "{at}: {why}");
        }
    }

    #[test]
    fn a_lost_byte_gives_no_rate() {
        let lost = |bytes: &[u8], index: usize| [&bytes[..index], &bytes[index + 1..]].concat();
        for at in [5_000, COMPARED_BYTES + REHEARSED_BYTES + 5_000_000] {
            let why = sample(at, lost).unwrap_err();
            assert!(["is wrong", "said nothing"].iter().any(|part| why.contains(part)), "{at}: {why}");
        }
    }

    #[test]
    fn passes_are_whole_transfers() {
        assert_eq!(whole_transfers(1000, 2, 300), 1200);
        assert_eq!(rehearsed_bytes(16 << 20), 32 << 20);
        assert_eq!(timed_bytes(1 << 20, 1_000_000, 4096), 10 << 20);
        assert_eq!(timed_bytes(1 << 20, 1_000_000, 16 << 20), 64 << 20);
        assert_eq!(timed_bytes(1 << 20, 1, 4096), 1 << 30);
        assert_eq!(rehearsed_bytes(1), 8192);
        assert_eq!(timed_bytes(8192, 8_192_000, 1), 500_000);
    }
}

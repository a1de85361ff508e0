//! Streams whose every byte says where it belongs, and ways to move them.

use std::ops::Range;

pub use millstream_pattern::{Random, byte_at, bytes, check, runs};
use rustix::io::Errno;

use crate::{PIPE_BUF, ReadEnd, WriteEnd, error_of};

/// Writes all of `bytes`, in as many calls as it takes.
///
/// # Panics
/// When a call is refused, or says that it wrote nothing.
#[track_caller]
pub fn write_all(writer: &impl WriteEnd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let count = writer.write(bytes).unwrap();
        assert!(count > 0, "a write of {} bytes wrote none", bytes.len());
        bytes = &bytes[count..];
    }
}

/// Moves a few bytes, one at a time: ends that find one another only after a while have done so then.
///
/// # Panics
/// When one gets lost.
pub fn get_going(reader: &impl ReadEnd, writer: &impl WriteEnd) {
    for byte in 0..20 {
        write_all(writer, &[byte]);
        assert_eq!(read_exact(reader, 1), [byte]);
    }
}

/// Writes a part of the stream by calls of at most `transfer` bytes.
///
/// # Panics
/// When a call is refused.
pub fn write_stream(writer: &impl WriteEnd, range: Range<u64>, transfer: usize) {
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + transfer as u64);
        write_all(writer, &bytes(at..end));
        at = end;
    }
}

/// Reads exactly `count` bytes, in as many calls as it takes.
///
/// # Panics
/// When a call is refused or the stream ends.
#[track_caller]
pub fn read_exact(reader: &impl ReadEnd, count: usize) -> Vec<u8> {
    let mut buffer = vec![0; count];
    let mut read = 0;
    while read < count {
        let more = reader.read(&mut buffer[read..]).unwrap();
        assert!(more > 0, "the stream ended after {read} of {count} bytes");
        read += more;
    }
    buffer
}

/// Reads to the end by calls of at most `transfer` bytes, checks every byte against the stream from `position` on and
/// returns how many there were.
///
/// # Panics
/// When a call is refused or a byte is wrong.
#[track_caller]
pub fn read_stream(reader: &impl ReadEnd, position: u64, transfer: usize) -> u64 {
    let mut buffer = vec![0; transfer];
    let mut total = 0;
    loop {
        match reader.read(&mut buffer).unwrap() {
            0 => return total,
            count => {
                check(position + total, &buffer[..count]);
                total += count as u64;
            }
        }
    }
}

/// Reads to the end.
///
/// # Panics
/// When a call is refused.
#[track_caller]
pub fn read_to_end(reader: &impl ReadEnd) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 10_000];
    loop {
        match reader.read(&mut buffer).unwrap() {
            0 => return all,
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Fills the pipe to the brim with the stream from `position` on and returns how many bytes went in. By whole pages, so
/// that the kernel's pipe is as full as a ring would be. The end is blocking afterwards.
///
/// # Panics
/// When anything but [`EAGAIN`](Errno::AGAIN) stops it.
#[track_caller]
pub fn fill(writer: &impl WriteEnd, position: u64) -> usize {
    writer.set_nonblocking(true).unwrap();
    let mut filled = 0;
    let error = loop {
        let at = position + filled as u64;
        match writer.write(&bytes(at..at + PIPE_BUF as u64)) {
            Ok(count) => filled += count,
            error => break error,
        }
    };
    assert_eq!(error_of(error), Errno::AGAIN);
    writer.set_nonblocking(false).unwrap();
    filled
}

//! The ways in which bytes go into millstream's pipe and come out of it. Whatever switches between ways takes them from
//! these tables: a way that is added here is used by the soak and by the random sequences.
#![allow(unsafe_code, reason = "a promise: the processes of these tests keep to the protocol")]

use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};

use millstream_pipe::{Builder, DirectPolicy, Reader, Writer};
use millstream_sys::memory;

/// A way in. The end waits or not as it was told before.
pub struct WritePath {
    /// In reports.
    pub name: &'static str,
    /// Writes a beginning of the bytes and returns its length, as `write(2)`.
    pub write: fn(&Writer, &[u8]) -> io::Result<usize>,
    /// Whether it answers exactly as `write(2)`: up to [`PIPE_BUF`](crate::PIPE_BUF) bytes go in as a whole or not at all, and
    /// of more as many as there is room for.
    pub is_like_write: bool,
}

impl WritePath {
    /// This way, or the plain one where so few bytes must go in as a whole and this way does not promise it.
    pub fn whole_if_small(&'static self, len: usize) -> &'static WritePath {
        if self.is_like_write || len > crate::PIPE_BUF { self } else { &WRITE_PATHS[0] }
    }
}

/// A way out. The end waits or not as it was told before.
pub struct ReadPath {
    /// In reports.
    pub name: &'static str,
    /// Fills a beginning of the buffer and returns its length, as `read(2)`.
    pub read: fn(&Reader, &mut [u8]) -> io::Result<usize>,
    /// Whether it takes what waits, once, and returns: no other read comes in between.
    pub takes_once: bool,
}

/// A kind of pipe, which decides what its ways are made of.
pub struct PipeKind {
    /// In reports.
    pub name: &'static str,
    /// What is asked of the builder.
    pub ask: fn(Builder) -> Builder,
    /// Whether the ring can carry the bytes. If not, its calls are the kernel's own.
    pub has_ring: bool,
}

/// All ways in.
pub static WRITE_PATHS: &[WritePath] = &[
    WritePath { name: "write", write: |mut writer, bytes| writer.write(bytes), is_like_write: true },
    WritePath { name: "write vectored", write: write_in_parts, is_like_write: true },
    WritePath { name: "copy from a file", write: copy_from_file, is_like_write: false },
    WritePath { name: "in place", write: write_in_place, is_like_write: true },
];

/// All ways out.
pub static READ_PATHS: &[ReadPath] = &[
    ReadPath { name: "read", read: |mut reader, buffer| reader.read(buffer), takes_once: true },
    ReadPath { name: "read vectored", read: read_in_parts, takes_once: true },
    ReadPath { name: "copy to a file", read: copy_to_file, takes_once: false },
    ReadPath { name: "in place", read: read_in_place, takes_once: true },
];

/// All kinds of pipes.
pub static PIPE_KINDS: &[PipeKind] = &[
    PipeKind { name: "usual", ask: |builder| builder, has_ring: true },
    PipeKind { name: "direct always", ask: |builder| builder.direct(DirectPolicy::Always), has_ring: true },
    PipeKind { name: "direct never", ask: |builder| builder.direct(DirectPolicy::Never), has_ring: true },
    PipeKind { name: "survives exec", ask: |builder| builder.cloexec(false), has_ring: false },
];

/// Where a transfer is cut into parts, one of which is empty. A transfer of whole units of 64 bytes is cut between
/// units: another reader can read a part that is in the ring before the next part is.
fn cuts(len: usize) -> [usize; 4] {
    let unit = if len.is_multiple_of(64) { 64 } else { 1 };
    [len / 5, len / 5, len / 3, len - len / 7].map(|cut| cut / unit * unit)
}

fn write_in_parts(mut writer: &Writer, bytes: &[u8]) -> io::Result<usize> {
    let [first, second, third, fourth] = cuts(bytes.len());
    let parts = [0..first, first..second, second..third, third..fourth, fourth..bytes.len()];
    writer.write_vectored(&parts.map(|part| IoSlice::new(&bytes[part])))
}

fn read_in_parts(mut reader: &Reader, buffer: &mut [u8]) -> io::Result<usize> {
    let [first, second, third, fourth] = cuts(buffer.len());
    let (head, tail) = buffer.split_at_mut(third);
    let (head, middle) = head.split_at_mut(second);
    let (head, empty) = head.split_at_mut(first);
    let (tail, last) = tail.split_at_mut(fourth - third);
    reader.read_vectored(&mut [head, empty, middle, tail, last].map(IoSliceMut::new))
}

fn copy_from_file(writer: &Writer, bytes: &[u8]) -> io::Result<usize> {
    let mut file = memory::anonymous_file()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(writer.copy_from(&file, bytes.len() as u64)? as usize)
}

/// Goes on until the buffer is full or the stream ends, or nothing waits where the end does not.
fn copy_to_file(reader: &Reader, buffer: &mut [u8]) -> io::Result<usize> {
    let mut file = memory::anonymous_file()?;
    let count = reader.copy_to(&file, buffer.len() as u64)? as usize;
    file.rewind()?;
    file.read_exact(&mut buffer[..count])?;
    Ok(count)
}

/// Reserves again and again until everything is written, as `write(2)` would. With a handle of its own, for others may use
/// this one.
fn write_in_place(writer: &Writer, bytes: &[u8]) -> io::Result<usize> {
    let mut writer = writer.try_clone()?;
    // SAFETY: all ends of the pipes of these tests stay with processes that run this crate.
    unsafe { writer.trust_peers() };
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let outcome = writer.reserve(rest.len()).and_then(|mut room| {
            let count = room.write(rest)?;
            room.commit(count)
        });
        match outcome {
            Ok(count) => done += count,
            Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
        }
    }
    Ok(done)
}

/// Copies out of what is borrowed; with a handle of its own, too.
fn read_in_place(reader: &Reader, buffer: &mut [u8]) -> io::Result<usize> {
    let mut reader = reader.try_clone()?;
    // SAFETY: as above.
    unsafe { reader.trust_peers() };
    let borrowed = reader.borrow_up_to(buffer.len())?;
    let mut count = 0;
    for segment in borrowed.segments() {
        buffer[count..count + segment.len()].copy_from_slice(segment);
        count += segment.len();
    }
    borrowed.consume(count);
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern;

    #[test]
    fn every_way_in_and_out_of_every_kind_of_pipe_carries_every_size() {
        for kind in PIPE_KINDS {
            for (into, out) in WRITE_PATHS.iter().flat_map(|into| READ_PATHS.iter().map(move |out| (into, out))) {
                let (reader, writer) = (kind.ask)(Builder::new()).create().unwrap();
                let (mut at, mut buffer) = (0, vec![0; 60_000]);
                for size in [1, 2, 3, 7, 300, 4096, 4097, 60_000] {
                    let names = (kind.name, into.name, out.name, size);
                    assert_eq!(
                        (into.write)(&writer, &pattern::bytes(at..at + size as u64)).unwrap(),
                        size,
                        "{names:?}"
                    );
                    assert_eq!((out.read)(&reader, &mut buffer[..size]).unwrap(), size, "{names:?}");
                    pattern::check(at, &buffer[..size]);
                    at += size as u64;
                }
            }
        }
    }
}

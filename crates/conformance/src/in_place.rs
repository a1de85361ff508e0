//! On trial: `millstream_pipe` where programs reserve, fill and commit, borrow and consume, instead of writing and reading.
//!
//! A program that does so has an end of its own for each thread, so a clone is made for each call that comes while others
//! are under way. `TRUST` says whether the ring's own memory is used, or memory of the process.

use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{BorrowedFd, OwnedFd};

use crate::{BetweenProcesses, End, Implementation, Polled, ReadEnd, WriteEnd};

/// millstream's pipe, used in place.
#[derive(Debug)]
pub enum InPlace<const TRUST: bool> {}

/// An end, and clones of it that no thread uses at this moment.
#[derive(Debug)]
struct Shared<E> {
    end: E,
    idle: Mutex<Vec<E>>,
}

impl<E> Shared<E> {
    fn new(end: E) -> Shared<E> {
        Shared { end, idle: Mutex::new(Vec::new()) }
    }

    /// Lets `call` have an end for itself.
    fn with<T>(
        &self,
        clone: impl Fn(&E) -> io::Result<E>,
        call: impl FnOnce(&mut E) -> io::Result<T>,
    ) -> io::Result<T> {
        // Never waits: a thread that does not exist in the child of a fork may have been here.
        let idle = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        let mut end = idle.map_or_else(|| clone(&self.end), Ok)?;
        let outcome = call(&mut end);
        if let Ok(mut idle) = self.idle.try_lock() {
            idle.push(end);
        }
        outcome
    }
}

/// The read end.
#[derive(Debug)]
pub struct Reader(Shared<millstream_pipe::Reader>);

/// The write end.
#[derive(Debug)]
pub struct Writer(Shared<millstream_pipe::Writer>);

impl<const TRUST: bool> Implementation for InPlace<TRUST> {
    type Reader = Reader;
    type Writer = Writer;

    #[allow(unsafe_code, reason = "a promise: the tests keep to the protocol")]
    fn pipe() -> io::Result<(Reader, Writer)> {
        let (mut reader, mut writer) = millstream_pipe::pipe()?;
        if TRUST {
            // SAFETY: both ends stay with processes that were forked from this one and run this crate.
            unsafe {
                reader.trust_peers();
                writer.trust_peers();
            }
        }
        Ok((Reader(Shared::new(reader)), Writer(Shared::new(writer))))
    }
}

impl<const TRUST: bool> BetweenProcesses for InPlace<TRUST> {}

macro_rules! common {
    ($end:ident) => {
        impl End for $end {
            fn try_clone(&self) -> io::Result<Self> {
                Ok($end(Shared::new(self.0.end.try_clone()?)))
            }

            fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
                self.0.end.set_nonblocking(yes)
            }

            fn capacity(&self) -> io::Result<usize> {
                self.0.end.capacity()
            }

            fn set_capacity(&self, bytes: usize) -> io::Result<usize> {
                self.0.end.set_capacity(bytes)
            }

            fn bytes_readable(&self) -> io::Result<usize> {
                self.0.end.bytes_readable()
            }
        }

        impl Polled for $end {
            fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
                self.0.end.readiness()
            }

            fn into_descriptor(self) -> io::Result<OwnedFd> {
                let Shared { end, idle } = self.0;
                drop(idle);
                end.into_fd()
            }

            fn from_descriptor(descriptor: OwnedFd) -> io::Result<Self> {
                Ok($end(Shared::new(millstream_pipe::$end::attach(descriptor)?)))
            }
        }
    };
}

common!(Reader);
common!(Writer);

impl ReadEnd for Reader {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        self.0.with(millstream_pipe::Reader::try_clone, |reader| {
            let borrowed = reader.borrow_up_to(wanted)?;
            let mut targets = buffers.iter_mut();
            let mut target: &mut [u8] = &mut [];
            for mut source in borrowed.segments() {
                while !source.is_empty() {
                    if target.is_empty() {
                        target = targets.next().expect("no more is shown than was asked for");
                    }
                    let len = source.len().min(target.len());
                    let (filled, rest) = std::mem::take(&mut target).split_at_mut(len);
                    filled.copy_from_slice(&source[..len]);
                    (source, target) = (&source[len..], rest);
                }
            }
            let count = borrowed.len();
            borrowed.consume(count);
            Ok(count)
        })
    }
}

impl WriteEnd for Writer {
    fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        self.0.with(millstream_pipe::Writer::try_clone, |writer| {
            let mut done = 0;
            while done < buffer.len() {
                match write_some(writer, &buffer[done..], done > 0) {
                    Ok(count) => done += count,
                    Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
                }
            }
            Ok(done)
        })
    }

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        self.write(&bytes)
    }
}

fn write_some(writer: &mut millstream_pipe::Writer, bytes: &[u8], has_begun: bool) -> io::Result<usize> {
    if has_begun && writer.bytes_readable()? == writer.capacity()? && !is_nonblocking(writer)? {
        // What has begun is ended by any signal, also one that lets a call begin again: a program that wants that polls.
        poll(&mut [PollFd::from_borrowed_fd(writer.readiness()?, PollFlags::OUT)], None)?;
    }
    let mut room = writer.reserve(bytes.len())?;
    let count = room.len();
    room.write_all(&bytes[..count])?;
    room.commit(count)
}

fn is_nonblocking(writer: &millstream_pipe::Writer) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(writer.readiness()?)?.contains(rustix::fs::OFlags::NONBLOCK))
}

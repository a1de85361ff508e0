//! The two roles in a life: a writer writes a stream, and a reader reads and checks it.

use std::io;
use std::os::fd::OwnedFd;

use millstream_pipe::Statistics;

use super::cast::Cast;
use super::plan::Plan;
use super::said::{Desk, Said};
use super::stream::{Stream, UNIT, writer_of};
use crate::ours::{Reader, Writer};
use crate::paths::{READ_PATHS, WRITE_PATHS};
use crate::{End, PIPE_BUF};

/// An end that can be exported and attached again.
pub(super) trait Traveller: End {
    fn into_fd(self) -> io::Result<OwnedFd>;
    fn attach(fd: OwnedFd) -> io::Result<Self>;
    fn has_ring(&self) -> bool;
    fn statistics(&self) -> Statistics;
}

macro_rules! traveller {
    ($end:ident) => {
        impl Traveller for $end {
            fn into_fd(self) -> io::Result<OwnedFd> {
                self.0.into_fd()
            }

            fn attach(fd: OwnedFd) -> io::Result<$end> {
                millstream_pipe::$end::attach(fd).map($end)
            }

            fn has_ring(&self) -> bool {
                self.0.has_ring()
            }

            fn statistics(&self) -> Statistics {
                self.0.statistics()
            }
        }
    };
}

traveller!(Reader);
traveller!(Writer);

/// What a transfer is done at.
pub(super) enum At<'a, E> {
    /// An end, in one of the ways of the table.
    End(&'a E, usize),
    /// What an end was turned into.
    Plain(&'a OwnedFd),
}

/// What a participant does with bytes.
pub(super) trait Role {
    type End: Traveller;

    /// The bytes that a transfer of `size` would move now; 0 when there is nothing left to do.
    fn clipped(&self, size: usize) -> usize;

    /// Moves so many bytes at most, and returns how many.
    fn transfer(&mut self, at: &At<'_, Self::End>, size: usize) -> io::Result<usize>;

    /// Accounts for what was moved by the last transfer.
    fn account(&mut self, count: usize);

    /// Where in its stream it is.
    fn position(&self) -> u64;
}

/// A mistake that is made on purpose, to see that it is found: in what every so many bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Bytes from one to the next.
    pub every: u64,
}

/// What can go wrong with a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It is left out.
    Lost,
    /// It comes twice.
    Doubled,
    /// It comes after the one behind it.
    Swapped,
}

/// A writer.
pub(super) struct Writing {
    stream: Stream,
    at: u64,
    length: u64,
    buffer: Vec<u8>,
    fault: Option<Fault>,
}

impl Writing {
    pub(super) fn new(plan: &Plan, part: usize, fault: Option<Fault>) -> Writing {
        let stream = Stream::of(plan.life, part, plan.cast);
        Writing { stream, at: 0, length: plan.length, buffer: Vec::new(), fault }
    }

    /// Makes the mistake, if one is due in these bytes.
    fn spoil(&mut self, size: usize) {
        let Some(Fault { kind, every }) = self.fault else { return };
        let next = (self.at / every + 1) * every - 1;
        let Some(index) = (next - self.at).try_into().ok().filter(|&index: &usize| index + 1 < size) else { return };
        let bytes = &mut self.buffer[..size];
        match kind {
            FaultKind::Lost => self.stream.fill(next + 1, &mut bytes[index..]),
            FaultKind::Doubled => self.stream.fill(next, &mut bytes[index + 1..]),
            FaultKind::Swapped => bytes.swap(index, index + 1),
        }
    }
}

impl Role for Writing {
    type End = Writer;

    fn clipped(&self, size: usize) -> usize {
        size.min((self.length - self.at) as usize)
    }

    fn transfer(&mut self, at: &At<'_, Writer>, size: usize) -> io::Result<usize> {
        self.buffer.resize(self.buffer.len().max(size), 0);
        self.stream.fill(self.at, &mut self.buffer[..size]);
        self.spoil(size);
        let bytes = &self.buffer[..size];
        match at {
            At::End(writer, path) => (WRITE_PATHS[*path].whole_if_small(size).write)(&writer.0, bytes),
            At::Plain(fd) => Ok(rustix::io::write(fd, bytes)?),
        }
    }

    fn account(&mut self, count: usize) {
        self.at += count as u64;
    }

    fn position(&self) -> u64 {
        self.at
    }
}

/// A reader.
pub(super) struct Reading<'a> {
    life: u64,
    /// One for each writer, and how far it came.
    streams: Vec<(Stream, u64)>,
    cast: Cast,
    at: u64,
    leaves_after: u64,
    buffer: Vec<u8>,
    desk: Desk<'a>,
    said: &'a Said,
    length: u64,
}

impl<'a> Reading<'a> {
    pub(super) fn new(plan: &Plan, part: usize, said: &'a Said) -> Reading<'a> {
        let streams = (0..plan.cast.writers()).map(|writer| (Stream::of(plan.life, writer, plan.cast), 0)).collect();
        Reading {
            life: plan.life,
            streams,
            cast: plan.cast,
            at: 0,
            leaves_after: plan.parts[part].leaves_after.unwrap_or(u64::MAX),
            buffer: Vec::new(),
            desk: said.desk(part),
            said,
            length: plan.length,
        }
    }

    fn check(&mut self, writer: usize, bytes: &[u8]) {
        let (stream, at) = &mut self.streams[writer];
        if let Some(wrong) = stream.first_difference(*at, bytes) {
            let seen = &bytes[(wrong - *at) as usize..];
            let mut expected = vec![0; seen.len().min(16)];
            stream.fill(wrong, &mut expected);
            let seen = &seen[..expected.len()];
            panic!("life {}: byte {wrong} of writer {writer} is wrong: {seen:02x?} and not {expected:02x?}", self.life);
        }
        *at += bytes.len() as u64;
        self.desk.has_got(writer, bytes.len());
    }

    fn check_mixed(&mut self, bytes: &[u8]) {
        for writer in 0..self.streams.len() {
            let own: Vec<u8> = bytes.iter().copied().filter(|&byte| writer_of(byte) == writer).collect();
            self.check(writer, &own);
        }
        let strange = bytes.iter().find(|&&byte| writer_of(byte) >= self.streams.len());
        assert_eq!(strange, None, "life {}: a byte that no writer wrote", self.life);
    }

    fn check_units(&self, bytes: &[u8]) {
        let (life, units) = (self.life, self.said.units(self.length));
        let (count, head) = (bytes.len(), &bytes[..bytes.len().min(UNIT)]);
        assert_eq!(count % UNIT, 0, "life {life}: {count} bytes are no whole units: {head:02x?}");
        let (stream, _) = self.streams[0];
        for unit in bytes.chunks(UNIT) {
            let number = u64::from_le_bytes(*unit.first_chunk().expect("a unit is longer"));
            assert!(number < units.len() as u64, "life {life}: unit {number} of {}", units.len());
            let wrong = stream.first_difference(number * UNIT as u64, unit);
            assert_eq!(wrong, None, "life {life}: a wrong byte in unit {number}");
            units[number as usize].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

impl Role for Reading<'_> {
    type End = Reader;

    fn clipped(&self, size: usize) -> usize {
        if self.at >= self.leaves_after { 0 } else { size }
    }

    fn transfer(&mut self, at: &At<'_, Reader>, size: usize) -> io::Result<usize> {
        self.buffer.resize(self.buffer.len().max(size), 0);
        let buffer = &mut self.buffer[..size];
        match at {
            At::End(reader, path) => (READ_PATHS[*path].read)(&reader.0, buffer),
            At::Plain(fd) => Ok(rustix::io::read(fd, buffer)?),
        }
    }

    fn account(&mut self, count: usize) {
        let buffer = std::mem::take(&mut self.buffer);
        let bytes = &buffer[..count];
        match self.cast {
            Cast::Pair => self.check(0, bytes),
            Cast::Writers(_) => self.check_mixed(bytes),
            Cast::Readers(_) => self.check_units(bytes),
        }
        self.at += count as u64;
        self.buffer = buffer;
    }

    fn position(&self) -> u64 {
        self.at
    }
}

/// Whether a write of so many bytes happens as a whole or not at all.
pub(super) fn is_atomic(bytes: u64) -> bool {
    bytes <= PIPE_BUF as u64
}

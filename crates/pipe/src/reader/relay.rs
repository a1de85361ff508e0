//! From pipe to pipe: ring to ring with one copy; by the kernel where one of them, or both, go through the backing
//! pipe.

use std::cell::OnceCell;
use std::io;
use std::os::fd::BorrowedFd;

use millstream_ring::{PIPE_BUF, Parking, ReadSide, Room, Route, Waiting, WriteSide};
use millstream_sys::foreign::{splice_now, tee_now};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, cpu, pipe};

use super::Reader;
use super::waiting::Outcome;
use crate::error::broken;
use crate::foreign::{Detour, Foreign, PIECE, Step};
use crate::handover;
use crate::segment::Segment;
use crate::waits::Waits;
use crate::writer::Writer;
use crate::writer::room::free;
use crate::writer::stop::Stop;

impl Reader {
    /// As [`Reader::copy_to`], into another millstream pipe: `len` bytes, or all until the end of the stream, with
    /// one copy from ring to ring. Returns how many were moved.
    ///
    /// ```
    /// use std::io::{Read, Write};
    ///
    /// let ((first, mut writer), (mut reader, second)) = (millstream_pipe::pipe()?, millstream_pipe::pipe()?);
    /// writer.write_all(b"bran and flour")?;
    /// assert_eq!(first.copy_to_pipe(&second, 9)?, 9);
    /// let mut text = [0; 9];
    /// reader.read_exact(&mut text)?;
    /// assert_eq!((&text, first.bytes_readable()?), (b"bran and ", 5));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As there, and as for writing to `target`. `EINVAL`: both ends are of one pipe.
    pub fn copy_to_pipe(&self, target: &Writer, len: u64) -> io::Result<u64> {
        Relay::new(self, target, false)?.run(len)
    }

    /// Copies at most `len` of the bytes that wait to another pipe and leaves them waiting here, as `tee(2)`. Returns
    /// how many; 0 at the end of the stream.
    ///
    /// ```
    /// use std::io::{Read, Write};
    ///
    /// let ((mut first, mut writer), (mut second, copy)) = (millstream_pipe::pipe()?, millstream_pipe::pipe()?);
    /// writer.write_all(b"grain")?;
    /// assert_eq!(first.tee(&copy, usize::MAX)?, 5);
    /// let mut text = [[0; 5]; 2];
    /// first.read_exact(&mut text[0])?;
    /// second.read_exact(&mut text[1])?;
    /// assert_eq!(text, [*b"grain"; 2]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// Sleeps while nothing waits and a writer is left, and while the other pipe is full, if these ends block; then
    /// it copies once and returns. The next call begins with the same bytes, unless they have been read.
    ///
    /// # Errors
    /// As [`Reader::copy_to_pipe`].
    pub fn tee(&self, target: &Writer, len: usize) -> io::Result<usize> {
        let count = Relay::new(self, target, true)?.run(len as u64)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }
}

/// Two ends of different pipes, and their backing pipes where those carry the stream.
struct Relay<'a> {
    reader: &'a Reader,
    writer: &'a Writer,
    from: Option<&'a Segment>,
    to: Option<&'a Segment>,
    keeps: bool,
    shadow_out: OnceCell<Foreign<'a>>,
    shadow_in: OnceCell<Foreign<'a>>,
    detour: Detour,
}

impl<'a> Relay<'a> {
    fn new(reader: &'a Reader, writer: &'a Writer, keeps: bool) -> io::Result<Relay<'a>> {
        reader.see_that_nothing_is_ahead()?;
        if pipe::identity(reader.end.fd()) == pipe::identity(writer.end.fd()) {
            return Err(Errno::INVAL.into());
        }
        reader.end.keep_to_kernel()?;
        writer.end.keep_to_kernel()?;
        let (from, to) = (reader.end.segment()?, writer.end.segment()?);
        let (shadow_out, shadow_in, detour) = (OnceCell::new(), OnceCell::new(), Detour::default());
        Ok(Relay { reader, writer, from, to, keeps, shadow_out, shadow_in, detour })
    }

    fn run(&mut self, len: u64) -> io::Result<u64> {
        let (mut done, mut waits) = (0, Waits::default());
        while done < len {
            let wanted = usize::try_from(len - done).unwrap_or(usize::MAX).min(PIECE);
            let outcome = match self.attempt(wanted, &mut done) {
                Ok(Step::Moved) if self.keeps && done > 0 => break,
                Ok(Step::Moved) => {
                    waits = Waits::default();
                    continue;
                }
                Ok(Step::End) => break,
                Ok(Step::Empty) => match self.reader.wait_for_bytes(self.from, &mut waits) {
                    Ok(Outcome::TryAgain) => Ok(()),
                    Ok(Outcome::EndOfStream) => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(Stop::Interrupted),
                    Err(error) => Err(error.into()),
                },
                Ok(Step::Full) => self.writer.wait_for_room(self.to, wanted, &mut waits),
                Err(stop) => Err(stop),
            };
            if let Err(stop) = outcome
                && let Some(error) = self.writer.give_up(stop)
            {
                return if done > 0 { Ok(done) } else { Err(error) };
            }
        }
        Ok(done)
    }

    fn attempt(&mut self, wanted: usize, done: &mut u64) -> Result<Step, Stop> {
        let was_seen = self.prepare()?;
        let (to_parker, from_parker) = (self.writer.end.parker(), self.reader.end.parker());
        // The writers' lock of one pipe, then the readers' of another. Every process takes locks of these two kinds
        // in this order, so there is no circular wait, whatever the pipes. They are released in the other order.
        let writers = self.to.map(|to| to.ring().lock_writers(&to_parker)).transpose().map_err(broken)?;
        let readers = self.from.map(|from| from.ring().lock_readers(&from_parker)).transpose().map_err(broken)?;
        let are_claimed =
            (readers.as_ref().is_some_and(ReadSide::is_claimed), writers.as_ref().is_some_and(WriteSide::is_claimed));
        if are_claimed != (false, false) {
            drop(readers);
            drop(writers);
            if let (true, Some(from)) = (are_claimed.0, self.from) {
                self.reader.wait_for_others(from)?;
            }
            if let (true, Some(to)) = (are_claimed.1, self.to) {
                self.writer.wait_for_others(to)?;
            }
            return Ok(Step::Moved);
        }
        let routes = (self.from.map(|from| from.ring().route()), self.to.map(|to| to.ring().route()));
        if routes.0 == Some(Route::Moving) || routes.1 == Some(Route::Moving) {
            return Ok(Step::Moved);
        }
        let source = match (&readers, self.from) {
            (Some(readers), Some(segment)) => {
                Some(Source { readers, waiting: readers.waiting(wanted).map_err(broken)?, segment })
            }
            _ => None,
        };
        let target = match (&writers, self.to) {
            (Some(writers), Some(segment)) if routes.1 == Some(Route::Ring) => {
                Some(Target { writers, room: writers.room(wanted).map_err(broken)?, segment })
            }
            _ => None,
        };
        let is_empty = source.as_ref().is_some_and(|source| source.waiting.is_empty());
        let source = source.filter(|_| !is_empty);
        // So much at once, if it is a page, that a slow reader does not have every byte moved by itself.
        let least = source.as_ref().map_or(PIPE_BUF, |source| source.waiting.len()).min(wanted).min(PIPE_BUF);
        let (before, fills_shadow) = (*done, writers.as_ref().filter(|_| routes.1 == Some(Route::Shadow)));
        if let Some(writers) = fills_shadow {
            writers.will_put(wanted);
        }
        let outcome = match &target {
            _ if is_empty && routes.0 == Some(Route::Ring) => Ok(Step::Empty),
            Some(target) if target.room.len() < least => Ok(Step::Full),
            _ => self.transfer(source.as_ref(), target.as_ref(), wanted).map(|count| match count {
                0 => Step::End,
                count => {
                    *done += count as u64;
                    self.take_stock(source.as_ref(), target.is_some(), count);
                    Step::Moved
                }
            }),
        };
        if let (Some(writers), Ok(_) | Err(Errno::AGAIN)) = (fills_shadow, &outcome) {
            writers.has_put(wanted, (*done - before) as usize);
        }
        let outcome = match outcome {
            // Of which of the two?
            Err(Errno::AGAIN) if source.is_none() && transfer::bytes_waiting(self.reader.end.fd())? == 0 => Step::Empty,
            Err(Errno::AGAIN) => Step::Full,
            Err(Errno::INTR) => return Err(Stop::Interrupted),
            Err(error) => return Err(error.into()),
            Ok(step) => step,
        };
        let consumed = self.from.filter(|_| source.is_some() && !self.keeps);
        let filled = self.to.filter(|_| target.is_some());
        drop(readers);
        drop(writers);
        if !matches!(outcome, Step::Moved) {
            let see = self.to.map_or(Ok(()), |to| self.writer.see_unless_seen(to.ring(), was_seen));
            return see.map(|()| outcome);
        }
        if let Some(from) = consumed {
            self.reader.tell_writers(from.ring(), from.ring().readable() == Ok(0));
        }
        if let Some(to) = filled {
            self.writer.tell_readers(to.ring(), free(to.ring()), was_seen)?;
        }
        Ok(outcome)
    }

    /// What may need both locks of one pipe, before one of each is taken. Returns whether a reader of the target was
    /// seen.
    fn prepare(&self) -> Result<bool, Stop> {
        if let Some(from) = self.from
            && from.ring().route() == Route::Moving
        {
            handover::finish_moving(&self.reader.end, from)?;
        }
        let Some(to) = self.to else { return Ok(true) };
        self.writer.tend_to_route(to)?;
        self.writer.see_that_a_reader_is_left(to.ring())
    }

    /// Copies at most `wanted` bytes, and makes them readable at the target if its ring takes them. 0 at the end of
    /// the stream.
    fn transfer(
        &mut self,
        source: Option<&Source<'_, impl Parking>>,
        target: Option<&Target<'_, impl Parking>>,
        wanted: usize,
    ) -> Result<usize, Errno> {
        let (from, to) = (self.reader.end.fd(), self.writer.end.fd());
        let count = match (source, target) {
            (Some(source), Some(target)) => {
                let len = wanted.min(source.waiting.len()).min(target.room.len());
                source.segment.populate(source.waiting.touches(len))?;
                target.segment.populate(target.room.touches(len))?;
                source.readers.copy_into(source.waiting, target.writers, target.room, len)
            }
            (Some(source), None) => {
                let len = wanted.min(source.waiting.len());
                source.segment.populate(source.waiting.touches(len))?;
                let shadow = open_once(&self.shadow_out, to, Access::Write, from)?;
                return shadow.write_from(source.readers, source.waiting, len);
            }
            (None, Some(target)) if self.keeps => {
                let count = self.detour.peek(from, wanted.min(target.room.len()))?;
                target.segment.populate(target.room.touches(count))?;
                let bytes = self.detour.bytes(count);
                return Ok(target.writers.write(target.room, [bytes].into_iter(), cpu::current()));
            }
            (None, Some(target)) => {
                let len = wanted.min(target.room.len());
                target.segment.populate(target.room.touches(len))?;
                open_once(&self.shadow_in, from, Access::Read, to)?.read_to(target.writers, target.room, len)?
            }
            (None, None) if self.keeps => return tee_now(from, to, wanted),
            (None, None) => return splice_now(from, to, wanted),
        };
        if let Some(target) = target {
            target.writers.commit(target.room, count, cpu::current());
        }
        Ok(count)
    }

    /// Consumes what was copied and counts it.
    fn take_stock(&self, source: Option<&Source<'_, impl Parking>>, is_in_ring: bool, count: usize) {
        let (reader, writer) = (&self.reader.end.counters, &self.writer.end.counters);
        if is_in_ring {
            writer.spliced(count)
        } else {
            writer.spliced_through_kernel(count)
        }
        match source {
            _ if self.keeps => {}
            Some(source) => {
                source.readers.consume_first(source.waiting, count, cpu::current());
                reader.spliced(count);
            }
            None => reader.spliced_through_kernel(count),
        }
    }
}

/// A ring in which bytes wait, locked.
struct Source<'s, P: Parking> {
    readers: &'s ReadSide<'s, P>,
    waiting: Waiting,
    segment: &'s Segment,
}

/// A ring into which bytes go, locked.
struct Target<'s, P: Parking> {
    writers: &'s WriteSide<'s, P>,
    room: Room,
    segment: &'s Segment,
}

fn open_once<'s, 'a>(
    slot: &'s OnceCell<Foreign<'a>>,
    fd: BorrowedFd<'a>,
    access: Access,
    other: BorrowedFd<'a>,
) -> Result<&'s Foreign<'a>, Errno> {
    if slot.get().is_none() {
        _ = slot.set(Foreign::new(fd, access, other)?);
    }
    slot.get().ok_or(Errno::BADF)
}

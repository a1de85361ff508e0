//! Reading: from the ring into the buffers of the caller.

use std::io::{self, IoSliceMut, Read};
use std::os::fd::BorrowedFd;

use millstream_ring::{Ring, Route};
use millstream_sys::{Errno, cpu, ready, transfer};

use super::Reader;
use super::waiting::{Looked, Outcome};
use crate::buffers::filled_by_one_call;
use crate::direct::taking;
use crate::error::broken;
use crate::fifo::reading;
use crate::handover;
use crate::segment::Segment;
use crate::waits::Waits;

/// What one attempt came to.
enum Attempt {
    Moved(usize),
    Nothing,
    EndOfStream,
    /// Another process or handle peeks at what waits.
    Claimed,
}

impl Reader {
    /// Reads as ever, unless it would have to wait and `bell` is readable: then it returns `None`, and nothing was
    /// read. For a program that waits for bytes and for something else, without the cost of
    /// [`readiness`](Self::readiness). Only a reader that sleeps, or is about to, checks `bell`.
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::fd::AsFd;
    ///
    /// let (reader, mut writer) = millstream_pipe::pipe()?;
    /// let (bell, mut notifier) = std::io::pipe()?;
    /// notifier.write_all(b"!")?;
    /// assert_eq!(reader.read_or(&mut [0; 8], bell.as_fd())?, None);
    /// writer.write_all(b"mill")?;
    /// assert_eq!(reader.read_or(&mut [0; 8], bell.as_fd())?, Some(4));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_or(&self, buffer: &mut [u8], bell: BorrowedFd<'_>) -> io::Result<Option<usize>> {
        match self.read_some(&mut [IoSliceMut::new(buffer)], Some(bell)) {
            Err(error) if error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// With a `bell`, `ECANCELED` says that it is readable.
    pub(super) fn read_some(&self, buffers: &mut [IoSliceMut<'_>], bell: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let wanted = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
        if wanted == 0 {
            return Ok(0);
        }
        if let Some(count) = self.ahead.take(buffers) {
            return Ok(count);
        }
        let Some(segment) = self.end.segment()? else { return self.read_from_kernel(buffers, bell) };
        let mut waits = Waits::beside(bell);
        if let Some(count) = self.read_if_quiet(segment, buffers, &waits)? {
            return Ok(count);
        }
        if self.end.patience.has_seen_gathering_pay() && segment.ring().reader_has_to_look(wanted) {
            self.gather_if_it_may_wait(segment.ring())?;
        }
        loop {
            match self.attempt(segment, buffers, wanted)? {
                Attempt::Moved(count) => return Ok(count),
                Attempt::EndOfStream => return Ok(0),
                Attempt::Nothing => {}
                Attempt::Claimed => {
                    self.wait_for_others(segment)?;
                    continue;
                }
            }
            let outcome = match self.look_for_bytes(segment.ring(), &waits)? {
                Looked::Knows(outcome) => outcome,
                Looked::InVain => match self.read_asleep(segment, buffers, &waits)? {
                    Some(count) => return Ok(count),
                    None => self.sleep_if_it_may(segment, &mut waits)?,
                },
                Looked::FoundAnotherWorld => self.sleep_if_it_may(segment, &mut waits)?,
            };
            if let Outcome::EndOfStream = outcome {
                return Ok(0);
            }
        }
    }

    #[inline]
    fn attempt(&self, segment: &Segment, buffers: &mut [IoSliceMut<'_>], wanted: usize) -> io::Result<Attempt> {
        let (ring, parker) = (segment.ring(), self.end.parker());
        let readers = ring.lock_readers(&parker).map_err(broken)?;
        if readers.is_claimed() {
            return Ok(Attempt::Claimed);
        }
        let waiting = readers.waiting(wanted).map_err(broken)?;
        match ring.route() {
            Route::Moving => {
                drop(readers);
                handover::finish_moving(&self.end, segment)?;
                return Ok(Attempt::Nothing);
            }
            Route::Ring if waiting.is_empty() => {
                if !ring.is_offered() {
                    return Ok(Attempt::Nothing);
                }
                readers.note_cpu(cpu::current());
                drop(readers);
                return self.attempt_directly(ring, buffers, wanted);
            }
            Route::Shadow if waiting.is_empty() => return self.attempt_backing_pipe(ring, buffers),
            Route::Ring | Route::Shadow => {}
        }
        segment.populate(waiting.touches(wanted.min(waiting.len())))?;
        let count = readers.read(waiting, buffers.iter_mut().map(|buffer| &mut **buffer), cpu::current());
        self.end.counters.moved(count);
        drop(readers);
        let emptied = count == waiting.len();
        self.tell_writers(ring, emptied);
        Ok(Attempt::Moved(count))
    }

    #[cold]
    fn attempt_directly(&self, ring: &Ring<'_>, buffers: &mut [IoSliceMut<'_>], wanted: usize) -> io::Result<Attempt> {
        let (count, is_over) = taking::take(&self.end, ring, buffers, wanted)?;
        if is_over {
            self.tell_writers(ring, true);
        }
        Ok(if count > 0 { Attempt::Moved(count) } else { Attempt::Nothing })
    }

    /// With the readers locked: no other participant takes bytes from the backing pipe now.
    fn attempt_backing_pipe(&self, ring: &Ring<'_>, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Attempt> {
        match transfer::read_now(self.end.fd(), &mut filled_by_one_call(buffers)) {
            Ok(0) => Ok(Attempt::EndOfStream),
            Ok(count) => {
                ring.has_taken(count);
                self.end.counters.moved_through_kernel(count);
                Ok(Attempt::Moved(count))
            }
            Err(Errno::AGAIN) => Ok(Attempt::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    fn read_from_kernel(&self, buffers: &mut [IoSliceMut<'_>], bell: Option<BorrowedFd<'_>>) -> io::Result<usize> {
        let _alone = match self.end.link() {
            Ok(link) => return reading::read(&self.end, link, buffers, bell),
            Err(alone) => alone,
        };
        if let Some(bell) = bell
            && self.end.is_blocking()?
            && ready::either_readable(self.end.fd(), bell)? == [false, true]
        {
            return Err(Errno::CANCELED.into());
        }
        let count = transfer::read(self.end.fd(), &mut filled_by_one_call(buffers))?;
        self.end.counters.moved_through_kernel(count);
        Ok(count)
    }
}

impl Read for &Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_some(&mut [IoSliceMut::new(buffer)], None)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_some(buffers, None)
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(buffers)
    }
}

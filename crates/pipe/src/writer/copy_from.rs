//! From any descriptor into the pipe, without a buffer of this process's own.

use std::io;
use std::os::fd::AsFd;

use millstream_ring::{PIPE_BUF, Route};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, cpu};

use super::Writer;
use super::stop::Stop;
use crate::error::broken;
use crate::foreign::{Foreign, PIECE, Step};
use crate::segment::Segment;
use crate::waits::Waits;

impl Writer {
    /// Moves `len` bytes, or all until its end, from `source` into the pipe: from a file, a socket, a plain pipe, a
    /// terminal or any other descriptor that gives bytes. Returns how many were moved: `len`, unless the source ended
    /// or something came between. 0 says that it has ended.
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// let (mut reader, writer) = millstream_pipe::pipe()?;
    /// let source = std::fs::File::open("/dev/zero")?;
    /// assert_eq!(writer.copy_from(&source, 1000)?, 1000);
    /// let mut bytes = [1; 1000];
    /// reader.read_exact(&mut bytes)?;
    /// assert_eq!(bytes, [0; 1000]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// The bytes go straight to the shared memory, where room for them is found first: nothing is read from the
    /// source that has no place in the pipe. A file's position moves on as by `read(2)`. Other writers' bytes may
    /// come between, as in a long write. A message socket's messages are cut to the room that there is, 4096 bytes or
    /// more, as `read(2)` cuts them.
    ///
    /// Sleeps while a blocking source gives nothing, and while the pipe is full. No lock is held then, so other
    /// writers go on. When the last reader goes it ends at once, also while the source gives nothing.
    ///
    /// # Errors
    /// Only if nothing was moved; otherwise the count is returned, and the error next time if it is still there.
    /// Those of `read(2)` on the source. [`BrokenPipe`](io::ErrorKind::BrokenPipe), with SIGPIPE: no reader is left.
    /// [`WouldBlock`](io::ErrorKind::WouldBlock): the pipe is full and non-blocking, or the source gives nothing and
    /// is non-blocking. [`Interrupted`](io::ErrorKind::Interrupted): a signal handler without `SA_RESTART` ran.
    /// `EBADF`: not open for reading. `EINVAL`: this pipe's own other end. `ENOMEM`, `ENOSPC`: no memory for the
    /// pipe.
    ///
    /// # References
    /// `splice(2)`, `read(2)`.
    pub fn copy_from(&self, source: impl AsFd, len: u64) -> io::Result<u64> {
        let source = Foreign::new(source.as_fd(), Access::Read, self.end.fd())?;
        self.end.keep_to_kernel()?;
        let segment = self.end.segment()?;
        let (mut done, mut waits) = (0, Waits::default());
        while done < len {
            let wanted = usize::try_from(len - done).unwrap_or(usize::MAX).min(PIECE);
            let outcome = match self.copy_some(segment, &source, wanted, &mut done) {
                Ok(Step::Moved) => {
                    waits = Waits::default();
                    continue;
                }
                Ok(Step::End) => break,
                Ok(Step::Empty) => source.sleep(Some(self.end.fd())).map_err(|error| match error {
                    Errno::INTR => Stop::Interrupted,
                    Errno::PIPE => Stop::NoReader,
                    error => error.into(),
                }),
                Ok(Step::Full) => self.wait_for_room(segment, wanted, &mut waits),
                Err(stop) => Err(stop),
            };
            if let Err(stop) = outcome
                && let Some(error) = self.give_up(stop)
            {
                // The bytes have been moved: the error can wait, and will be there next time.
                return if done > 0 { Ok(done) } else { Err(error) };
            }
        }
        Ok(done)
    }

    fn copy_some(
        &self,
        segment: Option<&Segment>,
        source: &Foreign<'_>,
        wanted: usize,
        done: &mut u64,
    ) -> Result<Step, Stop> {
        let Some(segment) = segment else { return self.splice_to_backing_pipe(source, wanted, done) };
        let (ring, parker) = (segment.ring(), self.end.parker());
        let was_seen = self.see_that_a_reader_is_left(ring)?;
        if self.tend_to_route(segment)? {
            return Ok(Step::Moved);
        }
        let writers = ring.lock_writers(&parker).map_err(broken)?;
        if writers.is_claimed() {
            drop(writers);
            return self.wait_for_others(segment).map(|()| Step::Moved);
        }
        match ring.route() {
            Route::Ring => {}
            // With the writers locked: no participant writes in between.
            Route::Shadow => {
                writers.will_put(wanted);
                let before = *done;
                // An error may come after some were put.
                let step = self.splice_to_backing_pipe(source, wanted, done)?;
                writers.has_put(wanted, (*done - before) as usize);
                return Ok(step);
            }
            Route::Moving => return Ok(Step::Moved),
        }
        let room = writers.room(wanted).map_err(broken)?;
        if room.len() < wanted.min(PIPE_BUF) {
            drop(writers);
            return self.see_unless_seen(ring, was_seen).map(|()| Step::Full);
        }
        // Not all of a small ring at once: its readers go on with what is there.
        let half = (ring.capacity().map_err(broken)? / 2).max(PIPE_BUF);
        let len = wanted.min(room.len()).min(half);
        segment.populate(room.touches(len))?;
        let count = match source.read_to(&writers, room, len) {
            Ok(0) => return Ok(Step::End),
            Ok(count) => count,
            Err(Errno::AGAIN) => {
                drop(writers);
                return self.see_unless_seen(ring, was_seen).map(|()| Step::Empty);
            }
            Err(Errno::INTR) => return Err(Stop::Interrupted),
            Err(error) => return Err(error.into()),
        };
        writers.commit(room, count, cpu::current());
        self.end.counters.spliced(count);
        drop(writers);
        *done += count as u64;
        self.tell_readers(ring, room.len() - count, was_seen)?;
        Ok(Step::Moved)
    }

    fn splice_to_backing_pipe(&self, source: &Foreign<'_>, wanted: usize, done: &mut u64) -> Result<Step, Stop> {
        match source.give_to_backing_pipe(self.end.fd(), wanted) {
            Ok(0) => Ok(Step::End),
            Ok(count) => {
                self.end.counters.spliced_through_kernel(count);
                *done += count as u64;
                Ok(Step::Moved)
            }
            // Of which of the two?
            Err(Errno::AGAIN) if transfer::readiness(self.end.fd())?.writable => Ok(Step::Empty),
            Err(Errno::AGAIN) => Ok(Step::Full),
            Err(Errno::INTR) => Err(Stop::Interrupted),
            Err(error) => Err(error.into()),
        }
    }
}

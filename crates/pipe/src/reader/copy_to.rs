//! From the pipe to any descriptor, without a buffer of this process's own.

use std::io;
use std::os::fd::AsFd;

use millstream_ring::{PIPE_BUF, Route};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, cpu, signals};

use super::Reader;
use super::waiting::Outcome;
use crate::error::broken;
use crate::foreign::{Foreign, PIECE, Step};
use crate::handover;
use crate::segment::Segment;
use crate::waits::Waits;

impl Reader {
    /// Moves `len` bytes, or all until the end of the stream, to `target`: a file, a socket, a plain pipe, a terminal
    /// or any other descriptor that takes bytes. [`Reader::copy_to_pipe`] is for a [`Writer`](crate::Writer). Returns
    /// how many were moved: `len`, unless the stream ended or something came between. 0 says that it has ended.
    ///
    /// ```
    /// use std::io::Write;
    ///
    /// let (reader, mut writer) = millstream_pipe::pipe()?;
    /// writer.write_all(b"flour")?;
    /// drop(writer);
    /// # let directory = std::env::temp_dir().join(format!("millstream-copy-to-{}", std::process::id()));
    /// # std::fs::create_dir_all(&directory)?;
    /// # let path = directory.join("sack");
    /// let file = std::fs::File::create(&path)?;
    /// assert_eq!(reader.copy_to(&file, u64::MAX)?, 5);
    /// assert_eq!(std::fs::read(&path)?, b"flour");
    /// # std::fs::remove_dir_all(&directory)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// The bytes go straight from the shared memory to the target, or from kernel pipe to kernel pipe while the
    /// stream goes through the backing pipe. Only what the target took is consumed: if it refuses, the rest still
    /// waits in the pipe. A file's position moves on as by `write(2)`. [`std::io::copy`] does the same for any `Read`
    /// and `Write` through 8 KiB of memory of its own, and loses what it has read and cannot write.
    ///
    /// Sleeps while the pipe is empty and a writer is left, and while a blocking target takes nothing. It holds no
    /// lock then, so other readers go on.
    ///
    /// # Errors
    /// Only if nothing was moved; otherwise the count is returned, and the error next time if it is still there.
    /// Those of `write(2)` on the target, also `ENOSPC`, `EFBIG`, `EPIPE` with SIGPIPE.
    /// [`WouldBlock`](io::ErrorKind::WouldBlock): the pipe is empty and non-blocking, or the target is full and
    /// non-blocking. [`Interrupted`](io::ErrorKind::Interrupted): a signal handler without `SA_RESTART` ran. `EBADF`:
    /// not open
    /// for writing. `EINVAL`: this pipe's own other end. [`ResourceBusy`](io::ErrorKind::ResourceBusy) with a
    /// [`PipeError`](crate::PipeError): bytes were read ahead for this handle ([`Reader::buffered`]); read them first.
    ///
    /// # References
    /// `splice(2)`, `write(2)`. `docs/pipe.md`, "Splice", says which way is taken when, and why.
    pub fn copy_to(&self, target: impl AsFd, len: u64) -> io::Result<u64> {
        self.see_that_nothing_is_ahead()?;
        let target = Foreign::new(target.as_fd(), Access::Write, self.end.fd())?;
        self.end.keep_to_kernel()?;
        let segment = self.end.segment()?;
        let (mut done, mut waits) = (0, Waits::default());
        while done < len {
            let wanted = usize::try_from(len - done).unwrap_or(usize::MAX).min(PIECE);
            let outcome = match self.copy_some(segment, &target, wanted, &mut done) {
                Ok(Step::Moved) => {
                    waits = Waits::default();
                    continue;
                }
                Ok(Step::End) => break,
                Ok(Step::Empty) => self.wait_for_bytes(segment, &mut waits),
                Ok(Step::Full) => target.sleep(None).map(|()| Outcome::TryAgain).map_err(io::Error::from),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(Outcome::TryAgain) => {}
                Ok(Outcome::EndOfStream) => break,
                Err(error) if is_to_go_on_after(&error) => {}
                Err(error) => {
                    if error.kind() == io::ErrorKind::BrokenPipe && target.is_silent_about_broken_pipes() {
                        signals::send_sigpipe_to_this_thread();
                    }
                    // The bytes have been moved: the error can wait, and will be there next time.
                    return if done > 0 { Ok(done) } else { Err(error) };
                }
            }
        }
        Ok(done)
    }

    fn copy_some(
        &self,
        segment: Option<&Segment>,
        target: &Foreign<'_>,
        wanted: usize,
        done: &mut u64,
    ) -> io::Result<Step> {
        let Some(segment) = segment else {
            return self.splice_backing_pipe(target, wanted, || false, done).map(|step| step.unwrap_or(Step::Moved));
        };
        let (ring, parker) = (segment.ring(), self.end.parker());
        let readers = ring.lock_readers(&parker).map_err(broken)?;
        if readers.is_claimed() {
            drop(readers);
            return self.wait_for_others(segment).map(|()| Step::Moved);
        }
        let waiting = readers.waiting(wanted).map_err(broken)?;
        match ring.route() {
            Route::Moving => {
                drop(readers);
                handover::finish_moving(&self.end, segment)?;
                return Ok(Step::Moved);
            }
            Route::Ring if waiting.is_empty() => return Ok(Step::Empty),
            // With the readers locked no other participant takes bytes from the backing pipe now, except one that
            // sleeps there.
            Route::Shadow if waiting.is_empty() => {
                let before = *done;
                let may_interfere = || self.is_another_reader(readers.waiter_while_locked(), ring);
                let step = self.splice_backing_pipe(target, wanted, may_interfere, done)?;
                ring.has_taken((*done - before) as usize);
                drop(readers);
                return match step {
                    Some(step) => Ok(step),
                    None => self.wait_for_idle_reader(ring).map(|()| Step::Moved).map_err(io::Error::from),
                };
            }
            Route::Ring | Route::Shadow => {}
        }
        // Not all of a small ring at once: its writers go on with what is free.
        let half = (ring.capacity().map_err(broken)? / 2).max(PIPE_BUF);
        let len = wanted.min(waiting.len()).min(half);
        segment.populate(waiting.touches(len))?;
        let count = match target.write_from(&readers, waiting, len) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => count,
            Err(Errno::AGAIN) => return Ok(Step::Full),
            Err(error) => return Err(error.into()),
        };
        readers.consume_first(waiting, count, cpu::current());
        self.end.counters.spliced(count);
        drop(readers);
        *done += count as u64;
        self.tell_writers(ring, count == waiting.len());
        Ok(Step::Moved)
    }

    /// `None`: not while another reader may interfere.
    fn splice_backing_pipe(
        &self,
        target: &Foreign<'_>,
        wanted: usize,
        may_interfere: impl FnOnce() -> bool,
        done: &mut u64,
    ) -> io::Result<Option<Step>> {
        match target.take_from_backing_pipe(self.end.fd(), wanted, may_interfere) {
            Ok(None) => Ok(None),
            Ok(Some(0)) => Ok(Some(Step::End)),
            Ok(Some(count)) => {
                self.end.counters.spliced_through_kernel(count);
                *done += count as u64;
                Ok(Some(Step::Moved))
            }
            // Of which of the two?
            Err(Errno::AGAIN) if transfer::bytes_waiting(self.end.fd())? == 0 => Ok(Some(Step::Empty)),
            Err(Errno::AGAIN) => Ok(Some(Step::Full)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a signal handler ran after which a call goes on by itself.
pub(crate) fn is_to_go_on_after(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted && signals::handlers_ask_for_restart()
}

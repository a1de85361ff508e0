//! Writing: from the buffers of the caller into the ring.

use std::io::{self, IoSlice, Write};
use std::sync::atomic::Ordering::Relaxed;

use millstream_ring::{Ring, Route};
use millstream_sys::{cpu, signals, transfer};

use super::Writer;
use super::room::{has_room, needed};
use super::stop::Stop;
use crate::buffers::unwritten;
use crate::direct::offering::{self, Offered};
use crate::error::broken;
use crate::fifo::writing;
use crate::handover;
use crate::policy::FIRST_NAP;
use crate::segment::Segment;

/// What one attempt came to.
enum Attempt<'b> {
    Moved(usize),
    NoRoom,
    /// No room, and so a reader may take it from here.
    Offered(Offered<'b>, bool),
    /// Another writer fills the ring in place.
    Claimed,
}

impl Writer {
    pub(super) fn write_all_of(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let total = buffers.iter().fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
        if total == 0 {
            return Ok(0);
        }
        let Some(segment) = self.end.segment()? else { return self.write_to_kernel(buffers) };
        let (mut done, mut nap, mut is_interrupted) = (0, FIRST_NAP, false);
        while done < total {
            let outcome = match self.attempt(segment, buffers, (done, total), !is_interrupted) {
                Ok(Attempt::Moved(count)) => {
                    done += count;
                    continue;
                }
                Ok(_) if is_interrupted => Err(Stop::Interrupted),
                Ok(Attempt::NoRoom) => match self.wait(segment, (done, total), &mut nap) {
                    // As in the kernel: a signal ends a write that finds no room, but not one that has not looked for
                    // room yet.
                    Err(Stop::Interrupted) if may_go_on(segment.ring(), needed(total)) => {
                        is_interrupted = true;
                        continue;
                    }
                    outcome => outcome,
                },
                Ok(Attempt::Offered(offered, was_seen)) => {
                    let (count, outcome) = self.see_through(segment.ring(), &offered, was_seen);
                    done += count;
                    outcome
                }
                Ok(Attempt::Claimed) => self.wait_for_others(segment),
                Err(stop) => Err(stop),
            };
            let error = match outcome {
                Ok(()) => continue,
                // All of it was taken: a reader that has gone since has nothing to do with this write.
                Err(_) if done == total => {
                    self.readers_seen_at.store(0, Relaxed);
                    return Ok(done);
                }
                // As in the kernel: a call goes on by itself only if it has moved nothing.
                Err(Stop::Interrupted) if done == 0 && signals::handlers_ask_for_restart() => {
                    is_interrupted = false;
                    continue;
                }
                Err(stop) => self.error_of(stop),
            };
            // The bytes have been written: the error can wait, and will be there next time.
            return if done > 0 { Ok(done) } else { Err(error) };
        }
        Ok(done)
    }

    #[inline]
    fn attempt<'b>(
        &self,
        segment: &Segment,
        buffers: &'b [IoSlice<'_>],
        (done, total): (usize, usize),
        may_offer: bool,
    ) -> Result<Attempt<'b>, Stop> {
        let (ring, parker) = (segment.ring(), self.end.parker());
        let was_seen = self.see_that_a_reader_is_left(ring)?;
        let writers = ring.lock_writers(&parker).map_err(broken)?;
        if writers.is_claimed() {
            return Ok(Attempt::Claimed);
        }
        match ring.route() {
            Route::Ring => {}
            Route::Shadow if self.wakes_the_ring(ring, &writers, &parker, total - done)? => {
                return Ok(Attempt::Moved(0));
            }
            Route::Shadow if self.should_try_to_return(ring) => {
                drop(writers);
                // Before anything of this write is in the backing pipe: if this very thread is also the reader, no
                // other takes it out meanwhile. This only saves time: what keeps the pipe with the kernel is no
                // reason to fail.
                let _ = handover::return_to_ring(&self.end, segment);
                return Ok(Attempt::Moved(0));
            }
            Route::Shadow => {
                let moved = self.attempt_backing_pipe(ring, &writers, buffers, (done, total))?;
                return Ok(moved.map_or(Attempt::NoRoom, Attempt::Moved));
            }
            Route::Moving => {
                drop(writers);
                handover::finish_moving(&self.end, segment)?;
                return Ok(Attempt::Moved(0));
            }
        }
        let room = writers.room(total - done).map_err(broken)?;
        if room.len() < needed(total) {
            if may_offer
                && let Some(rest) = unwritten(buffers, done).next()
                && offering::pays(&self.end.pipe.direct, ring, rest.len())
                && let Some(offered) = offering::open(&self.end, ring, &writers, rest)
            {
                return Ok(Attempt::Offered(offered, was_seen));
            }
            drop(writers);
            return self.see_unless_seen(ring, was_seen).map(|()| Attempt::NoRoom);
        }
        segment.populate(room.touches(room.len().min(total - done)))?;
        let count = writers.write(room, unwritten(buffers, done), cpu::current());
        self.end.counters.moved(count);
        let called = ring.readers_wait_roughly().then(|| self.call_readers(ring, &writers, was_seen));
        drop(writers);
        let called = called.unwrap_or_else(|| self.tell_readers(ring, room.len() - count, was_seen));
        // Bytes that were read had a reader. If it has gone since, the next write finds that.
        let was_read = || ring.readable().is_ok_and(|left| left < count);
        called.or_else(|stop| if was_read() { Ok(()) } else { Err(stop) })?;
        Ok(Attempt::Moved(count))
    }

    fn write_to_kernel(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let _alone = match self.end.link() {
            Ok(link) => return writing::write(&self.end, link, buffers),
            Err(alone) => alone,
        };
        let count = transfer::write(self.end.fd(), buffers)?;
        self.end.counters.moved_through_kernel(count);
        Ok(count)
    }
}

/// Whether a writer that was woken by a signal finds room in the ring.
fn may_go_on(ring: &Ring<'_>, needed: usize) -> bool {
    ring.route() == Route::Ring && has_room(ring, needed)
}

impl Write for &Writer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_all_of(&[IoSlice::new(buffer)])
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_all_of(buffers)
    }

    /// Does nothing: what is written can be read at once.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

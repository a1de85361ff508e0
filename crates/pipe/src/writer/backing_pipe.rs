//! Writing while the route leads through the backing pipe, and back from there to the ring.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering::Relaxed;

use millstream_ring::{PIPE_BUF, Ring, Route, WriteSide};
use millstream_sys::{Errno, clock, cpu, futex, transfer};

use super::Writer;
use super::stop::Stop;
use crate::buffers::gathered_for_one_call;
use crate::handover;
use crate::parking::Parker;
use crate::policy::RETURN_EVERY;
use crate::segment::Segment;

/// Between two checks whether the reader asleep in the backing pipe is alive, in TSC cycles: a tenth of a second. The
/// check took a twelfth of the round trip if it was made at every other byte that comes after a pause of a
/// millisecond.
const LOOK_FOR_DEAD_EVERY: u64 = 100 * RETURN_EVERY;

/// Bytes that a writer puts into the backing pipe without having found its reader asleep: with more, the pipe is not
/// idle.
const MOST_FOR_DOZER: usize = 1024;

impl Writer {
    /// Writes as much as there is room for; `None`: there is none. With the writers locked: no participant writes in
    /// between.
    pub(super) fn attempt_backing_pipe(
        &self,
        ring: &Ring<'_>,
        writers: &WriteSide<'_, Parker<'_>>,
        buffers: &[IoSlice<'_>],
        (done, total): (usize, usize),
    ) -> Result<Option<usize>, Stop> {
        let has_sleeper = ring.waiter().is_some();
        if has_sleeper {
            writers.note_cpu(cpu::current());
            ring.bell().is_rung_by_writing(&self.end.readiness_bytes());
        }
        let has_room_for_sure =
            has_sleeper && ring.is_quiet() && writers.backing_pipe_is_drained() && total <= PIPE_BUF;
        writers.will_put(total - done);
        let mut gathered = Vec::new();
        let outcome = match buffers {
            // Faster by a twentieth of a round trip than the call that never waits.
            [buffer] if has_room_for_sure => transfer::write_one(self.end.fd(), &buffer[done..]),
            [buffer] => transfer::write_now(self.end.fd(), &[IoSlice::new(&buffer[done..])]),
            several => transfer::write_now(self.end.fd(), &gathered_for_one_call(several, done, total, &mut gathered)),
        };
        writers.has_put(total - done, *outcome.as_ref().unwrap_or(&0));
        match outcome {
            Ok(0) | Err(Errno::AGAIN) => Ok(None),
            Err(Errno::INTR) => Err(Stop::Interrupted),
            Ok(count) => {
                if has_sleeper {
                    self.end.counters.moved_to_waiter(count);
                } else {
                    self.end.counters.moved_through_kernel(count);
                }
                Ok(Some(count))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns to the ring if only idle mode has brought the stream to the backing pipe: no reader sleeps there any
    /// more, and it is empty.
    pub(super) fn wakes_the_ring<'p>(
        &self,
        ring: &'p Ring<'p>,
        writers: &WriteSide<'p, Parker<'p>>,
        parker: &'p Parker<'p>,
        len: usize,
    ) -> Result<bool, Stop> {
        if !ring.is_quiet() {
            return Ok(false);
        }
        if let Some(id) = ring.waiter() {
            self.written_to_dozer.store(0, Relaxed);
            if !self.is_time_to_look(LOOK_FOR_DEAD_EVERY) || futex::exists(id) {
                return Ok(false);
            }
            ring.forget_waiter(id);
        }
        let to_dozer = self.written_to_dozer.load(Relaxed).saturating_add(len);
        if ring.has_dozer() && to_dozer <= MOST_FOR_DOZER {
            self.written_to_dozer.store(to_dozer, Relaxed);
            return Ok(false);
        }
        let is_empty = || transfer::bytes_waiting(self.end.fd()).map(|bytes| bytes == 0);
        if !is_empty()? {
            return Ok(false);
        }
        // Only an attempt: the lock may belong to a stopped process, or to code that the signal handler writing here
        // interrupted.
        let Some(readers) = ring.try_lock_readers(parker) else { return Ok(false) };
        // Again, now that no further reader can begin to sleep there.
        Ok(is_empty()? && writers.return_to_ring(&readers))
    }

    /// Does first what a route other than the ring asks for; true if the route may have changed.
    pub(crate) fn tend_to_route(&self, segment: &Segment) -> io::Result<bool> {
        match segment.ring().route() {
            Route::Ring => return Ok(false),
            Route::Shadow if !self.should_try_to_return(segment.ring()) => return Ok(false),
            // Only saves time: what keeps the pipe with the kernel is no reason to fail.
            Route::Shadow => _ = handover::return_to_ring(&self.end, segment),
            Route::Moving => handover::finish_moving(&self.end, segment)?,
        }
        Ok(true)
    }

    pub(super) fn should_try_to_return(&self, ring: &Ring<'_>) -> bool {
        ring.waiter().is_none() && self.is_time_to_look(RETURN_EVERY)
    }

    /// Whether so many TSC cycles have gone by since it was last true.
    fn is_time_to_look(&self, every: u64) -> bool {
        let now = clock::ticks();
        let is_time = now.wrapping_sub(self.return_tried_at.load(Relaxed)) >= every;
        if is_time {
            self.return_tried_at.store(now, Relaxed);
        }
        is_time
    }
}

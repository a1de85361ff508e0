//! Whole buffers: filled for as long as the program likes, then passed on as they are.
//!
//! A reservation is a piece of the ring that others of the side wait for. A buffer is the bank *beside* the ring
//! (`spare.rs` of the ring), which nobody waits for: lent, it becomes the ring, and who reads does what he always does. Where there is
//! none to be had a buffer is memory of this process, and lending it is a write.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use millstream_ring::{Lent, Ring, Route, Spare};
use millstream_sys::futex::Thread;
use millstream_sys::share::Share;
use millstream_sys::{Errno, cpu};

use super::{Stop, Writer};
use crate::claim::{self, Claimant, Lease};
use crate::end::{End, Pipe, broken};
use crate::policy::Effort;
use crate::segment::Segment;
use crate::settings;

/// Memory in one piece, to be filled and [lent](Writer::lend) to a pipe; from [`Writer::buffer`]. What is in it before is any
/// bytes.
///
/// It may be kept as long as the program likes, sent to other threads, and outlive the writer; nobody waits for it. Meanwhile the
/// capacity of its pipe cannot be changed (`EBUSY`). Dropped, it was never written. A child that is forked meanwhile has no part
/// in it: it must not fill its copy, and lending that is an error.
#[derive(Debug)]
pub struct Buffer(Memory);

#[derive(Debug)]
enum Memory {
    Private(Vec<u8>),
    InPipe(Beside),
}

/// The bank beside the ring of a pipe, as long as the process has it.
#[derive(Debug)]
struct Beside {
    spare: Spare,
    /// Keeps it mapped.
    pipe: Arc<Pipe>,
    /// Without it others would take the bank for one that nobody has.
    _lease: Lease,
    _share: Arc<Share>,
}

impl Beside {
    fn is_ours(&self) -> bool {
        self.spare.process() == Thread::current().process()
    }

    fn ring(&self) -> Option<&Ring<'_>> {
        self.pipe.mapped_segment().map(Segment::ring)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Lent or not: what was lent is not his any more, and this changes nothing.
        if self.is_ours()
            && let Some(ring) = self.ring()
        {
            ring.give_spare_back(&self.spare);
        }
    }
}

impl Buffer {
    /// Whether it lies in the memory of the pipe, and can be lent without a copy.
    pub fn is_in_pipe(&self) -> bool {
        matches!(self.0, Memory::InPipe(_))
    }

    fn private(len: usize) -> Buffer {
        Buffer(Memory::Private(vec![0; len]))
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Private(bytes) => bytes,
            Memory::InPipe(beside) => match beside.pipe.mapped_segment() {
                // SAFETY: inside of the mapping, which lives as long as the pipe that `beside` keeps, and made before the
                // buffer was. The bank is taken by this process, so nobody who keeps to the protocol touches it or gives its
                // pages back; that all do was promised (`trust_peers`). It is lent only through this buffer, for which the
                // reference has to be gone, and the buffer is empty then.
                Some(segment) => unsafe { segment.place(beside.spare.place(segment.ring())).as_ref() },
                None => &[],
            },
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Private(bytes) => bytes,
            Memory::InPipe(beside) => match beside.pipe.mapped_segment() {
                // SAFETY: as above; the buffer is borrowed exclusively, and there is one for each time that the bank is taken.
                Some(segment) => unsafe { segment.place(beside.spare.place(segment.ring())).as_mut() },
                None => &mut [],
            },
        }
    }
}

/// What one attempt to lend came to.
enum Attempt {
    /// The bytes are in the pipe, whatever telling those who wait came to.
    Lent(Result<(), Stop>),
    /// Something waits in the ring.
    NotNow,
    /// Another fills the ring in place.
    Claimed,
    /// It has to be written.
    Elsewhere,
}

impl Writer {
    /// A buffer of `len` bytes, to be filled and [lent](Writer::lend). Never waits.
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// let (mut reader, mut writer) = millstream_pipe::pipe()?;
    /// let mut buffer = writer.buffer(100_000)?;
    /// buffer.fill(7);
    /// assert_eq!(writer.lend(&mut buffer, 100_000)?, 100_000);
    /// let mut bytes = vec![0; 100_000];
    /// reader.read_exact(&mut bytes)?;
    /// assert!(buffer.is_empty() && bytes.iter().all(|&byte| byte == 7));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// With [`trust_peers`](Self::trust_peers) it lies in the pipe's own memory, of which each pipe has one such place: the next is
    /// there when this one was lent or dropped. It is memory of this process instead, and lending it is a write, without that
    /// promise; while somebody else at this pipe has a buffer; for more bytes than the pipe's capacity or the setting `loan_max`; where
    /// the user's ends have as much in place as they may, or there is no more shared memory; and where the kernel carries the bytes. [`Buffer::is_in_pipe`] tells.
    ///
    /// # Errors
    /// The shared memory cannot be mapped, or was broken by another process.
    pub fn buffer(&mut self, len: usize) -> io::Result<Buffer> {
        match self.trust.claimant(&self.end) {
            Some(Claimant { process, most }) if len > 0 => {
                if len <= most
                    && let Some(lease) = self.trust.lease()
                    && let Some(share) = self.share_beside(process)
                    && let Some(spare) = self.take_spare(len, process)?
                {
                    let pipe = self.end.pipe.clone();
                    return Ok(Buffer(Memory::InPipe(Beside { spare, pipe, _lease: lease, _share: share })));
                }
                self.end.counters.was_refused_a_loan();
                Ok(Buffer::private(len))
            }
            _ => Ok(Buffer::private(len)),
        }
    }

    /// Of what the user's ends may have in place: the lease counts for one claim, and this is beside it.
    fn share_beside(&mut self, process: u32) -> Option<Arc<Share>> {
        if self.share_beside.as_ref().is_none_or(|&(owner, _)| owner != process) {
            let bytes = self.end.pipe.loan_max.min(self.end.pipe.origin.as_ref()?.size.bank_bytes) as u64;
            let share = Share::take(bytes, settings::user_loan_max()).ok()?;
            self.share_beside = Some((process, Arc::new(share)));
        }
        self.share_beside.as_ref().map(|(_, share)| share.clone())
    }

    fn take_spare(&self, len: usize, process: u32) -> io::Result<Option<Spare>> {
        let Some(segment) = self.end.segment()? else { return Ok(None) };
        let (ring, parker) = (segment.ring(), self.end.parker());
        // Once more if it was a dead one's.
        for _ in 0..2 {
            let writers = ring.lock_writers(&parker).map_err(broken)?;
            if ring.route() != Route::Ring {
                return Ok(None);
            }
            if let Some(spare) = writers.take_spare(len, process).map_err(broken)? {
                if segment.populate(spare.extent()).is_err() {
                    // No memory there; of this process there may be some.
                    ring.give_spare_back(&spare);
                    return Ok(None);
                }
                return Ok(Some(spare));
            }
            drop(writers);
            if !free_if_dead(&self.end, ring)? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Writes the first `count` bytes of `buffer`, which it then has no more of: it is empty. Returns `count`, unless something came
    /// in between, as in a [write](Writer#writing): then so many of the first bytes are written, and the buffer is what it was.
    ///
    /// Where it lies in the pipe's memory and readers have taken all that was written before, it is passed on as it is, all at
    /// once: nothing is copied, whoever reads finds it there. It is worth waiting for them a little, as long as an end that waits looks
    /// before it sleeps; if they have not by then, or the end does not block, the bytes are copied as in a write. So this waits no longer than a write does.
    /// [`Statistics::bytes_lent`](crate::Statistics) counts what was not copied. A buffer of another pipe is copied, too.
    ///
    /// # Errors
    /// As for writing; the buffer is what it was, unless it was passed on and found no reader. `EPERM` in the child of a fork: it is its parent's.
    ///
    /// # Panics
    /// When `count` is more than the buffer has.
    pub fn lend(&self, buffer: &mut Buffer, count: usize) -> io::Result<usize> {
        assert!(count <= buffer.len(), "{count} bytes of {} cannot be lent", buffer.len());
        if count > 0 && self.lend_whole(buffer, count)? {
            return Ok(count);
        }
        let written = self.write_all_of(&[IoSlice::new(&buffer[..count])])?;
        if written == count {
            *buffer = Buffer::private(0);
        }
        Ok(written)
    }

    /// Passes it on as it is, if it can be. Returns whether it did; then, and if it fails after that, the buffer is empty.
    fn lend_whole(&self, buffer: &mut Buffer, count: usize) -> io::Result<bool> {
        let Memory::InPipe(beside) = &buffer.0 else { return Ok(false) };
        if !beside.is_ours() {
            return Err(Errno::PERM.into());
        }
        if !Arc::ptr_eq(&beside.pipe, &self.end.pipe) {
            return Ok(false);
        }
        let Some(segment) = self.end.segment()? else { return Ok(false) };
        loop {
            let outcome = match self.try_to_lend(segment, beside, count) {
                Ok(Attempt::Lent(told)) => {
                    *buffer = Buffer::private(0);
                    return told.map(|()| true).map_err(|stop| self.error_of(stop));
                }
                Ok(Attempt::Elsewhere) => return Ok(false),
                Ok(Attempt::NotNow) => match self.look_until_empty(segment.ring()) {
                    Ok(true) => Ok(()),
                    Ok(false) => return Ok(false),
                    Err(stop) => Err(stop),
                },
                Ok(Attempt::Claimed) => self.wait_for_others(segment),
                Err(stop) => Err(stop),
            };
            match outcome {
                Ok(()) => {}
                Err(Stop::Interrupted) if millstream_sys::signals::handlers_ask_for_restart() => {}
                Err(stop) => return Err(self.error_of(stop)),
            }
        }
    }

    fn try_to_lend(&self, segment: &Segment, beside: &Beside, count: usize) -> Result<Attempt, Stop> {
        let (ring, parker) = (segment.ring(), self.end.parker());
        let was_seen = self.see_that_a_reader_is_left(ring)?;
        let writers = ring.lock_writers(&parker).map_err(broken)?;
        if writers.is_claimed() {
            return Ok(Attempt::Claimed);
        }
        if ring.route() != Route::Ring {
            return Ok(Attempt::Elsewhere);
        }
        let room = match writers.lend(&beside.spare, count, cpu::current()).map_err(broken)? {
            Lent::Whole(room) => room,
            Lent::NotNow => return Ok(Attempt::NotNow),
            Lent::Lost => return Ok(Attempt::Elsewhere),
        };
        self.end.counters.lent(count);
        drop(writers);
        // Bytes that were read had a reader: that it has gone since is for the next write to find.
        let was_read = || ring.readable().is_ok_and(|left| left < count);
        let told = self.tell_readers(ring, room, was_seen);
        Ok(Attempt::Lent(told.or_else(|stop| if was_read() { Ok(()) } else { Err(stop) })))
    }

    /// Looks for as long as looking pays. Whether nothing waits then.
    fn look_until_empty(&self, ring: &Ring<'_>) -> Result<bool, Stop> {
        if !self.end.is_blocking()? {
            return Ok(false);
        }
        let closes = ring.closes();
        let is_empty = || ring.readable() == Ok(0) && !ring.is_offered();
        let is_over = || is_empty() || ring.closes() != closes || ring.route() != Route::Ring;
        let mut effort = Effort::default();
        // A policy that never sleeps would look for ever; a write does that after what it could.
        self.end.patience.look(ring.readers_cpu(), is_over, &mut effort);
        self.end.counters.waited(effort);
        Ok(is_empty())
    }
}

/// Frees the bank beside the ring if the process that has it is dead, or never said that it had it. Returns whether nobody has
/// it now.
pub(crate) fn free_if_dead(end: &End, ring: &Ring<'_>) -> io::Result<bool> {
    let Some(owner) = ring.spare_owner().map_err(broken)? else { return Ok(true) };
    if claim::has_claimed(end, owner.process())? {
        return Ok(false);
    }
    let parker = end.parker();
    let writers = ring.lock_writers(&parker).map_err(broken)?;
    writers.end_spare_of_dead(owner).map_err(broken)
}

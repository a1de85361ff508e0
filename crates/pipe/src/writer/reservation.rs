//! Writing in place: room is reserved, filled, and committed.
//!
//! As for reading ([`crate::Borrowed`]) the room is that of the ring itself if the others are trusted, and otherwise
//! memory of this process. A reference to memory that others can change must not exist; `docs/pipe.md` says why,
//! under "Loans".
#![allow(unsafe_code)]

use std::io::{self, IoSlice, Write};
use std::sync::atomic::Ordering::Relaxed;

use millstream_ring::{Claim, PIPE_BUF, Route};
use millstream_sys::transfer::{self, Access};
use millstream_sys::{Errno, signals};

use super::room::needed;
use super::stop::Stop;
use super::{Reserved, Writer};
use crate::claim::{self, Claimant, Trust};
use crate::error::broken;
use crate::handover;
use crate::policy::FIRST_NAP;

/// Most that is reserved where the kernel carries the stream: what its pipe holds.
const LARGEST_FOR_KERNEL: usize = 64 << 10;

/// Room in a pipe, to be filled; from [`Writer::reserve`].
///
/// What is not committed is never written. Dropped, it gives the room back.
#[derive(Debug)]
pub struct Reservation<'w> {
    writer: &'w mut Writer,
    filled: usize,
}

impl Reservation<'_> {
    /// Bytes that can be filled.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.writer.reserved {
            Reserved::Nothing => 0,
            Reserved::InRing { claim, .. } => claim.len(),
            Reserved::Private(len) => *len,
        }
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes written into it with [`Write`], from its start.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The room, to be filled in any order: what is in the second segment follows what is in the first. What is there
    /// before is any bytes.
    #[inline]
    pub fn segments_mut(&mut self) -> [&mut [u8]; 2] {
        match &self.writer.reserved {
            Reserved::Private(len) => [&mut self.writer.private[..*len], &mut []],
            Reserved::InRing { claim, .. } => match self.writer.end.segment() {
                // SAFETY: inside of the mapping, which lives as long as the writer; the two do not overlap. Claimed
                // by this process, so no process that keeps to the protocol touches it. All processes do: the caller
                // of `trust_peers` promised it. The claim is ended only through this reservation, for which the
                // reference has to be gone.
                Ok(Some(segment)) => claim.places(segment.ring()).map(|range| unsafe { segment.place(range).as_mut() }),
                _ => [&mut [], &mut []],
            },
            Reserved::Nothing => [&mut [], &mut []],
        }
    }

    /// Makes the first `count` bytes of the room readable, at once if they are no more than [`PIPE_BUF`] or in place.
    /// Wakes a reader that waits for them. Returns how many were written: all, unless as in a [write](Writer#writing)
    /// something came in between.
    ///
    /// # Errors
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe), with SIGPIPE, if no reader is left. Also the other errors of a
    /// write, if the room is not the pipe's own memory and another writer has taken it meanwhile; nothing was written
    /// then. So it is at a FIFO, where it is not known beforehand how much fits.
    /// `EPERM` in the child of a fork: the room is its parent's.
    ///
    /// # Panics
    /// When `count` is more than was reserved.
    #[inline]
    pub fn commit(self, count: usize) -> io::Result<usize> {
        assert!(count <= self.len(), "{count} bytes of {} cannot be committed", self.len());
        // Whatever happens, dropping has nothing left to do.
        match std::mem::take(&mut self.writer.reserved) {
            Reserved::Nothing => Ok(0),
            Reserved::Private(_) => self.writer.write_all_of(&[IoSlice::new(&self.writer.private[..count])]),
            Reserved::InRing { claim, room_behind, was_seen } => {
                self.writer.commit(&claim, count, room_behind + claim.len() - count, was_seen)
            }
        }
    }

    /// Keeps the room reserved without this value, which a binding to another language cannot hold;
    /// [`Writer::reserved`] has it again. Any other use of the writer may give the room back.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Write for Reservation<'_> {
    /// Copies as much as there is still room for behind what was written before. Nothing is committed by that.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut skipped = self.filled;
        let mut rest = bytes;
        for segment in self.segments_mut() {
            let start = skipped.min(segment.len());
            skipped -= start;
            let len = rest.len().min(segment.len() - start);
            segment[start..start + len].copy_from_slice(&rest[..len]);
            rest = &rest[len..];
        }
        self.filled += bytes.len() - rest.len();
        Ok(bytes.len() - rest.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Reservation<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Reserved::InRing { claim, .. } = std::mem::take(&mut self.writer.reserved) {
            self.writer.drop_claim(&claim);
        }
    }
}

impl Writer {
    /// Trusts the other processes at this pipe from now on: [`Writer::reserve`] gives room in the shared memory
    /// itself wherever the ring carries the bytes. Holds for this handle and its later clones.
    ///
    /// # Safety
    /// As [`Reader::trust_peers`](crate::Reader::trust_peers).
    pub unsafe fn trust_peers(&mut self) {
        if matches!(self.trust, Trust::No) {
            self.trust = Trust::Yes;
        }
    }

    /// Reserves room for up to `len` bytes, to be filled and [committed](Reservation::commit). Sleeps while a write
    /// of `len` bytes would: of up to [`PIPE_BUF`] until there is room for all of it, of more until there is some.
    /// Then gives what there is, at most `len` and at least 1, unless `len` is 0.
    ///
    /// ```
    /// use std::io::{Read, Write};
    ///
    /// let (mut reader, mut writer) = millstream_pipe::pipe()?;
    /// let mut room = writer.reserve(100)?;
    /// write!(room, "{} bytes fit", room.len())?;
    /// let count = room.filled();
    /// room.commit(count)?;
    /// drop(writer);
    /// let mut text = String::new();
    /// reader.read_to_string(&mut text)?;
    /// assert_eq!(text, "100 bytes fit");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// With [`trust_peers`](Self::trust_peers) the room is the pipe's memory, and nothing is copied. Other writers
    /// wait until it is committed or given back, or get [`WouldBlock`](io::ErrorKind::WouldBlock). If this process
    /// dies meanwhile, nothing of it was written. The capacity cannot be changed meanwhile (`EBUSY`), and a process
    /// that exports an end waits.
    ///
    /// Without `trust_peers`, the room is memory of this process that is written when it is committed, and others are
    /// free to write before. So it is for more bytes than the limit for loans ([`settings`](crate::settings),
    /// `loan_max`), or if the user's ends have as many in place as they may (`user_loan_max`).
    ///
    /// # Errors
    /// As for writing. That the last reader has died and left room is found out when the room is committed.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> io::Result<Reservation<'_>> {
        self.reserved = Reserved::Nothing;
        if len > 0 {
            let claimant = self.claimant(len);
            match self.find_now(len, claimant) {
                Ok(true) => {}
                outcome => self.find(len, claimant, outcome)?,
            }
        }
        if let Reserved::Private(len) = self.reserved
            && self.private.len() < len
        {
            self.private.resize(len, 0);
        }
        Ok(Reservation { writer: self, filled: 0 })
    }

    /// The room that was [kept](Reservation::keep), if it was not given back meanwhile.
    ///
    /// ```
    /// let (reader, mut writer) = millstream_pipe::pipe()?;
    /// let mut room = writer.reserve(5)?;
    /// room.segments_mut()[0].copy_from_slice(b"grain");
    /// room.keep();
    /// assert_eq!(reader.bytes_readable()?, 0);
    /// assert_eq!(writer.reserved().unwrap().commit(5)?, 5);
    /// assert!(writer.reserved().is_none());
    /// assert_eq!(reader.bytes_readable()?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reserved(&mut self) -> Option<Reservation<'_>> {
        let is_standing = match &self.reserved {
            Reserved::Nothing => false,
            Reserved::Private(_) => true,
            Reserved::InRing { claim, .. } => self.end.claim.is(claim),
        };
        is_standing.then_some(Reservation { writer: self, filled: 0 })
    }

    /// The process in whose name so many bytes can be claimed, if they can.
    #[inline]
    fn claimant(&mut self, len: usize) -> Option<u32> {
        let Claimant { process, most } = self.trust.claimant(&self.end)?;
        if len > most {
            self.end.counters.was_refused_a_loan();
        }
        (len <= most).then_some(process)
    }

    /// Goes on from what one attempt came to.
    #[cold]
    fn find(&mut self, len: usize, claimant: Option<u32>, mut outcome: Result<bool, Stop>) -> io::Result<()> {
        let mut nap = FIRST_NAP;
        loop {
            if let Ok(false) = outcome {
                outcome = match self.end.segment()? {
                    None => self.wait_for_kernel(nap),
                    Some(segment) => self.wait(segment, (0, needed(len)), &mut nap),
                }
                .map(|()| false);
            }
            match outcome {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(Stop::Interrupted) if signals::handlers_ask_for_restart() => {}
                Err(stop) => return Err(self.error_of(stop)),
            }
            outcome = self.find_now(len, claimant);
        }
    }

    /// Reserves, if there is enough room; otherwise returns false.
    #[inline]
    fn find_now(&mut self, len: usize, claimant: Option<u32>) -> Result<bool, Stop> {
        let Some(segment) = self.end.segment()? else { return self.find_at_kernel(len) };
        let (ring, parker) = (segment.ring(), self.end.parker());
        // In place the time is looked at when the room is committed.
        let was_seen = if claimant.is_some() && ring.closes() == self.closes_seen.load(Relaxed) {
            true
        } else {
            self.see_that_a_reader_is_left(ring)?
        };
        loop {
            let writers = ring.lock_writers(&parker).map_err(broken)?;
            if writers.is_claimed() {
                drop(writers);
                self.wait_for_others(segment)?;
                self.see_that_a_reader_is_left(ring)?;
                continue;
            }
            match ring.route() {
                Route::Ring => {}
                Route::Shadow => {
                    drop(writers);
                    if self.should_try_to_return(ring) {
                        let _ = handover::return_to_ring(&self.end, segment);
                        continue;
                    }
                    return self.find_at_kernel(len);
                }
                Route::Moving => {
                    drop(writers);
                    handover::finish_moving(&self.end, segment)?;
                    continue;
                }
            }
            let room = writers.room(len).map_err(broken)?;
            let free = room.len();
            if free < needed(len) {
                drop(writers);
                if !self.see_that_a_reader_is_left(ring)? {
                    // Nothing is written, so no reader needs a wake-up.
                    self.ask_for_readers_now(ring)?;
                }
                return Ok(false);
            }
            let len = len.min(free);
            self.reserved = match claimant {
                None => Reserved::Private(len),
                Some(process) => {
                    segment.populate(room.touches(len))?;
                    let claim = writers.claim(room, len, process);
                    self.end.claim.note(&claim, Access::Write);
                    Reserved::InRing { claim, room_behind: free - len, was_seen }
                }
            };
            return Ok(true);
        }
    }

    /// Where the kernel carries the stream.
    #[cold]
    fn find_at_kernel(&mut self, len: usize) -> Result<bool, Stop> {
        let ready = transfer::readiness(self.end.fd())?;
        if ready.peer_gone {
            return Err(Stop::NoReader);
        }
        // Ready means that a page is free. So much goes in without waiting, unless another writer is faster.
        let most = if self.end.is_blocking()? { LARGEST_FOR_KERNEL } else { PIPE_BUF };
        if ready.writable {
            self.reserved = Reserved::Private(len.min(most));
        }
        Ok(ready.writable)
    }

    /// At a pipe that only the kernel carries.
    fn wait_for_kernel(&self, nap: std::time::Duration) -> Result<(), Stop> {
        if !self.end.is_blocking()? {
            return Err(Errno::AGAIN.into());
        }
        self.end.counters.slept();
        match transfer::sleep_until_writable(self.end.fd(), nap) {
            Ok(_) => Ok(()),
            Err(Errno::INTR) => Err(Stop::Interrupted),
            Err(error) => Err(error.into()),
        }
    }

    #[inline]
    fn commit(&self, claim: &Claim, count: usize, room: usize, was_seen: bool) -> io::Result<usize> {
        let Some(segment) = self.end.segment()? else { return Err(Errno::PERM.into()) };
        let ring = segment.ring();
        if !claim::is_ours(claim) {
            self.end.claim.clear();
            return Err(Errno::PERM.into());
        }
        let was_seen = match self.see_that_a_reader_is_left(ring) {
            Ok(seen) => was_seen && seen,
            // The last one may have gone while the room was being filled.
            Err(stop) if count > 0 => {
                claim::end_claim(&self.end, ring, Access::Write, claim, 0);
                return Err(self.error_of(stop));
            }
            Err(_) => was_seen,
        };
        if count > 0 {
            self.end.counters.moved_in_place(count);
        }
        claim::end_claim(&self.end, ring, Access::Write, claim, count);
        if count > 0 && (ring.readers_wait() || (room < PIPE_BUF && ring.bell().is_watched_for_room())) {
            // Bytes that were read had a reader. If it has gone since, the next write finds that.
            let was_read = || ring.readable().is_ok_and(|left| left < count);
            let told = self.raise_bell(ring, was_seen);
            told.or_else(|stop| if was_read() { Ok(()) } else { Err(self.error_of(stop)) })?;
        }
        Ok(count)
    }

    fn drop_claim(&self, claim: &Claim) {
        if let Ok(Some(segment)) = self.end.segment() {
            claim::end_claim(&self.end, segment.ring(), Access::Write, claim, 0);
        }
    }
}

//! Reading in place: what waits is looked at where it is, and then consumed.
//!
//! There are two ways, and the program cannot tell them apart except by what they cost. If every process at the pipe
//! is trusted, the bytes of the ring itself are shown, under a claim ([`crate::claim`]). Otherwise, and while the
//! kernel carries the stream, they are first read into memory of this process. No reference may lead to bytes that
//! another process can change; `docs/pipe.md` says why, under "Loans".
#![allow(unsafe_code)]

use std::io::{self, BufRead, IoSliceMut};

use millstream_ring::Route;
use millstream_sys::transfer::Access;

use super::waiting::Outcome;
use super::{InPlace, Reader};
use crate::claim::{self, Claimant, Trust};
use crate::error::broken;
use crate::waits::Waits;

/// The part of the ring that is shown at once. While the program looks at it, its place is not free, and a writer
/// that keeps up should not have to wait.
const PARTS: usize = 4;

/// What the search for bytes came to.
enum Found {
    InPlace,
    Nothing,
    EndOfStream,
    /// They have to be copied.
    Elsewhere,
}

/// Bytes that wait in a pipe, to be looked at before they are taken; from [`Reader::borrow`].
///
/// Dropped, it leaves them where they are.
#[derive(Debug)]
pub struct Borrowed<'r> {
    reader: &'r mut Reader,
}

impl Borrowed<'_> {
    /// Bytes: 0 only at the end of the stream.
    #[inline]
    pub fn len(&self) -> usize {
        self.segments().iter().map(|segment| segment.len()).sum()
    }

    /// Whether the stream has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes: those of the second segment follow those of the first. The first is empty only if both are.
    #[inline]
    pub fn segments(&self) -> [&[u8]; 2] {
        self.reader.shown()
    }

    /// Takes the first `count` of the bytes, or all; the others are left for the next read. Wakes a writer that waits
    /// for room.
    #[inline]
    pub fn consume(self, count: usize) {
        self.reader.consume(count);
    }

    /// Keeps the bytes shown without this value, which a binding to another language cannot hold: the next
    /// [`Reader::borrow`] shows them again, and [`BufRead::consume`] takes them. Any other use of the reader may give
    /// them back.
    ///
    /// ```
    /// use std::io::{BufRead, Write};
    ///
    /// let (mut reader, mut writer) = millstream_pipe::pipe()?;
    /// writer.write_all(b"grain")?;
    /// reader.borrow()?.keep();
    /// reader.consume(4);
    /// assert_eq!(reader.borrow()?.segments().concat(), b"n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Borrowed<'_> {
    #[inline]
    fn drop(&mut self) {
        self.reader.end_claim(0);
    }
}

impl Reader {
    /// Trusts the other processes at this pipe from now on: [`Reader::borrow`] and [`fill_buf`](BufRead::fill_buf)
    /// show the shared memory itself, with no copy, wherever the ring carries the bytes. Holds for this handle and
    /// its later clones.
    ///
    /// # Safety
    /// Until the pipe is closed, two kinds of processes must keep to the protocol. One is every process that has an
    /// end of it. The other is every process that can open the files of such a process. They use the pipe only
    /// through this crate, of this version, and touch its memory in no other way. If a process is forked while bytes
    /// are borrowed or room is reserved, its child touches neither.
    pub unsafe fn trust_peers(&mut self) {
        if matches!(self.trust, Trust::No) {
            self.trust = Trust::Yes;
        }
    }

    /// Shows bytes that wait, without taking them; sleeps until there are some. At the end of the stream there are
    /// none.
    ///
    /// ```
    /// use std::io::Write;
    ///
    /// let (mut reader, mut writer) = millstream_pipe::pipe()?;
    /// writer.write_all(b"grain, chaff")?;
    /// let bytes = reader.borrow()?;
    /// let grain = bytes.segments().concat().iter().position(|&byte| byte == b',').unwrap();
    /// bytes.consume(grain + 2);
    /// assert_eq!(reader.borrow()?.segments().concat(), b"chaff");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// Shows at most a quarter of what the pipe holds, so that a writer that keeps up need not wait for what is
    /// looked at. [`borrow_up_to`](Self::borrow_up_to) shows more. With [`trust_peers`](Self::trust_peers) that is
    /// the pipe's memory, and nothing is copied. Other readers wait until what is shown is consumed or given back. If
    /// this process dies meanwhile, nothing was taken. Without `trust_peers`, up to 64 KiB are read ahead into memory
    /// of this handle, as [`BufReader`](io::BufReader) does. Other readers do not see them any more. What is not
    /// consumed is served first by whatever reads from this handle next.
    ///
    /// # Errors
    /// As for reading. `EMFILE` and its like are none: then it copies.
    pub fn borrow(&mut self) -> io::Result<Borrowed<'_>> {
        self.look(None)?;
        Ok(Borrowed { reader: self })
    }

    /// As [`Reader::borrow`], but shows as much as waits, at most `most` bytes. It reads ahead no more than that, nor
    /// more than 1 MiB. If something has been read ahead already it shows that. Shows nothing if `most` is 0.
    ///
    /// # Errors
    /// As there.
    pub fn borrow_up_to(&mut self, most: usize) -> io::Result<Borrowed<'_>> {
        if most == 0 {
            self.end_claim(0);
        } else {
            self.look(Some(most))?;
        }
        Ok(Borrowed { reader: self })
    }

    /// Bytes that were read ahead for this handle and not consumed. They are not in the pipe any more.
    pub fn buffered(&self) -> usize {
        self.ahead.len()
    }

    /// Sees to it that there is something to show, unless the stream has ended.
    #[inline]
    fn look(&mut self, most: Option<usize>) -> io::Result<()> {
        if self.ahead.len() > 0 || self.claim_is_open() {
            return Ok(());
        }
        self.in_place = None;
        if let Some(claimant) = self.trust.claimant(&self.end) {
            match self.find_now(claimant, most)? {
                Found::InPlace | Found::EndOfStream => return Ok(()),
                Found::Nothing => match self.find(claimant, most)? {
                    Found::Elsewhere => {}
                    _ => return Ok(()),
                },
                Found::Elsewhere => {}
            }
        }
        self.look_ahead(most)
    }

    #[cold]
    fn look_ahead(&mut self, most: Option<usize>) -> io::Result<()> {
        let mut memory = self.ahead.lend_memory(most);
        let count = self.read_some(&mut [IoSliceMut::new(&mut memory)], None);
        self.ahead.take_memory_back(memory, *count.as_ref().unwrap_or(&0));
        count.map(drop)
    }

    #[inline]
    fn claim_is_open(&self) -> bool {
        self.in_place.as_ref().is_some_and(|found| self.end.claim.is(&found.claim) && claim::is_ours(&found.claim))
    }

    /// Waits until there is something.
    #[cold]
    fn find(&mut self, claimant: Claimant, most: Option<usize>) -> io::Result<Found> {
        let mut waits = Waits::default();
        loop {
            let Some(segment) = self.end.segment()? else { return Ok(Found::Elsewhere) };
            if let Outcome::EndOfStream = self.wait(segment, &mut waits)? {
                return Ok(Found::EndOfStream);
            }
            match self.find_now(claimant, most)? {
                Found::Nothing => {}
                found => return Ok(found),
            }
        }
    }

    /// Claims what waits in the ring, if something does.
    #[inline]
    fn find_now(&mut self, claimant: Claimant, most: Option<usize>) -> io::Result<Found> {
        let Some(segment) = self.end.segment()? else { return Ok(Found::Elsewhere) };
        let (ring, parker) = (segment.ring(), self.end.parker());
        loop {
            let readers = ring.lock_readers(&parker).map_err(broken)?;
            if readers.is_claimed() {
                drop(readers);
                self.wait_for_others(segment)?;
                continue;
            }
            if ring.route() != Route::Ring {
                return Ok(Found::Elsewhere);
            }
            let most = match most {
                Some(most) => most,
                None => ring.capacity().map_err(broken)? / PARTS,
            }
            .min(claimant.most);
            let waiting = readers.waiting(most).map_err(broken)?;
            if waiting.is_empty() {
                // A writer's offer lies in its own memory, and is copied from there.
                return Ok(if ring.is_offered() { Found::Elsewhere } else { Found::Nothing });
            }
            let len = most.min(waiting.len());
            segment.populate(waiting.touches(len))?;
            let claim = readers.claim(waiting, len, claimant.process);
            self.end.claim.note(&claim, Access::Read);
            self.in_place = Some(InPlace { claim, is_all: len == waiting.len() });
            return Ok(Found::InPlace);
        }
    }

    #[inline]
    fn shown(&self) -> [&[u8]; 2] {
        match (&self.in_place, self.end.segment()) {
            (Some(found), Ok(Some(segment))) if self.claim_is_open() => {
                // SAFETY: inside of the mapping, which lives as long as `self`. Claimed by this process through this
                // end, so no process that keeps to the protocol writes there or has others read it. All processes do:
                // the caller of `trust_peers` promised it. The claim is ended only through this end, for which the
                // reference has to be gone.
                found.claim.places(segment.ring()).map(|range| unsafe { segment.place(range).as_ref() })
            }
            // Empty if nothing was asked for.
            _ => [self.ahead.bytes(), &[]],
        }
    }

    /// Ends the claim, if there is one, after `count` bytes.
    #[inline]
    fn end_claim(&mut self, count: usize) {
        let Some(found) = self.in_place.take().filter(|found| self.end.claim.is(&found.claim)) else { return };
        let Ok(Some(segment)) = self.end.segment() else { return };
        let (ring, count) = (segment.ring(), count.min(found.claim.len()));
        if count > 0 && claim::is_ours(&found.claim) {
            self.end.counters.moved_in_place(count);
        }
        if !claim::end_claim(&self.end, ring, Access::Read, &found.claim, count) || count == 0 {
            return;
        }
        let emptied = found.is_all && count == found.claim.len();
        self.tell_writers(ring, emptied);
    }
}

impl BufRead for Reader {
    /// As [`Reader::borrow`], as far as the bytes lie in one piece. With [`trust_peers`](Reader::trust_peers) other
    /// readers wait until something is consumed; also 0 bytes, which gives back what is shown.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.look(None)?;
        Ok(self.shown()[0])
    }

    fn consume(&mut self, count: usize) {
        if self.ahead.len() > 0 { self.ahead.consume(count) } else { self.end_claim(count) }
    }
}

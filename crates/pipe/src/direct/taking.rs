//! The reader's part of a direct transfer.

use std::io::{self, IoSliceMut};

use millstream_ring::{Offer, Ring};
use millstream_sys::identity::{Fate, Handle};
use millstream_sys::own_page::{self, WORDS};
use millstream_sys::process_memory::{self, BUFFERS_MAX};
use millstream_sys::{Errno, pipe};

use super::descriptor::{Source, maker_of, transfer_descriptor};
use crate::end::End;
use crate::error::broken;

/// Why nothing was copied.
enum Failure {
    /// The process is dead.
    Gone,
    /// Its memory is not there: its writer will find out by itself.
    NoMemory,
    /// The kernel does not allow it, or the offer cannot be believed.
    Refused,
    /// The reader's memory is not there.
    OwnMemory,
}

/// Takes at most `wanted` bytes of an offer, if that is next in the stream; with no lock held. Returns 0 if that
/// failed: then the reader checks for itself what there is now.
///
/// If this returns true, too, nothing is offered any more: the caller must correct the readiness bytes afterwards.
pub(crate) fn take(
    end: &End,
    ring: &Ring<'_>,
    buffers: &mut [IoSliceMut<'_>],
    wanted: usize,
) -> io::Result<(usize, bool)> {
    let Some(offer) = ring.next_offer().map_err(broken)? else { return Ok((0, false)) };
    let Some(origin) = &end.pipe.origin else { return Ok((0, false)) };
    match copy(end, origin.shadow, &offer, buffers, wanted.min(offer.rest())) {
        Ok(count) if ring.take(&offer, count) => {
            end.counters.moved_directly(count);
            Ok((count, count == offer.rest()))
        }
        // The writer has withdrawn meanwhile, or another reader was faster: what was copied is not ours.
        Ok(_) => Ok((0, false)),
        Err(Failure::Gone) => Ok((0, ring.drop_offer(&offer))),
        Err(Failure::NoMemory) => Ok((0, ring.return_offer(&offer))),
        Err(Failure::Refused) => {
            let is_returned = ring.return_offer(&offer);
            if is_returned {
                ring.refuse_offers();
                end.counters.was_refused_direct();
            }
            Ok((0, is_returned))
        }
        Err(Failure::OwnMemory) => Err(Errno::FAULT.into()),
    }
}

/// Copies, and returns how many bytes are known to come from where the offer says.
fn copy(
    end: &End,
    shadow: pipe::Identity,
    offer: &Offer,
    buffers: &mut [IoSliceMut<'_>],
    count: usize,
) -> Result<usize, Failure> {
    let source = source_of(end, offer)?;
    let mut said = [0; 8 * WORDS];
    let terms = offer.terms();
    let ranges = [(terms.voucher, said.len()), (terms.address.wrapping_add(offer.taken() as u64), count)];
    let read = {
        let filled = buffers.iter_mut().filter(|buffer| !buffer.is_empty()).take(BUFFERS_MAX - 1);
        let filled = filled.map(|buffer| IoSliceMut::new(buffer));
        let mut into: Vec<_> = [IoSliceMut::new(&mut said)].into_iter().chain(filled).collect();
        process_memory::read_two(terms.process, ranges, &mut into)
    };
    // After the copy: if the process lives now, it was the same one all the time.
    if !source.handle.is_alive() {
        return Err(Failure::Gone);
    }
    let bytes = match read {
        // `ESRCH` for a living process: its first thread has ended, through which the kernel looks for the memory.
        Err(_) => return Err(Failure::Refused),
        Ok(read) => read.checked_sub(said.len()).ok_or(Failure::Refused)?,
    };
    let wanted = transfer_descriptor(shadow, offer.serial(), &terms).map(u64::to_ne_bytes);
    if said != *wanted.as_flattened() {
        return Err(Failure::Refused);
    }
    if let Ok(mut kept) = end.pipe.direct.source.try_lock() {
        *kept = Some(source);
    }
    match bytes {
        0 => Err(whose_memory_is_missing(terms.process, ranges[1].0)),
        bytes => Ok(bytes),
    }
}

/// The process that makes the offer: that of the last time, or one that is found to have a page of its own there.
fn source_of(end: &End, offer: &Offer) -> Result<Source, Failure> {
    let (maker, voucher) = (maker_of(offer), offer.terms().voucher);
    let kept = end.pipe.direct.source.try_lock().ok().and_then(|mut kept| kept.take());
    if let Some(source) = kept.filter(|source| source.handle.identity() == maker && source.voucher == voucher) {
        return Ok(source);
    }
    let handle = match Handle::open(maker) {
        Ok(Fate::Alive(handle)) => handle,
        Ok(Fate::Ended) => return Err(Failure::Gone),
        Ok(Fate::Another) | Err(_) => return Err(Failure::Refused),
    };
    match own_page::is_at(maker.process, voucher) {
        Ok(true) => Ok(Source { handle, voucher }),
        _ if !handle.is_alive() => Err(Failure::Gone),
        Ok(false) | Err(_) => Err(Failure::Refused),
    }
}

/// Nothing of what is at `address` there could be copied here.
fn whose_memory_is_missing(process: u32, address: u64) -> Failure {
    match process_memory::read(process, address, &mut [0]) {
        Ok(_) => Failure::OwnMemory,
        Err(Errno::FAULT) => Failure::NoMemory,
        Err(_) => Failure::Refused,
    }
}

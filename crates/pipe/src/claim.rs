//! Working in place: what it takes to reserve or peek at a side of the ring, and to wait for the claims of others.
//!
//! A claim, the in-place lock, is a word in shared memory ([`millstream_ring::Claims`]) that names a process. While
//! that process lives, the others of its side wait, however long that takes. They would do so at a full or an empty
//! pipe too. When it dies, its claim is void.
//!
//! An end claims only if it trusts every process at the pipe. An end that does not trust them must not wait for a
//! forged claim, made in the name of a process that knows nothing of it. So a process that claims has a **lease**.
//! That is a lock on a byte of the memory file, at the position of its process number. It is taken once, and vanishes
//! with its last descriptor. A claim in the name of a process without a lease is void. With the lease goes a share of
//! the bytes that all ends of the user may work on in place (`share.rs` of `sys`). An end that gets no share copies.

pub(crate) mod open;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use millstream_ring::{Claim, ClaimId, Claims, Ring};
use millstream_sys::futex::{self, Thread};
use millstream_sys::share::Share;
use millstream_sys::transfer::{self, Access, Mark};
use millstream_sys::{Errno, clock, cpu, memory};

use crate::end::End;
use crate::error::broken;
use crate::settings;

/// Between two checks whether the other process still lives: at first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// What an end believes of the others at its pipe.
#[derive(Clone, Debug, Default)]
pub(crate) enum Trust {
    /// Anything.
    #[default]
    No,
    /// That they keep to the protocol.
    Yes,
    /// The same, with a lease that shows it.
    WithLease(Lease),
    /// The same, but at that time there was no lease to be had.
    WithoutLease(Ticks),
}

/// Between two attempts to get a lease, in TSC cycles: about a tenth of a second.
const TRY_EVERY: u64 = 300_000_000;

/// A time as `clock::ticks` tells it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks(u64);

/// The process that works in place, and on how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant {
    /// The process in whose name a claim is made.
    pub(crate) process: u32,
    /// Bytes of one claim at most; not 0.
    pub(crate) most: usize,
}

/// Says that claims in the name of this process are made by it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    claimant: Claimant,
    _file: Arc<OwnedFd>,
    /// Of what all ends of this user may have in place.
    _share: Arc<Share>,
}

impl Trust {
    /// The process in whose name a claim can be made now, if there is one.
    #[inline]
    pub(crate) fn claimant(&mut self, end: &End) -> Option<Claimant> {
        match self {
            Trust::No => None,
            Trust::WithLease(Lease { claimant, .. }) if claimant.process == Thread::current().process() => {
                Some(*claimant)
            }
            // Also in the child of a fork.
            Trust::Yes | Trust::WithLease(_) | Trust::WithoutLease(_) => self.with_lease(end),
        }
    }

    #[cold]
    fn with_lease(&mut self, end: &End) -> Option<Claimant> {
        let now = clock::ticks();
        let tried_lately = matches!(self, Trust::WithoutLease(Ticks(at)) if now.wrapping_sub(*at) < TRY_EVERY);
        // Where the kernel alone carries the bytes nothing is refused, either.
        end.pipe.origin.as_ref()?;
        if !tried_lately {
            match Lease::take(end) {
                Ok(lease) => {
                    let claimant = lease.claimant;
                    *self = Trust::WithLease(lease);
                    return Some(claimant);
                }
                Err(_) => *self = Trust::WithoutLease(Ticks(now)),
            }
        }
        end.counters.was_refused_a_loan();
        None
    }
}

impl Lease {
    #[cold]
    fn take(end: &End) -> Result<Lease, Errno> {
        let origin = end.pipe.origin.as_ref().ok_or(Errno::INVAL)?;
        let (limit, all) = (end.pipe.loan_max, origin.size.bank_bytes);
        if limit == 0 {
            return Err(Errno::DQUOT);
        }
        let share = Share::take(limit.min(all) as u64, settings::user_loan_max())?;
        let (file, process) = (memory::reopened(&origin.file)?, millstream_sys::own_pid());
        transfer::mark_together(&file, Mark(u64::from(process)))?;
        // A process that asks for more than there is gets what there is.
        let most = if limit < all { limit } else { usize::MAX };
        Ok(Lease { claimant: Claimant { process, most }, _file: Arc::new(file), _share: Arc::new(share) })
    }
}

/// The claims to room, or to bytes.
#[inline]
pub(crate) fn claims_of<'a>(ring: &Ring<'a>, access: Access) -> Claims<'a> {
    if access == Access::Write { ring.claims_of_writers() } else { ring.claims_of_readers() }
}

/// Whether a claim was made by this process: not by the one that it was forked from.
#[inline]
pub(crate) fn is_ours(claim: &Claim) -> bool {
    claim.id().process == Thread::current().process()
}

/// Ends a claim of this process after `count` bytes. Returns false in the child of a fork, whose claim it is not.
#[inline]
pub(crate) fn end_claim(end: &End, ring: &Ring<'_>, access: Access, claim: &Claim, count: usize) -> bool {
    end.claim.clear();
    if !is_ours(claim) {
        return false;
    }
    let claims = claims_of(ring, access);
    if claims.end(claim, count, cpu::current(), &end.parker()) {
        futex::wake_all(claims.word());
    }
    true
}

/// Ends the claim that an end has made and forgotten, if there is one. Returns whether there was.
#[cold]
pub(crate) fn give_back(end: &End) -> bool {
    let Some((access, serial)) = end.claim.take() else { return false };
    let Ok(Some(segment)) = end.segment() else { return false };
    let ring = segment.ring();
    // Not in the child of a fork: its claims have another process.
    let id = ClaimId { process: Thread::current().process(), serial };
    claims_of(ring, access).standing() == Some(id) && end_for(end, ring, access, id)
}

/// Ends the claim of a process that is dead or has forgotten it. Returns whether it still stood.
fn end_for(end: &End, ring: &Ring<'_>, access: Access, id: ClaimId) -> bool {
    let (parker, claims) = (end.parker(), claims_of(ring, access));
    let is_ended = if access == Access::Write {
        ring.lock_writers(&parker).is_ok_and(|side| side.end_claim_of_dead(id))
    } else {
        ring.lock_readers(&parker).is_ok_and(|side| side.end_claim_of_dead(id))
    };
    futex::wake_all(claims.word());
    is_ended
}

/// Waits until the side is not claimed, or the caller has to check for itself. That is after a signal handler ran
/// (then true), or if the other side of the pipe is gone.
///
/// # Errors
/// `EAGAIN`: the side is claimed, and the caller may not wait.
#[cold]
pub(crate) fn wait(end: &End, ring: &Ring<'_>, access: Access, may_wait: bool) -> io::Result<bool> {
    // This end has forgotten its claim: a value that still held the claim would keep the end borrowed.
    if give_back(end) {
        return Ok(false);
    }
    let claims = claims_of(ring, access);
    let mut look = FIRST_LOOK;
    cpu::give_way();
    while let Some(id) = claims.standing() {
        if !may_wait || look > FIRST_LOOK {
            if !has_claimed(end, id.process)? {
                end_for(end, ring, access, id);
                return Ok(false);
            }
            if !may_wait {
                return Err(Errno::AGAIN.into());
            }
            // Writers have nothing more to wait for; readers have: claimed bytes may come back.
            if access == Access::Write && transfer::readiness(end.fd())?.peer_gone {
                return Ok(false);
            }
        }
        if let Some(expected) = will_wait(end, ring, access)? {
            end.counters.slept();
            if futex::wait_or_be_interrupted(claims.word(), expected, look) {
                return Ok(true);
            }
            look = (look * 2).min(LONGEST_LOOK);
        }
    }
    Ok(false)
}

/// As [`millstream_ring::WriteSide::will_wait`].
fn will_wait(end: &End, ring: &Ring<'_>, access: Access) -> io::Result<Option<u32>> {
    let parker = end.parker();
    if access == Access::Write {
        Ok(ring.lock_writers(&parker).map_err(broken)?.will_wait())
    } else {
        Ok(ring.lock_readers(&parker).map_err(broken)?.will_wait())
    }
}

/// Whether the claim of this process can be its own.
fn has_claimed(end: &End, process: u32) -> Result<bool, Errno> {
    let Some(origin) = &end.pipe.origin else { return Ok(false) };
    Ok(!futex::has_ended(process) && transfer::is_marked(&origin.file, Mark(u64::from(process)))?)
}

/// Whether a process works in place on either side, so that the ring must stay where it is.
pub(crate) fn is_anywhere(end: &End, ring: &Ring<'_>) -> bool {
    [Access::Read, Access::Write].into_iter().any(|access| wait(end, ring, access, false).is_err())
}

//! The transfer descriptor, and what a process keeps for the transfers of one pipe.

use std::sync::Mutex;

use millstream_ring::{Offer, Ring, RingError, Terms};
use millstream_sys::identity::{self, Fate, Handle, Identity};
use millstream_sys::own_page::{OwnPage, WORDS};
use millstream_sys::pipe;

use crate::policy::DirectPolicy;

/// What this process has for the single-copy transfers of one pipe.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) policy: DirectPolicy,
    /// Bytes that must be left of a write, where that is [`DirectPolicy::Adaptive`].
    pub(crate) least: usize,
    /// For offers of this process. Used with the writers locked, so no thread waits here. In a child that another
    /// thread forked in that moment it stays locked, and nothing is offered.
    pub(super) page: Mutex<Option<OwnVoucher>>,
    /// The process that was last read from. Taken out while it is in use.
    pub(super) source: Mutex<Option<Source>>,
}

impl Direct {
    pub(crate) fn new(policy: DirectPolicy, least: usize) -> Direct {
        Direct { policy, least, page: Mutex::new(None), source: Mutex::new(None) }
    }

    /// For a pipe at which nothing is ever offered.
    pub(crate) fn never() -> Direct {
        Direct::new(DirectPolicy::Never, usize::MAX)
    }
}

/// Where this process says what it offers.
#[derive(Debug)]
pub(super) struct OwnVoucher {
    pub(super) page: OwnPage,
    pub(super) identity: Identity,
    /// Of the offer that it speaks of.
    pub(super) serial: u32,
}

/// A process whose page was found to be its own.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) handle: Handle,
    pub(super) voucher: u64,
}

/// Begins every transfer descriptor: `mstoffer`.
const VOUCHER: u64 = u64::from_le_bytes(*b"mstoffer");

/// The transfer descriptor for these terms at this pipe.
pub(super) fn transfer_descriptor(shadow: pipe::Identity, serial: u32, terms: &Terms) -> [u64; WORDS] {
    let Terms { process, start, address, len, .. } = *terms;
    [VOUCHER, shadow.device, shadow.inode, serial.into(), process.into(), start, address, len.into()]
}

pub(super) fn maker_of(offer: &Offer) -> Identity {
    let Terms { process, start, .. } = offer.terms();
    Identity { process, start }
}

/// Drops the offer that stands at this pipe if its process is dead, for threads that wait behind it. Returns whether
/// it did.
pub(super) fn drop_if_dead(ring: &Ring<'_>) -> Result<bool, RingError> {
    let Some(offer) = ring.offer()? else { return Ok(false) };
    Ok(matches!(Handle::open(maker_of(&offer)), Ok(Fate::Ended)) && ring.drop_offer(&offer))
}

/// This process, as others know it.
pub(super) fn own_identity() -> Option<Identity> {
    identity::own().ok()
}

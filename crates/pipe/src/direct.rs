//! Single-copy transfer: a reader copies straight out of the memory of a writer that blocks, one copy instead of two.
//!
//! The protocol is `offer.rs` of the ring. Here is what it needs of the system:
//!
//! - [`offering`]: a writer that finds the ring full offers the rest of its buffer and waits.
//!
//! - [`taking`]: a reader that finds the ring empty copies from there (`process_vm_readv(2)`) and commits.
//!
//! # How a reader checks a transfer
//!
//! An offer, the record that starts a transfer, lies in memory that others can write. One of them could name any
//! process that the reader may look into, also the reader itself, and bring bytes into the stream that it has no
//! right to. So a writer says once more what it offers, in a page that only its own process can write (`own_page.rs`
//! of `sys`): the *transfer descriptor*. The reader asks the kernel once for each process whether there is such a
//! page. It copies the descriptor in the same system call as the bytes: both come from one memory. A process that
//! executed another program has no descriptor any more. When an offer is over, its writer takes the descriptor back,
//! so that no process can offer once more in its name. After the copy the reader asks the kernel whether the process
//! still lives: a process number that was reused is not believed. Only then is the copy committed.
//!
//! A reader that is not allowed to look there, or does not find what it should, returns the offer to the writer.
//! Everything at this pipe goes through the ring from then on.

mod offering;
mod taking;

use std::sync::Mutex;

use millstream_ring::{Offer, Ring, RingError, Terms};
use millstream_sys::identity::{self, Fate, Handle, Identity};
use millstream_sys::own_page::{OwnPage, WORDS};
use millstream_sys::pipe;

pub(crate) use offering::{Offered, open, pays, tell_that_nothing_is_offered};
pub(crate) use taking::take;

/// When a write that blocks lets the reader copy straight out of its memory (`process_vm_readv(2)`), instead of
/// through the ring. In every case the kernel decides whether it may. Another user, a container's rules or a process
/// that is not dumpable (`PR_SET_DUMPABLE`) mean the ring, without an error;
/// [`Statistics::direct_refused`](crate::Statistics) says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectPolicy {
    /// Where it was measured to be faster. That is where at least 128 KiB of a write are left, the pipe holds at most
    /// 64 KiB, and both ends run on the same CPU. [`Builder::direct_min`](crate::Builder::direct_min) and the setting
    /// of that name change the 128 KiB. The default.
    #[default]
    Adaptive,
    /// Never.
    Never,
    /// Whenever a write of more than [`PIPE_BUF`](crate::PIPE_BUF) bytes finds no room. For measurements and tests.
    Always,
}

/// What this process has for the single-copy transfers of one pipe.
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) policy: DirectPolicy,
    /// Bytes that must be left of a write, where that is [`DirectPolicy::Adaptive`].
    pub(crate) least: usize,
    /// For offers of this process. Used with the writers locked, so no thread waits here. In a child that another
    /// thread forked in that moment it stays locked, and nothing is offered.
    page: Mutex<Option<OwnVoucher>>,
    /// The process that was last read from. Taken out while it is in use.
    source: Mutex<Option<Source>>,
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
struct OwnVoucher {
    page: OwnPage,
    identity: Identity,
    /// Of the offer that it speaks of.
    serial: u32,
}

/// A process whose page was found to be its own.
#[derive(Debug)]
struct Source {
    handle: Handle,
    voucher: u64,
}

/// Begins every transfer descriptor: `mstoffer`.
const VOUCHER: u64 = u64::from_le_bytes(*b"mstoffer");

/// The transfer descriptor for these terms at this pipe.
fn transfer_descriptor(shadow: pipe::Identity, serial: u32, terms: &Terms) -> [u64; WORDS] {
    let Terms { process, start, address, len, .. } = *terms;
    [VOUCHER, shadow.device, shadow.inode, serial.into(), process.into(), start, address, len.into()]
}

fn maker_of(offer: &Offer) -> Identity {
    let Terms { process, start, .. } = offer.terms();
    Identity { process, start }
}

/// Drops the offer that stands at this pipe if its process is dead, for threads that wait behind it. Returns whether
/// it did.
pub(crate) fn drop_if_dead(ring: &Ring<'_>) -> Result<bool, RingError> {
    let Some(offer) = ring.offer()? else { return Ok(false) };
    Ok(matches!(Handle::open(maker_of(&offer)), Ok(Fate::Ended)) && ring.drop_offer(&offer))
}

/// This process, as others know it.
fn own_identity() -> Option<Identity> {
    identity::own().ok()
}

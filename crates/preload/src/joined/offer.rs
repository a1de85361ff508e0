//! How the reader of a pipe finds the memory that its writer has made: a lock on the pipe, whose place is the number of the
//! writer's descriptor for that memory, and whose owner the kernel tells.
//!
//! Only processes that have the pipe can ask for it, nobody else is in their way, and it goes with the process that has it. Until
//! the reader has come the writer is not guarded: a child that it forks does not have the lock, and a program that it becomes
//! does not have the descriptor.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU32};

use millstream_sys::fate::Fate;
use millstream_sys::joint::{self, Owner};

use super::end::{READER, WRITER};
use super::slot::Slot;
use super::{alone, kernel, mark_own_process, own_run};

/// Locks of writers lie from here on.
const FIRST: i64 = alone::MARK + 16;
/// More descriptors than any process has.
const PLACES: i64 = 1 << 32;

/// The descriptor of what this process offers; -1: none. And which process that is.
static OFFERED: AtomicI32 = AtomicI32::new(-1);
/// Which process that is.
static OFFERER: AtomicU32 = AtomicU32::new(0);

/// What somebody offers.
pub(super) struct Found {
    process: u32,
    fd: u32,
}

/// Makes memory for the pipe of this writer and says where it is.
pub(super) fn make(inode: u64) -> Result<&'static Slot, Fate> {
    if !mark_own_process() {
        return Err(Fate::Slot);
    }
    let (file, memory) = joint::create(owner(inode)).map_err(|_| Fate::Slot)?;
    let fd = joint::number_of(file);
    OFFERED.store(fd, Relaxed);
    OFFERER.store(millstream_sys::own_pid(), Relaxed);
    // SAFETY: a mapping that lasts; every field is an atomic integer.
    let slot = unsafe { memory.cast::<Slot>().as_ref() };
    if !kernel::post(WRITER.fd(), FIRST + i64::from(fd)) {
        // Somebody else who writes to this pipe has made an offer.
        withdraw(slot);
        return Err(Fate::Shared);
    }
    Ok(slot)
}

/// What a writer of this reader's pipe offers.
pub(super) fn find() -> Option<Found> {
    let (place, process) = kernel::posted(READER.fd(), FIRST, PLACES)?;
    Some(Found { process, fd: u32::try_from(place - FIRST).ok()? })
}

/// Maps it, if it is what it should be.
pub(super) fn open(found: &Found, inode: u64) -> Option<&'static Slot> {
    let memory = joint::open(found.process, found.fd, owner(inode))?;
    // SAFETY: as in `make`.
    Some(unsafe { memory.cast::<Slot>().as_ref() })
}

/// Nobody finds it any more. Who has it keeps it.
pub(super) fn withdraw(slot: &Slot) {
    let fd = OFFERED.load(Relaxed);
    if fd >= 0 {
        kernel::unpost(WRITER.fd(), FIRST + i64::from(fd));
    }
    forget(slot);
}

/// The descriptor is closed, in a forked child its copy of it.
pub(super) fn forget(slot: &Slot) {
    let fd = OFFERED.swap(-1, Relaxed);
    if fd >= 0 {
        // SAFETY: the descriptor of this memory, which this module alone knows.
        unsafe { joint::close(fd, NonNull::from(slot).cast()) };
    }
}

/// Whether another process has made the offer, and this one is its child.
pub(super) fn is_of_parent() -> bool {
    OFFERER.load(Relaxed) != millstream_sys::own_pid()
}

fn owner(inode: u64) -> Owner {
    Owner { token: own_run().token, inode }
}

//! How the reader of a pipe finds the memory that its writer has made: a lock on the pipe, whose place is the number of the
//! writer's descriptor for that memory, and whose owner the kernel tells.
//!
//! Only processes that have the pipe can ask for it, no other process is in their way, and it goes with the process that has it. Until
//! the reader has come the writer is not guarded: a child that it forks does not have the lock, and a program that it becomes
//! does not have the descriptor.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use millstream_ring::channel::Channel;
use millstream_sys::fate::Fate;
use millstream_sys::joint::{self, Owner};

use super::end::{READER, Stage, WRITER};
use super::kernel;
use super::own_process::mark_own_process;
use super::own_run::own_run;

/// A mark of ours on an end lies here, or one byte further for the writer.
pub(super) const MARK: i64 = 0x6d73_6a6f_696e_0000;
/// Locks of writers lie from here on.
const FIRST: i64 = MARK + 16;
/// More descriptors than any process has.
const PLACES: i64 = 1 << 32;

/// The descriptor of what this process offers; -1: none. And its inode.
static OFFERED: AtomicI32 = AtomicI32::new(-1);
static OFFERED_INODE: AtomicU64 = AtomicU64::new(0);
/// Which process that is.
static OFFERER: AtomicU32 = AtomicU32::new(0);

/// What a writer offers.
pub(super) struct Found {
    pub(super) process: u32,
    fd: u32,
}

/// Makes memory for the pipe of this writer and says where it is.
pub(super) fn make(inode: u64) -> Result<&'static Channel, Fate> {
    if !mark_own_process() {
        return Err(Fate::Slot);
    }
    let (file, memory) = joint::create(owner(inode)).map_err(|_| Fate::Slot)?;
    let is_posted = joint::keep_open(file).is_ok_and(|(fd, inode)| {
        OFFERED_INODE.store(inode, Relaxed);
        OFFERED.store(fd, Relaxed);
        OFFERER.store(millstream_sys::own_pid(), Relaxed);
        kernel::post(WRITER.fd(), FIRST + i64::from(fd))
    });
    if !is_posted {
        // Another writer of this pipe has made an offer.
        withdraw();
        // SAFETY: nothing refers to it yet.
        unsafe { joint::unmap(memory) };
        return Err(Fate::Shared);
    }
    // SAFETY: a mapping that lasts until its end is released and no call uses it (`mapping`); every field is an atomic integer.
    Ok(unsafe { memory.cast::<Channel>().as_ref() })
}

/// What a writer of this reader's pipe offers.
pub(super) fn find() -> Option<Found> {
    let (place, process) = kernel::posted(READER.fd(), FIRST, PLACES)?;
    Some(Found { process, fd: u32::try_from(place - FIRST).ok()? })
}

/// Whether a writer of the pipe `fd` offers memory.
pub(super) fn is_there(fd: c_int) -> bool {
    kernel::posted(fd, FIRST, PLACES).is_some()
}

/// Maps it, if it is what it should be.
pub(super) fn open(found: &Found, inode: u64) -> Option<&'static Channel> {
    let memory = joint::open(found.process, found.fd, owner(inode))?;
    // SAFETY: as in `make`.
    Some(unsafe { memory.cast::<Channel>().as_ref() })
}

/// No reader finds it any more. A reader that has it keeps it.
pub(super) fn withdraw() {
    let fd = OFFERED.load(Relaxed);
    if fd >= 0 {
        kernel::unpost(WRITER.fd(), FIRST + i64::from(fd));
    }
    forget();
}

/// The descriptor is closed, in a forked child its copy of it.
pub(super) fn forget() {
    let fd = OFFERED.swap(-1, Relaxed);
    if fd >= 0 {
        // SAFETY: the descriptor of the offered memory, which this module alone knows.
        unsafe { joint::close(fd, OFFERED_INODE.load(Relaxed)) };
    }
}

/// The descriptor of what this process offers.
pub(super) fn descriptor() -> Option<u32> {
    u32::try_from(OFFERED.load(Relaxed)).ok()
}

/// Whether another process has made the offer, and this one is its child.
pub(super) fn is_of_parent() -> bool {
    OFFERER.load(Relaxed) != millstream_sys::own_pid()
}

fn owner(inode: u64) -> Owner {
    Owner { token: own_run().token, inode }
}

/// In a forked child: what its parent has offered is not its own, and neither are the words of that slot. It has no guards yet.
pub(super) fn forget_offer_of_parent() {
    if WRITER.stage() == Stage::Offers {
        forget();
        WRITER.forget();
        WRITER.tally.tell(Fate::Forked);
    }
}

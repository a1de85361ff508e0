//! Leaves the rest of the user's quota of pipe memory to others, however many processes the run has: a pipe is enlarged only while
//! [`Sizing::reserve`] is left. No memory is common to all processes of a run, and no process knows when another's pipe has gone. So
//! each looks for itself, by taking the reserve for some microseconds. What it has found holds for some milliseconds, and for pipes of
//! an eighth of the reserve.
//!
//! One process has at most half of the reserve in large pipes, counted by their descriptors: numbers are handed out from the lowest, so
//! a high one tells that many are open already. Not where the user has said how large pipes are to be.
//!
//! Only a program without threads looks: another thread could put something else under a number that is used for looking.

use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use millstream_sys::fd::{AsRawFd, BorrowedFd};
use millstream_sys::settings::Sizing;
use millstream_sys::{clock, quota, raw};

use crate::{glibc, names};

/// [`Sizing::reserve`]; 0 for a process without a quota too.
static RESERVE: AtomicU64 = AtomicU64::new(0);
/// Only pipes with a lower descriptor are enlarged.
static DESCRIPTOR_LIMIT: AtomicU32 = AtomicU32::new(u32::MAX);
/// glibc's flag (since 2.32).
static SINGLE_THREADED: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// The last look: whose it was, when, and the bytes that may still be taken.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static SINCE: AtomicU64 = AtomicU64::new(0);
static GRANTED: AtomicU64 = AtomicU64::new(0);
/// Instead of these bytes.
const REFUSED: u64 = u64::MAX;
/// After one look a process may take such a part of the reserve: several that look at once may all find it there, and pipes of the
/// kernel's size, for which no process looks, take from it too.
const AT_ONCE: u64 = 8;
/// 12 to 40 milliseconds, by the rate of the processor's clock.
const STALE_TICKS: u64 = 40_000_000;

pub(crate) fn start(sizing: &Sizing) {
    if sizing.reserve == 0 || sizing.is_exempt && glibc::began_as_root() {
        return;
    }
    SINGLE_THREADED.store(names::variable(c"__libc_single_threaded") as *mut c_void, Relaxed);
    if !sizing.is_chosen && sizing.bytes > 0 {
        // Standard input, output and error; then two for each pipe.
        DESCRIPTOR_LIMIT.store(3 + 2 * (sizing.reserve / 2 / sizing.bytes) as u32, Relaxed);
    }
    RESERVE.store(sizing.reserve, Relaxed);
}

/// Whether this process may enlarge the pipe that `end` belongs to to `bytes`.
pub(crate) fn allows(end: BorrowedFd<'_>, bytes: u64) -> bool {
    let reserve = RESERVE.load(Relaxed);
    reserve == 0 || end.as_raw_fd().unsigned_abs() < DESCRIPTOR_LIMIT.load(Relaxed) && take(bytes, reserve)
}

#[cold]
#[inline(never)]
fn take(bytes: u64, reserve: u64) -> bool {
    let (process, now) = (raw::process(), clock::ticks());
    let mut granted = GRANTED.load(Relaxed);
    // The child of a fork has its parent's look, and so may have any number of others.
    let is_known = PROCESS.load(Relaxed) == process && now.wrapping_sub(SINCE.load(Relaxed)) < STALE_TICKS;
    if !is_known || granted < bytes {
        granted = if has_left(reserve) { bytes.max(reserve / AT_ONCE) } else { REFUSED };
        PROCESS.store(process, Relaxed);
        SINCE.store(now, Relaxed);
    }
    let is_granted = granted != REFUSED;
    GRANTED.store(if is_granted { granted - bytes } else { REFUSED }, Relaxed);
    is_granted
}

fn has_left(reserve: u64) -> bool {
    has_one_thread() && {
        let before = raw::block_signals(u64::MAX);
        let has_left = quota::has_left(reserve as usize);
        raw::set_signal_mask(before);
        has_left
    }
}

fn has_one_thread() -> bool {
    let flag = SINGLE_THREADED.load(Relaxed).cast::<u8>();
    // SAFETY: glibc's own flag, one byte that is never moved.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

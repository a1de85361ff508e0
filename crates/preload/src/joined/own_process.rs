//! What a process knows of itself: whether it is a forked child, its lock, and what its threads have called. All of it
//! is in a page that the kernel clears in a forked child.

use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use super::kernel;
use crate::glibc;

pub(super) use super::guard_flags::has_threads;

/// Descriptors from this on are not looked at.
pub(super) const NUMBERS: usize = 128;

/// A page that is wiped in every forked child. Null before the process has a reason to know its children from itself.
static OWN: AtomicPtr<OwnPage> = AtomicPtr::new(core::ptr::null_mut());

/// What is this process's own, and zeros in a child that it forks.
#[repr(C)]
pub(super) struct OwnPage {
    /// 1 in the process that made the page.
    pub(super) is_own: AtomicU32,
    /// [`FREE`], [`TAKEN`] or [`AWAITED`]; a futex.
    lock: AtomicU32,
    /// The thread that has the lock, and how often.
    owner: AtomicUsize,
    depth: AtomicU32,
    /// What a thread has called that could concern any end, as [`Fate::word`]; 0: nothing.
    pub(super) called: AtomicU32,
    /// Calls that wait for descriptors, and are not noted ([`super::threads::Waits`]); and how many have been.
    pub(super) waits: AtomicU32,
    pub(super) noted_waits: AtomicU32,
    /// Calls that load a library.
    pub(super) loads: AtomicU32,
    /// Threads that are in a read or a write of each descriptor.
    pub(super) in_call: [AtomicU8; NUMBERS],
    /// Descriptors that threads have used by other calls than read and write.
    pub(super) used_otherwise: [AtomicU64; NUMBERS / 64],
    /// 1: every thread is armed ([`super::trapped::arm`]).
    pub(super) are_armed: AtomicU32,
    /// Where calls are not trapped.
    pub(super) allowed: [AtomicUsize; 2],
    /// Function and argument of threads that have not begun; 0: free.
    pub(super) beginnings: [[AtomicUsize; 2]; 64],
}

const _: () = assert!(size_of::<OwnPage>() <= 4096);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const AWAITED: u32 = 2;
/// Tells this process from children that it forks from now on.
pub(super) fn mark_own_process() -> bool {
    own_page().is_some_and(|own| {
        own.is_own.store(1, Relaxed);
        true
    })
}

/// What is this process's own. Made by the only thread there is.
pub(super) fn own_page() -> Option<&'static OwnPage> {
    if OWN.load(Relaxed).is_null() {
        let page = kernel::page_of_this_process()?.cast::<OwnPage>();
        OWN.store(page, Relaxed);
        // A process that is asked before it has begun anything is no child.
        // SAFETY: a page of zeros that lasts.
        unsafe { &*page }.is_own.store(1, Relaxed);
    }
    // SAFETY: null, or a page that lasts.
    unsafe { OWN.load(Relaxed).as_ref() }
}

/// Whether this is not a forked child of the process that put its guards up.
pub(super) fn is_own_process() -> bool {
    // SAFETY: null, or a page that lasts.
    unsafe { OWN.load(Relaxed).as_ref() }.is_none_or(|own| own.is_own.load(Relaxed) == 1)
}

/// The calling thread: where the C library keeps what is its own (System V ABI, thread-local storage).
pub(super) fn this_thread() -> usize {
    let thread: usize;
    // SAFETY: the first word of each thread's control block is its own address.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) thread, options(nostack, preserves_flags, readonly)) };
    thread
}

/// Takes the lock, which the thread may have already. Signals are held back.
pub(super) fn lock() -> Option<&'static OwnPage> {
    let page = if has_threads() { own_page()? } else { return None };
    if page.owner.load(Relaxed) != this_thread() {
        let mut next = TAKEN;
        while page.lock.compare_exchange(FREE, next, SeqCst, Relaxed).is_err() {
            next = AWAITED;
            if page.lock.swap(AWAITED, SeqCst) == FREE {
                break;
            }
            kernel::wait(&page.lock, AWAITED, None);
        }
        page.owner.store(this_thread(), Relaxed);
    }
    page.depth.store(page.depth.load(Relaxed) + 1, Relaxed);
    Some(page)
}

pub(super) fn unlock(page: &OwnPage) {
    let depth = page.depth.load(Relaxed) - 1;
    page.depth.store(depth, Relaxed);
    if depth == 0 {
        page.owner.store(0, Relaxed);
        if page.lock.swap(FREE, SeqCst) == AWAITED {
            kernel::wake_all(&page.lock);
        }
    }
}

/// glibc's flag; null before calls are ours.
pub(super) static SINGLE_THREADED: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

pub(super) fn has_one_thread() -> bool {
    let flag = SINGLE_THREADED.load(Relaxed);
    // SAFETY: glibc's own flag, which is never moved.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// Whether there is one thread, in the process that put the guards up.
pub(super) fn is_alone() -> bool {
    has_one_thread() && is_own_process()
}

/// Where frames on the first thread's own stack lie.
pub(super) fn first_stack() -> Range<usize> {
    /// Less than the kernel leaves between a stack and what is mapped below it (`mmap_base` of Linux: 128 MiB).
    const BYTES: usize = 64 << 20;
    let end = glibc::end_of_frames() & !7;
    end.saturating_sub(BYTES)..end
}

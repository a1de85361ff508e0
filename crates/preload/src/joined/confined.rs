//! The filters of a program that sandboxes itself (seccomp) do not allow for the system calls that attach a pipe, and the kernel may
//! kill it for one. So before it does so its pipes stay with the kernel, or are detached ([`crate::confining`]).
//!
//! A program may have been sandboxed before it began. So its filters are counted before a pipe attaches. The run has tried all calls that
//! attaching takes under its own filters; a program under more filters than these attaches no pipe.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millstream_sys::confinement;
use millstream_sys::fate::Fate;

use super::own_run::{IS_WANTED, own_run};
use super::{guard_flags, own_process, retreat, threads, trapped};

/// Whether a filter that the run has not tried may forbid what attaching takes. Asked once: one that is added later is seen as it comes.
pub(super) fn may_not_join() -> bool {
    const ALLOWED: u8 = 1;
    const FORBIDDEN: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    if ANSWER.load(Relaxed) == 0 {
        ANSWER.store(if has_untried_filter() { FORBIDDEN } else { ALLOWED }, Relaxed);
    }
    ANSWER.load(Relaxed) == FORBIDDEN
}

/// As of now: the process may still sandbox itself.
pub(super) fn has_untried_filter() -> bool {
    confinement::filters() > own_run().filters
}

/// No pipe is attached from now on.
pub(crate) fn stop_wanting() {
    IS_WANTED.store(false, Relaxed);
}

/// Before a system call past glibc's guards, for which this stands. `false`: a pipe could not be given back.
pub(crate) fn leaves(confines: bool, called: &CStr, number: usize, first: usize) -> bool {
    if confines {
        stop_wanting();
    } else if trapped::concerns_no_descriptor(number, first) {
        return true;
    }
    if own_process::has_threads() {
        threads::note_any(Fate::called(called));
    }
    !(confines || guard_flags::are_up()) || retreat::before_a_call(Fate::called(called))
}

//! A program that confines itself to a few system calls (seccomp) has not counted with those by which a pipe is joined, and the
//! kernel may kill it for one. So its pipes stay with the kernel, or go back to it, before it does so ([`crate::confining`]).
//!
//! A program that was confined before it began is asked about when a pipe is to be joined: if it is under more filters than those
//! under which the run has tried what joining takes, it never joins.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millstream_sys::confinement;
use millstream_sys::fate::Fate;

use super::{IS_WANTED, guard, own_run, retreat, threads, trapped};

/// Whether a filter that nobody has tried may forbid what joining takes. Asked once: one that is added later is seen as it comes.
pub(super) fn may_not_join() -> bool {
    const ALLOWED: u8 = 1;
    const FORBIDDEN: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    if ANSWER.load(Relaxed) == 0 {
        ANSWER.store(if has_untried_filter() { FORBIDDEN } else { ALLOWED }, Relaxed);
    }
    ANSWER.load(Relaxed) == FORBIDDEN
}

/// As of now: the process may still confine itself.
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
    if threads::are_there() {
        threads::note_any(Fate::called(called));
    }
    !(confines || guard::are_up()) || retreat::before_a_call(Fate::called(called))
}

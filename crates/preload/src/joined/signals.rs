//! Signal handlers may call anything of ours, at any instant.
//!
//! Copies need no protection: a handler that finds one interrupted freezes the ring, so that the copy is not counted, and the
//! interrupted call does it again through the kernel. What changes more than one word holds signals back.

use core::ops::Range;

use millstream_sys::fate::Fate;
use millstream_sys::raw;

use super::end::End;
use super::own_word::OwnFlag;
use super::{kernel, retreat};
use crate::glibc;

const ALL: u64 = u64::MAX;

/// Signals held back, until this is dropped.
pub(super) struct Held {
    before: u64,
}

impl Held {
    pub(super) fn all() -> Held {
        Held { before: raw::block_signals(ALL) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        raw::set_signal_mask(self.before);
    }
}

static IS_COPYING: OwnFlag = OwnFlag::new();

/// Does `copy`, a copy to or from the ring of `end`.
pub(super) fn copying<T>(end: &End, copy: impl FnOnce() -> T) -> T {
    if end.is_promised() {
        // No handler uses it, and another thread may be copying at the other end.
        return copy();
    }
    if IS_COPYING.is_set() {
        // This is a handler, or one has jumped out of a copy.
        retreat::all(Fate::Handler);
    }
    IS_COPYING.set(true);
    let outcome = copy();
    IS_COPYING.set(false);
    outcome
}

/// Where frames on the first thread's own stack lie.
pub(super) fn first_stack() -> Range<usize> {
    /// Less than the kernel leaves between a stack and what is mapped below it (`mmap_base` of Linux: 128 MiB).
    const BYTES: usize = 64 << 20;
    let end = glibc::end_of_frames() & !7;
    end.saturating_sub(BYTES)..end
}

/// Whether this may be a signal handler: on a stack other than the first, or with the frame of a signal between here and the
/// stack's end. The kernel leaves in each such frame the address of the code by which a handler returns.
pub(super) fn may_be_in_handler() -> bool {
    let (mut has_handlers, mut returns) = (false, [0; 2]);
    for signal in 1..=64 {
        let action = kernel::action_of(signal);
        // 0 and 1: the default, and ignored.
        if action.handler > 1 {
            let restorer = action.restorer as usize;
            has_handlers = true;
            if !returns.contains(&restorer) {
                match returns.iter_mut().find(|place| **place == 0) {
                    Some(place) => *place = restorer,
                    None => return true,
                }
            }
        }
    }
    let (here, stack) = ((&raw const returns) as usize, first_stack());
    if !stack.contains(&here) {
        return true;
    }
    // The words of this array are here themselves, so the look begins behind it.
    has_handlers
        && (here + size_of_val(&returns)..stack.end).step_by(8).any(|at| {
            // SAFETY: the stack of this thread, from a variable of this function to where its first frame began.
            let word = unsafe { (at as *const usize).read_volatile() };
            word != 0 && returns.contains(&word)
        })
}

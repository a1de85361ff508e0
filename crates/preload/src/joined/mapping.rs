//! The memory of a pipe that this process has left: taken out of the process as soon as no call can be using it.
//!
//! A signal handler may give a pipe back, or close it, while the call that it interrupts is in the middle of its memory. So each end
//! counts the calls that may be using it, and what it leaves meanwhile is unmapped when the last of them ends. A handler may also
//! jump out of a call, which then never ends: its stack frame tells, because a later call has its own in the same place or further up.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use millstream_ring::channel::Channel;
use millstream_sys::joint;

use super::own_process::first_stack;
use super::own_process::{self, is_own_process};
use super::own_word::OwnWord;

/// So many mappings may wait for the end of one call: a handler would have to come to one more pipe in each.
const WAITING: usize = 4;

/// Calls of one end, and memory that it has left while they go on.
pub(super) struct Uses {
    /// Where there are several threads: the one whose calls these are. 0: none.
    thread: AtomicUsize,
    calls: OwnWord,
    /// Stack address of the first of them.
    outermost: OwnWord,
    left: [AtomicPtr<Channel>; WAITING],
}

impl Uses {
    pub(super) const fn new() -> Uses {
        Uses {
            thread: AtomicUsize::new(0),
            calls: OwnWord::new(),
            outermost: OwnWord::new(),
            left: [const { AtomicPtr::new(core::ptr::null_mut()) }; WAITING],
        }
    }

    /// Does a call that may use the memory of this end. `None`: a call of another thread goes on, and this one is not done.
    pub(super) fn during<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let took = own_process::has_threads() && self.take()?;
        let has_jumped = self.begin();
        let outcome = call();
        let others = self.calls.get().saturating_sub(1);
        self.calls.set(others);
        if others == 0 {
            self.unmap_left();
        }
        if took || (has_jumped && own_process::has_threads()) {
            self.release();
        }
        Some(outcome)
    }

    /// Has the end be this thread's: whether it was not before, as it is in a signal handler. `None`: it is another's.
    fn take(&self) -> Option<bool> {
        let this = own_process::this_thread();
        match self.thread.compare_exchange(0, this, SeqCst, SeqCst) {
            Ok(_) => Some(true),
            Err(other) => (other == this).then_some(false),
        }
    }

    fn release(&self) {
        let this = own_process::this_thread();
        let _ = self.thread.compare_exchange(this, 0, SeqCst, SeqCst);
        // What another thread has left in the meantime, if none has the end by now that could be using it.
        while self.left.iter().any(|place| !place.load(SeqCst).is_null()) && self.take() == Some(true) {
            self.unmap_left();
            let _ = self.thread.compare_exchange(this, 0, SeqCst, SeqCst);
        }
    }

    /// Whether this is no call of a handler that has interrupted one.
    pub(super) fn is_outermost(&self) -> bool {
        self.calls.get() == 1
    }

    /// Whether a call of another thread goes on.
    #[inline(never)] // has many callers
    pub(super) fn are_of_another_thread(&self) -> bool {
        own_process::has_threads() && ![0, own_process::this_thread()].contains(&self.thread.load(SeqCst))
    }

    /// Whether a call of any thread may be using the memory.
    fn go_on(&self) -> bool {
        if own_process::has_threads() { self.thread.load(SeqCst) != 0 } else { self.calls.get() > 0 }
    }

    /// Whether a call before this one was left by a jump.
    fn begin(&self) -> bool {
        let here = stack_address();
        let calls = self.calls.get();
        let has_jumped = calls > 0 && has_jumped(self.outermost.get(), here);
        let before = if has_jumped { 0 } else { calls };
        self.calls.set(before + 1);
        if before == 0 {
            self.outermost.set(here);
            // A handler that came before the line above took this call for one that was left.
            self.calls.set(1);
        }
        has_jumped
    }

    /// The end has left this memory. If a call may be using it and no place is free it stays until the process ends.
    pub(super) fn leave(&self, memory: NonNull<Channel>) {
        let is_kept = |place: &AtomicPtr<Channel>| {
            place.compare_exchange(core::ptr::null_mut(), memory.as_ptr(), SeqCst, Relaxed).is_ok()
        };
        if !self.left.iter().any(is_kept) {
            return;
        }
        if !self.go_on() {
            self.unmap_left();
        } else {
            // The handler may fork, and the interrupted call goes on in the child too.
            // SAFETY: the mapping is there until the call ends.
            unsafe { joint::inherit(memory.cast()) };
        }
    }

    fn unmap_left(&self) {
        for place in &self.left {
            if place.load(Relaxed).is_null() {
                continue;
            }
            let memory = NonNull::new(place.swap(core::ptr::null_mut(), SeqCst));
            // A forked child never had it.
            if let Some(memory) = memory.filter(|_| is_own_process()) {
                // SAFETY: mapped for an end that has left it, and no call of that end goes on.
                unsafe { joint::unmap(memory.cast()) };
            }
        }
    }

    /// In a forked child: the memory is its parent's alone.
    pub(super) fn forget(&self) {
        self.left.iter().for_each(|place| place.store(core::ptr::null_mut(), SeqCst));
        // The thread whose call it was may not be there.
        self.thread.store(0, SeqCst);
        self.calls.set(0);
    }
}

/// Whether a call whose frame was at `before` cannot be going on, because this one is at `now`. Frames of the first thread's own stack
/// only: on another stack, a handler's for instance, nothing can be told.
fn has_jumped(before: usize, now: usize) -> bool {
    let own = first_stack();
    own.contains(&before) && own.contains(&now) && now >= before
}

#[inline(always)]
fn stack_address() -> usize {
    let here = 0_u8;
    core::hint::black_box(&raw const here) as usize
}

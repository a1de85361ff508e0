//! The kernel marks a channel when the first thread of its reader's process ends: in the place of the thread's list of
//! robust futexes for the one that it is just locking.

use core::sync::atomic::Ordering::SeqCst;

use millstream_ring::channel::Channel;

use super::kernel;

/// From now on the kernel marks the channel when the process ends, and wakes the writer.
pub(super) fn enter(channel: &Channel) -> bool {
    let Some(list) = kernel::robust_list() else { return false };
    let word = channel.room_word();
    word.store(millstream_sys::own_pid(), SeqCst);
    // SAFETY: the list of the first thread, which glibc has registered and which lives as long as that thread.
    unsafe {
        if (*list).pending != 0 {
            return false;
        }
        (&raw mut (*list).pending).write_volatile((word.as_ptr() as usize).wrapping_add_signed(-(*list).offset));
    }
    true
}

/// The process ends unnoticed again.
pub(super) fn leave() {
    if let Some(list) = kernel::robust_list() {
        // SAFETY: as in `enter`.
        unsafe { (&raw mut (*list).pending).write_volatile(0) };
    }
}

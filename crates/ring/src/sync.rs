//! Where this crate gets its atomics from: the processor, or a model checker that tries orders of events, up to a bound
//! of preemptions.

pub mod channel;

#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

pub use core::sync::atomic::Ordering;

/// The fence of edge E3, where it follows the release of a lock.
///
/// On x86-64 the release of a lock by a swap has fenced already. No later load overtakes a locked instruction, and it
/// waits for every earlier store to be visible (Intel 64 manual, volume 3, 9.2.3.9; AMD64 manual, volume 2, 7.1). A
/// second full fence would cost as much as copying some hundred bytes and order nothing more. A thread releases a lock
/// of its own by a plain store; then the waiter makes that thread pass a fence
/// ([`Parking::fence_everywhere`](crate::Parking::fence_everywhere)). In both cases this orders the compiler only.
#[inline]
pub(crate) fn fence_after_unlock() {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    fence(Ordering::SeqCst);
}

/// The cheap side of edge E8: orders the compiler only. The other side makes this thread pass a real fence when that is
/// needed. The model checker has no such fence, so a model has a real one on both sides.
#[inline]
pub(crate) fn light_fence() {
    #[cfg(not(loom))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

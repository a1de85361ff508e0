//! Where this crate gets its atomics from: the processor, or a model checker that tries every order of events.

#[cfg(not(loom))]
pub use core::hint::spin_loop;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, fence};

#[cfg(loom)]
pub use loom::hint::spin_loop;
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, fence};

pub use core::sync::atomic::Ordering;

/// The fence of edge E3, where it follows the swap that gives a lock back.
///
/// On x86-64 that swap is a locked instruction: no later load overtakes it, and it waits for every earlier store to be
/// visible (Intel 64 manual, volume 3, 9.2.3.9; AMD64 manual, volume 2, 7.1). A second full fence would cost as much as
/// copying some hundred bytes and order nothing more, so there only the compiler is kept in order.
#[inline]
pub(crate) fn fence_after_swap() {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    fence(Ordering::SeqCst);
}

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

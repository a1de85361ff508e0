//! The atomics of a channel. In a model each access is a step before which the model may kill the process, or interrupt
//! it with a signal handler.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(loom)]
pub use stepped::{AtomicU32, AtomicU64, before_step, step};

#[cfg(loom)]
mod stepped {
    use core::cell::RefCell;
    use core::sync::atomic::Ordering;
    use std::boxed::Box;

    type Event = (u32, Box<dyn FnOnce()>);

    loom::thread_local! {
        static EVENT: RefCell<Option<Event>> = RefCell::new(None);
    }

    /// Before its step number `count` from now this thread does `event`, once. It may unwind.
    pub fn before_step(count: u32, event: impl FnOnce() + 'static) {
        EVENT.with(|next| *next.borrow_mut() = Some((count, Box::new(event))));
    }

    /// A step: an access to a word, or a call of the kernel.
    pub fn step() {
        let due = EVENT.with(|next| {
            let mut next = next.borrow_mut();
            match next.take() {
                Some((0, event)) => Some(event),
                Some((count, event)) => {
                    *next = Some((count - 1, event));
                    None
                }
                None => None,
            }
        });
        if let Some(event) = due {
            event();
        }
    }

    macro_rules! stepped {
        ($name:ident, $value:ty) => {
            /// As that of `core`.
            #[derive(Debug, Default)]
            pub struct $name(loom::sync::atomic::$name);

            #[allow(missing_docs)]
            impl $name {
                pub fn new(value: $value) -> $name {
                    $name(loom::sync::atomic::$name::new(value))
                }

                pub fn load(&self, order: Ordering) -> $value {
                    step();
                    self.0.load(order)
                }

                /// What the kernel finds there. No step.
                pub fn peek(&self) -> $value {
                    self.0.load(Ordering::Relaxed)
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    step();
                    self.0.store(value, order);
                }

                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    step();
                    self.0.swap(value, order)
                }

                pub fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    step();
                    self.0.compare_exchange(from, to, success, failure)
                }

                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    step();
                    self.0.fetch_or(value, order)
                }

                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    step();
                    self.0.fetch_and(value, order)
                }

                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    step();
                    self.0.fetch_add(value, order)
                }
            }
        };
    }

    stepped!(AtomicU32, u32);
    stepped!(AtomicU64, u64);
}

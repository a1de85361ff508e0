//! Between a pipe and everything else that has a descriptor: `copy_to`, `copy_from`, `copy_to_pipe` and `tee`, over the ring, over
//! the backing pipe, and at a pipe of the kernel alone.

mod bytes;
mod death;
mod places;
mod refusals;
mod sleep;
mod tee;

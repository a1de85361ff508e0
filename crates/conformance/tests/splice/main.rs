//! Between a pipe and everything else that has a descriptor: `copy_to`, `copy_from`, `copy_to_pipe` and `tee`, over the ring, over
//! the shadow, and at a pipe that only the kernel carries.

mod bytes;
mod death;
mod places;
mod refusals;
mod sleep;
mod tee;

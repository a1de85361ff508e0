//! Every order of events that the memory model allows, for small state spaces: a ring of two bytes, two or three
//! threads.
//!
//! Only under the model checker: `make check-models`. A lost wake-up shows as a deadlock, a byte that is written and
//! read at once as a race, a lost or doubled byte as a failed assertion.
#![cfg(loom)]

mod broadcasts;
mod channel_world;
mod channels;
mod fifo_world;
mod fifos;
mod in_place;
mod locks;
mod offers;
mod quiet;
mod stream;
mod world;

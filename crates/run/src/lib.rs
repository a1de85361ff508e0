//! What `millstream run` decides before it becomes the command: how large pipes are ([`Plan`]), what tells this run from
//! others ([`ring`]), and which build of the library its programs get ([`Build`]).
//!
//! A crate of its own, without `std` and without allocation, because two programs decide it: the small one that a run
//! begins with (`crates/launch`), and the whole one (`crates/cli`) for runs with statistics and for all that goes wrong.

#![no_std]
#![forbid(unsafe_code)]

mod build;
pub mod ring;
mod size;

pub use build::Build;
pub use ring::Obstacle;
pub use size::Plan;

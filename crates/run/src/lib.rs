//! What `millstream run` decides before it becomes the command: how large pipes are ([`Plan`]), what tells this run from
//! others ([`ring`]), and whether its command gets the library ([`gets_library`]).
//!
//! A crate of its own, without `std` and without allocation, because two programs decide it: the small one that a run
//! begins with (`crates/launch`), and the whole one (`crates/cli`) for runs with statistics and for all that goes wrong.

#![no_std]
#![forbid(unsafe_code)]

mod library;
pub mod ring;
mod size;

pub use library::gets_library;
pub use ring::Obstacle;
pub use size::Plan;

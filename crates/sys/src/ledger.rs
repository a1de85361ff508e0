//! The counters of a run: shared memory in which every program of the tree counts what passes through its pipes.
//!
//! The supervisor of `millstream run --stats` makes and holds one memfd; each program that counts maps it. It is a hash
//! table with one entry for each pipe. No entry is ever removed, so an entry stays where it was found.
//!
//! ```text
//!   0 ┌──────────────────────────────────────────────────────────┐
//!     │ magic │ token │ pipe device │ next ordinal │ unrecorded  │ written once by the supervisor; the last two grow
//!  64 ├──────────────────────────────────────────────────────────┤
//!     │ order: the place of the first entry, of the second ...   │ 65 536 words, 0 where none was made yet
//!     ├──────────────────────────────────────────────────────────┤
//!     │ entry 0: inode │ origin │ size │ maker                   │ inode claimed by compare-and-swap from 0
//!     │          written: bytes, program, ring                   │ a cache line for each end;
//!     │          read: bytes, program, ring                      │ counters only ever grow
//!     ├──────────────────────────────────────────────────────────┤
//!     │ entry 1 ...                                              │ 65 536 entries, pages appear as they are touched
//!     └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Every word is an atomic, because other processes write it at any time and may be killed at any instruction. A
//! process that overwrites the counters spoils the statistics of its run and nothing else: no process follows a pointer
//! or trusts a length found here. All accesses are relaxed but those of edge L1: a recorder stores the entry's index in
//! the order with release, and [`Ledger::records`] loads it with acquire. So a reader sees a recorded entry complete.
//!
//! The order also makes the time of a report proportional to the number of pipes: reading the whole table would touch,
//! and so allocate, 12 MiB.
//!
//! A process counts with plain stores what it moves through a ring (`docs/joining.md`): it alone has that end then.

mod mapping;
mod record;
mod table;

pub use mapping::attach;
#[cfg(feature = "std")]
pub use mapping::create;
pub use record::{Direction, End, Origin, Program, Record, Ring};
pub use table::{Ledger, SharedEnd};

//! What the programs of a run, or of pipelines that run by themselves, do: looked at from outside every now and then.
//!
//! Nothing of it touches a pipe. A process that opens an end of one, if only to ask how full it is, keeps it open for a moment, in which
//! its writer would not learn that the reader has gone. So this only reads what the kernel tells in `/proc`: which pipes a
//! process holds, what it has computed, and in which call on which descriptor it sleeps ([`doing`]). A program that
//! sleeps in a write found the pipe full, one that sleeps in a read found it empty.

pub(crate) mod doing;
pub(crate) mod pipelines;
pub(crate) mod reach;
mod seen;
pub(crate) mod verdict;
mod watcher;

pub(crate) use seen::{ProgramSeen, Seen};
pub(crate) use watcher::Watcher;

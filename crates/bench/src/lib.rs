//! Measures pipes on the user's own machine, and says how sure it is.
//!
//! ```
//! use millstream_bench::statistics::{median, median_interval};
//!
//! let milliseconds = [31.0, 30.0, 35.0, 30.5, 90.0];
//! assert_eq!(median(&milliseconds), 31.0);
//! let [low, high] = median_interval(&milliseconds);
//! assert!(30.0 <= low && low <= 31.0 && high <= 90.0);
//! ```
//!
//! In reading order: a method takes samples and checks each. [`unmodified`] runs whole [`pipeline`]s of programs;
//! [`bw_pipe`] and [`lat_pipe`] put a [`crew`] of processes at the ends of each [`transport`]. All of them pin
//! ([`placement`]) and [`interleave`]; [`statistics`] turns the samples into a median with its interval; each
//! combination becomes a [`cell`]; a [`table`] shows them. `docs/benchmarks.md` has the reasons.
//!
//! Not for timing one function inside a process.
#![deny(unsafe_code)]

pub mod bw_pipe;
pub mod cell;
pub mod corpus;
pub mod crew;
pub mod interleave;
pub mod lat_pipe;
mod page_aligned;
pub mod pattern;
pub mod pipeline;
pub mod placement;
pub mod statistics;
pub mod table;
pub mod transport;
pub mod unmodified;

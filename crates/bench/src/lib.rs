//! Measures pipes on the user's own machine, and says how sure it is.
//!
//! ```
//! use millstream_bench::engine::statistics::{median, median_interval};
//!
//! let milliseconds = [31.0, 30.0, 35.0, 30.5, 90.0];
//! assert_eq!(median(&milliseconds), 31.0);
//! let [low, high] = median_interval(&milliseconds.chunks(1).collect::<Vec<_>>());
//! assert!(30.0 <= low && low <= 31.0 && high <= 90.0);
//! ```
//!
//! In reading order: a [`method`] gives comparisons of jobs, most of which put processes at the ends of a [`transport`].
//! The [`engine`] launches them interleaved until they are precise enough; each job becomes a [`cell`] with its median,
//! its interval, its ratio to the baseline and what that says; a [`report`] shows them. The
//! [`command`] does all of this for people. `docs/benchmarks.md` has the
//! reasons.
//!
//! Not for timing one function inside a process.
#![deny(unsafe_code)]

mod cache;
pub mod cell;
pub mod command;
pub mod compare;
pub mod corpus;
pub mod engine;
pub mod history;
pub mod machine;
pub mod method;
mod page_aligned;
pub mod pattern;
pub mod programs;
pub mod random;
pub mod report;
pub mod transport;

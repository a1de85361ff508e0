//! Real pipelines, bare and under `millstream run`: is anything slower, and how much of their bytes is in shared memory?
//!
//! ```text
//!   pipelines.txt ──▶ list ──▶ data, made once ──▶ trial: bare, run, run, bare, ... ──▶ report: table, JSON
//! ```
//!
//! A pipeline is a script for bash, as users write them. What is timed is the whole command as a user waits for it, the start of
//! `millstream run` included, in interleaved pairs; each run must print what the first bare one printed. One more run, not timed,
//! has its pipes counted. What this machine lacks a command for is left out, and the report says so.

mod data;
mod generators;
mod keeper;
mod list;
mod report;
mod trial;

pub use data::Store;
pub(crate) use generators::write_text;
pub use keeper::Keeper;
pub use list::{Corpus, Pipeline};
pub use report::{Outcome, Placed, Report, Row, SCHEMA};
pub use trial::{Progress, Trial};

//! A directory whose files are transformed while they are read and written.
//!
//! ```no_run
//! use millstream_fs::{Mount, Options, Rules};
//! use std::path::Path;
//!
//! // The gzip files of 'logs' appear in 'plain', decompressed.
//! let rules = Rules::from_line("gunzip")?;
//! Mount::new(Path::new("logs"), Path::new("plain"), rules, &Options::default())?.serve()?;
//! # Ok::<(), String>(())
//! ```
//!
//! In reading order: `line` is a line of transforms; [`Rules`] say which files appear under which names, and through
//! which networks; `view` what a network does to offsets and sizes; `calls` what is asked of the source, and `index`
//! where it can be read from. `content` is a file as all programs see it, which is changed `in_place`, or read by
//! `reading` and replaced by `writing`; `archive` the members of one; `nodes`, `virtuals` and `names` the tree;
//! `mounted` and `virtual_calls` what each call does, `stages` how a network grows meanwhile, and `filesystem` the
//! protocol. `docs/design/mount.md` explains why.
#![deny(unsafe_code)]
// A later version may add cases.
#![warn(clippy::exhaustive_enums)]

mod archive;
mod attributes;
mod blocks;
mod calls;
mod common;
mod content;
mod control;
mod decoder;
mod filesystem;
mod handles;
mod in_place;
mod index;
mod line;
mod links;
mod list;
mod mount;
mod mounted;
mod names;
mod nodes;
mod pattern;
mod reading;
mod rules;
mod source;
mod stages;
mod version;
mod view;
mod virtual_calls;
mod virtuals;
mod writers;
mod writing;

pub use common::Log;
pub use control::{pop, push};
pub use line::SizeFrom;
pub use links::{Link, link, links, unlink};
pub use list::{Listed, mounts};
pub use mount::{Mount, Options, Unmounter};
pub use mounted::STATISTICS;
pub use rules::Rules;

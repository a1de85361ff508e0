//! Networks of transforms: a Unix pipeline in one process, over one buffer.
//!
//! ```
//! use millstream_net::{Data, Entry, InPlace, Network, Options, Size, Stage, State, run};
//!
//! struct Rot13;
//! impl InPlace for Rot13 {
//!     fn apply(&mut self, _offset: u64, bytes: &mut [u8]) -> Result<(), millstream_net::TransformError> {
//!         for byte in bytes.iter_mut().filter(|byte| byte.is_ascii_alphabetic()) {
//!             let first = if byte.is_ascii_lowercase() { b'a' } else { b'A' };
//!             *byte = first + (*byte - first + 13) % 26;
//!         }
//!         Ok(())
//!     }
//! }
//! let rot13 = Entry {
//!     name: "rot13",
//!     usage: "rot13",
//!     summary: "letters moved by 13",
//!     takes: Data::Any,
//!     gives: Data::Any,
//!     build: |_| Ok(Stage::in_place(State::Stateless, Rot13).with_inverse("rot13")),
//! };
//!
//! let network = Network::from_line("rot13 | rot13")?;
//! assert_eq!(network.to_string(), "rot13 | rot13");
//! let output = run::in_memory(&network, &[&rot13], b"hello", &Options::default())?;
//! assert_eq!(output, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A pipeline of N programs copies each byte 2N times through N processes. A network reads it into a buffer that stays
//! in the cache, has each in-place transform work on it there, and writes it: two copies, whatever N.
//!
//! In reading order: [`InPlace`] and [`Rewrite`] say what a transform does, [`Transform`] how a network finds it by
//! name, and a [`Registry`] holds those of a program; [`Network`] is a graph of them, written as a line or as TOML;
//! [`check`] looks at the whole of it before a byte moves; [`Plan`] decides what shares a buffer and what runs beside
//! what; [`run`] moves the bytes. `docs/networks.md` explains the design.
//!
//! # When not to use this
//! - For one transform of a buffer that is in memory: call the library that does it.
//! - Where a stage needs all of its input first, as sorting does.
#![forbid(unsafe_code)]
// A later version may add cases.
#![warn(clippy::exhaustive_enums)]

mod catalogue;
pub mod check;
mod chunk;
mod describe;
mod error;
mod explain;
mod external;
mod files;
mod graph;
mod notation;
mod plan;
mod pull;
mod registry;
pub mod run;
mod transform;

pub use catalogue::{Catalogue, Entry, Transform, find};
pub use describe::{data, doc, list};
pub use error::{NetworkError, NetworkErrorKind, TransformError, TransformErrorKind};
pub use explain::explain;
pub use external::{Control, Drain, Ending, Ends, Export, Feed, Started};
pub use graph::{Call, Case, Network, Node, Target, Work};
pub use notation::{NotationError, NotationErrorKind, names, words};
pub use plan::{Options, Placement, Plan, WorkerGroup};
pub use pull::{Input, Pull};
pub use registry::{NameError, NameErrorKind, Registry};
pub use run::{Outcome, StageCount};
pub use transform::{Data, InPlace, Kind, Next, Rewrite, Size, Stage, State, Step};

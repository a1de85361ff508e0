//! Pipes with the semantics of `pipe(2)` whose bytes go through shared memory.
//!
//! ```
//! use std::io::{Read, Write};
//!
//! let (mut reader, mut writer) = millstream_pipe::pipe()?;
//! let child = std::thread::spawn(move || writer.write_all(&[7; 1_000_000]));
//! let mut bytes = Vec::new();
//! assert_eq!(reader.read_to_end(&mut bytes)?, 1_000_000);
//! child.join().unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Everything that `pipe(7)` promises holds: order, atomic writes of up to [`PIPE_BUF`] bytes, any number of readers
//! and writers in threads and forked processes. A reader gets the end of the stream when the last writer is gone, and
//! a writer gets `EPIPE` and SIGPIPE when the last reader is, however they went. A process that is killed leaves what
//! it had written, and a peer that notices.
//!
//! In reading order: [`pipe()`] and [`Builder`] make a pipe; [`Reader`] and [`Writer`] are its ends. [`WaitPolicy`]
//! says how they wait, [`DirectPolicy`] when they do without the ring. [`settings`] sets all of this from outside the
//! program. [`Statistics`] tells what ends did. [`live`] shows the pipes of other processes. [`PipeError`] says why
//! an end cannot travel. `docs/pipe.md` explains the design, with its measurements.
//!
//! # FIFOs
//! [`Fifo`] makes and opens them; any program can be at the other end. `docs/fifo.md` explains how.
//!
//! # Several readers that each see everything
//! [`broadcast`](fn@broadcast) makes one writer and any number of readers; the module of that name explains how.
//!
//! # Event loops
//! [`Reader::readiness`] and [`Writer::readiness`] give a descriptor for `poll(2)`, `select(2)`, `epoll(7)`,
//! `io_uring(7)` and `SIGIO`. With the feature `tokio` the module of that name has ends that are `AsyncRead` and
//! `AsyncWrite`.
//!
//! # Other descriptors
//! [`Reader::copy_to`] and [`Writer::copy_from`] move bytes between a pipe and a file, a socket or any other
//! descriptor. [`Reader::copy_to_pipe`] and [`Reader::tee`] move them between two pipes. All do so without a buffer
//! of their own: what the one side does not take still waits at the other. [`std::io::copy`] works too, with a
//! buffer.
//!
//! # Ends and other processes
//! - **fork**: the child has both ends, as always, whatever other threads were doing with them.
//! - **another program**: [`Reader::into_fd`] and [`Writer::into_fd`] turn an end into a descriptor for
//!   [`Command`](std::process::Command) or a Unix socket. There it is a plain kernel pipe, which any program can use.
//! - **a program that uses this crate** calls [`Reader::attach`] or [`Writer::attach`] on it and is on the ring again.
//!
//! # When not to use this
//! - Between threads of one program that could share a queue of values.
//! - In a signal handler: unlike `write(2)`, an end may not be used there while the same end is in use outside it. The
//!   call then fails instead of waiting for itself.
//! - Between `vfork` and `exec`, or across a change of PID namespace by `unshare`.
//!
//! # Trust
//! Processes that share a pipe share its memory. One that breaks the rules can end the stream, garble it or keep the
//! others waiting while it lives; it cannot make them touch other memory.
#![deny(unsafe_code)]
// A later version may add cases.
#![warn(clippy::exhaustive_enums)]

// In an order in which each file uses only those before it:
//
// - what is chosen, counted and said: `policy`, `statistics`, `error`, `settings`, `pipe_count`;
// - the memory and what wakes its users: `parking`, `segment`, `capacity`, `mirror`, `place`;
// - small things of both directions: `buffers`, `waits`, `foreign`, `writer/stop`, `writer/room`;
// - an end, of whatever direction: `claim/open`, `direct/descriptor`, `fifo/company`, `end`;
// - what ends do besides reading and writing: `claim`, `direct/clearing`, `fifo/routes`, `end/leaving`, `end/size`,
//   `broadcast`, `handover`;
// - a writer: `writer`, then `writer/readers`, `writer/waiting`, `direct/offering`, `fifo/writing` and `writer/write`;
// - a reader: `reader`, then `reader/writers`, `reader/waiting`, `direct/taking`, `fifo/reading` and `reader/read`;
// - what is made of these: `fifo`, `builder`, `duplex`, `live`, `tokio`.
pub mod broadcast;
mod buffers;
mod builder;
mod capacity;
mod claim;
mod direct;
mod duplex;
mod end;
mod error;
mod fifo;
mod foreign;
mod handover;
pub mod live;
mod mirror;
mod parking;
mod pipe_count;
mod place;
mod policy;
mod reader;
mod segment;
pub mod settings;
mod statistics;
#[cfg(feature = "tokio")]
pub mod tokio;
mod waits;
mod writer;

pub use broadcast::broadcast;
pub use builder::{Builder, pipe};
pub use duplex::{Duplex, duplex};
pub use error::{PipeError, PipeErrorKind};
pub use fifo::{Fifo, FifoEnds, FifoOptions};
pub use millstream_ring::PIPE_BUF;
pub use policy::{DirectPolicy, WaitPolicy};
pub use reader::Reader;
pub use reader::borrowed::Borrowed;
pub use settings::table::DEFAULT_CAPACITY;
pub use statistics::Statistics;
pub use writer::Writer;
pub use writer::reservation::Reservation;

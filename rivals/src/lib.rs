//! Other ways to move bytes between two processes, behind the trait that millstream's own transports have, so that they
//! are measured in the same way, at the same places, in the same run.
//!
//! ```no_run
//! use millstream_bench::engine::placement::Placement;
//! use millstream_bench::transport::Transport;
//!
//! let ends = millstream_rivals::RIVALS[0].transport.connect(Placement::OneCpu)?;
//! // fork: one process writes to ends.writer and finishes it, the other reads from ends.reader until it gets 0
//! millstream_rivals::settle(); // nothing is left behind, whoever was killed
//! # Ok::<(), String>(())
//! ```
//!
//! Each rival is one file: how its own documentation recommends to use it, how its ends wait, and what it cannot do. Most
//! carry messages, and [`stream`] makes a stream of bytes of them; [`site`] sees to the names that they leave behind.
//! `docs/benchmarks.md` has what all of that means for the numbers.
//!
//! Not for users: a package by itself, because these libraries bring along far more than millstream.
#![deny(unsafe_code)]

use millstream_bench::transport::Transport;

pub mod aeron;
pub mod boost_interprocess;
pub mod iceoryx2;
pub mod ipc_channel;
pub mod site;
pub mod stream;
pub mod zeromq;

pub use site::settle;

/// One of them.
#[derive(Clone, Copy)]
pub struct Rival {
    /// How bytes go through it.
    pub transport: &'static dyn Transport,
    /// The release that was compiled in.
    pub version: fn() -> String,
}

/// All of them, in the order in which they are shown.
pub static RIVALS: [Rival; 5] = [
    Rival { transport: &iceoryx2::Iceoryx2, version: iceoryx2::version },
    Rival { transport: &zeromq::Zeromq, version: zeromq::version },
    Rival { transport: &ipc_channel::IpcChannel, version: ipc_channel::version },
    Rival { transport: &boost_interprocess::BoostInterprocess, version: boost_interprocess::version },
    Rival { transport: &aeron::Aeron, version: aeron::version },
];

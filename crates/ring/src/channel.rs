//! The channel of unmodified programs: one writing and one reading process, and the kernel's pipe behind them.
//!
//! Its words lie at the beginning of memory that both processes map, and its bytes behind them. A caller brings what
//! this crate must not do: the copy, which may survive memory that is not there, and the calls of the kernel
//! ([`BackingPipe`]). Each function here is a step of the protocol, and returns what the caller has to do next. So the
//! models in `tests/models/channels.rs` run the very code that programs run.
//!
//! In reading order: `words` is the layout. `positions` moves bytes, and freezes the stream. `room` is how the writer
//! waits, [`OwnSleep`] and `reader_sleep` are how the reader sleeps in `read(2)` of the backing pipe. `attaching` is
//! how both begin. `detaching` moves what is left into the backing pipe.
//!
//! ```text
//!   state      BEFORE ──agree──▶ SHARED ──detach──▶ WRITER_DRAINS or READER_DRAINS ──▶ KERNEL
//!   sleep      AWAKE ──reader──▶ ASLEEP ──writer──▶ WAKING ──▶ TOKEN_SENT ──reader──▶ AWAKE
//!                                       └─detach──▶ STREAM_COMES
//! ```
//!
//! A word whose change the other side must not miss is changed by an exchange, which is a full fence, and then the
//! words of the other side are loaded (edge E16). `docs/ordering.md` has the edges.

mod attaching;
mod backing_pipe;
mod checks;
mod detaching;
mod positions;
mod reader_sleep;
mod room;
mod words;

pub use backing_pipe::{BackingPipe, Put};
pub use checks::Check;
#[cfg(loom)]
pub use checks::leave_out;
pub use detaching::Detached;
pub use positions::{Found, Moved, Span};
pub use reader_sleep::{OwnSleep, TOKEN, Woken};
pub use words::{Arrival, Channel, HEADER_BYTES, LABEL_BYTES, RING_BYTES, Side, activation};

//! The words of a channel, and what they may hold.

use crate::sync::channel::{AtomicU32, AtomicU64};

/// The bytes begin so far behind the first word.
pub const HEADER_BYTES: usize = 4096;
/// The largest ring.
pub const RING_BYTES: usize = 512 << 10;
/// The beginning of the header, which says to its users whose memory it is.
pub const LABEL_BYTES: usize = 64;

/// What carries the stream: `state` of the agreement.
pub(super) mod state {
    /// The kernel, until both sides agree.
    pub(crate) const BEFORE: u32 = 0;
    /// The ring.
    pub(crate) const SHARED: u32 = 1;
    /// The writer, or the reader, is putting what the ring holds into the backing pipe.
    pub(crate) const WRITER_DRAINS: u32 = 2;
    /// See above.
    pub(crate) const READER_DRAINS: u32 = 3;
    /// The backing pipe, for good.
    pub(crate) const KERNEL: u32 = 4;
}

/// What the reader's `read(2)` of the backing pipe will bring: `sleep` of the channel.
pub(super) mod sleep {
    /// It does not sleep.
    pub(crate) const AWAKE: u32 = 0;
    /// It sleeps, or is about to; no wake token was sent.
    pub(crate) const ASLEEP: u32 = 1;
    /// A wake token is in the backing pipe, or has been taken out of it.
    pub(crate) const TOKEN_SENT: u32 = 2;
    /// Bytes of the stream.
    pub(crate) const STREAM_COMES: u32 = 3;
    /// A wake token is on its way.
    pub(crate) const WAKING: u32 = 4;

    /// Whether the writer has begun to wake the reader.
    #[inline]
    pub(crate) fn is_woken(word: u32) -> bool {
        word == TOKEN_SENT || word == WAKING
    }
}

/// How the two begin: [`Channel::activation_word`].
pub mod activation {
    /// They do not wait for each other.
    pub const NONE: u32 = 0;
    /// The reader has found the backing pipe empty and waits.
    pub const READER_WAITS: u32 = 1;
    /// The writer has agreed.
    pub const AGREED: u32 = 2;
}

/// In `room` of the channel: the writer waits for room. The bits are the kernel's for robust futexes.
pub(super) const WRITER_WAITS: u32 = 1 << 31;
/// In `room` of the channel: the reader is gone. Set by the kernel when its thread ends, or by the reader when it
/// closes its end.
pub(super) const READER_GONE: u32 = 1 << 30;

/// Which end of the channel a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that is written to.
    Writer,
    /// The end that is read from.
    Reader,
}

#[repr(C, align(128))]
pub(super) struct Line<T>(pub(super) T);

/// What the memory of a channel begins with. Zeros are a valid beginning.
#[repr(C)]
pub struct Channel {
    /// The users', not the channel's.
    _label: Line<[u8; LABEL_BYTES]>,
    pub(super) agreement: Line<Agreement>,
    pub(super) written: Line<Position>,
    pub(super) read: Line<Position>,
    pub(super) sleep: Line<AtomicU32>,
    pub(super) room: Line<AtomicU32>,
}

/// How far the two sides have come with each other.
#[repr(C)]
#[derive(Default)]
pub(super) struct Agreement {
    /// [`state`]; also a futex.
    pub(super) state: AtomicU32,
    /// [`activation`]; also a futex.
    pub(super) activation: AtomicU32,
    /// The writer waits for the reader to come.
    pub(super) writer_waits: AtomicU32,
    /// [`Arrival`]: the process that reads and wants to attach. Only that process takes itself out.
    pub(super) reader: AtomicU64,
    /// [`Arrival::number`] of the reader since whose arrival no other process shares this side's end; 0: not checked.
    pub(super) writer_ready: AtomicU32,
    pub(super) reader_ready: AtomicU32,
    /// While the ring is drained: the backing pipe holds nothing else.
    pub(super) is_settled: AtomicU32,
    /// Bytes of the ring's content that the reader got from the backing pipe while it was being drained.
    pub(super) taken_early: AtomicU32,
    /// Bytes that the ring may hold: a power of two, never more than the backing pipe can take.
    pub(super) bytes: AtomicU32,
}

/// The reader that has come to a channel, and how many have come so far. One process may come, detach, become another
/// program and come again, and what was checked of it before is worth nothing then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// 0: none.
    pub process: u32,
    /// Its number among all arrivals; never 0.
    pub number: u32,
}

impl Arrival {
    pub(super) fn of(word: u64) -> Arrival {
        Arrival { process: word as u32, number: (word >> 32) as u32 }
    }

    pub(super) fn word(self) -> u64 {
        u64::from(self.process) | u64::from(self.number) << 32
    }

    /// `process` comes after it.
    pub(super) fn next(self, process: u32) -> Arrival {
        Arrival { process, number: self.number.wrapping_add(1).max(1) }
    }
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Position {
    pub(super) bytes: AtomicU64,
    pub(super) cpu: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Channel>() <= HEADER_BYTES);

impl Default for Channel {
    fn default() -> Channel {
        Channel {
            _label: Line([0; LABEL_BYTES]),
            agreement: Line(Agreement::default()),
            written: Line(Position::default()),
            read: Line(Position::default()),
            sleep: Line(AtomicU32::new(0)),
            room: Line(AtomicU32::new(0)),
        }
    }
}

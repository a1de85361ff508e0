//! A stream of bytes over a library that carries messages.
//!
//! A write becomes one message, or as much of it as the library takes at once. The reader copies each message's payload
//! to where it was asked to put it; what does not fit is kept for the next read. An empty message is the end.
//!
//! Most of these libraries do not survive a fork, so nothing of them is used before: each end opens in its own process,
//! when it is used first.
//!
//! ```text
//! writer                                       reader
//!   │ how long its first message is ──────────▶  │ opens the receiver, made for such messages
//!   │ opens the sender  ◀──────────── it is open │
//!   │ messages ════════ the library ══════════▶  │
//!   │ the empty one ═══ the library ══════════▶  │
//!   │ closes the sender ◀──────────── it was read│
//! ```
//!
//! The three arrows are words in memory that both share; whoever waits for one sleeps. Nothing of it is ever timed: each
//! method of measuring has something to say before.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use millstream_bench::engine::placement::Placement;
use millstream_bench::transport::{Ends, WriteEnd};
use millstream_sys::shared::Shared;

use crate::site::Site;

/// A library that carries messages from one process to another.
pub trait Messages: Sync + 'static {
    /// Gives messages to the library.
    type Sender: Sender;
    /// Takes messages from it.
    type Receiver: Receiver;

    /// What both ends must agree on, made before the fork: in most cases names of their own.
    ///
    /// # Errors
    /// A sentence: what this machine lacks.
    fn prepare(&self, _: Placement) -> Result<Arc<Site>, String> {
        Site::new().map(Arc::new)
    }

    /// Opens the end that takes, in the process that uses it, before the other one.
    ///
    /// # Errors
    /// A sentence.
    fn receiver(&self, stream: &Stream, message_bytes: usize) -> Result<Self::Receiver, String>;

    /// Opens the end that gives, in the process that uses it, when the other one is open.
    ///
    /// # Errors
    /// A sentence.
    fn sender(&self, stream: &Stream, message_bytes: usize) -> Result<Self::Sender, String>;
}

/// The end of a library that messages are given to.
pub trait Sender {
    /// Sends `bytes`, or as many of them as fit into one message, and returns how many; waits while there is no room.
    /// An empty message is sent like any other.
    ///
    /// # Errors
    /// The library's.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;
}

/// The end of a library that messages are taken from.
pub trait Receiver {
    /// Waits for a message and copies its payload to `into`, the excess to `rest`; returns how many bytes are in `into`:
    /// 0 for the empty message.
    ///
    /// # Errors
    /// The library's.
    fn receive(&mut self, into: &mut [u8], rest: &mut Rest) -> io::Result<usize>;
}

/// What the ends of a stream have in common.
pub struct Stream {
    /// Whose names they use.
    pub site: Arc<Site>,
    /// What an end that has to wait and cannot sleep does meanwhile: spins, or gives way on one CPU.
    pub idle: fn(),
    /// Another one for each stream of this process.
    pub number: i32,
    meeting: Shared,
}

/// Words of the meeting.
const MESSAGE_BYTES: usize = 0;
const RECEIVER_IS_OPEN: usize = 8;
const END_WAS_READ: usize = 16;

/// How long the meeting's sleeps are: often enough for a tenth of a second to seem short.
const NAP: Duration = Duration::from_micros(200);

impl Stream {
    fn tell(&self, word: usize, value: usize) {
        self.meeting.word(word).store(value as u64, Release);
    }

    /// Sleeps until the word has a value.
    fn hear(&self, word: usize) -> usize {
        loop {
            match self.meeting.word(word).load(Acquire) {
                0 => std::thread::sleep(NAP),
                value => return value as usize,
            }
        }
    }
}

/// Two ends over `rival`, neither of which is open.
///
/// # Errors
/// As [`Messages::prepare`].
pub fn connect<R: Messages>(rival: &'static R, placement: Placement) -> Result<Ends, String> {
    let meeting = Shared::anonymous(4096).map_err(|error| format!("no shared memory: {error}"))?;
    static COUNT: AtomicI32 = AtomicI32::new(1);
    let (number, idle) = (COUNT.fetch_add(1, Relaxed), placement.idle());
    let stream = Arc::new(Stream { site: rival.prepare(placement)?, idle, number, meeting });
    let writer = Box::new(WritingEnd { rival, stream: Arc::clone(&stream), sender: None });
    let reader = Box::new(ReadingEnd { rival, stream, receiver: None, rest: Rest::default(), is_over: false });
    Ok(Ends { writer, reader })
}

struct WritingEnd<R: Messages> {
    rival: &'static R,
    stream: Arc<Stream>,
    sender: Option<R::Sender>,
}

impl<R: Messages> WritingEnd<R> {
    /// The sender, open; the first message will have `message_bytes`.
    fn sender(&mut self, message_bytes: usize) -> io::Result<&mut R::Sender> {
        Ok(match &mut self.sender {
            Some(sender) => sender,
            closed => {
                let message_bytes = message_bytes.max(1);
                self.stream.tell(MESSAGE_BYTES, message_bytes);
                self.stream.hear(RECEIVER_IS_OPEN);
                closed.insert(self.rival.sender(&self.stream, message_bytes).map_err(io::Error::other)?)
            }
        })
    }
}

impl<R: Messages> Write for WritingEnd<R> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        self.sender(bytes.len())?.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R: Messages> WriteEnd for WritingEnd<R> {
    fn finish(mut self: Box<Self>) {
        // One that cannot be sent leaves the reader waiting, and whoever started it ends it.
        if self.sender(0).and_then(|sender| sender.send(&[])).is_ok() {
            // Some libraries forget what was not taken when the sender closes.
            self.stream.hear(END_WAS_READ);
        }
    }
}

struct ReadingEnd<R: Messages> {
    rival: &'static R,
    stream: Arc<Stream>,
    receiver: Option<R::Receiver>,
    rest: Rest,
    is_over: bool,
}

impl<R: Messages> Read for ReadingEnd<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let kept = self.rest.give(bytes);
        if kept > 0 || bytes.is_empty() || self.is_over {
            return Ok(kept);
        }
        let receiver = match &mut self.receiver {
            Some(receiver) => receiver,
            closed => {
                let message_bytes = self.stream.hear(MESSAGE_BYTES);
                let open = self.rival.receiver(&self.stream, message_bytes).map_err(io::Error::other)?;
                self.stream.tell(RECEIVER_IS_OPEN, 1);
                closed.insert(open)
            }
        };
        let count = receiver.receive(bytes, &mut self.rest)?;
        if count == 0 {
            self.is_over = true;
            self.stream.tell(END_WAS_READ, 1);
        }
        Ok(count)
    }
}

/// What of a message did not fit into the reader's buffer.
#[derive(Default)]
pub struct Rest {
    bytes: Vec<u8>,
    given: usize,
}

impl Rest {
    /// Copies `message` to `into`, and keeps what does not fit; returns how many bytes are in `into`.
    pub fn split(&mut self, message: &[u8], into: &mut [u8]) -> usize {
        let count = message.len().min(into.len());
        into[..count].copy_from_slice(&message[..count]);
        self.bytes.extend_from_slice(&message[count..]);
        count
    }

    /// Copies what was kept to `into`; returns how many bytes.
    pub fn give(&mut self, into: &mut [u8]) -> usize {
        let count = (self.bytes.len() - self.given).min(into.len());
        into[..count].copy_from_slice(&self.bytes[self.given..self.given + count]);
        self.given += count;
        if self.given == self.bytes.len() {
            self.bytes.clear();
            self.given = 0;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_given_later_and_once() {
        let (mut rest, mut into) = (Rest::default(), [0; 3]);
        assert_eq!((rest.split(b"mill", &mut into), &into), (3, b"mil"));
        assert_eq!(rest.give(&mut []), 0);
        assert_eq!((rest.give(&mut into), into[0]), (1, b'l'));
        assert_eq!(rest.give(&mut into), 0);
        assert_eq!(rest.split(b"a stream", &mut into), 3);
        assert_eq!((rest.give(&mut into), &into), (3, b"tre"));
        assert_eq!((rest.give(&mut into), &into[..2]), (2, &b"am"[..]));
    }
}

//! How the reader sleeps: in `read(2)` of the backing pipe, until the writer puts a wake token there.
//!
//! The word `sleep` says what comes: a token, which is none of the stream, or bytes of the stream after it has been
//! detached.

use super::backing_pipe::BackingPipe;
use super::checks::{Check, fence_of_exchange, is_made};
use super::positions::Found;
use super::words::{Channel, sleep};
use crate::sync::AtomicBool;
use crate::sync::Ordering::{Relaxed, SeqCst};

/// The wake token.
pub const TOKEN: u8 = b'!';

/// What has ended a sleep of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// A wake token: the reader looks at the ring again.
    ByToken,
    /// Bytes of the stream: the content has been drained meanwhile, or a foreign process writes to the backing pipe.
    ByStream,
    /// No byte, and the ring holds nothing.
    ByNothing,
    /// No byte, but the ring holds some: the writer was gone before it woke the reader.
    ByEndWithBytes,
}

impl Channel {
    /// Whether the writer has to wake the reader, after it has published bytes.
    #[inline]
    pub fn reader_sleeps(&self) -> bool {
        self.sleep.0.load(SeqCst) == sleep::ASLEEP
    }

    /// The writer wakes the reader. Returns whether it did. A signal handler must not come between the word and the
    /// byte: it could drain the stream in front of that byte.
    pub fn wake_reader(&self, pipe: &impl BackingPipe) -> bool {
        let word = &self.sleep.0;
        let wakes = word.compare_exchange(sleep::ASLEEP, sleep::WAKING, SeqCst, Relaxed).is_ok();
        if wakes {
            // A byte that is there wakes the reader as well, and a backing pipe that a foreign process has filled would
            // take none.
            if pipe.bytes() == 0 {
                pipe.put_token();
            }
            // The reader may have it by now.
            let _ = word.compare_exchange(sleep::WAKING, sleep::TOKEN_SENT, SeqCst, Relaxed);
        }
        wakes
    }

    /// The reader is about to sleep. Returns whether the token of an earlier sleep is still to come, which would end
    /// this one.
    pub fn begin_sleep(&self) -> bool {
        let before = self.sleep.0.compare_exchange(sleep::AWAKE, sleep::ASLEEP, SeqCst, Relaxed);
        fence_of_exchange(Check::FenceBeforeSleep);
        before.is_err_and(sleep::is_woken)
    }

    /// After [`begin_sleep`](Self::begin_sleep): whether the reader need not sleep. What the writer publishes after
    /// this it will wake the reader for.
    pub fn has_bytes_before_sleep(&self) -> bool {
        is_made(Check::BytesBeforeSleep) && self.bytes_waiting() != Found::Nothing
    }

    /// The reader does not sleep any more. Returns whether the writer has begun to wake it: the token is then still to
    /// be taken.
    pub fn end_sleep(&self) -> bool {
        self.sleep.0.compare_exchange(sleep::ASLEEP, sleep::AWAKE, SeqCst, Relaxed).is_err_and(sleep::is_woken)
    }

    /// Whether a token is in the backing pipe, or on its way there.
    #[inline]
    pub fn is_woken(&self) -> bool {
        sleep::is_woken(self.sleep.0.load(SeqCst))
    }

    /// A drain may have changed the word meanwhile: then the reader has its note.
    fn takes_token_from(&self, state: u32) -> bool {
        self.sleep.0.compare_exchange(state, sleep::AWAKE, SeqCst, Relaxed).is_ok()
    }

    /// What the reader has got from the backing pipe, in a call that has returned so many bytes.
    pub fn wakes_up(&self, took: usize, own: &OwnSleep) -> Woken {
        // The word is changed before the note is looked at: a drain makes the note first.
        if took == 1 && (self.takes_token_from(sleep::WAKING) || self.takes_token_from(sleep::TOKEN_SENT)) {
            return Woken::ByToken;
        }
        if took == 1 && own.takes_note() {
            return Woken::ByToken;
        }
        // If the writer wakes it at this moment, the token ends the next sleep.
        self.end_sleep();
        if took > 0 {
            self.agreement.0.taken_early.fetch_add(took as u32, SeqCst);
            return Woken::ByStream;
        }
        match self.bytes_waiting() {
            Found::Nothing => Woken::ByNothing,
            _ if !is_made(Check::BytesAfterEnd) => Woken::ByNothing,
            _ => Woken::ByEndWithBytes,
        }
    }
}

/// A sleep of the reader of this process, where a signal handler or another thread finds it.
///
/// It may come when the kernel has taken the wake token out of the backing pipe, and the reader has not yet said so.
/// The reader is then told that what it has is none of the stream. A handler may also read by itself, while the sleep
/// that it has interrupted goes on behind it in the kernel: no writer would wake that one any more, so the pipe is
/// detached.
pub struct OwnSleep {
    goes_on: AtomicBool,
    /// The token that the sleep has taken is known to others.
    token_is_known: AtomicBool,
}

impl OwnSleep {
    /// None goes on.
    #[cfg(not(loom))]
    pub const fn new() -> OwnSleep {
        OwnSleep { goes_on: AtomicBool::new(false), token_is_known: AtomicBool::new(false) }
    }

    /// None goes on.
    #[cfg(loom)]
    pub fn new() -> OwnSleep {
        OwnSleep { goes_on: AtomicBool::new(false), token_is_known: AtomicBool::new(false) }
    }

    /// `false`: this is a signal handler that has interrupted a sleep, or one has jumped out of it.
    pub fn begin(&self) -> bool {
        let is_first = !self.goes_on.swap(true, SeqCst);
        if is_first {
            // That note is of an earlier sleep, whose reader knew the token by the word.
            self.token_is_known.store(false, SeqCst);
        }
        is_first
    }

    /// It is over.
    pub fn end(&self) {
        self.goes_on.store(false, SeqCst);
    }

    /// The token has been taken, which only a reader of this process can have done: its sleep is told.
    pub(super) fn note_token(&self) {
        self.token_is_known.store(true, SeqCst);
    }

    /// After the sleep: whether another has dealt with the token.
    fn takes_note(&self) -> bool {
        self.token_is_known.swap(false, SeqCst) && is_made(Check::HandlerTookToken)
    }
}

impl Default for OwnSleep {
    fn default() -> OwnSleep {
        OwnSleep::new()
    }
}

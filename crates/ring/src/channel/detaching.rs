//! Detaching: what the ring holds goes into the backing pipe, in order, and all later bytes with it.
//!
//! ```text
//!   ring ──freeze both positions──▶ draining ──wake token taken out, content put in──▶ backing pipe, for good
//! ```
//!
//! Either side can do it alone, also when the other is stopped, unless it was stopped on this very way: then it is
//! waited for. A side that dies on the way leaves so many bytes in the backing pipe as it had put there; the other goes
//! on from there.

use super::backing_pipe::{BackingPipe, Put};
use super::checks::{Check, is_made};
use super::positions::Span;
use super::reader_sleep::OwnSleep;
use super::words::{Channel, Side, WRITER_WAITS, sleep, state};
use crate::sync::Ordering::SeqCst;

/// What became of an attempt to detach. Nothing is lost in any case, and the next attempt goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// The backing pipe has the stream, or its other side is gone.
    Done,
    /// The other side is on the same way and has not come to its end, or bytes do not fit into the backing pipe for
    /// now.
    Busy,
    /// The system has no file left to open the other end of the pipe.
    NoFile,
}

impl Detached {
    /// The first of two that failed.
    pub fn and(self, other: Detached) -> Detached {
        if self == Detached::Done { other } else { self }
    }
}

impl Channel {
    /// Freezes the stream, and has one side move what the ring holds into the backing pipe: this one, or the other.
    pub fn detach<P: BackingPipe>(&self, side: Side, pipe: &P, own: &OwnSleep) -> Detached {
        self.freeze();
        if let Some(outcome) = self.await_turn(side, pipe) {
            return outcome;
        }
        let Some(outcome) = self.drain(side, pipe, own) else { return Detached::Done };
        let word = &self.agreement.0.state;
        // Otherwise it is the turn of the side that comes next: the other one may have a file.
        word.store(if outcome == Detached::Done { state::KERNEL } else { state::SHARED }, SeqCst);
        pipe.wake_all(word);
        if is_made(Check::WakeAfterDrain) {
            self.room.0.fetch_and(!WRITER_WAITS, SeqCst);
            pipe.wake_all(&self.room.0);
        }
        outcome
    }

    /// `None`: this side drains the ring. Otherwise what became of the attempt.
    fn await_turn<P: BackingPipe>(&self, side: Side, pipe: &P) -> Option<Detached> {
        let word = &self.agreement.0.state;
        let ours = if side == Side::Reader { state::READER_DRAINS } else { state::WRITER_DRAINS };
        let mut pauses = 0;
        loop {
            match word.compare_exchange(state::SHARED, ours, SeqCst, SeqCst) {
                Err(state::KERNEL) => return Some(Detached::Done),
                Err(now) if now != ours && !(pipe.peer_is_gone() && is_made(Check::DrainerGone)) => {
                    if pauses == P::PAUSES {
                        return Some(Detached::Busy);
                    }
                    pauses += 1;
                    pipe.pause_at(word, now);
                }
                // Whatever the other side has left there: it is gone.
                Err(now) if now != ours && word.compare_exchange(now, ours, SeqCst, SeqCst).is_err() => {}
                _ => return None,
            }
        }
    }

    /// `None`: the writer's number is not its end any more, unseen. A reader that finds it gone goes on from there; it
    /// alone can, as only the reader knows what it has read.
    fn drain<P: BackingPipe>(&self, side: Side, pipe: &P, own: &OwnSleep) -> Option<Detached> {
        let agreement = &self.agreement.0;
        if side == Side::Writer && pipe.has_no_reader() {
            return Some(Detached::Done);
        }
        let mut put = 0;
        if agreement.is_settled.load(SeqCst) == 0 {
            if is_made(Check::NoTokenAmongContent) {
                let outcome = self.settle(side, pipe, own);
                if outcome != Detached::Done {
                    return Some(outcome);
                }
            }
            agreement.is_settled.store(1, SeqCst);
        } else if is_made(Check::GoOnWhereItStopped) {
            // One side has begun: what the backing pipe holds, and what the reader had of it already.
            let taken = if is_made(Check::TakenEarly) { agreement.taken_early.load(SeqCst) } else { 0 };
            put = pipe.bytes() + taken as usize;
        }
        if is_empty(self.content(put)) {
            return Some(Detached::Done);
        }
        let mut outcome = if side == Side::Reader { Some(Detached::NoFile) } else { None };
        pipe.with_write_end(|end| outcome = self.put_content(pipe, end, put).or(outcome));
        outcome
    }

    /// Into the backing pipe, all but the first bytes. `None`: this is no way into it.
    #[inline(never)]
    fn put_content<P: BackingPipe>(&self, pipe: &P, end: i32, mut put: usize) -> Option<Detached> {
        let mut pauses = 0;
        loop {
            let content = self.content(put);
            if is_empty(content) {
                return Some(Detached::Done);
            }
            match pipe.put(end, self, content) {
                Put::Bytes(bytes) => put += bytes,
                Put::NoReader => return Some(Detached::Done),
                Put::OtherFile => return None,
                // The backing pipe has room for all of it, unless a foreign process fills it; memory may be short for a
                // moment.
                Put::Full if pauses == P::PAUSES => return Some(Detached::Busy),
                Put::Full => {
                    pauses += 1;
                    pipe.pause();
                }
            }
        }
    }

    /// Sees to it that the backing pipe is empty, that a reader which sleeps in `read(2)` takes what comes for the
    /// stream, and that it does not say that it sleeps after this: a writer that has published before the ring was
    /// frozen would send it a token.
    fn settle<P: BackingPipe>(&self, side: Side, pipe: &P, own: &OwnSleep) -> Detached {
        let word = &self.sleep.0;
        let mut pauses = 0;
        loop {
            let now = word.load(SeqCst);
            if !sleep::is_woken(now) {
                let may_stay = now == sleep::AWAKE && !is_made(Check::NoSleepOnceFrozen);
                if may_stay || word.compare_exchange(now, sleep::STREAM_COMES, SeqCst, SeqCst).is_ok() {
                    return Detached::Done;
                }
                continue;
            }
            // A token is on its way, or there, or was just taken by the reader, which knows what it was.
            match (pipe.bytes(), side) {
                (0, Side::Reader) if now == sleep::TOKEN_SENT => {
                    own.note_token();
                    if word.compare_exchange(now, sleep::STREAM_COMES, SeqCst, SeqCst).is_ok() {
                        return Detached::Done;
                    }
                }
                (0, Side::Reader) if !is_made(Check::TokenOnItsWay) => return Detached::Done,
                (0, Side::Reader) if pipe.peer_is_gone() && pipe.bytes() == 0 => return Detached::Done,
                // The writer has been stopped before it could put the token in.
                (0, Side::Reader) if pauses == P::PAUSES => return Detached::Busy,
                (0, Side::Reader) => {
                    pauses += 1;
                    pipe.pause_for_bytes();
                }
                // This process put it in, so it is not on its way.
                (0, Side::Writer) => return Detached::Done,
                _ => match pipe.take_token() {
                    None => return Detached::NoFile,
                    // The reader has it, and will say so.
                    Some(false) if pauses == P::PAUSES => return Detached::Busy,
                    Some(false) => {
                        pauses += 1;
                        pipe.pause();
                    }
                    Some(true) => {
                        let _ = word.compare_exchange(now, sleep::STREAM_COMES, SeqCst, SeqCst);
                        let _ = word.compare_exchange(sleep::TOKEN_SENT, sleep::STREAM_COMES, SeqCst, SeqCst);
                        return Detached::Done;
                    }
                },
            }
        }
    }
}

fn is_empty(content: [Span; 2]) -> bool {
    content[0].len + content[1].len == 0
}

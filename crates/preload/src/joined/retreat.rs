//! Detaching: what the ring holds goes into the backing pipe, in order, and all later bytes with it.
//!
//! ```text
//!   ring ──freeze both positions──▶ moving ──wake token taken out, content put in──▶ backing pipe, for ever
//! ```
//!
//! Either side can do it alone, also when the other is stopped, unless it was stopped on this very way: then it is waited for. A side
//! that dies on the way leaves so many bytes in the backing pipe as it had moved; the other goes on from there.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use millstream_sys::fate::Fate;

use super::end::{End, READER, Stage, WRITER};
use super::signals::Held;
use super::slot::{Agreement, Slot, Taken, WRITER_WAITS, carrier, sleep};
use super::{guard, kernel, nap, offer};

/// So often this side tries again, each time after a millisecond, when the system has no file left.
const ATTEMPTS: u32 = 1000;
/// So many milliseconds signals are held back at most while this side waits for the other. Then they are let in, and it waits on.
const HELD_MS: u32 = 20;

/// What became of an attempt to give a pipe back. Nothing is lost in any case, and the next attempt goes on from there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The other side is on the same way and has not come to its end, or bytes do not fit into the backing pipe for now.
    Busy,
    /// The system has no file left to open the other end of the pipe.
    NoFile,
}

impl Outcome {
    fn and(self, other: Outcome) -> Outcome {
        if self == Outcome::Done { other } else { self }
    }
}

/// Detaches every pipe of this process that is attached, or about to be, for good; but not those of which it is promised that nothing will
/// happen to them that asks for that. glibc's functions are its own again; `why` goes into the statistics. `false`: what rings hold cannot
/// be moved, because the system has no file left. No byte goes through these rings any more; the next call tries again.
pub(super) fn all(why: Fate) -> bool {
    both(why, why) == Outcome::Done
}

/// The same for a call of the program that can fail: if it cannot be done, nothing is begun, and the rings go on. Waits for the other
/// side as long as it lives; a signal is handled meanwhile.
pub(super) fn before_a_call(why: Fate) -> bool {
    loop {
        if let Some(is_done) = try_before_a_call(why) {
            return is_done;
        }
        // Other threads want the lock.
        pause();
    }
}

/// One attempt of at most [`HELD_MS`]. `None`: the other side is not done yet; where signals are held back anyway they are to be let in.
pub(super) fn try_before_a_call(why: Fate) -> Option<bool> {
    let _held = Held::all();
    if ![&WRITER, &READER].into_iter().all(can_give_back) {
        return Some(false);
    }
    match both(why, why) {
        Outcome::Done => Some(true),
        Outcome::NoFile => Some(false),
        Outcome::Busy => None,
    }
}

/// What is opened here is not kept: with a write end of its own a reader would not see that the writer is gone.
fn can_give_back(end: &End) -> bool {
    match end.slot() {
        Some(slot) if end.stage() == Stage::Ring && !end.is_promised() && !slot.is_frozen() => {
            let has_nobody_to_move_for = !end.is_reader() && is_gone(end);
            has_nobody_to_move_for || with_other_end(end, |_| ())
        }
        _ => true,
    }
}

/// The same, because of one end.
///
/// Of promised ends each goes back for itself: another thread may be using the other one.
pub(super) fn because_of(end: &End, why: Fate) {
    try_because_of(end, why);
}

fn try_because_of(end: &End, why: Fate) -> Outcome {
    if end.is_promised() {
        let _held = Held::all();
        return of(end, why);
    }
    if end.is_reader() { both(Fate::Company, why) } else { both(why, Fate::Company) }
}

fn both(writers: Fate, readers: Fate) -> Outcome {
    let _held = Held::all();
    let unless_promised = |end: &End, why| if end.is_promised() { Outcome::Done } else { of(end, why) };
    let outcome = unless_promised(&WRITER, writers).and(unless_promised(&READER, readers));
    if outcome == Outcome::Done {
        guard::lift();
    }
    outcome
}

fn of(end: &End, why: Fate) -> Outcome {
    let stage = end.stage();
    let Some(slot) = end.slot() else {
        // Nothing has been begun. If it goes on to carry much, that is seen again.
        end.release();
        return Outcome::Done;
    };
    if stage == Stage::Ring {
        let outcome = give_back(slot, end);
        if outcome != Outcome::Done {
            return outcome;
        }
    } else if stage == Stage::Offers && offer::is_of_parent() {
        // A child that borrows its parent's memory leaves everything as it is.
        if !super::is_own_process() {
            super::meet::forget_offer_of_parent();
        }
        return Outcome::Done;
    } else {
        want_no_more(slot, end);
    }
    if end.is_reader() {
        super::meet::leave_robust();
    }
    if may_come_again(why) {
        end.release()
    } else {
        end.give_up()
    }
    end.tally.tell(why);
    Outcome::Done
}

/// Whether the pipe may be attached again, when it has gone on to carry much: a program that makes a process, or a call that only the
/// kernel can serve, may do so once. Each attempt in vain makes the next one later ([`End::price`]). Where the user has said when pipes are
/// attached, that is once.
fn may_come_again(why: Fate) -> bool {
    super::after().is_none() && matches!(why, Fate::Called(_) | Fate::Peer | Fate::Company)
}

/// This end is not attached and never will be.
pub(super) fn want_no_more(slot: &Slot, end: &End) {
    slot.ready_word(end).store(0, SeqCst);
    if end.is_reader() {
        let word = &slot.agreement.0.reader;
        let taken = Taken::of(word.load(SeqCst));
        let left = Taken { process: 0, ..taken };
        if taken.process == millstream_sys::own_pid() {
            let _ = word.compare_exchange(taken.word(), left.word(), SeqCst, SeqCst);
        }
    } else {
        offer::withdraw();
    }
}

/// The other side, or a handler, has frozen the stream: waits until its content is in the backing pipe, and leaves the ring. Signals
/// are handled meanwhile. `false`: the system has no file left for so long, and the other side has not done it either. Nothing is
/// lost, and the next call tries again.
pub(super) fn follow(end: &End) -> bool {
    let mut attempts = 0;
    while end.stage() == Stage::Ring {
        match try_because_of(end, Fate::Peer) {
            Outcome::Done => break,
            Outcome::Busy => pause(),
            Outcome::NoFile => {
                attempts += 1;
                if attempts == ATTEMPTS {
                    return false;
                }
                pause();
            }
        }
    }
    true
}

/// A millisecond. (`poll` does not wait where no file may be open.)
fn pause() {
    kernel::wait(&AtomicU32::new(0), 0, Some(1_000_000));
}

impl Slot {
    pub(super) fn ready_word(&self, end: &End) -> &AtomicU32 {
        let Agreement { reader_ready, writer_ready, .. } = &self.agreement.0;
        if end.is_reader() { reader_ready } else { writer_ready }
    }
}

fn give_back(slot: &Slot, end: &End) -> Outcome {
    let word = &slot.agreement.0.carrier;
    let ours = if end.is_reader() { carrier::READER_MOVES } else { carrier::WRITER_MOVES };
    slot.freeze();
    let mut waited_ms = 0;
    loop {
        match word.compare_exchange(carrier::RING, ours, SeqCst, SeqCst) {
            Err(carrier::SHADOW) => return Outcome::Done,
            Err(now) if now != ours && !has_left(end) => {
                if waited_ms == HELD_MS {
                    return Outcome::Busy;
                }
                waited_ms += 1;
                kernel::wait(word, now, Some(1_000_000));
            }
            // Whatever the other side has left there: it is gone.
            Err(now) if now != ours && word.compare_exchange(now, ours, SeqCst, SeqCst).is_err() => {}
            _ => break,
        }
    }
    let outcome = match move_content(slot, end) {
        Moving::Left => return Outcome::Done,
        Moving::Ended(outcome) => outcome,
    };
    // Otherwise it is the turn of the side that comes next: the other one may have a file.
    word.store(if outcome == Outcome::Done { carrier::SHADOW } else { carrier::RING }, SeqCst);
    kernel::wake_all(word);
    slot.space.0.fetch_and(!WRITER_WAITS, SeqCst);
    kernel::wake_all(&slot.space.0);
    outcome
}

/// Whether the other side is gone, as the kernel has it.
fn is_gone(end: &End) -> bool {
    match end.is_reader() {
        true => kernel::poll(end.fd(), 0, 0) & kernel::POLLHUP != 0,
        // The mark is of a thread, and the process may go on.
        false => kernel::has_no_reader(end.fd()),
    }
}

/// Whether the process at the other side is gone. Where this one has the opposite end too, the pipe does not show it.
fn has_left(end: &End) -> bool {
    is_gone(end) || end.holds_both.load(SeqCst) && kernel::has_ended(end.patience.shared_cpu.other())
}

/// What became of the content.
enum Moving {
    Ended(Outcome),
    /// The writer's number is not its end any more, unseen. A reader that finds it gone goes on from there; it alone can, as only
    /// the reader knows what it has read.
    Left,
}

fn move_content(slot: &Slot, end: &End) -> Moving {
    let agreement = &slot.agreement.0;
    if !end.is_reader() && is_gone(end) {
        return Moving::Ended(Outcome::Done);
    }
    let mut moved = 0;
    if agreement.is_settled.load(SeqCst) == 0 {
        let outcome = settle(slot, end);
        if outcome != Outcome::Done {
            return Moving::Ended(outcome);
        }
        agreement.is_settled.store(1, SeqCst);
    } else {
        // One side has begun: what the backing pipe holds, and what the reader had of it already.
        moved = kernel::bytes_in(end.fd()) + agreement.taken_early.load(SeqCst) as usize;
    }
    if !end.is_reader() {
        return put_content(slot, moved, end.fd()).map_or(Moving::Left, Moving::Ended);
    }
    if is_empty(slot.content(moved)) {
        return Moving::Ended(Outcome::Done);
    }
    let mut outcome = None;
    with_other_end(end, |target| outcome = put_content(slot, moved, target));
    Moving::Ended(outcome.unwrap_or(Outcome::NoFile))
}

fn is_empty(content: [(*const u8, usize); 2]) -> bool {
    content[0].1 + content[1].1 == 0
}

/// Into the backing pipe, all but the first bytes. `None`: this is no way into it.
fn put_content(slot: &Slot, mut moved: usize, target: i32) -> Option<Outcome> {
    let mut waited_ms = 0;
    loop {
        let content = slot.content(moved);
        if is_empty(content) {
            return Some(Outcome::Done);
        }
        match kernel::write_now(target, content) {
            kernel::EPIPE => {
                kernel::forget_sigpipe();
                return Some(Outcome::Done);
            }
            // The backing pipe has room for all of it, unless a foreign process fills it; memory may be short for a moment.
            kernel::EINTR | kernel::EAGAIN | kernel::ENOMEM => {
                if waited_ms == HELD_MS {
                    return Some(Outcome::Busy);
                }
                waited_ms += 1;
                pause();
            }
            bytes @ 1.. => moved += bytes as usize,
            _ => return None,
        }
    }
}

/// Opens the other end of the pipe for a moment. Where this process may open no further file a child does it, whose table of
/// descriptors is its own and has a place free. `false`: neither can.
fn with_other_end(end: &End, mut used: impl FnMut(i32)) -> bool {
    let access = if end.is_reader() { kernel::O_WRONLY } else { kernel::O_RDONLY };
    let mut open = || {
        let fd = kernel::reopen(end.fd(), access | kernel::O_NONBLOCK);
        if fd >= 0 {
            used(fd as i32);
            kernel::close(fd as i32);
        }
        fd
    };
    let mut opened = open();
    if opened == kernel::EMFILE {
        kernel::in_child(|| {
            // All numbers that the limit allows are used, so this one is.
            kernel::close(i32::from(end.fd() == 0));
            opened = open();
        });
    }
    opened >= 0
}

/// Sees to it that the backing pipe is empty, and that a reader which sleeps in `read(2)` takes what comes for the stream. Once the ring
/// is frozen no writer begins to send a wake token, but one may have begun before.
fn settle(slot: &Slot, end: &End) -> Outcome {
    let mut waited_ms = 0;
    let state = &slot.sleep.0;
    let fd = end.fd();
    while let Err(now @ (sleep::RUNG | sleep::RINGING)) =
        state.compare_exchange(sleep::ASLEEP, sleep::STREAM, SeqCst, SeqCst)
    {
        // A token is on its way, or there, or was just taken by the reader, which knows what it was.
        match (kernel::bytes_in(fd), end.is_reader()) {
            (0, true) if now == sleep::RUNG => {
                nap::note_taken();
                let _ = state.compare_exchange(sleep::RUNG, sleep::STREAM, SeqCst, SeqCst);
                break;
            }
            (0, true) if has_left(end) && kernel::bytes_in(fd) == 0 => break,
            // The writer has been stopped before it could ring.
            (0, true) if waited_ms == HELD_MS => return Outcome::Busy,
            (0, true) => {
                waited_ms += 1;
                kernel::poll(fd, kernel::POLLIN, 1);
            }
            // This process rang, so it is not on its way.
            (0, false) => break,
            _ => match take_bell(end) {
                None => return Outcome::NoFile,
                // The reader has it, and will say so.
                Some(false) if waited_ms == HELD_MS => return Outcome::Busy,
                Some(false) => {
                    waited_ms += 1;
                    pause();
                }
                Some(true) => {
                    let _ = state.compare_exchange(now, sleep::STREAM, SeqCst, SeqCst);
                    let _ = state.compare_exchange(sleep::RUNG, sleep::STREAM, SeqCst, SeqCst);
                    break;
                }
            },
        }
    }
    Outcome::Done
}

/// Takes the wake token out of the backing pipe, if the reader does not get it first. `None`: a file could not be opened.
fn take_bell(end: &End) -> Option<bool> {
    let mut byte = 0;
    if end.is_reader() {
        return Some(kernel::read_now(end.fd(), &raw mut byte, 1) == 1);
    }
    let mut has_it = false;
    with_other_end(end, |fd| has_it = kernel::read(fd, &raw mut byte, 1) == 1).then_some(has_it)
}

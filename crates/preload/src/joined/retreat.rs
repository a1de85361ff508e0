//! Detaching: when and why an end of this process goes back to the kernel. How is the channel's
//! (`millstream_ring::channel`).

use core::sync::atomic::Ordering::SeqCst;

use millstream_ring::channel::{Channel, Detached};
use millstream_sys::fate::Fate;

use super::backing_pipe::{pause, peer_is_gone, with_other_end};
use super::end::{End, READER, READERS_SLEEP, Stage, WRITER};
use super::held::Held;
use super::{guard, offer, own_process, own_run, robust};

/// So often this side tries again, each time after a millisecond, when the system has no file left.
const ATTEMPTS: u32 = 1000;

/// Detaches every pipe of this process that is attached, or about to be, for good; but not those of which it is
/// promised that nothing will happen to them that asks for that. glibc's functions are its own again; `why` goes into
/// the statistics. `false`: what rings hold cannot be moved, because the system has no file left. No byte goes through
/// these rings any more; the next call tries again.
pub(super) fn all(why: Fate) -> bool {
    both(why, why) == Detached::Done
}

/// The same for a call of the program that can fail: if it cannot be done, nothing is begun, and the rings go on. Waits
/// for the other side as long as it lives; a signal is handled meanwhile.
pub(super) fn before_a_call(why: Fate) -> bool {
    loop {
        if let Some(is_done) = try_before_a_call(why) {
            return is_done;
        }
        // Other threads want the lock.
        pause();
    }
}

/// One attempt, which ends after some pauses. `None`: the other side is not done yet; where signals are held back
/// anyway they are to be let in.
pub(super) fn try_before_a_call(why: Fate) -> Option<bool> {
    let _held = Held::all();
    if ![&WRITER, &READER].into_iter().all(can_give_back) {
        return Some(false);
    }
    match both(why, why) {
        Detached::Done => Some(true),
        Detached::NoFile => Some(false),
        Detached::Busy => None,
    }
}

/// Whether the other end can be opened, if it has to be.
fn can_give_back(end: &End) -> bool {
    match end.channel() {
        Some(channel) if end.stage() == Stage::Ring && !end.is_promised() && !channel.is_frozen() => {
            let has_nobody_to_move_for = !end.is_reader() && peer_is_gone(end);
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

fn try_because_of(end: &End, why: Fate) -> Detached {
    if end.is_promised() {
        let _held = Held::all();
        return of(end, why);
    }
    if end.is_reader() { both(Fate::Company, why) } else { both(why, Fate::Company) }
}

fn both(writers: Fate, readers: Fate) -> Detached {
    let _held = Held::all();
    let unless_promised = |end: &End, why| if end.is_promised() { Detached::Done } else { of(end, why) };
    let outcome = unless_promised(&WRITER, writers).and(unless_promised(&READER, readers));
    if outcome == Detached::Done {
        guard::lift();
    }
    outcome
}

fn of(end: &End, why: Fate) -> Detached {
    let stage = end.stage();
    let Some(channel) = end.channel() else {
        // Nothing has been begun. If it goes on to carry much, that is seen again.
        end.release();
        return Detached::Done;
    };
    if stage == Stage::Ring {
        let outcome = channel.detach(end.side(), end, &READERS_SLEEP);
        if outcome != Detached::Done {
            return outcome;
        }
    } else if stage == Stage::Offers && offer::is_of_parent() {
        // A child that borrows its parent's memory leaves everything as it is.
        if !own_process::is_own_process() {
            offer::forget_offer_of_parent();
        }
        return Detached::Done;
    } else {
        want_no_more(channel, end);
    }
    if end.is_reader() {
        robust::leave();
    }
    if may_come_again(why) {
        end.release()
    } else {
        end.give_up()
    }
    end.tally.tell(why);
    Detached::Done
}

/// Whether the pipe may be attached again, when it has gone on to carry much: a program that makes a process, or a call
/// that only the kernel can serve, may do so once. Each attempt in vain makes the next one later ([`End::price`]).
/// Where the user has said when pipes are attached, that is once.
fn may_come_again(why: Fate) -> bool {
    own_run::after().is_none() && matches!(why, Fate::Called(_) | Fate::Peer | Fate::Company)
}

/// This end is not attached and never will be.
pub(super) fn want_no_more(channel: &Channel, end: &End) {
    channel.ready_word(end.side()).store(0, SeqCst);
    if end.is_reader() {
        channel.depart(millstream_sys::own_pid());
    } else {
        offer::withdraw();
    }
}

/// The other side, or a handler, has frozen the stream: waits until its content is in the backing pipe, and leaves the
/// ring. Signals are handled meanwhile. `false`: the system has no file left for so long, and the other side has not
/// done it either. Nothing is lost, and the next call tries again.
pub(super) fn follow(end: &End) -> bool {
    let mut attempts = 0;
    while end.stage() == Stage::Ring {
        match try_because_of(end, Fate::Peer) {
            Detached::Done => break,
            Detached::Busy => pause(),
            Detached::NoFile => {
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

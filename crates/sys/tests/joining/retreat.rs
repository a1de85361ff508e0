//! Detaching by either end: `detach`, `drain` and `settle` of `channel/detaching.rs` of `crates/ring`.

use crate::world::{Byte, Carrier, Sleep, Without, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Retreat {
    /// `freeze` of `channel/positions.rs`.
    FreezeWritten,
    FreezeRead,
    /// `await_turn`.
    Claim,
    Look,
    TakeOver,
    /// `drain`.
    Gone,
    Settled,
    /// `settle`.
    SleepChanges,
    BellCount,
    BellTake,
    BellMark,
    MarkSettled,
    CountShadow,
    CountEarly {
        moved: u8,
    },
    Put {
        moved: u8,
    },
    /// `detach` again.
    Say,
    Release {
        is_done: bool,
    },
    HandOver,
}

impl Retreat {
    pub(crate) fn begin() -> Retreat {
        Retreat::FreezeWritten
    }
}

/// Every world that one step leads to, with the next step; `None`: the end has detached.
pub(crate) fn step(
    world: &World,
    at: Retreat,
    is_reader: bool,
    without: Option<Without>,
) -> Vec<(World, Option<Retreat>)> {
    let lacks = |what| without == Some(what);
    let skips_freeze = |is_own: bool| lacks(Without::FreezeBeforeMove) || (lacks(Without::BothFrozen) && !is_own);
    let (ours, theirs) = match is_reader {
        true => (Carrier::ReaderMoves, Carrier::WriterMoves),
        false => (Carrier::WriterMoves, Carrier::ReaderMoves),
    };
    let is_gone = if is_reader { !world.has_writer } else { world.space_gone };
    let mut next = world.clone();
    let then = match at {
        Retreat::FreezeWritten => {
            next.written.is_frozen |= !skips_freeze(!is_reader);
            Retreat::FreezeRead
        }
        Retreat::FreezeRead => {
            next.read.is_frozen |= !skips_freeze(is_reader);
            Retreat::Claim
        }
        Retreat::Claim if world.carrier == Carrier::Ring => {
            next.carrier = ours;
            Retreat::Gone
        }
        Retreat::Claim => Retreat::Look,
        Retreat::Look if world.carrier == Carrier::Shadow => return vec![(next, None)],
        Retreat::Look if world.carrier == ours => Retreat::Gone,
        Retreat::Look if world.carrier == Carrier::Ring => Retreat::Claim,
        Retreat::Look if is_gone && !lacks(Without::MoverGone) => Retreat::TakeOver,
        // It sleeps, and checks again when something has changed.
        Retreat::Look => return Vec::new(),
        Retreat::TakeOver if world.carrier == theirs => {
            next.carrier = ours;
            Retreat::Gone
        }
        Retreat::TakeOver => Retreat::Look,
        Retreat::Gone if !is_reader && is_gone => Retreat::Say,
        Retreat::Gone => Retreat::Settled,
        Retreat::Settled if !world.is_settled && lacks(Without::NoBellAmongContent) => Retreat::MarkSettled,
        Retreat::Settled if !world.is_settled => Retreat::SleepChanges,
        Retreat::Settled if lacks(Without::GoOnWhereTheDeadStopped) => Retreat::Put { moved: 0 },
        Retreat::Settled => Retreat::CountShadow,
        Retreat::SleepChanges => match world.sleep {
            Sleep::Asleep | Sleep::Awake | Sleep::Stream => {
                next.sleep = Sleep::Stream;
                Retreat::MarkSettled
            }
            Sleep::Rung | Sleep::Ringing => Retreat::BellCount,
        },
        Retreat::BellCount if !world.shadow.is_empty() => Retreat::BellTake,
        Retreat::BellCount if !is_reader || is_gone => Retreat::MarkSettled,
        // The writer is about to write the wake token.
        Retreat::BellCount => return Vec::new(),
        Retreat::BellTake => match next.take_from_backing_pipe() {
            Some(Byte::Bell) => Retreat::BellMark,
            Some(Byte::Of(_)) => {
                next.wrong = Some("a byte of the stream was removed as a wake token");
                Retreat::BellMark
            }
            None => Retreat::SleepChanges,
        },
        Retreat::BellMark => {
            if world.sleep.is_rung() {
                next.sleep = Sleep::Stream;
            }
            Retreat::MarkSettled
        }
        Retreat::MarkSettled => {
            next.is_settled = true;
            Retreat::Put { moved: 0 }
        }
        Retreat::CountShadow => Retreat::CountEarly { moved: world.shadow.len() as u8 },
        Retreat::CountEarly { moved } => Retreat::Put { moved: moved + world.taken_early },
        Retreat::Put { moved } if world.read.bytes + moved >= world.written.bytes => Retreat::Say,
        Retreat::Put { .. } if !world.has_reader => Retreat::Say,
        Retreat::Put { .. } if world.backing_pipe_is_full() => return Vec::new(),
        Retreat::Put { moved } => {
            let byte = *next.cell(world.read.bytes + moved);
            next.shadow.push(Byte::Of(byte));
            Retreat::Put { moved: moved + 1 }
        }
        Retreat::Say => {
            next.carrier = Carrier::Shadow;
            Retreat::Release { is_done: true }
        }
        Retreat::HandOver => {
            next.carrier = Carrier::Ring;
            Retreat::Release { is_done: false }
        }
        Retreat::Release { is_done } => {
            if !lacks(Without::WakeAfterMove) {
                next.space_waits = false;
                next.writer.woken_at_space();
            }
            // An end that could not flush tries again, before or after its peer.
            return vec![(next, (!is_done).then_some(Retreat::begin()))];
        }
    };
    let needs_file = match at {
        Retreat::BellTake => !is_reader,
        Retreat::Put { .. } => is_reader && then != Retreat::Say,
        _ => false,
    };
    let mut all = vec![(next, Some(then))];
    if needs_file && world.may_fail {
        all.push((World { may_fail: false, ..world.clone() }, Some(Retreat::HandOver)));
    }
    all
}

//! The writer: `write_output` and `close` of `joined.rs`, `await_reader` of `meet.rs`, `write` of `stream.rs`.

use crate::retreat::{self, Retreat};
use crate::world::{Byte, Carrier, Limits, Meeting, Next, Sleep, Stage, Without, World, one};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// Between two calls.
    Idle,
    /// `announce`.
    Announce,
    /// `write(2)` to the backing pipe; whether the reader was told that it is the last one there.
    Kernel {
        is_announced: bool,
    },
    /// `meets_reader`: checks, sleeps, checks.
    Await,
    AwaitAsleep,
    AwaitLook,
    AwaitEmpty,
    AwaitSendBack,
    Agree,
    AgreeCompare,
    AgreeCarrier,
    Withdraw,
    /// `put` of `channel/positions.rs`.
    Gone,
    Room,
    Copy,
    Count,
    /// `ring`, before the bytes are published or after.
    Bell {
        is_counted: bool,
    },
    BellCompare {
        is_counted: bool,
    },
    BellWrite {
        is_counted: bool,
    },
    BellSay {
        is_counted: bool,
    },
    /// `wait_for_room`.
    SayWaits,
    LastLook,
    FutexWait,
    FutexAsleep,
    /// It detaches, in a call or between two.
    Retreat {
        step: Retreat,
        in_call: bool,
    },
    /// Closed, or killed; the first also after `EPIPE`.
    Closed,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Writer {
    pub(crate) at: At,
    pub(crate) stage: Stage,
    pub(crate) may_give_back: bool,
    limit: u8,
}

impl Writer {
    pub(crate) fn new(limits: Limits) -> Writer {
        Writer { at: At::Idle, stage: Stage::Ready, may_give_back: limits.gives_back, limit: limits.bytes }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.at, At::Closed | At::Dead)
    }
}

/// Every world that one step of the writer leads to.
pub(crate) fn step(world: &World, without: Option<Without>) -> Next {
    let lacks = |what| without == Some(what);
    let mut next = world.clone();
    let mut go = |at| next.writer.at = at;
    match world.writer.at {
        At::Closed | At::Dead => return Vec::new(),
        At::Idle => return between_calls(world),
        At::Announce => {
            go(At::Kernel { is_announced: true });
            next.writer_waits = true;
        }
        At::Kernel { .. } if world.has_reader && world.backing_pipe_is_full() => return Vec::new(),
        At::Kernel { .. } if !world.has_reader => {
            go(At::Closed);
            next.has_writer = false;
        }
        At::Kernel { is_announced } => {
            go(if is_announced { At::Await } else { At::Idle });
            next.shadow.push(Byte::Of(world.told));
            next.told += 1;
        }
        At::Await => go(if world.meeting == Meeting::None { At::AwaitAsleep } else { At::AwaitLook }),
        // It has reached its timeout.
        At::AwaitAsleep => go(At::AwaitLook),
        At::AwaitLook if world.meeting == Meeting::ReaderWaits => {
            go(if lacks(Without::EmptyShadow) { At::Agree } else { At::AwaitEmpty });
        }
        At::AwaitLook => go(At::Withdraw),
        At::AwaitEmpty => go(if world.shadow.is_empty() { At::Agree } else { At::AwaitSendBack }),
        At::AwaitSendBack => {
            go(At::Withdraw);
            if world.meeting == Meeting::ReaderWaits {
                next.meeting = Meeting::None;
            }
            next.reader.woken_at_meeting();
            // It tries once more, or does not.
            let mut again = next.clone();
            again.writer.at = At::Await;
            return vec![next, again];
        }
        At::Agree if lacks(Without::CarrierBeforeAgreement) => go(At::AgreeCompare),
        At::Agree => {
            go(At::AgreeCompare);
            next.carrier = Carrier::Ring;
        }
        At::AgreeCompare if world.meeting == Meeting::ReaderWaits => {
            go(if lacks(Without::CarrierBeforeAgreement) { At::AgreeCarrier } else { At::Withdraw });
            next.meeting = Meeting::Agreed;
            next.writer.stage = Stage::Ring;
            next.was_joined = true;
            // A reader that sleeps wakes up in a step of its own: it has reached its timeout.
        }
        At::AgreeCompare => {
            go(At::Withdraw);
            next.carrier = Carrier::Kernel;
        }
        At::AgreeCarrier => {
            go(At::Withdraw);
            next.carrier = Carrier::Ring;
        }
        At::Withdraw => {
            go(At::Idle);
            next.writer_waits = false;
        }
        At::Gone if world.space_gone && !lacks(Without::ReaderGone) => {
            go(At::Retreat { step: Retreat::begin(), in_call: true });
        }
        At::Gone => go(At::Room),
        At::Room if world.written.is_frozen => go(At::Retreat { step: Retreat::begin(), in_call: true }),
        At::Room if world.room() == 0 => go(At::Bell { is_counted: false }),
        At::Room => go(if lacks(Without::CountBeforeBell) { At::Bell { is_counted: false } } else { At::Copy }),
        At::Copy => {
            go(At::Count);
            *next.cell(world.written.bytes) = world.told;
        }
        At::Count if world.written.is_frozen => go(At::Retreat { step: Retreat::begin(), in_call: true }),
        At::Count => {
            go(if lacks(Without::CountBeforeBell) { At::Idle } else { At::Bell { is_counted: true } });
            next.written.bytes += 1;
            next.told += 1;
        }
        At::Bell { is_counted } if world.sleep == Sleep::Asleep => go(At::BellCompare { is_counted }),
        At::Bell { is_counted } => go(after_bell(world, is_counted, without)),
        At::BellCompare { is_counted } if world.sleep == Sleep::Asleep => {
            go(At::BellWrite { is_counted });
            next.sleep = Sleep::Ringing;
        }
        At::BellCompare { is_counted } => go(after_bell(world, is_counted, without)),
        At::BellWrite { .. } if world.has_reader && world.backing_pipe_is_full() => return Vec::new(),
        At::BellWrite { is_counted } => {
            go(At::BellSay { is_counted });
            if world.has_reader {
                next.shadow.push(Byte::Bell);
            }
        }
        At::BellSay { is_counted } => {
            go(after_bell(world, is_counted, without));
            if world.sleep == Sleep::Ringing {
                next.sleep = Sleep::Rung;
            }
        }
        At::SayWaits if world.space_gone && !lacks(Without::ReaderGone) => go(At::Gone),
        At::SayWaits => {
            go(if lacks(Without::LastLookForRoom) { At::FutexWait } else { At::LastLook });
            next.space_waits = true;
        }
        At::LastLook => go(if world.written.is_frozen || world.room() > 0 { At::Gone } else { At::FutexWait }),
        // The kernel compares the futex word with the value that the writer has read.
        At::FutexWait => go(if world.space_waits && !world.space_gone { At::FutexAsleep } else { At::Gone }),
        At::FutexAsleep => return Vec::new(),
        At::Retreat { step, in_call } => {
            return retreat::step(world, step, false, without)
                .into_iter()
                .map(|(mut next, step)| {
                    next.writer.at = match step {
                        Some(step) => At::Retreat { step, in_call },
                        None if in_call => At::Kernel { is_announced: false },
                        None => At::Idle,
                    };
                    if step.is_none() {
                        next.writer.stage = Stage::Kernel;
                    }
                    next
                })
                .collect();
        }
    }
    one(next)
}

fn between_calls(world: &World) -> Next {
    let with = |at| {
        let mut next = world.clone();
        next.writer.at = at;
        next
    };
    let mut all: Next = gives_back(world).into_iter().collect();
    if world.told == world.writer.limit {
        let mut next = with(At::Closed);
        next.has_writer = false;
        all.push(next);
        return all;
    }
    match world.writer.stage {
        Stage::Ring => all.push(with(At::Gone)),
        Stage::Kernel => all.push(with(At::Kernel { is_announced: false })),
        Stage::Ready => all.extend([with(At::Announce), with(At::Kernel { is_announced: false })]),
    }
    all
}

fn gives_back(world: &World) -> Option<World> {
    if !world.writer.may_give_back || world.writer.stage == Stage::Kernel {
        return None;
    }
    let mut next = world.clone();
    next.writer.may_give_back = false;
    match world.writer.stage {
        Stage::Ring => next.writer.at = At::Retreat { step: Retreat::begin(), in_call: false },
        // An end that is not attached yet has nothing to flush.
        _ => next.writer.stage = Stage::Kernel,
    }
    Some(next)
}

fn after_bell(world: &World, is_counted: bool, without: Option<Without>) -> At {
    match is_counted {
        true => At::Idle,
        false if without == Some(Without::CountBeforeBell) && world.room() > 0 => At::Copy,
        false => At::SayWaits,
    }
}

impl Writer {
    /// A call has woken all waiters at the futex word of the space.
    pub(crate) fn woken_at_space(&mut self) {
        if self.at == At::FutexAsleep {
            self.at = At::Gone;
        }
    }
}

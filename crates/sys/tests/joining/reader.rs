//! The reader: `read_input` of `joined.rs`, `meet_writer` of `meet.rs`, `read` of `stream.rs`.

use crate::retreat::{self, Retreat};
use crate::world::{Byte, Limits, Meeting, Next, Sleep, Stage, Without, World, one};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// Between two calls.
    Idle,
    /// `meet_writer`.
    WriterWaits,
    ShadowEmpty,
    SayWaits,
    Meet,
    MeetAsleep,
    MeetCompare,
    /// `read(2)` of the shadow, for the program.
    Kernel,
    /// `get` of `slot.rs`.
    Look,
    Copy,
    Take {
        byte: u8,
    },
    /// `let_writer_know`; whether the byte is taken.
    Space {
        byte: Option<u8>,
    },
    SpaceClear {
        byte: Option<u8>,
    },
    /// `wait_for_bytes`.
    SayAsleep,
    LastLook,
    /// `read(2)` of the shadow, for one byte.
    Asleep,
    Woken {
        byte: Option<Byte>,
    },
    /// Into the kernel's pipe again, in a call or between two.
    Retreat {
        step: Retreat,
        in_call: bool,
    },
    /// It has seen the end.
    Ended,
    /// Killed: the kernel has marked the space, and closes the end.
    Dying,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    pub(crate) at: At,
    pub(crate) stage: Stage,
    pub(crate) may_give_back: bool,
}

impl Reader {
    pub(crate) fn new(limits: Limits) -> Reader {
        Reader { at: At::Idle, stage: Stage::Ready, may_give_back: limits.gives_back }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.at, At::Ended | At::Dead)
    }

    pub(crate) fn woken_at_meeting(&mut self) {
        if self.at == At::MeetAsleep {
            self.at = At::MeetCompare;
        }
    }
}

/// Every world that one step of the reader leads to.
pub(crate) fn step(world: &World, without: Option<Without>) -> Next {
    let lacks = |what| without == Some(what);
    let mut next = world.clone();
    let mut go = |at| next.reader.at = at;
    match world.reader.at {
        At::Dead => return Vec::new(),
        // The program goes on, and does something that only the kernel can carry.
        At::Ended => return gives_back(world).into_iter().collect(),
        At::Dying => {
            go(At::Dead);
            next.has_reader = false;
            next.shadow.clear();
        }
        At::Idle => return between_calls(world),
        At::WriterWaits => go(if world.writer_waits { At::ShadowEmpty } else { At::Kernel }),
        At::ShadowEmpty => go(if world.shadow.is_empty() { At::SayWaits } else { At::Kernel }),
        At::SayWaits => {
            go(At::Meet);
            next.meeting = Meeting::ReaderWaits;
        }
        At::Meet => go(if world.meeting == Meeting::ReaderWaits { At::MeetAsleep } else { At::MeetCompare }),
        // The time is up.
        At::MeetAsleep => go(At::MeetCompare),
        At::MeetCompare => match world.meeting {
            Meeting::ReaderWaits => {
                go(At::Kernel);
                next.meeting = Meeting::None;
            }
            Meeting::None => go(At::Kernel),
            Meeting::Agreed => {
                go(At::Look);
                next.reader.stage = Stage::Ring;
            }
        },
        At::Kernel => match next.take_from_shadow() {
            Some(Byte::Of(byte)) => {
                next.reader.at = At::Idle;
                next.deliver(byte);
            }
            Some(Byte::Bell) => next.wrong = Some("the reader got a byte that only wakes"),
            None if world.has_writer => return Vec::new(),
            None => next.reader.at = At::Ended,
        },
        At::Look if world.read.is_frozen => go(At::Retreat { step: Retreat::begin(), in_call: true }),
        At::Look => go(if world.waiting() > 0 { At::Copy } else { At::SayAsleep }),
        At::Copy => {
            let byte = *next.cell(world.read.bytes);
            let is_early = lacks(Without::TakeBeforeWake);
            next.reader.at = if is_early { At::Space { byte: Some(byte) } } else { At::Take { byte } };
        }
        At::Take { .. } if world.read.is_frozen => go(At::Retreat { step: Retreat::begin(), in_call: true }),
        At::Take { byte } => {
            go(if lacks(Without::TakeBeforeWake) { At::Idle } else { At::Space { byte: None } });
            next.read.bytes += 1;
            next.deliver(byte);
        }
        At::Space { byte } if world.space_waits => go(At::SpaceClear { byte }),
        At::Space { byte } => go(after_space(byte)),
        At::SpaceClear { byte } => {
            go(after_space(byte));
            next.space_waits = false;
            next.writer.woken_at_space();
        }
        At::SayAsleep => {
            go(if lacks(Without::LastLookForBytes) { At::Asleep } else { At::LastLook });
            if world.sleep == Sleep::Awake {
                next.sleep = Sleep::Asleep;
            }
        }
        At::LastLook if world.read.is_frozen || world.waiting() > 0 => {
            go(At::Look);
            wake_up(&mut next);
        }
        At::LastLook => go(At::Asleep),
        At::Asleep => match next.take_from_shadow() {
            None if world.has_writer => return Vec::new(),
            byte => next.reader.at = At::Woken { byte },
        },
        At::Woken { byte: Some(byte) } if world.sleep == Sleep::Rung => {
            go(At::Look);
            next.sleep = Sleep::Awake;
            if byte != Byte::Bell {
                next.wrong = Some("a byte of the stream was taken for one that wakes");
            }
        }
        At::Woken { byte: Some(Byte::Of(byte)) } => {
            go(At::Idle);
            wake_up(&mut next);
            if !lacks(Without::TakenEarly) {
                next.taken_early += 1;
            }
            next.deliver(byte);
        }
        At::Woken { byte: Some(Byte::Bell) } => next.wrong = Some("a byte that wakes was taken for one of the stream"),
        At::Woken { byte: None } => {
            let is_more = world.read.is_frozen || world.waiting() > 0;
            go(if is_more && !lacks(Without::LookAfterEnd) { At::Look } else { At::Ended });
            wake_up(&mut next);
        }
        At::Retreat { step, in_call } => {
            return retreat::step(world, step, true, without)
                .into_iter()
                .map(|(mut next, step)| {
                    next.reader.at = match step {
                        Some(step) => At::Retreat { step, in_call },
                        None if in_call => At::Kernel,
                        None => At::Idle,
                    };
                    if step.is_none() {
                        next.reader.stage = Stage::Kernel;
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
        next.reader.at = at;
        next
    };
    let mut all: Next = gives_back(world).into_iter().collect();
    all.push(with(match world.reader.stage {
        Stage::Kernel => At::Kernel,
        Stage::Ready => At::WriterWaits,
        Stage::Ring => At::Look,
    }));
    all
}

fn gives_back(world: &World) -> Option<World> {
    if !world.reader.may_give_back || world.reader.stage == Stage::Kernel {
        return None;
    }
    let mut next = world.clone();
    next.reader.may_give_back = false;
    match world.reader.stage {
        Stage::Ring => next.reader.at = At::Retreat { step: Retreat::begin(), in_call: false },
        // Who is not joined yet has nothing to give back.
        _ => next.reader.stage = Stage::Kernel,
    }
    Some(next)
}

fn after_space(byte: Option<u8>) -> At {
    byte.map_or(At::Idle, |byte| At::Take { byte })
}

fn wake_up(next: &mut World) {
    if next.sleep == Sleep::Asleep {
        next.sleep = Sleep::Awake;
    }
}

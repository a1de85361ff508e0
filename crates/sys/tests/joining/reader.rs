//! The reader: `read_input` of `joined.rs`, `meet_writer` of `meet.rs`, `read` of `stream.rs`, `polled.rs`.

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
    /// `read(2)` of the backing pipe, for the program.
    Kernel,
    /// `take_token`.
    Rung,
    TakeBell,
    /// `wait_for_ring` of `polled.rs`.
    PollLook,
    PollSay,
    PollLastLook {
        was_rung: bool,
    },
    PollNoSleep {
        was_rung: bool,
    },
    /// In `poll(2)` of the kernel: it waits, or does not.
    PollAsleep,
    PollAsk,
    PollAwake(Asked),
    PollTell(Asked),
    /// `get` of `channel/positions.rs`.
    Look,
    Copy,
    Take {
        byte: u8,
    },
    /// `let_writer_know`, with the byte if it is not consumed yet.
    Space {
        byte: Option<u8>,
    },
    SpaceClear {
        byte: Option<u8>,
    },
    /// `wait_for_bytes`.
    SayAsleep,
    LastLook,
    /// `read(2)` of the backing pipe, for one byte.
    Asleep,
    Woken {
        byte: Option<Byte>,
    },
    /// It detaches, in a call or between two.
    Retreat {
        step: Retreat,
        in_call: bool,
    },
    /// It has received the end of the stream.
    Ended,
    /// Killed: the kernel has marked the futex word, and closes the end.
    Dying,
    Dead,
}

/// What `poll(2)` of the kernel has returned for the backing pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    /// It holds bytes.
    holds: bool,
    /// The writer is gone.
    hangs: bool,
    /// The poll ends whatever the pipe holds: because of its timeout, a signal, or another descriptor.
    is_over: bool,
    has_slept: bool,
}

/// What the last poll has reported, if nothing was read since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Nothing,
    Bytes,
    /// `POLLHUP` alone.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    pub(crate) at: At,
    pub(crate) stage: Stage,
    pub(crate) may_give_back: bool,
    polls: bool,
    may_time_out: bool,
    /// This call is a poll.
    is_poll: bool,
    /// It was woken, and found nothing: the writer may check late whether the reader sleeps. This may happen once.
    woken_in_vain: bool,
    told: Told,
}

impl Reader {
    pub(crate) fn new(limits: Limits) -> Reader {
        Reader {
            at: At::Idle,
            stage: Stage::Ready,
            may_give_back: limits.gives_back,
            polls: limits.polls,
            may_time_out: limits.times_out,
            is_poll: false,
            woken_in_vain: false,
            told: Told::Nothing,
        }
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
    let mut all = accesses(world, without);
    for next in &mut all {
        if next.got > world.got {
            next.reader.told = Told::Nothing;
        }
        if next.reader.at == At::Idle {
            next.reader.is_poll = false;
            next.reader.woken_in_vain = false;
        }
    }
    all
}

fn accesses(world: &World, without: Option<Without>) -> Next {
    let lacks = |what| without == Some(what);
    let mut next = world.clone();
    let mut go = |at| next.reader.at = at;
    match world.reader.at {
        At::Dead => return Vec::new(),
        // The program goes on, and makes a call that only the kernel can do.
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
        // It has reached its timeout.
        At::MeetAsleep => go(At::MeetCompare),
        At::MeetCompare => match world.meeting {
            Meeting::ReaderWaits => {
                go(At::Kernel);
                next.meeting = Meeting::None;
            }
            Meeting::None => go(At::Kernel),
            Meeting::Agreed => {
                go(if world.reader.is_poll { At::PollLook } else { At::Look });
                next.reader.stage = Stage::Ring;
            }
        },
        At::Kernel if world.reader.is_poll => {
            let mut all = times_out(world, At::Idle);
            if !world.shadow.is_empty() || !world.has_writer {
                next.reader.at = At::Idle;
                next.reader.told = if world.shadow.is_empty() { Told::End } else { Told::Bytes };
                all.push(next);
            }
            return all;
        }
        At::Kernel if world.reader.told != Told::Nothing && world.shadow.is_empty() && world.has_writer => {
            next.wrong = Some("poll reported that there is something, and the reader sleeps");
        }
        At::Kernel => match next.take_from_backing_pipe() {
            Some(Byte::Of(byte)) => {
                next.reader.at = At::Idle;
                next.deliver(byte);
            }
            Some(Byte::Bell) => next.wrong = Some("the reader received a wake token"),
            None if world.has_writer => return Vec::new(),
            None => next.reader.at = At::Ended,
        },
        At::Rung => go(if world.sleep.is_rung() { At::TakeBell } else { At::Look }),
        At::TakeBell => match next.take_from_backing_pipe() {
            None if world.has_writer => next.reader.at = At::Look,
            byte => next.reader.at = At::Woken { byte },
        },
        At::PollLook => go(if world.read.is_frozen || world.waiting() > 0 { At::PollAsk } else { At::PollSay }),
        At::PollSay => {
            let was_rung = world.sleep.is_rung();
            go(if lacks(Without::LastLookBeforePoll) { At::PollAsleep } else { At::PollLastLook { was_rung } });
            if world.sleep == Sleep::Awake {
                next.sleep = Sleep::Asleep;
            }
        }
        At::PollLastLook { .. } if world.read.is_frozen || world.waiting() > 0 => {
            go(At::PollNoSleep { was_rung: false });
        }
        At::PollLastLook { was_rung: true } if !lacks(Without::RungGivesBack) => {
            go(At::PollNoSleep { was_rung: true });
        }
        At::PollLastLook { .. } => go(At::PollAsleep),
        At::PollNoSleep { was_rung } => {
            go(if was_rung { At::Retreat { step: Retreat::begin(), in_call: true } } else { At::PollLook });
            wake_up(&mut next);
        }
        At::PollAsk => go(At::PollTell(asked(world, false))),
        At::PollAsleep => {
            let over = Asked { is_over: true, ..asked(world, true) };
            let mut all = times_out(world, At::PollAwake(over));
            if over.holds || over.hangs {
                go(At::PollAwake(asked(world, true)));
                all.push(next);
            }
            return all;
        }
        At::PollAwake(asked) => {
            go(At::PollTell(asked));
            wake_up(&mut next);
        }
        At::PollTell(_) if world.read.is_frozen && !lacks(Without::FrozenIsNoAnswer) => {
            go(At::Retreat { step: Retreat::begin(), in_call: true });
        }
        At::PollTell(asked) => {
            let is_late = lacks(Without::RingAfterKernel) && asked.has_slept && asked.hangs;
            let has_bytes = (world.waiting() > 0 && !is_late)
                || (world.read.is_frozen && !asked.hangs)
                || (lacks(Without::RingAnswers) && asked.holds);
            next.reader.at = if has_bytes || asked.hangs || asked.is_over { At::Idle } else { At::PollLook };
            next.reader.told = match (has_bytes, asked.hangs) {
                (true, _) => Told::Bytes,
                (false, true) => Told::End,
                (false, false) => Told::Nothing,
            };
            if next.reader.told == Told::End && world.got != world.told {
                next.wrong = Some("poll reported the end before the last bytes");
            }
            if next.reader.at == At::PollLook && asked.has_slept {
                let is_again = std::mem::replace(&mut next.reader.woken_in_vain, true);
                next.wrong = next.wrong.or(is_again.then_some("a wake token wakes the reader again and again"));
            }
        }
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
        At::SayAsleep if world.reader.told != Told::Nothing && world.has_writer => {
            next.wrong = Some("poll reported that there is something, and the reader sleeps");
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
        At::Asleep => match next.take_from_backing_pipe() {
            None if world.has_writer => return Vec::new(),
            byte => next.reader.at = At::Woken { byte },
        },
        At::Woken { byte: Some(byte) } if world.sleep.is_rung() => {
            go(At::Look);
            next.sleep = Sleep::Awake;
            if byte != Byte::Bell {
                next.wrong = Some("a byte of the stream was taken for a wake token");
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
        At::Woken { byte: Some(Byte::Bell) } => next.wrong = Some("a wake token was taken for a byte of the stream"),
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
        Stage::Ring => At::Rung,
    }));
    if world.reader.polls {
        let mut next = with(match world.reader.stage {
            Stage::Kernel => At::Kernel,
            Stage::Ready => At::WriterWaits,
            Stage::Ring => At::PollLook,
        });
        next.reader.is_poll = true;
        next.reader.told = Told::Nothing;
        all.push(next);
    }
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
        // An end that is not attached yet has nothing to flush.
        _ => next.reader.stage = Stage::Kernel,
    }
    Some(next)
}

/// The world in which a poll ends for another reason than this pipe.
fn times_out(world: &World, at: At) -> Next {
    let mut next = world.clone();
    next.reader.at = at;
    next.reader.may_time_out = false;
    if world.reader.may_time_out { one(next) } else { Vec::new() }
}

fn asked(world: &World, has_slept: bool) -> Asked {
    Asked { holds: !world.shadow.is_empty(), hangs: !world.has_writer, is_over: false, has_slept }
}

fn after_space(byte: Option<u8>) -> At {
    byte.map_or(At::Idle, |byte| At::Take { byte })
}

fn wake_up(next: &mut World) {
    if next.sleep == Sleep::Asleep {
        next.sleep = Sleep::Awake;
    }
}

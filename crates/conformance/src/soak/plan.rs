//! What is to happen in a life: the pipe, its participants, the steps of each, and when each is stopped and killed. All
//! of it follows from one number.
//!
//! The steps of a participant do not depend on how earlier ones went, so the same number gives the same steps. How they
//! interleave is left to the machine.

use std::fmt;
use std::time::Duration;

use millstream_pipe::{Builder, Reader, WaitPolicy, Writer};

use super::cast::Cast;
use super::stream::{UNIT, mixed};
use crate::PIPE_BUF;
use crate::paths::{PIPE_KINDS, PipeKind, READ_PATHS, WRITE_PATHS};
use crate::pattern::Random;

/// The most that take part.
pub(super) const PARTS_MAX: usize = 4;

/// The most bytes that several readers share.
pub(super) const SHARED_MAX: u64 = 4 << 20;

/// The longest stream.
const LENGTH_MAX: u64 = 64 << 20;

/// From one alarm to the next at least. In a busy virtual machine a handler takes so long that only handlers run, if
/// alarms come every 50 microseconds.
const ALARMS_APART: Duration = Duration::from_micros(500);

/// One life of a pipe.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) life: u64,
    pub(super) cast: Cast,
    pub(super) kind: Kind,
    capacity: usize,
    policy: WaitPolicy,
    /// Bytes that each writer is to write.
    pub(super) length: u64,
    pub(super) parts: Vec<Part>,
    /// In the order of their time.
    pub(super) blows: Vec<Blow>,
}

/// A kind of pipe, by its place in the table.
#[derive(Clone, Copy)]
pub(super) struct Kind(pub(super) usize);

impl Kind {
    pub(super) fn get(self) -> &'static PipeKind {
        &PIPE_KINDS[self.0]
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get().name)
    }
}

/// What one participant is like.
#[derive(Clone, Debug)]
pub(super) struct Part {
    seed: u64,
    pub(super) is_writer: bool,
    /// Transfers have up to so many bytes.
    largest: usize,
    /// Whether sizes are whole units.
    in_units: bool,
    /// Whether it ever exports its end, after which the bytes go through the kernel for a while.
    travels: bool,
    pub(super) alarm: Option<Alarm>,
    /// A reader that goes away after so many bytes.
    pub(super) leaves_after: Option<u64>,
}

/// A signal again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    pub(super) every: Duration,
    /// Whether its handler asks for interrupted calls to go on (`SA_RESTART`).
    pub(super) restarts: bool,
}

/// What is done to a participant, all its processes at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blow {
    pub(super) at: Duration,
    pub(super) part: usize,
    pub(super) what: What,
}

/// See [`Blow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Kill,
    Stop,
    Continue,
}

/// One step of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Moves bytes: the place of the way in its table, the size, and whether the end waits.
    Transfer { path: usize, size: usize, waits: bool },
    /// Changes the capacity.
    Resize(usize),
    /// Asks how many bytes wait.
    Count,
    /// Does nothing for so long.
    Pause(Duration),
    /// Goes on with another handle to its end, and drops the old one.
    Clone,
    /// Gives its end away, does so many transfers there as a program that does not know millstream, takes it back.
    Shadow { transfers: usize, size: usize },
    /// Goes on in a child, while the parent keeps its copy of the end or not.
    Fork { parent_keeps: bool },
    /// Gives its end away to a child, which attaches to it and goes on.
    GiveToChild,
}

impl Plan {
    pub(super) fn of(life: u64) -> Plan {
        let mut random = Random::from_seed(mixed(life));
        let cast = match random.within(0..10) {
            0 => Cast::Writers(2),
            1 => Cast::Writers(3),
            2 => Cast::Readers(2),
            3 => Cast::Readers(3),
            _ => Cast::Pair,
        };
        let kind = Kind(if random.within(0..2) == 0 { random.within(0..PIPE_KINDS.len()) } else { 0 });
        let (writers, count) = (cast.writers(), cast.writers() + cast.readers());
        let mut parts: Vec<Part> = (0..count).map(|index| Part::new(&mut random, index < writers, cast)).collect();
        let smallest = parts.iter().map(|part| part.largest).min().unwrap_or(1) as u64;
        let most = if let Cast::Readers(_) = cast { SHARED_MAX } else { LENGTH_MAX / writers as u64 };
        // Of small transfers not too many, so that a life takes about a second at most.
        let length = (up_to(&mut random, most as usize) as u64).min(smallest * 10_000).next_multiple_of(UNIT as u64);
        for reader in &mut parts[writers..] {
            let leaves = random.within(0..12) == 0;
            reader.leaves_after = leaves.then(|| up_to(&mut random, length as usize) as u64);
        }
        let blows = blows(&mut random, count);
        Plan {
            life,
            cast,
            kind,
            capacity: PIPE_BUF << random.within(0..9),
            policy: [
                WaitPolicy::Adaptive,
                WaitPolicy::Adaptive,
                WaitPolicy::Adaptive,
                WaitPolicy::Block,
                WaitPolicy::Spin,
            ][random.within(0..5)],
            length,
            parts,
            blows,
        }
    }

    pub(super) fn pipe(&self) -> std::io::Result<(Reader, Writer)> {
        (self.kind.get().ask)(Builder::new().capacity(self.capacity).wait(self.policy)).create()
    }

    /// Whether this participant may be killed, or leaves before the end.
    pub(super) fn may_vanish(&self, part: usize) -> bool {
        let is_killed = self.blows.iter().any(|blow| blow.part == part && blow.what == What::Kill);
        is_killed || self.parts[part].leaves_after.is_some()
    }
}

impl Part {
    fn new(random: &mut Random, is_writer: bool, cast: Cast) -> Part {
        let largest = [16, 300, PIPE_BUF, 65_536, 65_536, 1 << 20, 1 << 20, 4 << 20][random.within(0..8)];
        let in_units = matches!(cast, Cast::Readers(_));
        let alarm = Alarm {
            every: ALARMS_APART + Duration::from_micros(up_to(random, 10_000) as u64),
            restarts: random.within(0..2) == 0,
        };
        Part {
            seed: mixed(random.0),
            is_writer,
            largest: if in_units { largest.min(1 << 20).next_multiple_of(UNIT) } else { largest },
            in_units,
            travels: random.within(0..5) == 0,
            alarm: (random.within(0..3) == 0).then_some(alarm),
            leaves_after: None,
        }
    }

    pub(super) fn steps(&self) -> Steps<'_> {
        Steps { part: self, random: Random::from_seed(self.seed), forks_left: 6, travels_left: 30 }
    }
}

/// Some lives pass in peace.
fn blows(random: &mut Random, parts: usize) -> Vec<Blow> {
    let moment = |random: &mut Random| Duration::from_micros(up_to(random, 300_000) as u64);
    let mut blows = Vec::new();
    for _ in 0..[0, 0, 1, 3][random.within(0..4)] {
        let (part, at) = (random.within(0..parts), moment(random));
        let until = at + Duration::from_micros(up_to(random, 20_000) as u64);
        blows.push(Blow { at, part, what: What::Stop });
        blows.push(Blow { at: until, part, what: What::Continue });
    }
    for _ in 0..[0, 0, 1, 1, 2][random.within(0..5)] {
        blows.push(Blow { at: moment(random), part: random.within(0..parts), what: What::Kill });
    }
    blows.sort_by_key(|blow| blow.at);
    blows
}

/// From 1 to `largest`, every order of magnitude alike.
fn up_to(random: &mut Random, largest: usize) -> usize {
    let bits = random.within(0..largest.ilog2() as usize + 2);
    random.within(1..(1 << bits) + 1).min(largest)
}

/// The steps of a participant, without end.
#[derive(Clone, Debug)]
pub(super) struct Steps<'p> {
    part: &'p Part,
    random: Random,
    forks_left: u32,
    travels_left: u32,
}

impl Steps<'_> {
    fn size(&mut self) -> usize {
        let edge = self.random.within(0..20) == 0 && self.part.largest > PIPE_BUF;
        let size =
            if edge { PIPE_BUF - 1 + self.random.within(0..3) } else { up_to(&mut self.random, self.part.largest) };
        if self.part.in_units { size.next_multiple_of(UNIT) } else { size }
    }

    fn travel(&mut self) -> Option<Step> {
        self.travels_left = self.travels_left.checked_sub(1)?;
        Some(Step::Shadow { transfers: self.random.within(0..6), size: self.size() })
    }

    fn fork(&mut self) -> Option<Step> {
        self.forks_left = self.forks_left.checked_sub(1)?;
        let parent_keeps = self.random.within(0..2) == 0;
        let gives = self.random.within(0..2) == 0 && self.part.travels;
        Some(if gives { Step::GiveToChild } else { Step::Fork { parent_keeps } })
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let rare = match self.random.within(0..600) {
            0..2 => self.fork(),
            2..6 if self.part.travels => self.travel(),
            6..12 => Some(Step::Resize(PIPE_BUF << self.random.within(0..9))),
            12..20 => Some(Step::Count),
            20..23 => Some(Step::Pause(Duration::from_micros(up_to(&mut self.random, 3000) as u64))),
            23..26 => Some(Step::Clone),
            _ => None,
        };
        let paths = if self.part.is_writer { WRITE_PATHS.len() } else { READ_PATHS.len() };
        Some(rare.unwrap_or_else(|| Step::Transfer {
            path: self.random.within(0..paths),
            size: self.size(),
            waits: self.random.within(0..8) > 0,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(life: u64) -> String {
        let plan = Plan::of(life);
        let steps: Vec<Vec<Step>> = plan.parts.iter().map(|part| part.steps().take(500).collect()).collect();
        format!("{plan:?} {steps:?}")
    }

    #[test]
    fn the_same_number_gives_the_same_life_and_the_next_another() {
        assert_eq!(told(1234), told(1234));
        assert_ne!(told(1234), told(1235));
    }

    #[test]
    fn everything_happens_in_some_life() {
        let plans: Vec<Plan> = (0..500).map(Plan::of).collect();
        let any = |what: &str, is: &dyn Fn(&Plan) -> bool| assert!(plans.iter().any(is), "no life with {what}");
        for what in [What::Kill, What::Stop, What::Continue] {
            any("a blow", &|plan| plan.blows.iter().any(|blow| blow.what == what));
        }
        for restarts in [false, true] {
            any("alarms", &|plan| {
                plan.parts.iter().any(|part| part.alarm.is_some_and(|alarm| alarm.restarts == restarts))
            });
        }
        for kind in 0..PIPE_KINDS.len() {
            any("this kind of pipe", &|plan| plan.kind.0 == kind);
        }
        any("several writers", &|plan| plan.cast.writers() == 3);
        any("several readers", &|plan| plan.cast.readers() == 3);
        any("a reader that leaves", &|plan| plan.parts.iter().any(|part| part.leaves_after.is_some()));
        any("transfers of megabytes", &|plan| plan.parts.iter().any(|part| part.largest > 1 << 20));
        assert!(plans.iter().all(|plan| plan.parts.len() <= PARTS_MAX && plan.length > 0));
        assert!(plans.iter().all(|plan| plan.cast.readers() == 1 || plan.length <= SHARED_MAX));
        for path in 0..WRITE_PATHS.len() {
            let takes = |step: Step| matches!(step, Step::Transfer { path: taken, .. } if taken == path);
            any("this way in", &|plan| plan.parts[0].steps().take(100).any(takes));
        }
    }
}

//! The decisions in a world of one or two CPUs with a clock of its own. In it are two ends, programs that use up a
//! CPU, and instants at which a CPU is away. The numbers are the same every time, so the bounds are exact about the
//! policy.
//!
//! The world is kinder than Linux in one thing: a thread that wakes up runs before one that only uses up the CPU. It
//! is as Linux in what matters here. A thread that yields comes back after every other has used its time slice, and a
//! wake-up takes its time.

use std::collections::VecDeque;

use super::decisions::{Act, End, Lessons, Wait};

/// TSC cycles in a microsecond: 3 GHz.
const US: u64 = 3_000;
const MS: u64 = 1_000 * US;

/// The clock moves by this much.
const STEP: u64 = 300;

/// How long a program that never sleeps keeps a CPU while another waits for it.
const SLICE: u64 = 3 * MS;

const CAPACITY: u64 = 512 << 10;

/// What a system call takes that puts to sleep or wakes: it is the CPU of the caller that is used.
const CALL: u64 = US;

/// What one side does: so many bytes at a time, each time after computing for so long.
#[derive(Clone, Copy)]
struct Side {
    cpu: usize,
    bytes: u64,
    computes: u64,
    /// For how long it is away from its CPU each time.
    pauses: u64,
    /// After how many times it computes once more, and for how long.
    rests: (u64, u64),
}

fn side(cpu: usize, bytes: u64) -> Side {
    Side { cpu, bytes, computes: 0, pauses: 0, rests: (u64::MAX, 0) }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    /// Uses the CPU for so long, and then moves bytes if it can.
    Work(u64),
    /// Away until then.
    Pause(u64),
    Wait,
    /// In a system call for so long, and then asleep.
    FallAsleep(u64),
    Asleep {
        since: u64,
    },
    /// Notified; runs again at that time at the earliest.
    Waking {
        since: u64,
        rung: u64,
        at: u64,
    },
}

struct Task {
    side: Option<Side>,
    doing: Doing,
    wait: Option<Wait>,
    offered: bool,
    lessons: Lessons,
    done: u64,
    seen: Seen,
}

/// What is asserted on.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    bytes: u64,
    looked: u64,
    offers: u64,
    sleeps: u64,
    /// The longest time for which bytes lay in the ring while the reader did not run, because it had gone to sleep or
    /// was spinning. For the writer: room in the ring.
    latest: u64,
}

struct World {
    now: u64,
    ring: u64,
    /// Since when there is something for the reader, or for the writer, that it has not noticed.
    unnoticed: [Option<u64>; 2],
    tasks: Vec<Task>,
    queues: Vec<VecDeque<usize>>,
    ran_for: Vec<u64>,
    wake: u64,
    /// From, to, and the CPU that is away in between.
    away: Vec<(u64, u64, usize)>,
}

const WRITER: usize = 0;
const READER: usize = 1;

impl World {
    /// A writer, a reader, and a program on each of `hogs` that uses its CPU up.
    fn new(writer: Side, reader: Side, hogs: &[usize]) -> World {
        let task = |side: Option<Side>| Task {
            side,
            doing: Doing::Work(1),
            wait: None,
            offered: false,
            lessons: Lessons::none(),
            done: 0,
            seen: Seen::default(),
        };
        let mut queues = vec![VecDeque::new(), VecDeque::new()];
        queues[writer.cpu].push_back(WRITER);
        queues[reader.cpu].push_back(READER);
        let mut tasks = vec![task(Some(writer)), task(Some(reader))];
        for &cpu in hogs {
            queues[cpu].push_back(tasks.len());
            tasks.push(task(None));
        }
        World {
            now: 0,
            ring: 0,
            unnoticed: [Some(0), None],
            tasks,
            queues,
            ran_for: vec![0; 2],
            wake: 30 * US,
            away: vec![],
        }
    }

    fn run(mut self, time: u64) -> [Seen; 2] {
        while self.now < time {
            self.now += STEP;
            self.wake_when_due();
            for cpu in 0..2 {
                let is_away = self.away.iter().any(|&(from, to, which)| which == cpu && (from..to).contains(&self.now));
                if !is_away {
                    self.advance(cpu);
                }
            }
        }
        [WRITER, READER].map(|index| self.tasks[index].seen)
    }

    fn wake_when_due(&mut self) {
        for index in [WRITER, READER] {
            let (peer, cpu) = (1 - index, self.cpu_of(index));
            match self.tasks[index].doing {
                Doing::Pause(until) if self.now >= until => {}
                Doing::Waking { since, rung, at } if self.now >= at => {
                    if cpu != self.cpu_of(peer) {
                        self.tasks[index].lessons.has_woken(since, rung, self.now);
                    }
                }
                _ => continue,
            }
            self.tasks[index].doing = Doing::Work(1);
            // Before the tasks that never sleep, behind the other end if that runs.
            let queue = &mut self.queues[cpu];
            if queue.front() == Some(&peer) {
                queue.insert(1, index);
            } else {
                queue.push_front(index);
                self.ran_for[cpu] = 0;
            }
        }
    }

    fn cpu_of(&self, index: usize) -> usize {
        self.tasks[index].side.map_or(0, |side| side.cpu)
    }

    fn advance(&mut self, cpu: usize) {
        let Some(&index) = self.queues[cpu].front() else { return };
        self.ran_for[cpu] += STEP;
        let keeps = if index > READER { true } else { self.step(index) };
        let is_over = self.ran_for[cpu] >= SLICE && self.queues[cpu].len() > 1;
        if !keeps || is_over {
            self.ran_for[cpu] = 0;
            if let Some(position) = self.queues[cpu].iter().position(|&queued| queued == index) {
                self.queues[cpu].remove(position);
            }
            if !matches!(self.tasks[index].doing, Doing::Asleep { .. } | Doing::Pause(_)) {
                self.queues[cpu].push_back(index);
            }
        }
    }

    /// One step of an end. Returns false if it gives its CPU away.
    fn step(&mut self, index: usize) -> bool {
        match self.tasks[index].doing {
            Doing::Work(left) if left > STEP => self.tasks[index].doing = Doing::Work(left - STEP),
            Doing::Work(_) => {
                self.move_bytes(index);
                return !matches!(self.tasks[index].doing, Doing::Pause(_));
            }
            Doing::Wait => return self.wait(index),
            Doing::FallAsleep(left) if left > STEP => self.tasks[index].doing = Doing::FallAsleep(left - STEP),
            Doing::FallAsleep(_) if self.is_ready(index) => self.tasks[index].doing = Doing::Work(1),
            Doing::FallAsleep(_) => {
                self.tasks[index].doing = Doing::Asleep { since: self.now };
                self.tasks[index].seen.sleeps += 1;
                return false;
            }
            Doing::Asleep { .. } | Doing::Waking { .. } | Doing::Pause(_) => unreachable!("does not run"),
        }
        true
    }

    fn is_ready(&self, index: usize) -> bool {
        if index == READER { self.ring > 0 } else { self.ring < CAPACITY }
    }

    fn move_bytes(&mut self, index: usize) {
        let side = self.tasks[index].side.expect("an end");
        let room = if index == READER { self.ring } else { CAPACITY - self.ring };
        let count = side.bytes.min(room);
        if count == 0 {
            return self.begin_to_wait(index);
        }
        if let Some(since) = self.unnoticed[index].take() {
            self.tasks[index].seen.latest = self.tasks[index].seen.latest.max(self.now - since);
        }
        self.ring = if index == READER { self.ring - count } else { self.ring + count };
        let peer = 1 - index;
        let waits = !matches!(self.tasks[peer].doing, Doing::Work(_) | Doing::Pause(_));
        if waits && self.unnoticed[peer].is_none() {
            self.unnoticed[peer] = Some(self.now);
        }
        let task = &mut self.tasks[index];
        task.seen.bytes += count;
        task.done += 1;
        // 10 GB/s, and a little for each call.
        let mut next = side.computes + count * US / 10_000 + US / 10;
        if task.done.is_multiple_of(side.rests.0) {
            next += side.rests.1;
        }
        if let Doing::Asleep { since } = self.tasks[peer].doing {
            next += CALL;
            let shares = self.cpu_of(index) == self.cpu_of(peer);
            let at = self.now + if shares { CALL } else { self.wake };
            self.tasks[peer].doing = Doing::Waking { since, rung: self.now, at };
        }
        self.tasks[index].doing =
            if side.pauses > 0 { Doing::Pause(self.now + next + side.pauses) } else { Doing::Work(next) };
    }

    fn begin_to_wait(&mut self, index: usize) {
        let shares = self.cpu_of(index) == self.cpu_of(1 - index);
        let (now, task) = (self.now, &mut self.tasks[index]);
        task.wait = Wait::begin(&task.lessons, shares, || now);
        task.offered = false;
        task.doing = if task.wait.is_some() { Doing::Wait } else { Doing::FallAsleep(CALL) };
    }

    fn wait(&mut self, index: usize) -> bool {
        let (now, is_over) = (self.now, self.is_ready(index));
        let task = &mut self.tasks[index];
        let mut wait = task.wait.take().expect("a wait");
        if wait.act() == Act::Offer && !task.offered {
            // The CPU goes away here, and what comes after the call is done when it is back.
            (task.offered, task.wait) = (true, Some(wait));
            task.seen.offers += 1;
            return false;
        }
        task.offered = false;
        task.seen.looked += if wait.act() == Act::Look { STEP } else { 0 };
        match wait.after(is_over, &mut task.lessons, || now) {
            None => task.wait = Some(wait),
            Some(End::Found) => task.doing = Doing::Work(1),
            Some(End::Sleep) => task.doing = Doing::FallAsleep(CALL),
        }
        true
    }
}

/// Of the whole time, in percent.
fn percent(part: u64, time: u64) -> u64 {
    part * 100 / time
}

/// What both could move together if neither ever waited: two copies on one CPU, one on two.
fn limit(time: u64, cpus: u64, transfer: u64) -> u64 {
    let each = (transfer * US / 10_000 + US / 10).next_multiple_of(STEP);
    time / each * transfer * cpus / 2
}

const TIME: u64 = 200 * MS;

#[test]
fn two_cpus_stream_without_sleep() {
    for transfer in [512, 4096, 65_536] {
        let [writer, reader] = World::new(side(0, transfer), side(1, transfer), &[]).run(TIME);
        assert!(reader.bytes > limit(TIME, 2, transfer) * 8 / 10, "{transfer}: {reader:?}");
        assert!(writer.sleeps + reader.sleeps <= 2, "{transfer}: {writer:?} {reader:?}");
    }
}

#[test]
fn one_cpu_goes_to_and_fro_by_whole_rings() {
    for transfer in [512, 4096, 65_536] {
        let [writer, reader] = World::new(side(0, transfer), side(0, transfer), &[]).run(TIME);
        assert!(reader.bytes > limit(TIME, 1, transfer) * 8 / 10, "{transfer}: {reader:?}");
        assert!((writer.sleeps, reader.sleeps, writer.looked + reader.looked) == (0, 0, 0), "{writer:?} {reader:?}");
        assert!(writer.offers <= reader.bytes / CAPACITY * 2 + 2, "{writer:?}");
    }
}

#[test]
fn beside_a_program_that_uses_the_cpu_up_the_pipe_keeps_its_share() {
    for transfer in [512, 65_536] {
        let [writer, reader] = World::new(side(0, transfer), side(0, transfer), &[0]).run(5 * TIME);
        // Half of the CPU at least, which a yield that gives its slice away would never get: 512 KiB in six
        // milliseconds.
        assert!(reader.bytes > limit(5 * TIME, 1, transfer) * 4 / 10, "{transfer}: {writer:?} {reader:?}");
        assert!(writer.offers + reader.offers <= 12, "{writer:?} {reader:?}");
    }
}

#[test]
fn beside_programs_on_both_cpus_little_is_looked_in_vain() {
    let [writer, reader] = World::new(side(0, 4096), side(1, 4096), &[0, 1]).run(5 * TIME);
    assert!(reader.bytes > limit(5 * TIME, 2, 4096) / 4, "{writer:?} {reader:?}");
    assert!(percent(writer.looked + reader.looked, 5 * TIME) <= 10, "{writer:?} {reader:?}");
}

#[test]
fn a_slow_writer_costs_its_reader_next_to_nothing() {
    let slow = Side { computes: MS, ..side(0, 100) };
    let [_, reader] = World::new(slow, side(1, 4096), &[]).run(TIME);
    assert!(percent(reader.looked, TIME) <= 1, "{reader:?}");
    assert!(reader.bytes >= 100 * (TIME / MS - 3), "{reader:?}");
}

#[test]
fn a_slow_reader_costs_its_writer_next_to_nothing() {
    let slow = Side { computes: MS, ..side(1, 4096) };
    let [writer, reader] = World::new(side(0, 4096), slow, &[]).run(2 * TIME);
    assert!(percent(writer.looked, 2 * TIME) <= 1, "{writer:?}");
    assert!(reader.bytes >= 4096 * (2 * TIME / MS - 3), "{reader:?}");
}

#[test]
fn a_lone_byte_is_never_late() {
    // One byte every 0.7 milliseconds: the reader has long been asleep. A wake-up, the call and a step or two.
    for (cpu, bound) in [(1, 35 * US), (0, 5 * US)] {
        let lone = Side { pauses: 700 * US, ..side(0, 1) };
        let [_, reader] = World::new(lone, side(cpu, 4096), &[]).run(TIME);
        assert!(reader.bytes >= TIME / (701 * US) - 2 && reader.sleeps > 100, "{reader:?}");
        assert!(reader.latest <= bound, "{} us on CPU {cpu}", reader.latest / US);
    }
}

#[test]
fn reader_sleeps_between_bursts_and_is_woken_once_in_each() {
    // A hundred writes in a row, then a millisecond of nothing.
    let bursts = Side { rests: (100, MS), ..side(0, 4096) };
    for cpu in [0, 1] {
        let [_, reader] = World::new(bursts, side(cpu, 4096), &[]).run(TIME);
        let count = reader.bytes / 409_600;
        assert!(count > 100, "{reader:?}");
        assert!(reader.sleeps <= 2 * count, "{} sleeps in {count} bursts", reader.sleeps);
        assert!(percent(reader.looked, TIME) <= 8, "{reader:?}");
    }
}

#[test]
fn a_look_ends_with_the_time_that_was_stolen_and_teaches_nothing() {
    // The reader's CPU is away for three milliseconds out of ten.
    let stolen: Vec<_> = (0..TIME / (10 * MS)).map(|n| (n * 10 * MS, n * 10 * MS + 3 * MS, 1)).collect();
    let world = World { away: stolen, ..World::new(side(0, 4096), side(1, 4096), &[]) };
    let [writer, reader] = world.run(TIME);
    assert!(reader.bytes > limit(TIME, 2, 4096) * 7 / 10 * 8 / 10, "{writer:?} {reader:?}");
    assert!(percent(writer.looked, TIME) <= 5, "{writer:?}");
}

/// What ends that share a CPU with another program do until it goes away at `leaves_at`, and then until `end`.
fn beside_one_that_leaves(leaves_at: u64, end: u64) -> [[Seen; 2]; 2] {
    let mut world = World::new(side(0, 4096), side(0, 4096), &[0]);
    let seen = |world: &World| [WRITER, READER].map(|index| world.tasks[index].seen);
    let mut beside_it = [Seen::default(); 2];
    while world.now < end {
        world.now += STEP;
        world.wake_when_due();
        world.advance(0);
        if world.now == leaves_at {
            world.queues[0].retain(|&index| index <= READER);
            beside_it = seen(&world);
        }
    }
    [beside_it, seen(&world)]
}

#[test]
fn a_competitor_that_has_gone_is_forgotten() {
    let [[beside_it, _], [then, _]] = beside_one_that_leaves(TIME, 4 * TIME);
    assert!(then.offers > 100 * (beside_it.offers + 1), "{beside_it:?}, then {then:?}");
}

#[test]
fn one_that_only_came_by_is_forgotten_in_a_few_milliseconds() {
    let (stay, after) = (4 * MS, 10 * MS);
    let [[_, beside_it], [_, then]] = beside_one_that_leaves(stay, stay + after);
    let rings = (then.bytes - beside_it.bytes) / CAPACITY;
    assert!(rings > 30 && then.offers - beside_it.offers > rings / 2, "{beside_it:?}, then {then:?}");
}

#[test]
fn looks_are_as_long_as_a_wake_up_takes_on_this_machine() {
    // An answer that comes after 20 microseconds, where waking takes 4: not waited for; where it takes 60: waited for.
    for (wake, sleeps) in [(4 * US, true), (60 * US, false)] {
        let mut lessons = Lessons::none();
        (0..100).for_each(|at| lessons.has_woken(at, at, at + wake));
        let mut world = World::new(Side { computes: 20 * US, ..side(0, 64) }, side(1, 64), &[]);
        world.wake = wake;
        world.tasks[READER].lessons = lessons;
        let [_, reader] = world.run(TIME);
        assert_eq!(reader.sleeps > 100, sleeps, "{wake}: {reader:?}");
    }
}

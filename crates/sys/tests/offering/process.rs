//! A process: what `offer.rs`, `meet.rs`, `alone.rs` and `retreat.rs` do in it, and what its program does besides.

use crate::world::{Entry, Memory, PLACES, PROCESSES, Taken, Without, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    Kernel,
    Counted,
    Offers,
    Wants,
    Ready,
    Ring,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    /// Between two calls.
    Idle,
    /// `offer::make`.
    Post,
    /// `prove` of a writer: one process after the other, for the reader that came at that time.
    Look {
        taken: Taken,
        next: u8,
        has_seen_peer: bool,
    },
    Withdraw {
        time: u8,
    },
    /// `has_own_file`.
    Mark {
        time: u8,
    },
    Replace {
        time: u8,
    },
    AskForMark {
        time: u8,
        old: u8,
    },
    SayReady {
        time: u8,
    },
    /// `accept`.
    Raise {
        pid: u8,
        place: u8,
    },
    Open {
        pid: u8,
        place: u8,
    },
    Take {
        memory: u8,
    },
    Exchange {
        memory: u8,
        before: Taken,
    },
    /// `want_no_more`.
    NotReady,
    NotTaken,
    TakeBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) is_writer: bool,
    pub(crate) at: At,
    pub(crate) stage: Stage,
    pub(crate) slot: Option<u8>,
    /// Open files: the standard input or output, and another descriptor.
    pub(crate) end: Option<u8>,
    pub(crate) other: Option<u8>,
    pub(crate) numbers: [Entry; PLACES],
    pub(crate) offered: Option<u8>,
    /// It was forked from a process that advertises.
    pub(crate) is_child: bool,
    /// It is no process, but a message on its way.
    pub(crate) is_message: bool,
    /// It is in a namespace of its own, or no process may inspect it; so are its children.
    pub(crate) is_unseen: bool,
}

impl Process {
    pub(crate) fn new(is_writer: bool, file: u8) -> Process {
        Process {
            is_writer,
            at: At::Idle,
            stage: Stage::Counted,
            slot: None,
            end: Some(file),
            other: None,
            numbers: [Entry::Free; PLACES],
            offered: None,
            is_child: false,
            is_message: false,
            is_unseen: false,
        }
    }

    pub(crate) fn has(&self, file: u8) -> bool {
        self.end == Some(file) || self.other == Some(file)
    }

    fn is_guarded(&self, without: Option<Without>) -> bool {
        let are_late = if self.is_writer { Without::GuardsOfWriter } else { Without::GuardsOfReader };
        self.stage >= if without == Some(are_late) { Stage::Ring } else { Stage::Wants }
    }

    /// Whether a descriptor stays open that no reader will search for.
    pub(crate) fn leaves_something(&self) -> bool {
        let is_done = !matches!(self.stage, Stage::Counted | Stage::Offers | Stage::Wants);
        is_done && self.at == At::Idle && !self.is_message && self.offered.is_some()
    }
}

/// Every world that one step of a process leads to.
pub(crate) fn step(world: &World, pid: usize, without: Option<Without>) -> Vec<World> {
    let lacks = |what| without == Some(what);
    let Some(process) = world.processes[pid] else { return Vec::new() };
    if process.is_message {
        return Vec::new();
    }
    let mut next = world.clone();
    let mut go = |at| next.process(pid).at = at;
    let slot = || process.slot.expect("it has one by now");
    let words = |slot: u8| -> Memory { world.memories[usize::from(slot)] };
    match process.at {
        At::Idle => return call(world, pid, without),
        At::Post => {
            let place = usize::from(process.offered.expect("made"));
            if (0..PROCESSES).any(|other| other != pid && world.locks[other][place]) {
                withdraw(&mut next, pid, without);
                give_up(&mut next, pid);
            } else {
                next.locks[pid][place] = true;
                next.process(pid).stage = Stage::Offers;
            }
            next.process(pid).at = At::Idle;
        }
        At::Look { taken, next: looked, has_seen_peer } if usize::from(looked) == PROCESSES => {
            let is_alone = has_seen_peer || lacks(Without::Peer);
            return match is_alone {
                true => vec![with(next, pid, At::Withdraw { time: taken.time })],
                false => later(&next, pid),
            };
        }
        At::Look { taken, next: looked, has_seen_peer } => {
            let other = world.processes[usize::from(looked)].filter(|other| !other.is_message && !other.is_unseen);
            let is_peer = taken.process == Some(looked);
            let has_its_end =
                other.is_some_and(|other| !other.is_writer && other.end.is_some() && other.other.is_none());
            let has_any = other.is_some_and(|other| other.end.is_some() || other.other.is_some());
            let is_fine = usize::from(looked) == pid || !has_any || (is_peer && has_its_end) || lacks(Without::Others);
            if !is_fine {
                return later(&next, pid);
            }
            go(At::Look { taken, next: looked + 1, has_seen_peer: has_seen_peer || (is_peer && has_its_end) });
        }
        At::Withdraw { time } => {
            go(At::Mark { time });
            if !lacks(Without::WithdrawWhenReady) {
                withdraw(&mut next, pid, without);
            }
        }
        // The kernel refuses the mark of a writer beside another one.
        At::Mark { .. }
            if process.is_writer && world.is_marked(true, process.end) && !lacks(Without::MarksOfBefore) =>
        {
            go(At::NotReady);
        }
        At::Mark { time } => {
            let is_spared = if process.is_writer { Without::OwnFileOfWriter } else { Without::OwnFileOfReader };
            go(if lacks(is_spared) { At::SayReady { time } } else { At::Replace { time } });
            if let Some(file) = process.end {
                next.files[usize::from(file)].is_marked = true;
            }
        }
        At::Replace { time } => {
            let old = process.end.expect("guarded");
            let Some(new) = next.new_file(process.is_writer) else { return Vec::new() };
            next.process(pid).end = Some(new);
            next.process(pid).at = At::AskForMark { time, old };
            next.drop_locks(pid);
        }
        At::AskForMark { time, old } => {
            let is_shared = match lacks(Without::MarksOfBefore) {
                true => world.all().any(|(_, other)| other.has(old)),
                false => world.is_marked(process.is_writer, process.end),
            };
            go(if is_shared { At::NotReady } else { At::SayReady { time } });
        }
        At::SayReady { time } => {
            go(At::Idle);
            next.process(pid).stage = Stage::Ready;
            let memory = next.memory(slot());
            let word = if process.is_writer { &mut memory.writer_ready } else { &mut memory.reader_ready };
            *word = time;
        }
        At::Raise { pid: whose, place } => {
            if process.other.is_some() {
                give_up(&mut next, pid);
                return vec![with(next, pid, At::Idle)];
            }
            go(At::Open { pid: whose, place });
            next.process(pid).stage = Stage::Wants;
        }
        At::Open { pid: whose, place } => {
            let found =
                world.processes[usize::from(whose)].map_or(Entry::Free, |other| other.numbers[usize::from(place)]);
            match found {
                Entry::Memory(memory) => go(At::Take { memory }),
                Entry::Other if lacks(Without::Label) => next.wrong = Some("a reader uses the memory of another pipe"),
                _ => {
                    give_up(&mut next, pid);
                    next.process(pid).at = At::Idle;
                }
            }
        }
        At::Take { memory } => {
            let before = words(memory).reader;
            let is_held = before.process.is_some_and(|other| world.processes[usize::from(other)].is_some());
            if is_held && !lacks(Without::OneReader) {
                give_up(&mut next, pid);
                return vec![with(next, pid, At::Idle)];
            }
            go(At::Exchange { memory, before });
        }
        At::Exchange { memory, before } => {
            go(At::Idle);
            if words(memory).reader != before && !lacks(Without::OneReader) {
                give_up(&mut next, pid);
                return vec![next];
            }
            let time = if lacks(Without::Time) { 1 } else { before.time + 1 };
            next.memory(memory).reader = Taken { process: Some(pid as u8), time };
            next.process(pid).slot = Some(memory);
            next.process(pid).stage = Stage::Wants;
        }
        At::NotReady => {
            let memory = next.memory(slot());
            if process.is_writer {
                memory.writer_ready = 0;
                next.process(pid).at = At::TakeBack;
            } else {
                memory.reader_ready = 0;
                next.process(pid).at = At::NotTaken;
            }
        }
        At::NotTaken => {
            let memory = next.memory(slot());
            if memory.reader.process == Some(pid as u8) {
                memory.reader.process = None;
            }
            give_up(&mut next, pid);
            next.process(pid).at = At::Idle;
        }
        At::TakeBack => {
            if !lacks(Without::WithdrawWhenGivingUp) {
                withdraw(&mut next, pid, without);
            }
            give_up(&mut next, pid);
            next.process(pid).at = At::Idle;
        }
    }
    vec![next]
}

fn with(mut world: World, pid: usize, at: At) -> World {
    world.process(pid).at = at;
    world
}

/// A call of `read` or `write` begins.
fn call(world: &World, pid: usize, without: Option<Without>) -> Vec<World> {
    let lacks = |what| without == Some(what);
    let process = world.processes[pid].expect("it calls");
    let mut next = world.clone();
    if process.end.is_none() {
        return Vec::new();
    }
    if process.is_child && process.stage == Stage::Offers && !lacks(Without::ChildForgets) {
        withdraw_copy(&mut next, pid, without);
        give_up(&mut next, pid);
        return vec![next];
    }
    let words = process.slot.map(|slot| world.memories[usize::from(slot)]);
    match (process.stage, words) {
        (Stage::Counted, _) if process.is_child => give_up(&mut next, pid),
        (Stage::Counted, _) if process.is_writer => {
            let Some(place) = process.numbers.iter().position(|entry| *entry == Entry::Free) else { return Vec::new() };
            let Some(memory) = next.new_memory() else { return Vec::new() };
            let process = next.process(pid);
            process.numbers[place] = Entry::Memory(memory);
            process.offered = Some(place as u8);
            process.slot = Some(memory);
            process.at = At::Post;
        }
        (Stage::Counted, _) => {
            let Some((whose, place)) = world.posted(pid) else { return Vec::new() };
            next.process(pid).at = At::Raise { pid: whose as u8, place: place as u8 };
        }
        (Stage::Offers, Some(words)) if words.reader.process.is_some() => {
            if process.other.is_some() {
                withdraw(&mut next, pid, without);
                give_up(&mut next, pid);
            } else {
                next.process(pid).stage = Stage::Wants;
            }
        }
        (Stage::Wants, Some(words)) if process.is_writer && words.reader.process.is_some() => {
            next.process(pid).at = At::Look { taken: words.reader, next: 0, has_seen_peer: false };
        }
        (Stage::Wants, Some(words)) if !process.is_writer && words.writer_ready != 0 => {
            let is_for_us = words.writer_ready == words.reader.time;
            next.process(pid).at = if is_for_us { At::Mark { time: words.reader.time } } else { At::NotReady };
        }
        // The other model has the activation; here it is one step.
        (Stage::Ready, Some(_)) if process.is_writer => {
            let peer = world.all().find(|(_, other)| {
                !other.is_writer && other.stage == Stage::Ready && other.slot == process.slot && other.at == At::Idle
            });
            let Some((peer, _)) = peer else { return Vec::new() };
            next.process(pid).stage = Stage::Ring;
            next.process(peer).stage = Stage::Ring;
        }
        _ => return Vec::new(),
    }
    vec![next]
}

/// The check found another process: the writer tries once more, or gives up.
fn later(world: &World, pid: usize) -> Vec<World> {
    [At::Idle, At::NotReady].map(|at| with(world.clone(), pid, at)).into()
}

fn give_up(world: &mut World, pid: usize) {
    let process = world.process(pid);
    process.stage = Stage::Kernel;
    process.slot = None;
}

/// `offer::withdraw`.
fn withdraw(world: &mut World, pid: usize, without: Option<Without>) {
    if let Some(place) = world.process(pid).offered {
        world.locks[pid][usize::from(place)] = false;
    }
    withdraw_copy(world, pid, without);
}

fn withdraw_copy(world: &mut World, pid: usize, without: Option<Without>) {
    let process = world.process(pid);
    let Some(place) = process.offered.take() else { return };
    let entry = &mut process.numbers[usize::from(place)];
    match *entry {
        Entry::Memory(_) => *entry = Entry::Free,
        Entry::Other if without == Some(Without::OwnDescriptor) => {
            world.wrong = Some("a descriptor of the program was closed")
        }
        _ => {}
    }
}

/// What the program of a process may do between two calls, besides reading and writing.
pub(crate) fn acts(world: &World, pid: usize, without: Option<Without>) -> Vec<World> {
    let lacks = |what| without == Some(what);
    let Some(process) = world.processes[pid].filter(|process| process.at == At::Idle || process.is_message) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut World) -> bool| {
        let mut next = world.clone();
        if change(&mut next) {
            all.push(next);
        }
    };
    // It ends, or a message is discarded.
    add(&|next| {
        next.processes[pid] = None;
        next.drop_locks(pid);
        true
    });
    if process.is_message {
        return all;
    }
    // It closes its end.
    if process.end.is_some() && process.stage != Stage::Ring {
        add(&|next| {
            next.process(pid).end = None;
            next.drop_locks(pid);
            if process.is_guarded(without) {
                next.process(pid).at = if lacks(Without::WithdrawWhenClosing) { At::Idle } else { At::NotReady };
                if lacks(Without::WithdrawWhenClosing) {
                    give_up(next, pid);
                }
            }
            true
        });
    }
    if process.is_guarded(without) {
        // It makes a call that only the kernel can do.
        add(&|next| {
            if process.stage == Stage::Ring {
                for process in next.processes.iter_mut().flatten().filter(|process| process.stage == Stage::Ring) {
                    process.stage = Stage::Kernel;
                    process.slot = None;
                }
            } else {
                next.process(pid).at = At::NotReady;
            }
            true
        });
        return all;
    }
    // It opens its end anew, or closes such a descriptor.
    add(&|next| {
        let Some(file) = next.new_file(process.is_writer).filter(|_| process.other.is_none() && process.end.is_some())
        else {
            return false;
        };
        next.process(pid).other = Some(file);
        true
    });
    add(&|next| {
        next.process(pid).other = None;
        next.drop_locks(pid);
        process.other.is_some()
    });
    // It closes all its descriptors but those, and opens something else.
    for place in 0..PLACES {
        for entry in [Entry::Free, Entry::Other] {
            add(&|next| {
                next.process(pid).numbers[place] = entry;
                process.numbers[place] != entry
            });
        }
    }
    // It forks, or sends its end away.
    if let Some(free) = (0..PROCESSES).find(|&other| world.processes[other].is_none()) {
        let child = Process { is_child: process.slot.is_some(), ..process };
        add(&|next| {
            next.processes[free] = Some(child);
            true
        });
        let message = Process { is_message: true, other: None, ..child };
        add(&|next| {
            next.processes[free] = Some(message);
            process.end.is_some()
        });
    }
    // It becomes another program, through this library or by a system call of its own.
    let become_another = |next: &mut World| {
        let process = next.process(pid);
        for entry in &mut process.numbers {
            if matches!(entry, Entry::Memory(_)) {
                *entry = Entry::Free;
            }
        }
        let (numbers, end, other) = (process.numbers, process.end, process.other);
        let is_unseen = process.is_unseen;
        *process = Process { numbers, end, other, is_unseen, ..Process::new(process.is_writer, 0) };
    };
    add(&|next| {
        if let (Some(slot), true) = (process.slot, process.is_child && lacks(Without::ChildLeavesWords)) {
            next.memory(slot).writer_ready = 0;
        } else if process.offered.is_some() && !process.is_child {
            withdraw(next, pid, without);
        }
        become_another(next);
        true
    });
    add(&|next| {
        become_another(next);
        process.offered.is_some()
    });
    // A child that runs in its memory becomes another program.
    if process.stage == Stage::Offers && lacks(Without::BorrowedMemory) {
        add(&|next| {
            give_up(next, pid);
            true
        });
    }
    all
}

/// The process is killed, at any step.
pub(crate) fn kill(world: &World, pid: usize) -> Option<World> {
    let mut next = world.clone();
    next.processes[pid].take()?;
    next.drop_locks(pid);
    Some(next)
}

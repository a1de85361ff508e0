//! What all processes share: the pipe, locks on it, and the advertised memory.

use crate::process::{Process, Stage};

/// Processes at the same time, which is also how many process numbers there are.
pub(crate) const PROCESSES: usize = 3;
/// Numbers that a writer's descriptor can have.
pub(crate) const PLACES: usize = 2;
const FILES: usize = 6;
const MEMORIES: usize = 3;

/// What may happen in a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How often programs do something other than reading and writing.
    pub(crate) acts: u8,
    pub(crate) kills: u8,
    /// The writer cannot inspect the reader.
    pub(crate) has_unseen_reader: bool,
}

/// A check, or an order of steps, that the model can leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// The hooks of a reader are active before it attaches.
    GuardsOfReader,
    /// The hooks of a writer are active before it attaches.
    GuardsOfWriter,
    /// The exclusivity check inspects all processes.
    Others,
    /// The writer checks whether the reader has its end.
    Peer,
    /// A writer makes sure that no other process has its open file description.
    OwnFileOfWriter,
    /// A reader makes sure of the same.
    OwnFileOfReader,
    /// A mark from an earlier attempt counts as well.
    MarksOfBefore,
    /// The writer's exclusivity check holds only for the reader that came at that time.
    Time,
    /// A reader verifies what is behind the descriptor that it opens.
    Label,
    /// One reader at a time has a slot.
    OneReader,
    /// A writer that has passed the exclusivity check withdraws its advertisement.
    WithdrawWhenReady,
    /// A writer that gives up withdraws it.
    WithdrawWhenGivingUp,
    /// A writer that closes its end withdraws it.
    WithdrawWhenClosing,
    /// The writer closes only the descriptor that it has opened.
    OwnDescriptor,
    /// A forked child does not use its parent's slot.
    ChildForgets,
    /// A forked child does not change the words of that slot when it becomes another program.
    ChildLeavesWords,
    /// A child that runs in its parent's memory does not change it.
    BorrowedMemory,
}

impl Without {
    pub(crate) const ALL: [Without; 17] = [
        Without::GuardsOfReader,
        Without::GuardsOfWriter,
        Without::Others,
        Without::Peer,
        Without::OwnFileOfWriter,
        Without::OwnFileOfReader,
        Without::MarksOfBefore,
        Without::Time,
        Without::Label,
        Without::OneReader,
        Without::WithdrawWhenReady,
        Without::WithdrawWhenGivingUp,
        Without::WithdrawWhenClosing,
        Without::OwnDescriptor,
        Without::ChildForgets,
        Without::ChildLeavesWords,
        Without::BorrowedMemory,
    ];
}

/// An open file description of an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct File {
    pub(crate) is_writers: bool,
    pub(crate) is_marked: bool,
}

/// The reader that has come to a slot, and how many readers have come so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Taken {
    pub(crate) process: Option<u8>,
    pub(crate) time: u8,
}

/// The words of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    pub(crate) is_made: bool,
    pub(crate) reader: Taken,
    pub(crate) writer_ready: u8,
    pub(crate) reader_ready: u8,
}

/// What is behind a number of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Entry {
    #[default]
    Free,
    Memory(u8),
    /// A file of the program: in the worst case the memory of another pipe.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The index of a process is its number.
    pub(crate) processes: [Option<Process>; PROCESSES],
    pub(crate) files: [File; FILES],
    pub(crate) memories: [Memory; MEMORIES],
    /// Locks on the pipe, by process and place.
    pub(crate) locks: [[bool; PLACES]; PROCESSES],
    pub(crate) acts: u8,
    pub(crate) kills: u8,
    pub(crate) wrong: Option<&'static str>,
}

impl World {
    /// A writer and a reader, with one end each.
    pub(crate) fn new(limits: Limits) -> World {
        let reader = Process { is_unseen: limits.has_unseen_reader, ..Process::new(false, 1) };
        World {
            processes: [Some(Process::new(true, 0)), Some(reader), None],
            files: core::array::from_fn(|file| File { is_writers: file == 0, is_marked: false }),
            memories: [Memory::default(); MEMORIES],
            locks: [[false; PLACES]; PROCESSES],
            acts: limits.acts,
            kills: limits.kills,
            wrong: None,
        }
    }

    pub(crate) fn process(&mut self, pid: usize) -> &mut Process {
        self.processes[pid].as_mut().expect("it does something")
    }

    pub(crate) fn memory(&mut self, at: u8) -> &mut Memory {
        &mut self.memories[usize::from(at)]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &Process)> {
        self.processes.iter().enumerate().filter_map(|(pid, process)| process.as_ref().map(|process| (pid, process)))
    }

    /// A new open file description, in place of one that no process has. `None`: the model has no more of them.
    pub(crate) fn new_file(&mut self, is_writers: bool) -> Option<u8> {
        let free = (0..FILES as u8).find(|&file| !self.all().any(|(_, process)| process.has(file)))?;
        self.files[usize::from(free)] = File { is_writers, is_marked: false };
        Some(free)
    }

    /// Whether an open file description other than `own` has a mark of this kind. The kernel removes it with its last
    /// holder.
    pub(crate) fn is_marked(&self, is_writers: bool, own: Option<u8>) -> bool {
        let marked = File { is_writers, is_marked: true };
        (0..FILES as u8).any(|file| {
            Some(file) != own
                && self.files[usize::from(file)] == marked
                && self.all().any(|(_, process)| process.has(file))
        })
    }

    pub(crate) fn new_memory(&mut self) -> Option<u8> {
        let free = self.memories.iter().position(|memory| !memory.is_made)?;
        self.memories[free].is_made = true;
        Some(free as u8)
    }

    /// The process has closed a descriptor of the pipe.
    pub(crate) fn drop_locks(&mut self, pid: usize) {
        self.locks[pid] = [false; PLACES];
    }

    /// What the kernel tells a reader of the locks: the first one of another process.
    pub(crate) fn posted(&self, to: usize) -> Option<(usize, usize)> {
        (0..PLACES)
            .find_map(|place| (0..PROCESSES).find(|&pid| pid != to && self.locks[pid][place]).map(|pid| (pid, place)))
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.all().any(|(_, process)| process.stage == Stage::Ring)
    }
}

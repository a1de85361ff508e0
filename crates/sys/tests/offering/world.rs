//! What all processes share: the pipe, locks on it, and the memory that was offered.

use crate::process::{Process, Stage};

/// Processes at the same time, and numbers of processes that there are.
pub(crate) const PROCESSES: usize = 3;
/// Numbers at which a writer's descriptor can be.
pub(crate) const PLACES: usize = 2;
const FILES: usize = 6;
const MEMORIES: usize = 3;

/// What a world may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// So often programs do something besides reading and writing.
    pub(crate) acts: u8,
    pub(crate) kills: u8,
    /// The writer cannot look at the reader.
    pub(crate) has_unseen_reader: bool,
}

/// A look, or an order of steps, that the protocol could be without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// A reader's guards are up before it has joined.
    GuardsOfReader,
    /// And a writer's.
    GuardsOfWriter,
    /// It looks at all processes.
    Others,
    /// It looks whether the reader has its end.
    Peer,
    /// A writer makes sure that nobody has its open file.
    OwnFileOfWriter,
    /// And a reader.
    OwnFileOfReader,
    /// A mark from an earlier attempt counts as well.
    MarksOfBefore,
    /// What the writer has proved is for the reader that came at that time.
    Time,
    /// A reader looks what is behind the descriptor that it opens.
    Label,
    /// One reader at a time has a slot.
    OneReader,
    /// Who has proved that it is alone takes its offer back.
    WithdrawWhenReady,
    /// Who gives up takes it back.
    WithdrawWhenGivingUp,
    /// Who closes its end takes it back.
    WithdrawWhenClosing,
    /// The writer closes only what it has opened.
    OwnDescriptor,
    /// A forked child wants nothing of its parent's slot.
    ChildForgets,
    /// Nor does it change its words when it becomes another program.
    ChildLeavesWords,
    /// A child that borrows its parent's memory leaves it alone.
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

/// Who has come to a slot, and for the how manieth time somebody did.
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
    /// Something of the program's: the memory of another pipe, at worst.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// A process's number is its place here.
    pub(crate) processes: [Option<Process>; PROCESSES],
    pub(crate) files: [File; FILES],
    pub(crate) memories: [Memory; MEMORIES],
    /// Locks on the pipe: of which process, at which place.
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

    /// An open file description that nobody has any more, made anew. `None`: the model has no more of them.
    pub(crate) fn new_file(&mut self, is_writers: bool) -> Option<u8> {
        let free = (0..FILES as u8).find(|&file| !self.all().any(|(_, process)| process.has(file)))?;
        self.files[usize::from(free)] = File { is_writers, is_marked: false };
        Some(free)
    }

    /// Whether a mark of this kind is on another open file than `own`: the kernel removes it with the last holder.
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

    /// What a reader is told of the locks: the first one of another process.
    pub(crate) fn posted(&self, to: usize) -> Option<(usize, usize)> {
        (0..PLACES)
            .find_map(|place| (0..PROCESSES).find(|&pid| pid != to && self.locks[pid][place]).map(|pid| (pid, place)))
    }

    pub(crate) fn has_joined(&self) -> bool {
        self.all().any(|(_, process)| process.stage == Stage::Ring)
    }
}

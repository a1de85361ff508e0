//! What the counters say of a pipe, as values.

use crate::fate::Fate;

/// How a pipe came to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Origin {
    /// Seen in use by a program that counts, but made by one that does not (a static one, for example).
    Unseen = 0,
    /// Made by `pipe` or `pipe2`.
    Pipe = 1,
    /// Made inside `popen`.
    Popen = 2,
    /// Stood on the standard input when the run began.
    Stdin = 3,
    /// Stood on the standard output when the run began.
    Stdout = 4,
}

impl Origin {
    pub(super) fn from_word(word: u32) -> Origin {
        match word {
            1 => Origin::Pipe,
            2 => Origin::Popen,
            3 => Origin::Stdin,
            4 => Origin::Stdout,
            _ => Origin::Unseen,
        }
    }
}

/// A process as it is recorded: its number and the first 16 bytes of its program's name, padded with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Process number, as the process itself sees it.
    pub pid: u32,
    /// File name of the program.
    pub name: [u8; 16],
}

impl Program {
    /// The process `pid` running the program called `name`, of which the first 16 bytes are kept.
    pub fn new(pid: u32, name: &[u8]) -> Program {
        let mut kept = [0; 16];
        for (to, from) in kept.iter_mut().zip(name) {
            *to = *from;
        }
        Program { pid, name: kept }
    }

    /// The name as two words, for keeping in atomics.
    pub fn name_words(&self) -> [u64; 2] {
        let (first, last) = self.name.split_at(8);
        [first, last].map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
    }

    /// The inverse of [`name_words`](Self::name_words).
    pub fn from_words(pid: u32, words: [u64; 2]) -> Program {
        let mut name = [0; 16];
        for (bytes, word) in name.chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Program { pid, name }
    }
}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Into the pipe.
    Written,
    /// Out of the pipe.
    Read,
}

/// One pipe of a run, copied out of the shared memory.
#[derive(Clone, Debug)]
pub struct Record {
    /// The number by which the kernel names it, `pipe:[INODE]`.
    pub inode: u64,
    /// Place in the order of creation, from 1.
    pub ordinal: u32,
    /// How it came to the run.
    pub origin: Origin,
    /// Bytes it held when it was recorded; 0 if that is not known.
    pub capacity: u64,
    /// The process that made it; `None` for a pipe that stood there before the run, or was made unseen.
    pub maker: Option<Program>,
    /// The write end.
    pub written: End,
    /// The read end.
    pub read: End,
}

/// What was counted at one end of a pipe.
#[derive(Clone, Debug)]
pub struct End {
    /// Bytes that went through counted calls, or a ring. Programs that do not count add nothing.
    pub bytes: u64,
    /// What went through a ring; `None` if nothing did.
    pub ring: Option<Ring>,
    /// Why the end is attached or is not, in a run whose pipes may attach.
    pub fate: Fate,
    /// The first process that moved a byte here; `None` if none was counted.
    pub program: Option<Program>,
    /// Whether other processes moved bytes here too.
    pub more: bool,
}

/// What one end of a pipe did while its bytes went through shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Bytes that it moved.
    pub bytes: u64,
    /// Times that it went to sleep.
    pub sleeps: u32,
    /// Times that it woke its peer.
    pub wakes: u32,
    /// Times that it read the ring while it waited for its peer.
    pub spins: u32,
}

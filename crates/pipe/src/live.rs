//! The live pipes of this machine, as far as this process may look: for `millstream ps`, `gc` and `ctl`.
//!
//! ```
//! use millstream_pipe::live;
//!
//! let (reader, writer) = millstream_pipe::pipe()?;
//! reader.capacity()?; // a pipe that was never used has no shared memory to be seen
//! let census = live::look()?;
//! let ours = census.pipes.iter().find(|pipe| pipe.ends.iter().any(|end| end.process == std::process::id()));
//! assert_eq!(ours.map(|pipe| (pipe.ends.len(), pipe.waiting)), Some((2, Some(0))));
//! # drop((reader, writer));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A look leaves no trace: it opens no pipe, and maps, writes and awaits nothing. It reads a segment as a copy of its
//! first page, from a file with a sealed size, and believes it only as far as it can be true. Processes and pipes
//! come and go meanwhile; one that is gone when its turn comes is left out.

mod change;
mod segment;

use std::collections::BTreeMap;
use std::time::Instant;
use std::{fmt, io};

use millstream_ring::Route;
use millstream_sys::open_files::{self, MemoryFiles, Target};
use millstream_sys::{Errno, pipe, share};

pub use change::set_capacity;
pub use millstream_ring::Tallies;
pub use millstream_sys::transfer::Access;
pub use segment::SegmentErrorKind;
use segment::{Flaw, Seen, examine};

/// What was found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Census {
    /// Pipes with shared memory in use, in the order of their numbers.
    pub pipes: Vec<LivePipe>,
    /// Memory files of pipes that no process has used yet, of which nothing more is known.
    pub unused: usize,
    /// Memory files that are called like ours and are no segments of this version.
    pub errors: Vec<SegmentError>,
    /// Processes that may not be looked into.
    pub left_out: usize,
    /// Bytes that the ends of this user may have in place at this moment, of which they need not have any in hand;
    /// `None` where that cannot be asked. The setting `user_loan_max` bounds it.
    pub loaned: Option<u64>,
}

/// A pipe.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LivePipe {
    /// Its number, as in `pipe:[12345]` under `/proc/PID/fd`. For the ring of a FIFO: the number of the wake-up pipe,
    /// which every participant has open.
    pub number: u64,
    /// The FIFO's inode, if it is one.
    pub fifo: Option<u64>,
    /// The number of its memory file, which no other pipe has meanwhile.
    pub memory: u64,
    /// Where new bytes go.
    pub path: Path,
    /// Bytes that its ring holds when full.
    pub capacity: usize,
    /// Bytes that wait to be read; `None` while the kernel carries them: to ask it, this process would have to open the
    /// pipe.
    pub waiting: Option<usize>,
    /// Whether exactly that many waited at one instant: of a busy pipe it is only about right.
    pub is_exact: bool,
    /// Bytes written into the ring since the beginning. Those that the kernel carried are not counted.
    pub written: u64,
    /// Readers and writers that sleep, or are about to.
    pub readers_asleep: u32,
    /// Writers that do.
    pub writers_asleep: u32,
    /// Whether a process polls the read end, or the write end.
    pub is_watched: bool,
    /// Bytes of a single-copy transfer at this moment, behind those that wait: readers copy them out of the memory of
    /// a writer that waits.
    pub offered: usize,
    /// The process that fills the ring in place at this moment ([`Writer::reserve`](crate::Writer::reserve)).
    pub filled_by: Option<u32>,
    /// The process that looks at waiting bytes in place ([`Reader::borrow`](crate::Reader::borrow)).
    pub looked_at_by: Option<u32>,
    /// How often ends slept and were woken.
    pub tallies: Tallies,
    /// When this was so.
    pub seen: Instant,
    /// Its ends in processes that may be looked into.
    pub ends: Vec<End>,
    /// The processes that have its memory open, by number.
    pub holders: Vec<u32>,
}

/// Where the bytes of a pipe go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Path {
    /// Through shared memory.
    Ring,
    /// Through the kernel's pipe, because a program that does not know millstream has, or had, an end.
    Kernel,
    /// On the way from one to the other.
    Moving,
}

/// One descriptor of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Of which process.
    pub process: u32,
    /// Its number there.
    pub descriptor: u32,
    /// Which end.
    pub access: Access,
    /// What the process is called. Each process chooses its own name, with any characters: do not print it as it is.
    pub command: String,
    /// Whose process it is.
    pub user: u32,
}

/// A memory file that says what no segment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentError {
    /// The process that has it open.
    pub process: u32,
    /// As which descriptor.
    pub descriptor: u32,
    /// What is wrong with it: a clause.
    pub why: String,
    kind: SegmentErrorKind,
}

impl SegmentError {
    /// What it is about.
    pub fn kind(&self) -> SegmentErrorKind {
        self.kind
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "descriptor {} of process {}: {}", self.descriptor, self.process, self.why)
    }
}

impl std::error::Error for SegmentError {}

/// Looks at every process.
///
/// # Errors
/// `/proc` is not mounted; too many open files.
pub fn look() -> io::Result<Census> {
    let mut finding = Finding::new()?;
    for process in open_files::processes()? {
        match open_files::of_process(process) {
            Ok(files) => files.into_iter().for_each(|file| finding.note(process, file.descriptor, file.target)),
            Err(Errno::ACCESS | Errno::PERM) if !open_files::is_of_kernel(process) => finding.left_out += 1,
            Err(_) => {}
        }
    }
    Ok(finding.census())
}

/// What has been come across so far.
struct Finding {
    memory_files: MemoryFiles,
    /// The file system on which all anonymous pipes lie.
    pipes_device: u64,
    /// The processes and descriptors that have a pipe open, by the pipe's number.
    ends: BTreeMap<u64, Vec<(u32, u32)>>,
    /// The processes and descriptors that have a memory file open, by the file's number, and what it says.
    memories: BTreeMap<u64, Memory>,
    left_out: usize,
}

struct Memory {
    seen: Result<Option<Seen>, Flaw>,
    holders: Vec<(u32, u32)>,
}

impl Finding {
    fn new() -> io::Result<Finding> {
        let (reader, _writer) = pipe::create()?;
        let pipes_device = pipe::identity(&reader).ok_or(Errno::BADF)?.device;
        let memory_files = MemoryFiles::known()?;
        Ok(Finding { memory_files, pipes_device, ends: BTreeMap::new(), memories: BTreeMap::new(), left_out: 0 })
    }

    fn note(&mut self, process: u32, descriptor: u32, target: Target) {
        match target {
            Target::Pipe(number) => self.ends.entry(number).or_default().push((process, descriptor)),
            Target::Memory => {
                // Gone, or not what it is called: it belongs to no pipe.
                let _ = self.note_memory(process, descriptor);
            }
        }
    }

    fn note_memory(&mut self, process: u32, descriptor: u32) -> Result<(), Errno> {
        let pinned = open_files::pin(process, descriptor)?;
        let file = self.memory_files.open(&pinned, Access::Read)?;
        let memory = self.memories.entry(open_files::file_number(&file)?);
        let memory = memory.or_insert_with(|| Memory { seen: examine(&file), holders: Vec::new() });
        memory.holders.push((process, descriptor));
        Ok(())
    }

    fn census(self) -> Census {
        let Finding { pipes_device, mut ends, memories, left_out, .. } = self;
        let mut census = Census { left_out, loaned: share::taken().ok(), ..Census::default() };
        for (number, Memory { seen, holders }) in memories {
            match seen {
                Ok(None) => census.unused += 1,
                Ok(Some(seen)) if seen.look.whose.device == pipes_device => {
                    let ends = ends.remove(&seen.look.whose.inode).unwrap_or_default();
                    census.pipes.push(LivePipe::of(number, seen, &holders, &ends));
                }
                Ok(Some(seen)) if seen.look.bell_inode != 0 => {
                    let ends = ends.remove(&seen.look.bell_inode).unwrap_or_default();
                    census.pipes.push(LivePipe::of(number, seen, &holders, &ends));
                }
                Ok(Some(_)) => {
                    let flaw =
                        Flaw { kind: SegmentErrorKind::NoPipe, why: "it belongs to no pipe of this machine".into() };
                    census.errors.extend(flaw.of(&holders));
                }
                Err(flaw) => census.errors.extend(flaw.of(&holders)),
            }
        }
        census.pipes.sort_by_key(|pipe| pipe.number);
        census
    }
}

impl Flaw {
    fn of(self, holders: &[(u32, u32)]) -> Option<SegmentError> {
        let Flaw { kind, why } = self;
        holders.first().map(|&(process, descriptor)| SegmentError { process, descriptor, why, kind })
    }
}

impl LivePipe {
    fn of(memory: u64, seen: Seen, holders: &[(u32, u32)], ends: &[(u32, u32)]) -> LivePipe {
        let Seen { look, waiting, is_exact, at } = seen;
        let path = match look.route {
            Route::Ring => Path::Ring,
            Route::Shadow => Path::Kernel,
            Route::Moving => Path::Moving,
        };
        let mut holders: Vec<u32> = holders.iter().map(|&(process, _)| process).collect();
        holders.dedup();
        LivePipe {
            number: if look.bell_inode == 0 { look.whose.inode } else { look.bell_inode },
            fifo: (look.bell_inode != 0).then_some(look.whose.inode),
            memory,
            path,
            capacity: look.capacity,
            waiting: (path == Path::Ring).then_some(waiting),
            is_exact,
            written: look.written,
            readers_asleep: look.readers_asleep,
            writers_asleep: look.writers_asleep,
            is_watched: look.is_read_end_watched || look.is_write_end_watched,
            offered: look.offered as usize,
            filled_by: look.filled_by,
            looked_at_by: look.looked_at_by,
            tallies: look.tallies,
            seen: at,
            ends: ends.iter().filter_map(|&(process, descriptor)| End::of(process, descriptor)).collect(),
            holders,
        }
    }
}

impl End {
    /// `None`: it is closed by now.
    fn of(process: u32, descriptor: u32) -> Option<End> {
        let access = open_files::access(process, descriptor)?;
        let user = open_files::user(process)?;
        Some(End { process, descriptor, access, command: open_files::command(process), user })
    }
}

//! One pipe of the report. The field names are the JSON format, described in `docs/run.md`; what is not known is null.

use std::collections::BTreeSet;

use millstream_sys::fate::{Fate, WORTH_IT, guarded};
use millstream_sys::ledger::{self, Origin, Record};
use serde::Serialize;

use crate::watch::Seen;
use crate::watch::reach::NotReached;

#[derive(Serialize)]
pub(super) struct Pipe {
    pub(super) id: u32,
    pub(super) origin: &'static str,
    pub(super) made_by: Option<Program>,
    pub(super) size: u64,
    /// Bytes known to have gone through.
    pub(super) bytes: Option<u64>,
    pub(super) bytes_per_second: Option<f64>,
    pub(super) path: &'static str,
    pub(super) written: PipeEnd,
    pub(super) read: PipeEnd,
    watched: Option<Watched>,
}

/// What looking at the run told about a pipe.
#[derive(Serialize)]
struct Watched {
    looks: u32,
    full: u32,
    empty: u32,
}

#[derive(Serialize)]
pub(super) struct PipeEnd {
    pub(super) bytes: Option<u64>,
    pub(super) by: Option<Program>,
    pub(super) by_others_too: bool,
    /// Programs that were seen with this end, and why the library is not in them.
    pub(super) seen: Vec<Holder>,
    joined: Option<bool>,
    /// Why it is not attached, or not any more.
    pub(super) why_not: Option<String>,
    ring: Option<Ring>,
}

#[derive(Serialize)]
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) not_reached: Option<NotReached>,
}

/// What an end did while its bytes went through shared memory.
#[derive(Serialize)]
struct Ring {
    bytes: u64,
    sleeps: u32,
    wakes: u32,
    spins: u32,
}

#[derive(Serialize)]
pub(super) struct Program {
    pub(super) pid: u32,
    pub(super) name: String,
}

impl Pipe {
    /// `ring`: whether pipes of this run may be attached.
    pub(super) fn new(record: Record, ring: bool, seen: &Seen) -> Pipe {
        let pipe = seen.pipes.get(&record.inode);
        let is_joined = record.written.ring.is_some() || record.read.ring.is_some();
        let holders = |places: &BTreeSet<usize>| {
            let programs = places.iter().map(|&place| &seen.programs[place]);
            programs.map(|it| Holder { pid: it.pid, name: it.name.clone(), not_reached: it.not_reached }).collect()
        };
        let written = PipeEnd::new(record.written, ring, pipe.map(|pipe| holders(&pipe.writers)));
        let read = PipeEnd::new(record.read, ring, pipe.map(|pipe| holders(&pipe.readers)));
        let bytes = written.bytes.max(read.bytes);
        Pipe {
            id: record.ordinal,
            origin: match record.origin {
                Origin::Pipe => "pipe",
                Origin::Popen => "popen",
                Origin::Stdin => "stdin",
                Origin::Stdout => "stdout",
                _ => "unseen",
            },
            made_by: record.maker.map(Program::from),
            size: record.capacity,
            bytes,
            // Bytes that were not counted have no rate.
            bytes_per_second: bytes.and_then(|_| pipe?.rate()),
            path: if is_joined { "ring" } else { "kernel" },
            written,
            read,
            watched: pipe.filter(|pipe| pipe.looks > 0).map(|pipe| Watched {
                looks: pipe.looks,
                full: pipe.full,
                empty: pipe.empty,
            }),
        }
    }
}

impl PipeEnd {
    fn new(end: ledger::End, ring: bool, seen: Option<Vec<Holder>>) -> PipeEnd {
        let seen = seen.unwrap_or_default();
        // An end where nothing was counted may have been idle, or in the hands of a program that does not count.
        let bytes = (end.bytes > 0).then_some(end.bytes);
        let has_been_joined = end.ring.is_some() || end.fate == Fate::Joined;
        let fate = if bytes.is_some() && end.fate == Fate::Uncounted { Fate::Untold } else { end.fate };
        let why_not = match word(fate) {
            _ if !ring => Some("off".to_owned()),
            None if has_been_joined => None,
            None => reason_of_none(bytes, &seen),
            told => told,
        };
        PipeEnd {
            bytes,
            by: end.program.map(Program::from),
            by_others_too: end.more,
            joined: if has_been_joined { Some(true) } else { why_not.as_ref().map(|_| false) },
            why_not,
            ring: end.ring.map(|ledger::Ring { bytes, sleeps, wakes, spins }| Ring { bytes, sleeps, wakes, spins }),
            seen,
        }
    }

    pub(super) fn programs(&self) -> String {
        let more = if self.by_others_too { " +" } else { "" };
        self.by.as_ref().map_or("-".into(), |program| format!("{program}{more}"))
    }

    pub(super) fn how_much(&self) -> String {
        self.bytes.map_or("-".into(), |bytes| bytes.to_string())
    }
}

/// Why nothing was told about an end: no program there could, or none had a reason to.
fn reason_of_none(bytes: Option<u64>, seen: &[Holder]) -> Option<String> {
    match bytes {
        Some(bytes) => (bytes < WORTH_IT).then(|| "little".to_owned()),
        None => match seen {
            [] => None,
            // All of them, or it could be the one that is reached.
            holders => {
                let reasons: Option<Vec<NotReached>> = holders.iter().map(|holder| holder.not_reached).collect();
                reasons?.first().map(|reason| reason.word().to_owned())
            }
        },
    }
}

fn word(fate: Fate) -> Option<String> {
    let word = match fate {
        Fate::Untold | Fate::Joined => return None,
        Fate::Called(place) => {
            let name = guarded().nth(usize::from(place))?.to_string_lossy();
            return Some(format!("called {name}"));
        }
        Fate::Waits => "other_side",
        Fate::Unmet => "never_met",
        Fate::Peer => "other_side_left",
        Fate::Company => "other_pipe",
        Fate::Glibc => "glibc",
        Fate::Handler => "handler",
        Fate::Mode => "mode",
        Fate::Descriptors => "descriptors",
        Fate::Code => "code",
        Fate::LittleLeft => "little_left",
        Fate::Uncounted => "uncounted",
        Fate::Slot => "no_slot",
        Fate::Shared => "shared",
        Fate::Mutex => "mutex",
        Fate::Threads => "threads",
        Fate::Forked => "forked",
        Fate::Renamed => "renumbered",
        Fate::Number => "number",
        Fate::Nowhere => "nowhere",
        Fate::Confined => "seccomp",
        Fate::Signals => "signals",
        Fate::Fault => "fault",
        Fate::Second => "second",
        Fate::Fed => "input",
    };
    Some(word.to_owned())
}

impl From<ledger::Program> for Program {
    fn from(program: ledger::Program) -> Program {
        let name: Vec<u8> = program.name.into_iter().take_while(|&byte| byte != 0).collect();
        Program { pid: program.pid, name: String::from_utf8_lossy(&name).escape_default().to_string() }
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.pid)
    }
}

//! What was seen so far of the pipes and of the programs at them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use millstream_sys::ledger::Ledger;
use millstream_sys::open_files::{self, Target};
use millstream_sys::transfer::Access;

use super::doing::{self, Did, Doing, Times};
use super::reach::{self, NotReached};
use super::verdict;

/// A rate is not told of a shorter time.
pub(super) const RATED: Duration = Duration::from_millis(100);

/// All that was seen so far.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) looks: u32,
    /// By inode number.
    pub(crate) pipes: BTreeMap<u64, PipeSeen>,
    pub(crate) programs: Vec<ProgramSeen>,
    /// What descriptors are open for: that of a number and a pipe does not change.
    access: BTreeMap<(u32, u32, u64), Access>,
}

/// One pipe, and the programs that held its ends (places in [`Seen::programs`]).
#[derive(Default)]
pub(crate) struct PipeSeen {
    /// Looks in which it was there and a program at it could be looked at.
    pub(crate) looks: u32,
    /// Of these, the looks that found a program waiting for room, or for bytes.
    pub(crate) full: u32,
    pub(crate) empty: u32,
    /// In the last look.
    pub(crate) is_there: bool,
    pub(crate) is_full: bool,
    pub(crate) is_empty: bool,
    pub(crate) writers: BTreeSet<usize>,
    pub(crate) readers: BTreeSet<usize>,
    /// The first and the last look, and what had gone through then.
    moved: Option<[(Instant, u64); 2]>,
}

impl PipeSeen {
    /// For the verdict, which calls it by this number.
    pub(crate) fn pipe(&self, id: u32) -> verdict::Pipe {
        let places = |places: &BTreeSet<usize>| places.iter().copied().collect();
        verdict::Pipe {
            id,
            looks: self.looks,
            full: self.full,
            empty: self.empty,
            writers: places(&self.writers),
            readers: places(&self.readers),
        }
    }

    /// Bytes in a second while it was watched; `None` if that was too short.
    pub(crate) fn rate(&self) -> Option<f64> {
        let [first, last] = self.moved?;
        let time = last.0 - first.0;
        (time >= RATED).then(|| (last.1 - first.1) as f64 / time.as_secs_f64())
    }
}

/// One program in one process.
pub(crate) struct ProgramSeen {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// Its process group when it was first seen.
    pub(crate) group: u32,
    pub(crate) not_reached: Option<NotReached>,
    /// Looks in which it was there; in how many of them it did what.
    pub(crate) looks: u32,
    pub(crate) did: Did,
    image: PathBuf,
    first: Times,
    last: Times,
}

impl ProgramSeen {
    /// For the verdict.
    pub(crate) fn stage(&self) -> verdict::Stage {
        verdict::Stage {
            name: format!("{} {}", self.name, self.pid),
            looks: self.looks,
            did: self.did,
            computed: self.computed(),
            queued: self.queued(),
        }
    }

    /// CPU time for each second that it was watched; more than 1 with several threads. `None` if that was too short.
    pub(crate) fn computed(&self) -> Option<f64> {
        self.share(self.last.computed.checked_sub(self.first.computed))
    }

    /// The same for the time in which it was ready to run and had no CPU.
    pub(crate) fn queued(&self) -> Option<f64> {
        self.share(self.last.queued?.checked_sub(self.first.queued?))
    }

    fn share(&self, part: Option<Duration>) -> Option<f64> {
        let watched = self.last.at - self.first.at;
        (watched >= RATED).then_some(part?.as_secs_f64() / watched.as_secs_f64())
    }
}

/// A pipe in one look.
#[derive(Default)]
pub(super) struct Now {
    is_known: bool,
    is_full: bool,
    is_empty: bool,
}

impl Seen {
    pub(super) fn look(&mut self, root: u32, ledger: &Ledger) {
        let now = self.look_at_all(&doing::below(root));
        for record in ledger.records() {
            if now.contains_key(&record.inode)
                && let Some(pipe) = self.pipes.get_mut(&record.inode)
            {
                let this = (Instant::now(), record.written.bytes.max(record.read.bytes));
                pipe.moved = Some([pipe.moved.map_or(this, |[first, _]| first), this]);
            }
        }
    }

    pub(super) fn look_at_all(&mut self, pids: &[u32]) -> BTreeMap<u64, Now> {
        self.looks += 1;
        let mut now: BTreeMap<u64, Now> = BTreeMap::new();
        for &pid in pids {
            self.look_at(pid, &doing::threads(pid), &mut now);
        }
        for (inode, pipe) in &mut self.pipes {
            let now = now.get(inode);
            pipe.is_there = now.is_some();
            pipe.is_full = now.is_some_and(|now| now.is_full);
            pipe.is_empty = now.is_some_and(|now| now.is_empty);
            pipe.looks += u32::from(now.is_some_and(|now| now.is_known));
            pipe.full += u32::from(pipe.is_full);
            pipe.empty += u32::from(pipe.is_empty);
        }
        now
    }

    fn look_at(&mut self, pid: u32, threads: &[u32], now: &mut BTreeMap<u64, Now>) {
        let Some(program) = self.program(pid, threads) else { return };
        let pipes: BTreeMap<u32, u64> = open_files::of_process(pid)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|file| match file.target {
                Target::Pipe(inode) => Some((file.descriptor, inode)),
                Target::Memory => None,
            })
            .collect();
        let doing = doing::of(pid, threads, &pipes);
        for (&descriptor, &inode) in &pipes {
            self.note_holder(program, pid, descriptor, inode);
            now.entry(inode).or_default().is_known |= doing.is_some();
        }
        let did = &mut self.programs[program].did;
        match doing {
            None => {}
            Some(Doing::Wants) => did.want += 1,
            Some(Doing::Several) => did.several += 1,
            Some(Doing::Child) => did.child += 1,
            Some(Doing::Else) => did.other += 1,
            Some(Doing::Writes(inode)) => {
                did.write += 1;
                now.entry(inode).or_default().is_full = true;
            }
            Some(Doing::Reads(inode)) => {
                did.read += 1;
                now.entry(inode).or_default().is_empty = true;
            }
        }
    }

    /// The place of what the process runs now. What it was before it became this is no holder of pipes any more.
    fn program(&mut self, pid: u32, threads: &[u32]) -> Option<usize> {
        let image = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let now = Times::of(pid, threads)?;
        let known = self.programs.iter().rposition(|program| program.pid == pid);
        let place = match known {
            Some(place) if self.programs[place].image == image => place,
            former => {
                if let Some(former) = former {
                    for pipe in self.pipes.values_mut() {
                        pipe.writers.remove(&former);
                        pipe.readers.remove(&former);
                    }
                }
                self.programs.push(ProgramSeen {
                    pid,
                    // Any user can choose the name of a program.
                    name: open_files::command(pid).escape_default().to_string(),
                    group: doing::parent_and_group(pid).map_or(0, |(_, group)| group),
                    not_reached: reach::why_not(pid),
                    looks: 0,
                    did: Did::default(),
                    image,
                    first: now,
                    last: now,
                });
                self.programs.len() - 1
            }
        };
        let program = &mut self.programs[place];
        if program.not_reached == Some(NotReached::Unknown) {
            program.not_reached = reach::why_not(pid);
        }
        program.looks += 1;
        program.last = now;
        Some(place)
    }

    fn note_holder(&mut self, program: usize, pid: u32, descriptor: u32, inode: u64) {
        let key = (pid, descriptor, inode);
        let Some(access) = self.access.get(&key).copied().or_else(|| open_files::access(pid, descriptor)) else {
            return;
        };
        self.access.insert(key, access);
        let pipe = self.pipes.entry(inode).or_default();
        if access != Access::Write {
            pipe.readers.insert(program);
        }
        if access != Access::Read {
            pipe.writers.insert(program);
        }
    }
}

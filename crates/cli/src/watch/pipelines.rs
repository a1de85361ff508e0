//! Pipelines that run by themselves, of any programs: processes of one process group, with the pipes between them.
//!
//! A pipe may also connect what has nothing to do with each other: all programs whose messages one other program reads, for example.
//! Of these the process groups tell, which a shell makes of its jobs; and where a process is named, pipes that a process above it
//! holds are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use millstream_sys::Errno;
use millstream_sys::open_files::{self, Target};

use super::doing::{self, below};
use super::seen::{RATED, Seen};

/// Between two looks, at least.
const PAUSE: Duration = Duration::from_millis(20);
/// A look costs at most this part of the time.
const SHARE: u32 = 25;
/// Processes are looked for anew after so long, and those that are known looked at more often.
const FOUND_ANEW: Duration = Duration::from_millis(500);

/// What was seen in a stretch of time.
pub(crate) struct Sample {
    pub(crate) seen: Seen,
    /// Pipes of processes above those that were named.
    left_out: BTreeSet<u64>,
    /// What each process has read and written with system calls: at first and at last.
    transfers: BTreeMap<u32, [(Instant, Transfers); 2]>,
}

/// Bytes that a process has moved by calls, whatever they went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transfers {
    read: u64,
    written: u64,
}

/// Programs that are connected, and the pipes between them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pipeline {
    /// Places in [`Seen::programs`], in the order in which bytes go through them.
    pub(crate) programs: Vec<usize>,
    /// Their numbers, in that order too.
    pub(crate) pipes: Vec<u64>,
}

/// Looks for so long, at the pipelines of these processes and all below them, or at all that can be seen. `pause` waits between
/// looks; `None` if it says that this is to end.
///
/// # Errors
/// There is no `/proc`.
pub(crate) fn sample(
    roots: &[u32],
    length: Duration,
    mut pause: impl FnMut(Duration) -> bool,
) -> Result<Option<Sample>, Errno> {
    let mut sample = Sample { seen: Seen::default(), left_out: pipes_above(roots), transfers: BTreeMap::new() };
    let (begun, mut found) = (Instant::now(), Instant::now());
    let mut members = members(roots, &sample.left_out)?;
    loop {
        let start = Instant::now();
        if start - found > FOUND_ANEW {
            members = self::members(roots, &sample.left_out)?;
            found = start;
        }
        sample.seen.look_at_all(&members);
        for &pid in &members {
            if let Some(transfers) = Transfers::of(pid) {
                let now = (Instant::now(), transfers);
                sample.transfers.entry(pid).or_insert([now, now])[1] = now;
            }
        }
        let length_of_pause = PAUSE.max(start.elapsed() * SHARE);
        if begun.elapsed() >= length {
            return Ok(Some(sample));
        }
        if !pause(length_of_pause.min(length.saturating_sub(begun.elapsed()))) {
            return Ok(None);
        }
    }
}

/// What the ancestors of these processes hold, unless they are named themselves.
fn pipes_above(roots: &[u32]) -> BTreeSet<u64> {
    let mut pipes = BTreeSet::new();
    for &root in roots {
        let mut pid = root;
        while let Some((parent, _)) = doing::parent_and_group(pid).filter(|(parent, _)| *parent > 1) {
            if !roots.contains(&parent) {
                pipes.extend(pipes_of(parent));
            }
            pid = parent;
        }
    }
    pipes
}

fn pipes_of(pid: u32) -> Vec<u64> {
    let files = open_files::of_process(pid).unwrap_or_default();
    let inode = |file: open_files::OpenFile| match file.target {
        Target::Pipe(inode) => Some(inode),
        Target::Memory => None,
    };
    files.into_iter().filter_map(inode).collect()
}

/// The processes that hold pipes together with another one of their group.
fn members(roots: &[u32], left_out: &BTreeSet<u64>) -> Result<Vec<u32>, Errno> {
    let mut pipes_held: BTreeMap<u32, BTreeSet<(u32, u64)>> = BTreeMap::new();
    let mut holders: BTreeMap<(u32, u64), BTreeSet<u32>> = BTreeMap::new();
    let own = std::process::id();
    for pid in open_files::processes()?.into_iter().filter(|pid| *pid != own) {
        // Another user's are left out.
        let Some((_, group)) = doing::parent_and_group(pid) else { continue };
        for inode in pipes_of(pid).into_iter().filter(|inode| !left_out.contains(inode)) {
            pipes_held.entry(pid).or_default().insert((group, inode));
            holders.entry((group, inode)).or_default().insert(pid);
        }
    }
    holders.retain(|_, holders| holders.len() > 1);
    if roots.is_empty() {
        return Ok(holders.into_values().flatten().collect::<BTreeSet<u32>>().into_iter().collect());
    }
    let mut left: Vec<u32> = roots.iter().copied().flat_map(below).collect();
    let mut members = BTreeSet::new();
    while let Some(pid) = left.pop() {
        if pid != own && members.insert(pid) {
            let pipes = pipes_held.get(&pid).into_iter().flatten();
            left.extend(pipes.filter_map(|pipe| holders.get(pipe)).flatten());
        }
    }
    Ok(members.into_iter().collect())
}

impl Transfers {
    /// `rchar` and `wchar` of `/proc/PID/io`.
    fn of(pid: u32) -> Option<Transfers> {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Transfers { read: field("rchar:")?, written: field("wchar:")? })
    }
}

impl Sample {
    /// Bytes in a second that went through a pipe: no more than its writers have written, and its readers read. `None` if that is not
    /// known: of shared memory, `splice(2)` and `mmap(2)` the kernel does not count it.
    pub(crate) fn rate(&self, pipe: u64) -> Option<f64> {
        let pipe = self.seen.pipes.get(&pipe)?;
        let total = |places: &BTreeSet<usize>, of: fn(&Transfers) -> u64| {
            let pids: BTreeSet<u32> = places.iter().map(|&place| self.seen.programs[place].pid).collect();
            pids.into_iter().map(|pid| self.rate_of(pid, of)).sum::<Option<f64>>()
        };
        let (written, read) = (total(&pipe.writers, |moved| moved.written)?, total(&pipe.readers, |moved| moved.read)?);
        Some(written.min(read)).filter(|&rate| rate > 0.0)
    }

    fn rate_of(&self, pid: u32, of: fn(&Transfers) -> u64) -> Option<f64> {
        let [(begun, first), (ended, last)] = self.transfers.get(&pid)?;
        let time = *ended - *begun;
        (time >= RATED).then(|| of(last).saturating_sub(of(first)) as f64 / time.as_secs_f64())
    }

    /// The pipelines, those with the lowest process numbers first.
    pub(crate) fn pipelines(&self) -> Vec<Pipeline> {
        let group_of = |place: usize| self.seen.programs[place].group;
        let connections =
            self.seen.pipes.iter().filter(|(inode, pipe)| pipe.is_there && !self.left_out.contains(inode)).flat_map(
                |(&inode, pipe)| {
                    let groups: BTreeSet<u32> = pipe.readers.iter().map(|&reader| group_of(reader)).collect();
                    groups.into_iter().filter_map(move |group| {
                        let of_group = |end: &BTreeSet<usize>| {
                            end.iter().copied().filter(|&place| group_of(place) == group).collect()
                        };
                        let (writers, readers): Ends = (of_group(&pipe.writers), of_group(&pipe.readers));
                        // What one program has to itself connects it with nothing.
                        let is_between = !writers.is_empty() && (&writers | &readers).len() > 1;
                        is_between.then_some((inode, writers, readers))
                    })
                },
            );
        connected(&connections.collect::<Vec<_>>())
    }
}

/// The writers and the readers of a pipe.
type Ends = (BTreeSet<usize>, BTreeSet<usize>);
/// The same, with its number.
type Connection = (u64, BTreeSet<usize>, BTreeSet<usize>);

fn connected(pipes: &[Connection]) -> Vec<Pipeline> {
    let programs: BTreeSet<usize> = pipes.iter().flat_map(|(_, writers, readers)| writers | readers).collect();
    let mut left = programs;
    let mut pipelines = Vec::new();
    while let Some(&first) = left.first() {
        let mut group = BTreeSet::from([first]);
        loop {
            let more: BTreeSet<usize> = pipes
                .iter()
                .map(|(_, writers, readers)| writers | readers)
                .filter(|holders| !holders.is_disjoint(&group))
                .flatten()
                .collect();
            if more.is_subset(&group) {
                break;
            }
            group.extend(more);
        }
        left.retain(|program| !group.contains(program));
        pipelines.push(in_order(&group, pipes));
    }
    pipelines
}

/// The programs of one pipeline: each time the first that has no writer left before it, and the first at all in a circle.
fn in_order(group: &BTreeSet<usize>, pipes: &[Connection]) -> Pipeline {
    let pipes: Vec<&Connection> =
        pipes.iter().filter(|(_, writers, readers)| !group.is_disjoint(&(writers | readers))).collect();
    let (mut left, mut programs) = (group.clone(), Vec::new());
    while !left.is_empty() {
        let is_first = |program: &&usize| {
            pipes
                .iter()
                .filter(|(_, _, readers)| readers.contains(program))
                .all(|(_, writers, _)| writers.iter().all(|writer| writer == *program || !left.contains(writer)))
        };
        let next = left.iter().find(is_first).or(left.first()).copied();
        programs.extend(next);
        left.retain(|program| Some(*program) != next);
    }
    let place = |(_, writers, readers): &&Connection| {
        let of = |end: &BTreeSet<usize>| programs.iter().position(|program| end.contains(program));
        (of(writers), of(readers))
    };
    let mut pipes = pipes;
    pipes.sort_by_key(place);
    let pipes = pipes.iter().map(|(inode, ..)| *inode).collect();
    Pipeline { programs, pipes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(inode: u64, writers: &[usize], readers: &[usize]) -> Connection {
        (inode, writers.iter().copied().collect(), readers.iter().copied().collect())
    }

    #[test]
    fn programs_stand_in_the_order_of_their_bytes() {
        let found = connected(&[connection(7, &[2], &[0]), connection(3, &[0], &[1]), connection(5, &[4], &[3])]);
        let expected = [
            Pipeline { programs: vec![2, 0, 1], pipes: vec![7, 3] },
            Pipeline { programs: vec![4, 3], pipes: vec![5] },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn circle_begins_with_any_of_its_programs() {
        let circle = connected(&[connection(1, &[0], &[1]), connection(2, &[1], &[0])]);
        assert_eq!(circle, [Pipeline { programs: vec![0, 1], pipes: vec![1, 2] }]);
    }
}

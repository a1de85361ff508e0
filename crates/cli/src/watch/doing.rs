//! What a process is doing at one moment, as the kernel tells in `/proc` (`proc(5)`), without stopping it.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use millstream_sys::joint;

/// Threads of one process that are looked at.
const THREADS: usize = 16;
/// The unit of times in `/proc/PID/stat`: `USER_HZ` in `time(7)`.
const TICK: Duration = Duration::from_millis(10);

/// Numbers of system calls.
#[cfg(target_arch = "x86_64")]
mod calls {
    /// read, readv, preadv2
    pub(in crate::watch) const READ: [u64; 3] = [0, 19, 327];
    /// write, writev, pwritev2
    pub(in crate::watch) const WRITE: [u64; 3] = [1, 20, 328];
    /// wait4, waitid
    pub(in crate::watch) const CHILD: [u64; 2] = [61, 247];
    /// poll, ppoll, select, pselect6, epoll_wait, epoll_pwait, epoll_pwait2, splice, tee, sendfile, io_uring_enter
    pub(in crate::watch) const SEVERAL: [u64; 11] = [7, 271, 23, 270, 232, 281, 441, 275, 276, 40, 426];
    pub(in crate::watch) const FUTEX: u64 = 202;
}
/// As above, of the architectures that came later; those without a number here they do not have.
#[cfg(not(target_arch = "x86_64"))]
mod calls {
    pub(in crate::watch) const READ: [u64; 3] = [63, 65, 286];
    pub(in crate::watch) const WRITE: [u64; 3] = [64, 66, 287];
    pub(in crate::watch) const CHILD: [u64; 2] = [260, 95];
    pub(in crate::watch) const SEVERAL: [u64; 8] = [73, 72, 22, 441, 76, 77, 71, 426];
    pub(in crate::watch) const FUTEX: u64 = 98;
}

/// What a process does, by the most active of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::watch) enum Doing {
    /// A thread runs, or would if it had a CPU.
    Wants,
    /// It sleeps in a write to this pipe, which is full.
    Writes(u64),
    /// It sleeps in a read of this pipe, which is empty.
    Reads(u64),
    /// It waits for any of several things, or for a pipe in a way that does not tell for what: `poll`, `splice` and their like.
    Several,
    /// For a child of its own.
    Child,
    /// Anything else: a disk, a network, a terminal, a lock, a time.
    Else,
}

/// Numbers of looks; see [`Doing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Did {
    pub(crate) want: u32,
    pub(crate) write: u32,
    pub(crate) read: u32,
    pub(crate) several: u32,
    pub(crate) child: u32,
    pub(crate) other: u32,
}

/// Of a process with these threads and pipes (by descriptor). `None`: it may not be looked at.
pub(in crate::watch) fn of(pid: u32, threads: &[u32], pipes: &BTreeMap<u32, u64>) -> Option<Doing> {
    let order = |doing: &Doing| match doing {
        Doing::Wants => 0,
        Doing::Writes(_) => 1,
        Doing::Reads(_) => 2,
        Doing::Several => 3,
        Doing::Child => 4,
        Doing::Else => 5,
    };
    threads.iter().filter_map(|thread| of_thread(pid, *thread, pipes)).min_by_key(order)
}

fn of_thread(pid: u32, thread: u32, pipes: &BTreeMap<u32, u64>) -> Option<Doing> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).ok()?;
    let (call, argument) = match parsed(&text) {
        _ if text.starts_with("running") => return Some(Doing::Wants),
        Some(call) => call,
        // Outside of any call: it waits for a page of its memory, or was stopped.
        None => return Some(Doing::Else),
    };
    let pipe = || pipes.get(&u32::try_from(argument).ok()?).copied();
    Some(match () {
        () if calls::READ.contains(&call) => pipe().map_or(Doing::Else, Doing::Reads),
        () if calls::WRITE.contains(&call) => pipe().map_or(Doing::Else, Doing::Writes),
        () if calls::CHILD.contains(&call) => Doing::Child,
        () if calls::SEVERAL.contains(&call) => Doing::Several,
        // So the writer of an attached pipe waits for room; it is the standard output.
        () if call == calls::FUTEX && is_of_attached_pipe(pid, argument) => {
            pipes.get(&1).map_or(Doing::Else, |pipe| Doing::Writes(*pipe))
        }
        () => Doing::Else,
    })
}

/// The number of a call and its first argument: `0 0x3 0x7ffd...`.
fn parsed(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    let call = words.next()?.parse().ok()?;
    Some((call, u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?))
}

/// Whether the address is in the shared memory of an attached pipe.
fn is_of_attached_pipe(pid: u32, address: u64) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains(joint::NAME)).any(|line| {
        let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
        range.is_some_and(|(start, end)| {
            let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            (number(start)..number(end)).contains(&address)
        })
    })
}

pub(in crate::watch) fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(THREADS).collect()
}

pub(in crate::watch) fn children(pid: u32, thread: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The parent and the process group, the fourth and fifth field of `/proc/PID/stat`.
pub(in crate::watch) fn parent_and_group(pid: u32) -> Option<(u32, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Times of a process up to a moment.
#[derive(Clone, Copy, Debug)]
pub(in crate::watch) struct Times {
    pub(in crate::watch) at: Instant,
    /// On a CPU, all threads together.
    pub(in crate::watch) computed: Duration,
    /// Ready to run without a CPU, of the threads there are now; `None` if the kernel does not tell.
    pub(in crate::watch) queued: Option<Duration>,
}

impl Times {
    /// `None` if the process is gone.
    pub(in crate::watch) fn of(pid: u32, threads: &[u32]) -> Option<Times> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // User and system time, fields 14 and 15; a name may hold anything, also a parenthesis.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u32>().ok();
        let computed = TICK * (ticks()?.checked_add(ticks()?)?);
        Some(Times { at: Instant::now(), computed, queued: threads.iter().map(|thread| queued(pid, *thread)).sum() })
    }
}

/// The second number of `schedstat` (Documentation/scheduler/sched-stats.rst of Linux), in nanoseconds.
fn queued(pid: u32, thread: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
    text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// A process and all below it.
pub(super) fn below(root: u32) -> Vec<u32> {
    let (mut pids, mut at) = (vec![root], 0);
    while let Some(&pid) = pids.get(at) {
        at += 1;
        pids.extend(threads(pid).iter().flat_map(|thread| children(pid, *thread)));
    }
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_of_an_empty_pipe_is_seen_to_wait_for_it() {
        let (reader, writer) = std::io::pipe().unwrap();
        let number = millstream_sys::pipe::identity(&reader).unwrap().inode;
        let mut cat = std::process::Command::new("cat").stdin(reader).spawn().unwrap();
        let (pid, pipes) = (cat.id(), BTreeMap::from([(0, number)]));
        let seen = (0..60_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            let threads = threads(pid);
            Times::of(pid, &threads).is_some() && of(pid, &threads, &pipes) == Some(Doing::Reads(number))
        });
        drop(writer);
        cat.wait().unwrap();
        assert!(seen);
        assert_eq!((of(pid, &[pid], &pipes), Times::of(pid, &[pid]).is_none()), (None, true), "it is gone");
    }

    #[test]
    fn a_call_is_its_number_and_its_first_argument() {
        assert_eq!(parsed("0 0x3 0x7ffd 0x0 0x0 0x0 0x0 0x7ffd 0x7f00\n"), Some((0, 3)));
        assert_eq!((parsed("running\n"), parsed("-1 0x7ffd 0x7f00\n"), parsed("")), (None, None, None));
    }
}

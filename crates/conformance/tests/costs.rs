//! What an idle pipe costs, in what can be counted exactly: system calls, pages, wake-ups. No clock.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_conformance::alone;
use millstream_conformance::process::{Child, fork};
use millstream_conformance::task::{Task, start, wait_until_all_asleep};
use millstream_conformance::trace::system_calls;
use millstream_pipe::{Reader, Writer, pipe};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A pipe that has carried a byte.
fn used_pipe() -> (Reader, Writer) {
    let (mut reader, mut writer) = pipe().unwrap();
    writer.write_all(&[1]).unwrap();
    reader.read_exact(&mut [0]).unwrap();
    (reader, writer)
}

/// The system calls of `operate`, without the one by which a build with debug assertions looks, before it closes a
/// descriptor, whether that is open.
fn calls_of<P>(prepare: impl FnOnce() -> P, operate: impl FnOnce(P)) -> Vec<i64> {
    let mut calls = system_calls(prepare, operate);
    for at in (1..calls.len()).rev() {
        if calls[at - 1..=at] == [libc::SYS_fcntl, libc::SYS_close] {
            calls.remove(at - 1);
        }
    }
    calls
}

/// A tenth of what is promised: 10 000 idle pipes in 256 MiB.
const PIPES: u64 = 1000;
const BYTES_FOR_ALL: u64 = (256 << 20) / 10;

/// What a segment may hold of a pipe that has carried a byte: a page of header and one of the ring.
const BYTES_OF_A_SEGMENT: u64 = 8192;

/// A child that reads `expected` and then waits for one byte more; and the write end.
fn reading_child(expected: impl Fn(usize) -> u8) -> (Child, Writer) {
    let (child, (reader, writer)) = fork(pipe().unwrap(), |(mut reader, writer)| {
        drop(writer);
        let mut buffer = [0; 5000];
        let mut position = 0;
        loop {
            let count = reader.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            for &byte in &buffer[..count] {
                assert_eq!(byte, expected(position), "at {position}");
                position += 1;
            }
        }
    });
    drop(reader);
    (child, writer)
}

/// Waits until the one segment of this process has no more than an idle one may have.
fn wait_until_idle() {
    for _ in 0..3000 {
        if bytes_of_segments().iter().all(|&bytes| bytes <= BYTES_OF_A_SEGMENT) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{:?} bytes after half a minute", bytes_of_segments());
}

fn allow_descriptors(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    assert!(limit.maximum.is_none_or(|maximum| maximum >= count), "{count} descriptors are needed: ulimit -Hn {count}");
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), ..limit }).unwrap();
}

/// Bytes of the pages that this process has, and of the tables that map them.
fn memory() -> u64 {
    let kibibytes = |file: &str, field: &str| {
        let text = fs::read_to_string(file).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    1024 * (kibibytes("/proc/self/smaps_rollup", "Rss:") + kibibytes("/proc/self/status", "VmPTE:"))
}

/// Bytes that each segment of this process really has, in this process or another.
fn bytes_of_segments() -> Vec<u64> {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let segments = descriptors.filter(|path| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:millstream-ring"))
    });
    // In blocks of 512 bytes (`stat(2)`).
    segments.map(|path| fs::metadata(path).unwrap().blocks() * 512).collect()
}

/// How often a thread has gone to sleep, as the kernel counts.
fn sleeps_of<T>(task: &Task<T>) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{}/status", task.id.as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}

/// Timeouts of one second, two, four and so on that can have ended in a time (`docs/pipe.md`, Limits).
fn timeouts_in(time: Duration) -> u64 {
    u64::from((time.as_secs() + 1).ilog2())
}

alone! {
    fn a_pipe_that_is_only_made_and_closed_takes_eight_system_calls() {
        // Once before, so that the allocator asks for nothing.
        let calls = calls_of(|| drop(pipe().unwrap()), |()| drop(pipe().unwrap()));
        // Three make it, three close it, and each end looks whether another process uses the ring.
        assert!(calls.len() <= 8, "{calls:?}");
    }

    fn closing_one_end_of_a_pipe_that_was_used_is_one_system_call() {
        let of_reader = calls_of(used_pipe, |(reader, writer)| { drop(reader); std::mem::forget(writer) });
        let of_writer = calls_of(used_pipe, |(reader, writer)| { drop(writer); std::mem::forget(reader) });
        assert_eq!((of_reader, of_writer), (vec![libc::SYS_close], vec![libc::SYS_close]));
    }

    fn idle_pipes_take_little_memory() {
        allow_descriptors(3 * PIPES + 100);
        // Once before: the code, the allocator's first pages.
        drop(used_pipe());
        let before = memory();
        let pipes: Vec<_> = (0..PIPES).map(|_| used_pipe()).collect();
        let used = memory() - before;
        println!("{} bytes for each", used / PIPES);
        assert!(used <= BYTES_FOR_ALL, "{PIPES} idle pipes have {used} bytes");
        let of_segments = bytes_of_segments();
        assert_eq!(of_segments.len() as u64, PIPES);
        assert!(of_segments.iter().all(|&bytes| bytes <= BYTES_OF_A_SEGMENT), "{of_segments:?}");
        drop(pipes);
        // Pipes that were never used have none.
        let pipes: Vec<_> = (0..PIPES).map(|_| pipe().unwrap()).collect();
        assert_eq!(bytes_of_segments(), vec![0; pipes.len()]);
    }

    fn a_pipe_that_was_busy_gives_its_memory_back_and_goes_on() {
        let byte_at = |position: usize| (position % 251) as u8;
        let bytes = |range: std::ops::Range<usize>| range.map(byte_at).collect::<Vec<_>>();
        let (child, mut writer) = reading_child(byte_at);
        writer.write_all(&bytes(0..700_003)).unwrap();
        assert!(bytes_of_segments()[0] > 500_000, "{:?}", bytes_of_segments());
        let capacity = writer.capacity().unwrap();
        wait_until_idle();
        assert_eq!(writer.capacity().unwrap(), capacity);
        // A little takes a page, wherever in the ring it comes to lie.
        writer.write_all(&bytes(700_003..700_013)).unwrap();
        assert!(bytes_of_segments()[0] <= 2 * BYTES_OF_A_SEGMENT, "{:?}", bytes_of_segments());
        writer.write_all(&bytes(700_013..2_000_000)).unwrap();
        drop(writer);
        child.succeed();
    }

    fn writer_populates_pages_that_peer_freed() {
        let busy_then_idle = || {
            let (child, mut writer) = reading_child(|_| 7);
            writer.write_all(&[7; 100_000]).unwrap();
            wait_until_idle();
            (child, writer)
        };
        let write = |(child, mut writer): (Child, Writer)| {
            writer.write_all(&[7]).unwrap();
            std::mem::forget((child, writer));
        };
        let calls = calls_of(busy_then_idle, write);
        assert!(calls.contains(&libc::SYS_madvise), "{calls:?}");
    }

    fn waiters_wake_no_more_often_than_their_timeouts_end() {
        const SLEEPERS: usize = 100;
        // The kernel wakes each waiter, which sleeps again, whenever this whole process is stopped and continued.
        const BY_THE_KERNEL: u64 = 4;
        let (readers, writers): (Vec<_>, Vec<_>) = (0..SLEEPERS).map(|_| used_pipe()).unzip();
        let readers: Vec<_> = readers.into_iter().map(Arc::new).collect();
        let began = Instant::now();
        let reading = |reader: &Arc<Reader>| {
            let reader = reader.clone();
            start(move || (&*reader).read(&mut [0]).unwrap())
        };
        let tasks: Vec<_> = readers.iter().map(reading).collect();
        // Does not return while one of them uses a CPU.
        wait_until_all_asleep(&tasks);
        let before: Vec<_> = tasks.iter().map(sleeps_of).collect();
        std::thread::sleep(Duration::from_secs(3));
        wait_until_all_asleep(&tasks);
        let sleeps: Vec<_> = tasks.iter().zip(before).map(|(task, before)| sleeps_of(task) - before).collect();
        let counted: Vec<_> = readers.iter().map(|reader| reader.statistics().sleeps).collect();
        let timeouts = timeouts_in(began.elapsed());
        assert!(counted.iter().all(|&sleeps| sleeps <= 1 + timeouts), "{timeouts} timeouts, {counted:?}");
        assert!(sleeps.iter().all(|&sleeps| sleeps <= timeouts + BY_THE_KERNEL), "{timeouts} timeouts, {sleeps:?}");
        for (task, mut writer) in tasks.into_iter().zip(writers) {
            writer.write_all(&[1]).unwrap();
            assert_eq!(task.join(), 1);
        }
    }
}

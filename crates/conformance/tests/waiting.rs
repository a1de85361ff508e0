//! How ends wait, in what can be counted: spins, yields, sleeps. What is measured is only bounded, never timed.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use millstream_conformance::process::{count_signals, interrupt};
use millstream_conformance::task::{Task, start, start_and_wait_until_asleep, wait_until_asleep};
use millstream_conformance::{PIPE_BUF, alone};
use millstream_pipe::{Builder, Reader, Statistics, WaitPolicy, pipe};
use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// From now on this thread runs there only.
fn run_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).unwrap();
}

/// What both ends have done after `bytes` have gone from one thread to another, in writes of `size`, each on its CPU.
fn stream(policy: WaitPolicy, cpus: [usize; 2], bytes: usize, size: usize) -> [Statistics; 2] {
    let (mut reader, mut writer) = Builder::new().wait(policy).create().unwrap();
    let writing = start(move || {
        run_on(cpus[0]);
        let piece = vec![7; size];
        (0..bytes / size).for_each(|_| writer.write_all(&piece).unwrap());
        writer.statistics()
    });
    let reading = start(move || {
        run_on(cpus[1]);
        let (mut buffer, mut count) = (vec![0; 64 << 10], 0);
        while let read @ 1.. = reader.read(&mut buffer).unwrap() {
            count += read;
        }
        assert_eq!(count, bytes);
        reader.statistics()
    });
    [writing.join(), reading.join()]
}

fn stream_on_one_cpu(cpu: usize, bytes: usize) -> [Statistics; 2] {
    stream(WaitPolicy::Adaptive, [cpu; 2], bytes, 64 << 10)
}

/// How often a reader has paused to batch, in its last read of a stream that it has followed so far. All bytes are
/// written by then.
fn pauses_before_a_look(cpus: [usize; 2], must_not_wait: bool) -> u64 {
    const BYTES: usize = 4 << 20;
    const LAST: usize = 16 << 10;
    let (reader, mut writer) = pipe().unwrap();
    let writing = start(move || {
        run_on(cpus[0]);
        (0..BYTES / 512).for_each(|_| writer.write_all(&[7; 512]).unwrap());
        writer
    });
    run_on(cpus[1]);
    let mut buffer = vec![0; 64 << 10];
    let mut left = BYTES - LAST;
    while left > 0 {
        let room = buffer.len().min(left);
        left -= (&reader).read(&mut buffer[..room]).unwrap();
    }
    let _writer = writing.join();
    reader.set_nonblocking(must_not_wait).unwrap();
    let before = reader.statistics().gathered;
    assert_eq!((&reader).read(&mut buffer).unwrap(), LAST);
    reader.statistics().gathered - before
}

/// A full pipe into which a task writes pieces of 128 KiB until one of its writes ends early. This thread has taken so
/// many pages from it, one by one, with some computing between them. Returns the reader, the task and how often the
/// writer has slept for these pages.
fn full_for_a_reader_of_pages(pages: usize) -> (Reader, Task<()>, u64) {
    let (reader, writer) = Builder::new().wait(WaitPolicy::Block).create().unwrap();
    let writer = Arc::new(writer);
    let sleeps = {
        let writer = writer.clone();
        move || writer.statistics().sleeps
    };
    let task = start_and_wait_until_asleep(move || {
        let piece = vec![7; 128 << 10];
        while (&*writer).write(&piece).is_ok_and(|count| count == piece.len()) {}
    });
    let before = sleeps();
    for _ in 0..pages {
        (&reader).read_exact(&mut [0; PIPE_BUF]).unwrap();
        let until = Instant::now() + Duration::from_micros(20);
        while Instant::now() < until {}
    }
    let slept = sleeps() - before;
    (reader, task, slept)
}

fn end_by_a_signal(task: Task<()>) {
    while !task.is_finished() {
        interrupt(task.id, Signal::USR1);
        thread::sleep(Duration::from_millis(1));
    }
    task.join();
}

alone! {
    fn a_writer_of_much_is_woken_for_several_of_the_pages_that_a_reader_takes_one_by_one() {
        const PAGES: usize = 1000;
        run_on(allowed()[0]);
        // While others want this CPU too the pages may be taken so slowly that it is better woken for each.
        let fewer = (0..100).any(|_| {
            let (reader, task, slept) = full_for_a_reader_of_pages(PAGES);
            drop(reader);
            task.join();
            slept < PAGES as u64 / 4
        });
        assert!(fewer);
    }

    fn a_reader_that_takes_pages_and_stops_leaves_a_pipe_that_fills_up() {
        count_signals(Signal::USR1, false);
        for pages in [1, 64, 65, 100, 1001] {
            let (reader, task, _) = full_for_a_reader_of_pages(pages);
            while reader.bytes_readable().unwrap() < reader.capacity().unwrap() {
                thread::sleep(Duration::from_millis(1));
            }
            end_by_a_signal(task);
        }
    }

    fn a_write_that_is_interrupted_has_first_filled_what_was_free() {
        count_signals(Signal::USR1, false);
        for pages in [1, 64, 65, 100, 1001] {
            let (reader, task, _) = full_for_a_reader_of_pages(pages);
            end_by_a_signal(task);
            assert_eq!(reader.bytes_readable().unwrap(), reader.capacity().unwrap());
        }
    }

    fn a_write_to_a_plain_reader_sleeps_again_after_a_restarting_signal() {
        count_signals(Signal::USR1, true);
        let (reader, writer) = pipe().unwrap();
        let reader = reader.into_fd().unwrap();
        let task = start_and_wait_until_asleep(move || {
            writer.set_nonblocking(true).unwrap();
            while (&writer).write(&[7; PIPE_BUF]).is_ok() {}
            writer.set_nonblocking(false).unwrap();
            (&writer).write(&[7; PIPE_BUF]).unwrap()
        });
        for _ in 0..3 {
            interrupt(task.id, Signal::USR1);
            wait_until_asleep(task.id);
        }
        assert!(!task.is_finished());
        let taken = rustix::io::read(&reader, &mut vec![0; 1 << 16]).unwrap();
        assert!(taken > 0);
        assert_eq!(task.join(), PIPE_BUF);
    }

    fn beside_a_program_that_uses_the_cpu_up_it_is_not_offered_each_time() {
        const BYTES: usize = 256 << 20;
        let cpu = allowed()[0];
        let is_over = Arc::new(AtomicBool::new(false));
        let busy = {
            let is_over = is_over.clone();
            thread::spawn(move || {
                run_on(cpu);
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let [writer, reader] = stream_on_one_cpu(cpu, BYTES);
        is_over.store(true, Relaxed);
        busy.join().unwrap();
        // A ring is filled and emptied 512 times, and each time an end could have yielded.
        let (offered, withheld) = (writer.yields + reader.yields, writer.yields_withheld + reader.yields_withheld);
        assert!(withheld > offered, "{writer:?} {reader:?}");
        assert!(offered < 256, "{writer:?} {reader:?}");
    }

    fn one_cpu_is_never_looked_at_in_vain() {
        let [writer, reader] = stream_on_one_cpu(allowed()[0], 16 << 20);
        // Until the first bytes no end knows the CPU of the other. After them it does not spin, since both are on this
        // CPU.
        assert!(writer.yields + reader.yields > 0, "{writer:?} {reader:?}");
        assert_eq!((writer.spins, reader.spins), (0, 0), "{writer:?} {reader:?}");
    }

    fn reader_that_keeps_up_batches_while_writer_runs() {
        const BYTES: usize = 4 << 20;
        let cpus = allowed();
        assert!(cpus.len() >= 2, "this test needs two CPUs");
        // While others want these CPUs too the two may not run at the same time for a while.
        let gathered = |policy, cpus| stream(policy, cpus, BYTES, 512).map(|end| end.gathered);
        let has_gathered = (0..100).any(|_| {
            let [writer, reader] = gathered(WaitPolicy::Adaptive, [cpus[0], cpus[1]]);
            assert_eq!(writer, 0, "a writer has nothing to gather");
            reader > 0
        });
        assert!(has_gathered);
        for (policy, cpus) in [
            (WaitPolicy::Adaptive, [cpus[0], cpus[0]]),
            (WaitPolicy::Block, [cpus[0], cpus[1]]),
            (WaitPolicy::Spin, [cpus[0], cpus[1]]),
        ] {
            assert_eq!(gathered(policy, cpus), [0, 0], "{policy:?} on {cpus:?}");
        }
    }

    fn blocking_reader_batches_before_it_looks() {
        let cpus = allowed();
        assert!(cpus.len() >= 2, "this test needs two CPUs");
        // Each stream may have ended with a pause that brought no bytes.
        assert!((0..100).any(|_| pauses_before_a_look([cpus[0], cpus[1]], false) > 0));
        (0..20).for_each(|_| assert_eq!(pauses_before_a_look([cpus[0], cpus[1]], true), 0));
    }

    fn what_a_wake_up_costs_is_measured_on_another_cpu_and_believed_within_bounds() {
        let cpus = allowed();
        assert!(cpus.len() >= 2, "this test needs two CPUs");
        let (reader, mut writer) = pipe().unwrap();
        let (reader, there): (Arc<Reader>, usize) = (Arc::new(reader), cpus[1]);
        run_on(cpus[0]);
        writer.write_all(&[1]).unwrap();
        (&*reader).read_exact(&mut [0]).unwrap();
        assert_eq!(reader.statistics().wake_nanoseconds, 0, "no thread has slept");
        for _ in 0..3 {
            let reader = reader.clone();
            let task = start_and_wait_until_asleep(move || {
                run_on(there);
                (&*reader).read(&mut [0]).unwrap()
            });
            writer.write_all(&[1]).unwrap();
            assert_eq!(task.join(), 1);
        }
        let wake = reader.statistics().wake_nanoseconds;
        // What `policy` believes at all, at any clock rate of a processor.
        assert!((1_000..=300_000).contains(&wake), "{wake} ns");
        assert_eq!(writer.statistics().wake_nanoseconds, wake, "all ends of a process know");
    }

    fn blocking_policy_neither_spins_nor_yields() {
        let sleep_once = || {
            let (reader, mut writer) = Builder::new().wait(WaitPolicy::Block).create().unwrap();
            let (reader, began) = (Arc::new(reader), Instant::now());
            let sleeper = reader.clone();
            let task = start_and_wait_until_asleep(move || (&*sleeper).read(&mut [0]).unwrap());
            writer.write_all(&[1]).unwrap();
            assert_eq!(task.join(), 1);
            (began.elapsed() < Duration::from_millis(900)).then(|| reader.statistics())
        };
        // After a second the timeout wakes a waiter, which sleeps again: on such a busy machine, try once more.
        let seen = loop {
            if let Some(seen) = sleep_once() {
                break seen;
            }
        };
        assert_eq!((seen.spins, seen.yields, seen.yields_withheld, seen.sleeps), (0, 0, 0, 1));
    }
}

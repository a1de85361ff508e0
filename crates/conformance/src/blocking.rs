//! Blocking: an end with nothing to do sleeps and takes no CPU time; a non-blocking end gets `EAGAIN`; signals wake.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc)]

use std::io::{ErrorKind, IoSlice};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;

use crate::pattern::{self, check, fill, read_exact, read_stream, write_all};
use crate::process::{HANDLED, count_signals, fork, interrupt, signal_thread};
use crate::task::{start, start_and_wait_until_asleep, wait_until_all_asleep, wait_until_asleep, wait_until_idle_for};
use crate::{BetweenProcesses, End, Implementation, PIPE_BUF, ReadEnd, WriteEnd, error_of};

/// Longer than any sensible spinning, and than the period of any timer that might wake a waiter.
const IDLE: Duration = Duration::from_millis(300);

pub fn a_reader_of_an_empty_pipe_sleeps_until_bytes_come<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let task = start(move || read_exact(&reader, 1));
    wait_until_idle_for(task.id, IDLE);
    assert!(!task.is_finished());
    write_all(&writer, &[7]);
    assert_eq!(task.join(), [7]);
}

pub fn a_writer_to_a_full_pipe_sleeps_until_there_is_room<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0) as u64;
    let task = start(move || writer.write(&pattern::bytes(filled..filled + PIPE_BUF as u64)).unwrap());
    wait_until_idle_for(task.id, IDLE);
    assert!(!task.is_finished());
    check(0, &read_exact(&reader, PIPE_BUF));
    assert_eq!(task.join(), PIPE_BUF);
    assert_eq!(read_stream(&reader, PIPE_BUF as u64, 5000), filled);
}

pub fn a_large_write_sleeps_with_a_part_of_it_in_the_pipe<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let capacity = writer.capacity().unwrap();
    let total = 3 * capacity;
    let task = start(move || writer.write(&pattern::bytes(0..total as u64)).unwrap());
    wait_until_idle_for(task.id, IDLE);
    assert_eq!(reader.bytes_readable().unwrap(), capacity);
    assert_eq!(read_stream(&reader, 0, 10_000), total as u64);
    assert_eq!(task.join(), total);
}

pub fn a_nonblocking_read_of_an_empty_pipe_is_refused<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    reader.set_nonblocking(true).unwrap();
    let refused = reader.read(&mut [0; 10]);
    assert_eq!(refused.as_ref().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(error_of(refused), Errno::AGAIN);
    write_all(&writer, &[1]);
    assert_eq!(reader.read(&mut [0; 10]).unwrap(), 1);
}

pub fn a_nonblocking_write_to_a_full_pipe_is_refused<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0);
    writer.set_nonblocking(true).unwrap();
    for size in [1, PIPE_BUF, PIPE_BUF + 1, 1_000_000] {
        assert_eq!(error_of(writer.write(&vec![0; size])), Errno::AGAIN);
        assert_eq!(error_of(writer.write_vectored(&[IoSlice::new(&vec![0; size])])), Errno::AGAIN);
    }
    drop(writer);
    assert_eq!(read_stream(&reader, 0, 10_000), filled as u64);
}

pub fn nonblocking_counts_for_clones_and_not_for_the_other_end<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let (reader_clone, writer_clone) = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
    reader_clone.set_nonblocking(true).unwrap();
    assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN);
    fill(&writer, 0);
    let task = start_and_wait_until_asleep(move || writer_clone.write(&[0; PIPE_BUF]).unwrap());
    drop(read_exact(&reader, PIPE_BUF));
    assert_eq!(task.join(), PIPE_BUF);

    writer.set_nonblocking(true).unwrap();
    reader.set_nonblocking(false).unwrap();
    assert_eq!(error_of(writer.try_clone().unwrap().write(&[0])), Errno::AGAIN);
    drop(read_exact(&reader, writer.capacity().unwrap()));
    let task = start_and_wait_until_asleep(move || reader_clone.read(&mut [0; 10]).unwrap());
    write_all(&writer, &[0; 5]);
    assert_eq!(task.join(), 5);
}

pub fn a_small_write_waits_for_room_for_all_of_it<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0);
    let task = start_and_wait_until_asleep(move || {
        writer.write(&pattern::bytes(filled as u64..(filled + PIPE_BUF) as u64)).unwrap()
    });
    check(0, &read_exact(&reader, PIPE_BUF - 1));
    wait_until_asleep(task.id);
    assert!(!task.is_finished());
    assert_eq!(reader.bytes_readable().unwrap(), filled - (PIPE_BUF - 1), "a part of a small write went in");
    check(PIPE_BUF as u64 - 1, &read_exact(&reader, 1));
    assert_eq!(task.join(), PIPE_BUF);
    assert_eq!(read_stream(&reader, PIPE_BUF as u64, 5000), filled as u64);
}

pub fn a_byte_goes_back_and_forth_without_a_lost_wake_up<I: Implementation>() {
    let (first_reader, first_writer) = I::pipe().unwrap();
    let (second_reader, second_writer) = I::pipe().unwrap();
    let task = start(move || {
        let mut byte = [0];
        while first_reader.read(&mut byte).unwrap() == 1 {
            write_all(&second_writer, &byte);
        }
    });
    for round in 0..20_000 {
        write_all(&first_writer, &[round as u8]);
        assert_eq!(read_exact(&second_reader, 1), [round as u8]);
    }
    drop(first_writer);
    task.join();
}

pub fn a_full_pipe_is_handed_over_without_a_lost_wake_up<I: Implementation>() {
    // The writer sleeps in nearly every call, and the reader often.
    let (reader, writer) = I::pipe().unwrap();
    writer.set_capacity(4096).unwrap();
    let task = start(move || (0..20_000).for_each(|round| write_all(&writer, &[round as u8; 4096])));
    for round in 0..20_000 {
        assert_eq!(read_exact(&reader, 4096), [round as u8; 4096]);
    }
    task.join();
}

pub fn a_hundred_sleeping_readers_each_get_one_of_a_hundred_bytes<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let clones = (0..100).map(|_| reader.try_clone().unwrap());
    let tasks: Vec<_> = clones.map(|reader| start(move || read_exact(&reader, 1)[0])).collect();
    wait_until_all_asleep(&tasks);
    (0..100).for_each(|byte| write_all(&writer, &[byte]));
    let mut got: Vec<u8> = tasks.into_iter().map(|task| task.join()).collect();
    got.sort_unstable();
    assert!(got.into_iter().eq(0..100));
}

pub fn a_hundred_sleeping_writers_all_go_on_when_the_pipe_is_drained<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0);
    let clones = (0..100).map(|_| writer.try_clone().unwrap());
    let tasks: Vec<_> = clones.map(|writer| start(move || writer.write(&[1; PIPE_BUF]).unwrap())).collect();
    wait_until_all_asleep(&tasks);
    check(0, &read_exact(&reader, filled));
    assert_eq!(read_exact(&reader, 100 * PIPE_BUF), vec![1; 100 * PIPE_BUF]);
    tasks.into_iter().for_each(|task| assert_eq!(task.join(), PIPE_BUF));
}

pub fn a_read_by_one_of_many_wakes_a_second_reader_for_the_rest<I: Implementation>() {
    // One write wakes one reader. This reader leaves a byte for the second one, which must wake too.
    let (reader, writer) = I::pipe().unwrap();
    let clones: Vec<_> = (0..2).map(|_| reader.try_clone().unwrap()).collect();
    let tasks: Vec<_> = clones.into_iter().map(|reader| start(move || read_exact(&reader, 1))).collect();
    wait_until_all_asleep(&tasks);
    write_all(&writer, &[1, 1]);
    tasks.into_iter().for_each(|task| assert_eq!(task.join(), [1]));
}

pub fn a_reader_in_another_process_sleeps_until_bytes_come<I: BetweenProcesses>() {
    let ends = I::pipe().unwrap();
    let (child, (reader, writer)) = fork(ends, |(reader, writer)| {
        drop(writer);
        assert_eq!(read_exact(&reader, 3), [1, 2, 3]);
    });
    drop(reader);
    wait_until_idle_for(child.id, IDLE);
    write_all(&writer, &[1, 2, 3]);
    child.succeed();
}

pub fn a_writer_in_another_process_sleeps_until_there_is_room<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0) as u64;
    let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
        drop(reader);
        assert_eq!(writer.write(&pattern::bytes(filled..filled + PIPE_BUF as u64)).unwrap(), PIPE_BUF);
    });
    drop(writer);
    wait_until_idle_for(child.id, IDLE);
    assert_eq!(reader.bytes_readable().unwrap() as u64, filled);
    assert_eq!(read_stream(&reader, 0, 5000), filled + PIPE_BUF as u64);
    child.succeed();
}

pub fn a_signal_interrupts_a_read_that_has_nothing<I: BetweenProcesses>() {
    count_signals(Signal::USR1, false);
    let (reader, writer) = I::pipe().unwrap();
    let task = start_and_wait_until_asleep(move || {
        let interrupted = reader.read(&mut [0; 10]);
        assert_eq!(interrupted.as_ref().unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!(error_of(interrupted), Errno::INTR);
        reader
    });
    interrupt(task.id, Signal::USR1);
    let reader = task.join();
    write_all(&writer, &[1, 2, 3]);
    assert_eq!(read_exact(&reader, 3), [1, 2, 3]);
}

pub fn a_signal_interrupts_a_write_that_has_done_nothing<I: BetweenProcesses>() {
    count_signals(Signal::USR1, false);
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0) as u64;
    for size in [1, PIPE_BUF, 100_000] {
        let clone = writer.try_clone().unwrap();
        let task = start_and_wait_until_asleep(move || assert_eq!(error_of(clone.write(&vec![0; size])), Errno::INTR));
        interrupt(task.id, Signal::USR1);
        task.join();
    }
    drop(writer);
    assert_eq!(read_stream(&reader, 0, 10_000), filled, "an interrupted write has written nothing");
}

/// A write of more than fits, interrupted while it sleeps; the count says exactly how much went in.
fn interrupted_in_the_middle<I: BetweenProcesses>(restart: bool) {
    count_signals(Signal::USR1, restart);
    let (reader, writer) = I::pipe().unwrap();
    let capacity = writer.capacity().unwrap();
    let task = start_and_wait_until_asleep(move || writer.write(&pattern::bytes(0..4 * capacity as u64)).unwrap());
    check(0, &read_exact(&reader, 2 * PIPE_BUF));
    wait_until_asleep(task.id);
    interrupt(task.id, Signal::USR1);
    let count = task.join();
    assert_eq!(count, capacity + if I::REFILLS { 2 * PIPE_BUF } else { 0 });
    assert_eq!(read_stream(&reader, 2 * PIPE_BUF as u64, 10_000), (count - 2 * PIPE_BUF) as u64);
}

pub fn a_signal_ends_a_write_in_the_middle_with_what_went_in<I: BetweenProcesses>() {
    interrupted_in_the_middle::<I>(false);
}

/// SA_RESTART does not help a write that has done something: it has a result to return.
pub fn a_restarting_signal_too_ends_a_write_in_the_middle<I: BetweenProcesses>() {
    interrupted_in_the_middle::<I>(true);
}

pub fn a_read_goes_on_after_a_restarting_signal<I: BetweenProcesses>() {
    count_signals(Signal::USR1, true);
    let (reader, writer) = I::pipe().unwrap();
    let task = start_and_wait_until_asleep(move || read_exact(&reader, 5));
    for _ in 0..10 {
        interrupt(task.id, Signal::USR1);
        wait_until_asleep(task.id);
    }
    assert!(!task.is_finished());
    write_all(&writer, b"grain");
    assert_eq!((task.join().as_slice(), HANDLED.load(SeqCst)), (&b"grain"[..], 10));
}

pub fn a_write_goes_on_after_a_restarting_signal<I: BetweenProcesses>() {
    count_signals(Signal::USR1, true);
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0) as u64;
    let task =
        start_and_wait_until_asleep(move || writer.write(&pattern::bytes(filled..filled + PIPE_BUF as u64)).unwrap());
    for _ in 0..10 {
        interrupt(task.id, Signal::USR1);
        wait_until_asleep(task.id);
    }
    assert!(!task.is_finished());
    check(0, &read_exact(&reader, PIPE_BUF));
    assert_eq!((task.join(), HANDLED.load(SeqCst)), (PIPE_BUF, 10));
    assert_eq!(read_stream(&reader, PIPE_BUF as u64, 5000), filled);
}

pub fn a_storm_of_signals_loses_no_byte<I: BetweenProcesses>() {
    count_signals(Signal::USR1, false);
    const TOTAL: u64 = 4 << 20;
    let (reader, writer) = I::pipe().unwrap();
    let writing = start(move || {
        let mut at = 0;
        // On a busy machine all of it may be over before the first signal is sent.
        while at < TOTAL || HANDLED.load(SeqCst) == 0 {
            match writer.write(&pattern::bytes(at..at + 100_000)) {
                Ok(count) => at += count as u64,
                interrupted => assert_eq!(error_of(interrupted), Errno::INTR),
            }
        }
        at
    });
    let reading = start(move || {
        let (mut buffer, mut at) = (vec![0; 30_000], 0);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => break at,
                Ok(count) => {
                    check(at, &buffer[..count]);
                    at += count as u64;
                }
                interrupted => assert_eq!(error_of(interrupted), Errno::INTR),
            }
        }
    });
    while signal_thread(writing.id, Signal::USR1) && signal_thread(reading.id, Signal::USR1) {
        std::thread::sleep(Duration::from_micros(50));
    }
    assert_eq!(writing.join(), reading.join());
}

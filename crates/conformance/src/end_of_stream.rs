//! End of stream: each reader gets the end when the last writer has closed, each writer `EPIPE` without readers.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc)]

use std::io::{ErrorKind, IoSlice};
use std::sync::atomic::Ordering::SeqCst;

use rustix::io::Errno;
use rustix::process::Signal;

use crate::pattern::{self, check, fill, read_exact, read_stream, write_all};
use crate::process::{HANDLED, count_signals, fork, restore_default};
use crate::task::{start, start_and_wait_until_asleep, wait_until_all_asleep, wait_until_asleep};
use crate::{BetweenProcesses, End, Implementation, PIPE_BUF, ReadEnd, WriteEnd, error_of};

pub fn reads_give_zero_once_the_pipe_is_drained_and_keep_giving_zero<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &pattern::bytes(0..10_000));
    drop(writer);
    check(0, &read_exact(&reader, 10_000));
    (0..10).for_each(|_| assert_eq!(reader.read(&mut [0; 10]).unwrap(), 0));
}

pub fn a_pipe_that_was_never_written_to_ends_too<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    drop(writer);
    assert_eq!(reader.read(&mut [0; 10]).unwrap(), 0);
}

pub fn a_full_pipe_is_read_to_its_last_byte_after_the_writer_is_gone<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0) as u64;
    drop(writer);
    assert_eq!(read_stream(&reader, 0, 999), filled);
}

pub fn the_stream_ends_with_the_last_clone_of_the_writer<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let clones: Vec<_> = (0..5).map(|_| writer.try_clone().unwrap()).collect();
    drop(writer);
    reader.set_nonblocking(true).unwrap();
    for clone in clones {
        assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN);
        drop(clone);
    }
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn a_clone_writes_on_when_the_original_is_gone<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, b"one");
    let clone = writer.try_clone().unwrap();
    drop(writer);
    write_all(&clone, b"two");
    drop(clone);
    assert_eq!(read_exact(&reader, 6), b"onetwo");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn a_nonblocking_read_at_the_end_gives_zero<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    reader.set_nonblocking(true).unwrap();
    drop(writer);
    assert_eq!(reader.read(&mut [0; 10]).unwrap(), 0);
}

pub fn a_write_without_a_reader_is_refused<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    drop(reader);
    for size in [1, PIPE_BUF, 100_000] {
        let refused = writer.write(&vec![0; size]);
        assert_eq!(refused.as_ref().unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(error_of(refused), Errno::PIPE);
        assert_eq!(error_of(writer.write_vectored(&[IoSlice::new(&vec![0; size])])), Errno::PIPE);
    }
}

pub fn a_write_without_a_reader_is_refused_with_bytes_still_waiting<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    fill(&writer, 0);
    drop(reader);
    assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
    // `EPIPE` takes precedence over `EAGAIN`.
    writer.set_nonblocking(true).unwrap();
    assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
}

pub fn a_write_is_refused_only_after_the_last_clone_of_the_reader<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let clones: Vec<_> = (0..5).map(|_| reader.try_clone().unwrap()).collect();
    drop(reader);
    for clone in clones {
        write_all(&writer, &[1]);
        drop(clone);
    }
    assert_eq!(error_of(writer.write(&[1])), Errno::PIPE);
}

pub fn a_write_of_no_bytes_needs_no_reader<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    drop(reader);
    assert_eq!(writer.write(&[]).unwrap(), 0);
    assert_eq!(writer.write_vectored(&[IoSlice::new(&[])]).unwrap(), 0);
    assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
    assert_eq!(writer.write(&[]).unwrap(), 0);
}

pub fn a_write_in_the_middle_returns_its_count_when_the_reader_goes<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let capacity = writer.capacity().unwrap();
    let task = start_and_wait_until_asleep(move || {
        let count = writer.write(&pattern::bytes(0..3 * capacity as u64)).unwrap();
        assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
        count
    });
    check(0, &read_exact(&reader, 2 * PIPE_BUF));
    wait_until_asleep(task.id);
    drop(reader);
    assert_eq!(task.join(), capacity + if I::REFILLS { 2 * PIPE_BUF } else { 0 });
}

pub fn the_end_wakes_a_hundred_sleeping_readers<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let clones = (0..100).map(|_| reader.try_clone().unwrap());
    let tasks: Vec<_> = clones.map(|reader| start(move || reader.read(&mut [0; 10]).unwrap())).collect();
    wait_until_all_asleep(&tasks);
    assert!(!tasks.iter().any(|task| task.is_finished()));
    drop(writer);
    tasks.into_iter().for_each(|task| assert_eq!(task.join(), 0));
}

pub fn the_end_wakes_a_hundred_sleeping_writers<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    fill(&writer, 0);
    let clones = (0..100).map(|_| writer.try_clone().unwrap());
    let tasks: Vec<_> = clones.map(|writer| start(move || error_of(writer.write(&[0; 10])))).collect();
    wait_until_all_asleep(&tasks);
    assert!(!tasks.iter().any(|task| task.is_finished()));
    drop(reader);
    tasks.into_iter().for_each(|task| assert_eq!(task.join(), Errno::PIPE));
}

/// Shows the watchdog that the test does not hang.
fn tell_how_far(round: u32) {
    if round.is_multiple_of(100) {
        println!("round {round}");
    }
}

pub fn an_end_that_comes_at_any_moment_is_seen<I: Implementation>() {
    // The reader checks for bytes and then sleeps; an end between the two is easily missed.
    for round in 0..2000 {
        tell_how_far(round);
        let (reader, writer) = I::pipe().unwrap();
        let task = start(move || reader.read(&mut [0; 10]).unwrap());
        (0..round % 200).for_each(|_| std::hint::spin_loop());
        drop(writer);
        assert_eq!(task.join(), 0);
    }
}

pub fn a_reader_that_goes_at_any_moment_is_seen<I: Implementation>() {
    for round in 0..2000 {
        tell_how_far(round);
        let (reader, writer) = I::pipe().unwrap();
        let capacity = writer.capacity().unwrap();
        let task = start(move || match writer.write(&vec![0; 2 * capacity]) {
            Ok(count) => assert_eq!(count, capacity),
            refused => assert_eq!(error_of(refused), Errno::PIPE),
        });
        (0..round % 200).for_each(|_| std::hint::spin_loop());
        drop(reader);
        task.join();
    }
}

pub fn a_write_without_a_reader_kills_by_sigpipe<I: BetweenProcesses>() {
    for size in [1, PIPE_BUF, 100_000] {
        let (child, _) = fork(I::pipe().unwrap(), |(reader, writer)| {
            restore_default(Signal::PIPE);
            drop(reader);
            // The parent's copy goes too.
            while writer.write(&vec![0; size]).is_ok() {}
        });
        child.die_of(Signal::PIPE);
    }
}

pub fn a_write_that_sleeps_is_killed_by_sigpipe_when_the_reader_goes<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        restore_default(Signal::PIPE);
        drop(reader);
        // Even though a part of it went in.
        let _ = writer.write(&[0; 1_000_000]);
    });
    drop(writer);
    wait_until_asleep(child.id);
    drop(reader);
    child.die_of(Signal::PIPE);
}

pub fn a_write_without_a_reader_is_refused_where_sigpipe_is_ignored<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(reader);
        let refused = loop {
            match writer.write(&[0; PIPE_BUF]) {
                Ok(count) => assert_eq!(count, PIPE_BUF),
                refused => break refused,
            }
        };
        assert_eq!(error_of(refused), Errno::PIPE);
    });
    drop((reader, writer));
    child.succeed();
}

pub fn each_refused_write_raises_sigpipe_once<I: BetweenProcesses>() {
    count_signals(Signal::PIPE, true);
    let (reader, writer) = I::pipe().unwrap();
    drop(reader);
    for handled in 1..=3 {
        assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
        assert_eq!(HANDLED.load(SeqCst), handled);
    }
    assert_eq!(writer.write(&[]).unwrap(), 0);
    assert_eq!(HANDLED.load(SeqCst), 3);
}

/// The count is returned, and the signal comes all the same.
pub fn a_write_that_loses_its_reader_in_the_middle_raises_sigpipe<I: BetweenProcesses>() {
    count_signals(Signal::PIPE, true);
    let (reader, writer) = I::pipe().unwrap();
    let capacity = writer.capacity().unwrap();
    let task = start_and_wait_until_asleep(move || writer.write(&vec![0; 2 * capacity]).unwrap());
    drop(reader);
    assert_eq!((task.join(), HANDLED.load(SeqCst)), (capacity, 1));
}

pub fn the_end_wakes_sleeping_readers_in_ten_processes<I: BetweenProcesses>() {
    let mut ends = I::pipe().unwrap();
    let mut children = Vec::new();
    for _ in 0..10 {
        let child;
        (child, ends) = fork(ends, |(reader, writer)| {
            drop(writer);
            assert_eq!(reader.read(&mut [0; 10]).unwrap(), 0);
        });
        children.push(child);
    }
    children.iter().for_each(|child| wait_until_asleep(child.id));
    let (reader, writer) = ends;
    drop(writer);
    children.into_iter().for_each(|child| child.succeed());
    assert_eq!(reader.read(&mut [0; 10]).unwrap(), 0);
}

pub fn the_end_wakes_sleeping_writers_in_ten_processes<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    fill(&writer, 0);
    let mut ends = (reader, writer);
    let mut children = Vec::new();
    for _ in 0..10 {
        let child;
        (child, ends) = fork(ends, |(reader, writer)| {
            drop(reader);
            assert_eq!(error_of(writer.write(&[0; 10])), Errno::PIPE);
        });
        children.push(child);
    }
    children.iter().for_each(|child| wait_until_asleep(child.id));
    drop(ends.0);
    children.into_iter().for_each(|child| child.succeed());
    assert_eq!(error_of(ends.1.write(&[0])), Errno::PIPE);
}

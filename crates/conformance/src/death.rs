//! Death: a process that is killed has closed its ends, and what it had written is there; one that is stopped has not.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc)]

use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;

use crate::pattern::{self, Random, check, fill, read_exact, read_stream, read_to_end, write_all, write_stream};
use crate::process::fork;
use crate::task::{start, wait_until_asleep, wait_until_state};
use crate::{BetweenProcesses, End, PIPE_BUF, ReadEnd, WriteEnd, error_of};

/// How many processes die in the tests that kill at any moment.
const ROUNDS: usize = 60;

/// A moment of up to three milliseconds: long enough for the child to be anywhere in its work.
fn wait_a_moment(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.within(0..3000) as u64));
}

pub fn a_killed_writer_that_slept_leaves_what_it_wrote_and_the_end<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(reader);
        let _ = writer.write(&pattern::bytes(0..1_000_000));
    });
    let capacity = writer.capacity().unwrap() as u64;
    drop(writer);
    wait_until_asleep(child.id);
    child.kill();
    assert_eq!(read_stream(&reader, 0, 9000), capacity);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn a_killed_reader_that_slept_leaves_a_broken_pipe<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(writer);
        let _ = reader.read(&mut [0; 10]);
    });
    drop(reader);
    wait_until_asleep(child.id);
    child.kill();
    assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
}

/// A child streams and is killed somewhere in the middle of it.
fn writer_killed_while_streaming<I: BetweenProcesses>(transfer: usize, seed: u64) {
    let mut random = Random(seed);
    for _ in 0..ROUNDS {
        let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
            drop(reader);
            write_stream(&writer, 0..u64::MAX, transfer);
        });
        drop(writer);
        let task = start(move || read_stream(&reader, 0, 5000));
        wait_a_moment(&mut random);
        child.kill();
        // Every byte was checked: they are a beginning of the stream. And the end came.
        let total = task.join();
        if transfer <= PIPE_BUF {
            assert_eq!(total % transfer as u64, 0, "a part of a small write came through");
        }
    }
}

pub fn a_writer_killed_in_small_writes_leaves_a_beginning_and_the_end<I: BetweenProcesses>() {
    writer_killed_while_streaming::<I>(100, 21);
}

pub fn a_writer_killed_in_writes_of_a_page_leaves_a_beginning_and_the_end<I: BetweenProcesses>() {
    writer_killed_while_streaming::<I>(PIPE_BUF, 22);
}

pub fn a_writer_killed_in_large_writes_leaves_a_beginning_and_the_end<I: BetweenProcesses>() {
    writer_killed_while_streaming::<I>(200_000, 23);
}

pub fn what_a_killed_writer_said_that_it_wrote_is_there<I: BetweenProcesses>() {
    // It says so over a second pipe after each write.
    let mut random = Random(24);
    for _ in 0..ROUNDS {
        let state = (I::pipe().unwrap(), I::pipe().unwrap());
        let (child, (stream, log)) = fork(state, |(stream, log)| {
            drop((stream.0, log.0));
            let mut at = 0;
            loop {
                write_all(&stream.1, &pattern::bytes(at..at + 1000));
                write_all(&log.1, &[0]);
                at += 1000;
            }
        });
        drop((stream.1, log.1));
        let (stream, log) = (stream.0, log.0);
        let reading = start(move || read_stream(&stream, 0, 5000));
        let logging = start(move || read_to_end(&log).len() as u64);
        wait_a_moment(&mut random);
        child.kill();
        let (total, said) = (reading.join(), logging.join());
        assert!(total == 1000 * said || total == 1000 * (said + 1), "said {said} thousand, got {total} bytes");
    }
}

pub fn a_reader_killed_while_streaming_leaves_a_broken_pipe<I: BetweenProcesses>() {
    let mut random = Random(25);
    for round in 0..ROUNDS {
        let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
            drop(writer);
            let _ = read_stream(&reader, 0, 3000);
        });
        drop(reader);
        let transfer = [100, PIPE_BUF, 200_000][round % 3];
        let task = start(move || {
            let mut at = 0;
            loop {
                match writer.write(&pattern::bytes(at..at + transfer as u64)) {
                    Ok(count) => at += count as u64,
                    refused => return assert_eq!(error_of(refused), Errno::PIPE),
                }
            }
        });
        wait_a_moment(&mut random);
        child.kill();
        task.join();
    }
}

pub fn the_death_of_one_of_two_writers_leaves_the_other_its_reader<I: BetweenProcesses>() {
    let mut random = Random(26);
    for _ in 0..ROUNDS {
        let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
            drop(reader);
            loop {
                write_all(&writer, &[b'c'; 500]);
            }
        });
        let task = start(move || read_to_end(&reader));
        (0..20).for_each(|_| write_all(&writer, &[b'p'; 300]));
        wait_a_moment(&mut random);
        child.kill();
        (0..20).for_each(|_| write_all(&writer, &[b'p'; 300]));
        wait_a_moment(&mut random);
        assert!(!task.is_finished(), "the end came with the death of one writer of two");
        drop(writer);
        let bytes = task.join();
        let runs = pattern::runs(&bytes);
        let of_first = runs.iter().filter(|(byte, _)| *byte == b'p').map(|(_, len)| len);
        assert_eq!(of_first.sum::<usize>(), 40 * 300);
        // The small writes of both are whole.
        for (byte, len) in runs {
            assert_eq!(len % if byte == b'p' { 300 } else { 500 }, 0);
        }
    }
}

pub fn the_death_of_one_of_two_readers_leaves_the_other_the_rest<I: BetweenProcesses>() {
    let mut random = Random(27);
    for _ in 0..ROUNDS {
        let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
            drop(writer);
            while reader.read(&mut [0; 700]).unwrap() > 0 {}
        });
        let other = writer.try_clone().unwrap();
        let task = start(move || (0..100).for_each(|_| write_all(&other, &[1; 3000])));
        wait_a_moment(&mut random);
        child.kill();
        // What goes into the pipe from now on is the parent's alone.
        let reading = start(move || read_to_end(&reader));
        task.join();
        write_all(&writer, b"the rest");
        drop(writer);
        assert!(reading.join().ends_with(b"the rest"));
    }
}

pub fn a_killed_process_frees_both_its_ends<I: BetweenProcesses>() {
    let state = (I::pipe().unwrap(), I::pipe().unwrap());
    let (child, (first, second)) = fork(state, |(first, second)| {
        drop((first.0, second.1));
        write_all(&first.1, b"words");
        let _ = read_to_end(&second.0);
    });
    drop((first.1, second.0));
    wait_until_asleep(child.id);
    child.kill();
    assert_eq!(read_to_end(&first.0), b"words");
    assert_eq!(error_of(second.1.write(&[0])), Errno::PIPE);
}

pub fn waiters_wake_when_peer_process_is_killed<I: BetweenProcesses>() {
    let state = (I::pipe().unwrap(), I::pipe().unwrap());
    let (child, (first, second)) = fork(state, |ends| {
        let _keep = ends;
        std::thread::sleep(Duration::from_secs(3600));
    });
    drop(first.1);
    drop(second.0);
    let (reader, writer) = (first.0, second.1);
    fill(&writer, 0);
    let reading = start(move || reader.read(&mut [0]).unwrap());
    let writing = start(move || error_of(writer.write(&[0])));
    wait_until_asleep(reading.id);
    wait_until_asleep(writing.id);
    child.kill();
    assert_eq!((reading.join(), writing.join()), (0, Errno::PIPE));
}

pub fn a_stopped_writer_only_delays_the_stream<I: BetweenProcesses>() {
    const TOTAL: u64 = 2 << 20;
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(reader);
        write_stream(&writer, 0..TOTAL, 3000);
    });
    drop(writer);
    check(0, &read_exact(&reader, 100_000));
    child.signal(Signal::STOP);
    wait_until_state(child.id, 'T');
    let task = start(move || read_stream(&reader, 100_000, 5000));
    wait_until_asleep(task.id);
    assert!(!task.is_finished(), "a stopped writer is no end of the stream");
    child.signal(Signal::CONT);
    assert_eq!(task.join(), TOTAL - 100_000);
    child.succeed();
}

pub fn a_stopped_reader_only_delays_the_stream<I: BetweenProcesses>() {
    const TOTAL: u64 = 2 << 20;
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(writer);
        assert_eq!(read_stream(&reader, 0, 3000), TOTAL);
    });
    drop(reader);
    write_stream(&writer, 0..100_000, 3000);
    child.signal(Signal::STOP);
    wait_until_state(child.id, 'T');
    let task = start(move || write_stream(&writer, 100_000..TOTAL, 5000));
    wait_until_asleep(task.id);
    assert!(!task.is_finished());
    child.signal(Signal::CONT);
    task.join();
    child.succeed();
}

/// No signal handler runs, so a call that slept goes on and is not interrupted.
pub fn waiter_sleeps_on_after_stop_and_continue<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(writer);
        assert_eq!(reader.read(&mut [0; 10]).unwrap(), 4);
    });
    drop(reader);
    for _ in 0..5 {
        wait_until_asleep(child.id);
        child.signal(Signal::STOP);
        wait_until_state(child.id, 'T');
        child.signal(Signal::CONT);
        wait_until_state(child.id, 'S');
    }
    write_all(&writer, b"more");
    child.succeed();
}

pub fn stopped_waiter_finds_bytes_written_meanwhile<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(writer);
        assert_eq!(read_stream(&reader, 0, 1000), 5000);
    });
    drop(reader);
    wait_until_asleep(child.id);
    child.signal(Signal::STOP);
    wait_until_state(child.id, 'T');
    write_all(&writer, &pattern::bytes(0..5000));
    drop(writer);
    child.signal(Signal::CONT);
    child.succeed();
}

pub fn a_stopped_writer_that_is_killed_has_closed<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(reader);
        write_stream(&writer, 0..u64::MAX, 100);
    });
    drop(writer);
    check(0, &read_exact(&reader, 10_000));
    child.signal(Signal::STOP);
    wait_until_state(child.id, 'T');
    child.kill();
    assert_eq!(read_stream(&reader, 10_000, 999) % 100, 0);
}

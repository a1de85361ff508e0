//! Ends travel: to the children of a fork, where they go on as if nothing had happened.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc)]

use rustix::io::Errno;

use crate::pattern::{self, check, fill, read_exact, read_stream, read_to_end, write_all, write_stream};
use crate::process::{end, fork};
use crate::task::start;
use crate::{BetweenProcesses, End, PIPE_BUF, ReadEnd, WriteEnd, error_of};

const TOTAL: u64 = 1 << 20;

pub fn a_child_writes_and_the_parent_reads<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(reader);
        write_stream(&writer, 0..TOTAL, 10_000);
    });
    drop(writer);
    assert_eq!(read_stream(&reader, 0, 7000), TOTAL);
    child.succeed();
}

pub fn the_parent_writes_and_a_child_reads<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(writer);
        assert_eq!(read_stream(&reader, 0, 7000), TOTAL);
    });
    drop(reader);
    write_stream(&writer, 0..TOTAL, 10_000);
    drop(writer);
    child.succeed();
}

pub fn a_child_of_a_child_writes_and_the_first_parent_reads<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |ends| {
        let (grandchild, ends) = fork(ends, |(reader, writer)| {
            drop(reader);
            write_stream(&writer, 0..TOTAL, 10_000);
        });
        drop(ends);
        grandchild.succeed();
    });
    drop(writer);
    assert_eq!(read_stream(&reader, 0, 7000), TOTAL);
    child.succeed();
}

pub fn two_children_talk_when_the_parent_has_let_go<I: BetweenProcesses>() {
    let (writing, ends) = fork(I::pipe().unwrap(), |(reader, writer)| {
        drop(reader);
        write_stream(&writer, 0..TOTAL, 5000);
    });
    let (reading, ends) = fork(ends, |(reader, writer)| {
        drop(writer);
        assert_eq!(read_stream(&reader, 0, 5000), TOTAL);
    });
    drop(ends);
    writing.succeed();
    reading.succeed();
}

pub fn bytes_go_there_and_back_through_a_child<I: BetweenProcesses>() {
    let state = (I::pipe().unwrap(), I::pipe().unwrap());
    let (child, (there, back)) = fork(state, |(there, back)| {
        drop((there.1, back.0));
        let mut buffer = [0; 3000];
        loop {
            match there.0.read(&mut buffer).unwrap() {
                0 => break,
                count => write_all(&back.1, &buffer[..count]),
            }
        }
    });
    drop((there.0, back.1));
    let writer = there.1;
    let task = start(move || write_stream(&writer, 0..TOTAL, 8000));
    assert_eq!(read_stream(&back.0, 0, 8000), TOTAL);
    task.join();
    child.succeed();
}

pub fn ends_that_a_child_closes_stay_open_in_the_parent<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), drop);
    child.succeed();
    write_all(&writer, b"still");
    assert_eq!(read_exact(&reader, 5), b"still");
    reader.set_nonblocking(true).unwrap();
    assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN);
}

pub fn ends_that_the_parent_closes_stay_open_in_a_child<I: BetweenProcesses>() {
    let (go_reader, go_writer) = I::pipe().unwrap();
    let (child, (ends, go_reader, go_writer)) =
        fork((I::pipe().unwrap(), go_reader, go_writer), |((reader, writer), go_reader, go_writer)| {
            drop(go_writer);
            // Told by the end of this stream that the parent has closed the other.
            assert_eq!(go_reader.read(&mut [0]).unwrap(), 0);
            write_all(&writer, b"still");
            assert_eq!(read_exact(&reader, 5), b"still");
            drop(writer);
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        });
    drop((ends, go_reader));
    drop(go_writer);
    child.succeed();
}

pub fn bytes_from_before_the_fork_are_read_by_the_child<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &pattern::bytes(0..30_000));
    check(0, &read_exact(&reader, 10_000));
    let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
        drop(writer);
        assert_eq!(read_stream(&reader, 10_000, 4000), 30_000);
    });
    drop(reader);
    write_all(&writer, &pattern::bytes(30_000..40_000));
    drop(writer);
    child.succeed();
}

pub fn what_a_child_has_read_is_gone_for_the_parent<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &pattern::bytes(0..30_000));
    let (child, (reader, writer)) = fork((reader, writer), |(reader, _writer)| check(0, &read_exact(&reader, 12_345)));
    child.succeed();
    assert_eq!(reader.bytes_readable().unwrap(), 30_000 - 12_345);
    drop(writer);
    assert_eq!(read_stream(&reader, 12_345, 4000), 30_000 - 12_345);
}

pub fn bytes_of_a_child_that_has_ended_are_read_by_the_parent<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(_reader, writer)| {
        write_all(&writer, &pattern::bytes(0..50_000));
    });
    drop(writer);
    child.succeed();
    assert_eq!(read_stream(&reader, 0, 4000), 50_000);
}

/// The kernel closes what a process leaves open, whether it ended well or not.
pub fn a_child_that_ends_without_closing_has_closed<I: BetweenProcesses>() {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(_reader, writer)| {
        write_all(&writer, b"last words");
        end(0);
    });
    drop(writer);
    assert_eq!(read_to_end(&reader), b"last words");
    child.succeed();

    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |_ends| end(0));
    drop(reader);
    child.succeed();
    assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
}

pub fn parent_and_child_take_turns_on_the_same_end<I: BetweenProcesses>() {
    // A byte from each in turn, as the turns are given over a second and third pipe.
    let state = (I::pipe().unwrap(), I::pipe().unwrap(), I::pipe().unwrap());
    let (child, ((reader, writer), mine, yours)) = fork(state, |((reader, writer), yours, mine)| {
        drop((reader, yours.0, mine.1));
        for _ in 0..1000 {
            assert_eq!(read_exact(&mine.0, 1), [0]);
            write_all(&writer, b"c");
            write_all(&yours.1, &[0]);
        }
    });
    for _ in 0..1000 {
        write_all(&writer, b"p");
        write_all(&yours.1, &[0]);
        assert_eq!(read_exact(&mine.0, 1), [0]);
    }
    drop(writer);
    child.succeed();
    assert_eq!(read_to_end(&reader), b"pc".repeat(1000));
}

pub fn the_stream_ends_with_the_last_of_eight_children<I: BetweenProcesses>() {
    let mut ends = I::pipe().unwrap();
    let mut children = Vec::new();
    for id in 0..8 {
        let child;
        (child, ends) = fork(ends, |(reader, writer)| {
            drop(reader);
            (0..500).for_each(|_| assert_eq!(writer.write(&[id; 100]).unwrap(), 100));
        });
        children.push(child);
    }
    let (reader, writer) = ends;
    drop(writer);
    let bytes = read_to_end(&reader);
    for id in 0..8 {
        assert_eq!(bytes.iter().filter(|&&byte| byte == id).count(), 500 * 100);
    }
    children.into_iter().for_each(|child| child.succeed());
}

pub fn forks_in_the_middle_of_a_stream_change_nothing<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    // The child inherits both ends while other threads are in the middle of using them, and has handles of its own.
    let clones = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
    let writing = start(move || write_stream(&writer, 0..16 * TOTAL, 3000));
    let reading = start(move || {
        let mut at = 0;
        while at < 16 * TOTAL {
            let mut buffer = [0; 5000];
            let count = reader.read(&mut buffer).unwrap();
            check(at, &buffer[..count]);
            at += count as u64;
        }
    });
    let mut clones = clones;
    for _ in 0..50 {
        let child;
        (child, clones) = fork(clones, drop);
        child.succeed();
    }
    writing.join();
    reading.join();
    drop(clones.1);
    assert_eq!(clones.0.read(&mut [0]).unwrap(), 0);
}

pub fn a_child_forked_in_the_middle_of_a_stream_takes_over_the_writing<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let reading = start(move || read_stream(&reader, 0, 5000));
    write_stream(&writer, 0..TOTAL, 3000);
    // The reader's thread is not in the child, but its end is, until the child is gone.
    let (child, writer) = fork(writer, |writer| write_stream(&writer, TOTAL..2 * TOTAL, 3000));
    child.succeed();
    write_stream(&writer, 2 * TOTAL..3 * TOTAL, 3000);
    drop(writer);
    assert_eq!(reading.join(), 3 * TOTAL);
}

pub fn nonblocking_is_shared_with_a_child<I: BetweenProcesses>() {
    // It belongs to the open end, which parent and child have in common.
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, _writer)| reader.set_nonblocking(true).unwrap());
    child.succeed();
    assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN);
    fill(&writer, 0);
    let (child, (reader, writer)) = fork((reader, writer), |(_reader, writer)| writer.set_nonblocking(true).unwrap());
    child.succeed();
    assert_eq!(error_of(writer.write(&[0])), Errno::AGAIN);
    drop(reader);
}

pub fn the_capacity_is_shared_with_a_child<I: BetweenProcesses>() {
    let (child, (reader, writer)) =
        fork(I::pipe().unwrap(), |(_reader, writer)| assert_eq!(writer.set_capacity(16_384).unwrap(), 16_384));
    child.succeed();
    assert_eq!((reader.capacity().unwrap(), writer.capacity().unwrap()), (16_384, 16_384));
    assert_eq!(fill(&writer, 0), 16_384);
    let (child, (reader, writer)) =
        fork((reader, writer), |(_reader, writer)| assert_eq!(writer.set_capacity(131_072).unwrap(), 131_072));
    child.succeed();
    assert_eq!(reader.capacity().unwrap(), 131_072);
    assert_eq!(fill(&writer, 16_384), 131_072 - 16_384);
    drop(writer);
    assert_eq!(read_stream(&reader, 0, 10_000), 131_072);
}

pub fn a_child_counts_the_bytes_that_the_parent_wrote<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &[0; 5 * PIPE_BUF + 1]);
    let (child, (reader, _writer)) = fork((reader, writer), |(reader, writer)| {
        assert_eq!(reader.bytes_readable().unwrap(), 5 * PIPE_BUF + 1);
        assert_eq!(writer.bytes_readable().unwrap(), 5 * PIPE_BUF + 1);
        write_all(&writer, &[0; 9]);
    });
    child.succeed();
    assert_eq!(reader.bytes_readable().unwrap(), 5 * PIPE_BUF + 10);
}

//! Instead of dying, the child only pauses at every step while another process changes how the pipe works, and goes on.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::OwnedFd;

use millstream_conformance::alone;
use millstream_conformance::process::fork;
use millstream_conformance::task::start;
use millstream_conformance::trace::{Sleep, Step, fork_traced, sleeps_in};
use millstream_pipe::{Reader, Writer};
use millstream_sys::transfer::{self, Readiness};
use rustix::process::Pid;

use super::{Ends, Left, Scene, TAIL, at_every_step, check_stream, ends};

/// What is left to read at an exported end of a pipe.
fn read_raw(given: OwnedFd) -> Vec<u8> {
    let mut all = Vec::new();
    File::from(given).read_to_end(&mut all).unwrap();
    all
}

/// The child pauses at every step in turn while another thread does `meanwhile` with a reader and a writer, which it
/// cannot always do before the child goes on. In the end both are through, and the stream is what it should be.
fn paused_at_every_step<T: Send + 'static>(
    begin: impl Fn() -> Scene,
    meanwhile: impl Fn(Reader, Writer) -> T + Copy + Send + 'static,
    check: impl Fn(T, Writer),
) {
    at_every_step(begin, |mut scene, left| {
        let (reader, writer) = (scene.ends.readers.pop().unwrap(), scene.ends.writers.pop().unwrap());
        scene.ends.readers.clear();
        scene.ends.writers.clear();
        let last = writer.try_clone().unwrap();
        let acting = start(move || meanwhile(reader, writer));
        while !acting.is_finished() && sleeps_in(acting.id).is_none() {
            std::thread::yield_now();
        }
        if left == Left::InTheMiddle {
            scene.child.as_ref().unwrap().finish();
        }
        let outcome = acting.join();
        scene.kill();
        (&last).write_all(TAIL).unwrap();
        check(outcome, last);
    });
}

/// With a poller at each end, so that every call has to keep the readiness bytes true.
fn watched(content: u64) -> Ends {
    let ends = ends(4096, content);
    ends.readers[0].readiness().unwrap();
    ends.writers[0].readiness().unwrap();
    ends
}

alone! {
    fn a_reader_is_given_away_while_another_process_stands_anywhere_in_a_write() {
        for content in [0, 2000] {
            paused_at_every_step(
                || Scene::of_write(watched(content), content),
                |reader, _| reader.into_fd().unwrap(),
                |given, writer| {
                    drop(writer);
                    check_stream(&read_raw(given), &[0], &[content + 200]);
                },
            );
        }
    }

    fn a_reader_is_given_away_while_another_process_stands_anywhere_in_a_read() {
        for content in [200, 2000] {
            paused_at_every_step(
                || Scene::of_reader(watched(content), |mut reader| {
                    reader.read_exact(&mut [0; 200]).unwrap();
                }),
                |reader, _| reader.into_fd().unwrap(),
                |given, writer| {
                    drop(writer);
                    check_stream(&read_raw(given), &[200], &[content.max(200)]);
                },
            );
        }
    }

    fn a_reader_is_given_away_while_another_process_stands_anywhere_on_its_way_to_sleep() {
        paused_at_every_step(
            || Scene::of_reader(watched(0), |reader| {
                reader.set_nonblocking(true).unwrap();
                drop((&reader).read(&mut [0; 10]));
            }),
            |reader, _| reader.into_fd().unwrap(),
            |given, writer| {
                drop(writer);
                rustix::fs::fcntl_setfl(&given, rustix::fs::OFlags::empty()).unwrap();
                check_stream(&read_raw(given), &[0], &[0]);
            },
        );
    }

    fn poller_begins_while_another_process_pauses_at_any_step_of_export() {
        paused_at_every_step(
            || Scene::of_reader(ends(4096, 300), |reader| std::mem::forget(reader.into_fd().unwrap())),
            |reader, writer| {
                writer.readiness().unwrap();
                reader.readiness().unwrap();
                reader
            },
            |mut reader, writer| {
                drop(writer);
                let mut all = Vec::new();
                reader.read_to_end(&mut all).unwrap();
                check_stream(&all, &[0], &[300]);
            },
        );
    }

    fn the_ring_is_resized_while_another_process_stands_anywhere_in_a_write() {
        paused_at_every_step(
            || Scene::of_write(watched(2000), 2000),
            |reader, writer| { writer.set_capacity(16_384).unwrap(); reader },
            |mut reader, writer| {
                drop(writer);
                let mut all = Vec::new();
                reader.read_to_end(&mut all).unwrap();
                check_stream(&all, &[0], &[2200]);
            },
        );
    }
}

/// Forks at each command, and answers when the child has used the pipe, until the commands end.
fn fork_on_command(reader: &Reader, mut commands: PipeReader, mut answers: PipeWriter) {
    answers.write_all(&rustix::thread::gettid().as_raw_nonzero().get().to_le_bytes()).unwrap();
    while commands.read_exact(&mut [0]).is_ok() {
        let (child, ()) = fork((), |()| use_for_the_first_time(|| reader.bytes_readable()));
        child.succeed();
        answers.write_all(&[1]).unwrap();
    }
}

/// All that is made when a process uses its first pipe.
fn use_for_the_first_time(count_bytes: impl FnOnce() -> std::io::Result<usize>) {
    let thread = millstream_sys::futex::Thread::current();
    assert_eq!(thread.id(), rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
    assert_eq!(count_bytes().unwrap(), 0);
}

alone! {
    fn a_child_that_another_thread_forks_anywhere_in_the_first_use_of_a_pipe_can_use_it() {
        let state = (millstream_pipe::pipe().unwrap(), std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let (child, (ends, commands, answers)) = fork_traced(
            state,
            |((reader, writer), (commands, _), (_, answers))| {
                std::thread::spawn(move || fork_on_command(&reader, commands, answers));
                writer
            },
            |writer| use_for_the_first_time(|| writer.bytes_readable()),
        );
        drop(ends);
        let ((mut answers, _), (_, mut tell)) = (answers, commands);
        let mut id = [0; 4];
        answers.read_exact(&mut id).unwrap();
        let forking = Pid::from_raw(i32::from_le_bytes(id)).unwrap();
        let (mut steps, mut left) = (0, Left::InTheMiddle);
        let mut step = || {
            steps += 1;
            if child.step() == Step::Finished { Left::Finished } else { Left::InTheMiddle }
        };
        while left == Left::InTheMiddle {
            tell.write_all(&[1]).unwrap();
            while transfer::readiness(&answers) == Ok(Readiness::default()) {
                // It needs the allocator, in the middle of which the other may stand.
                if left == Left::InTheMiddle && sleeps_in(forking) == Some(Sleep::Futex) {
                    left = step();
                }
                std::thread::yield_now();
            }
            answers.read_exact(&mut [0]).expect("a child that has used the pipe");
            if left == Left::InTheMiddle {
                left = step();
            }
        }
        println!("{steps} steps");
        assert!(steps > 100, "a first use of {steps} instructions?");
    }
}

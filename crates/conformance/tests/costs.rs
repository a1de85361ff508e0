//! What a pipe costs that nobody uses, in what can be counted exactly: system calls, pages, wake-ups. No clock.

use std::io::{Read, Write};

use millstream_conformance::alone;
use millstream_conformance::trace::system_calls;
use millstream_pipe::{Reader, Writer, pipe};

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
}

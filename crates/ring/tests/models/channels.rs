//! The channel of unmodified programs: sleeping and waking, detaching at every step, and death at every step. Then each
//! check of the protocol is left out in turn, and the models must find a fault.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use loom::thread;
use millstream_ring::channel::{Check, leave_out};

use crate::channel_world::{at_every_step, attached, ends};
use crate::world::check;

#[derive(Clone, Copy, Default)]
struct Lives {
    bytes: u8,
    capacity: usize,
    reader_polls: bool,
    /// After so many bytes an end detaches.
    writer_detaches: Option<u8>,
    reader_detaches: Option<u8>,
    /// Before this step it is killed, or a handler detaches.
    writer_killed: Option<u32>,
    reader_killed: Option<u32>,
    reader_interrupted: Option<u32>,
    writer_interrupted: Option<u32>,
}

/// Both ends live as `lives` says: the reader gets every byte whose write has returned, in order, and nothing else.
fn live(lives: Lives) {
    let (writer, reader) = attached(lives.capacity);
    let written = Arc::new(AtomicU8::new(0));
    let count = written.clone();
    let is_read = lives.reader_killed.is_none();
    let writing = thread::spawn(move || {
        if let Some(step) = lives.writer_interrupted {
            writer.detaches_in_handler_at(step);
        }
        writer.lives(lives.writer_killed, |writer| {
            for byte in 0..lives.bytes {
                if lives.writer_detaches == Some(byte) {
                    writer.detach();
                }
                if !writer.write(byte) {
                    assert!(!is_read, "there is a reader");
                    return;
                }
                count.store(byte + 1, Relaxed);
            }
        });
    });
    if let Some(step) = lives.reader_interrupted {
        reader.detaches_in_handler_at(step);
    }
    let mut got = 0;
    reader.lives(lives.reader_killed, |reader| {
        loop {
            if lives.reader_detaches == Some(got) {
                reader.detach();
            }
            if lives.reader_polls {
                reader.poll();
            }
            let Some(byte) = reader.read() else { break };
            assert_eq!(byte, got, "a byte is lost, doubled or none of the stream");
            got += 1;
        }
        assert!(got >= written.load(Relaxed), "the end came before the last bytes");
    });
    writing.join().unwrap();
}

fn sleeps_and_wakes() {
    check(3, || live(Lives { bytes: 3, capacity: 1, ..Lives::default() }));
}

fn writer_detaches() {
    check(2, || live(Lives { bytes: 3, capacity: 2, writer_detaches: Some(2), ..Lives::default() }));
}

fn reader_detaches() {
    check(2, || live(Lives { bytes: 3, capacity: 2, reader_detaches: Some(1), ..Lives::default() }));
    check(2, || live(Lives { bytes: 2, capacity: 1, reader_detaches: Some(0), ..Lives::default() }));
}

fn reader_polls() {
    let lives = Lives { bytes: 2, capacity: 1, reader_polls: true, ..Lives::default() };
    check(2, move || live(lives));
    check(2, move || live(Lives { writer_detaches: Some(1), ..lives }));
    check(2, move || live(Lives { reader_detaches: Some(1), ..lives }));
}

fn both_detach() {
    let lives = Lives { bytes: 2, capacity: 1, writer_detaches: Some(1), reader_detaches: Some(1), ..Lives::default() };
    check(2, move || live(lives));
}

fn writer_is_killed() {
    at_every_step(|step| {
        let lives = Lives { bytes: 3, capacity: 2, writer_detaches: Some(2), ..Lives::default() };
        check(1, move || live(Lives { writer_killed: Some(step), ..lives }));
    });
}

fn reader_is_killed() {
    at_every_step(|step| {
        let lives = Lives { bytes: 3, capacity: 1, reader_detaches: Some(1), ..Lives::default() };
        check(1, move || live(Lives { reader_killed: Some(step), ..lives }));
    });
}

fn handler_detaches() {
    let lives = Lives { bytes: 2, capacity: 1, ..Lives::default() };
    at_every_step(|step| check(2, move || live(Lives { reader_interrupted: Some(step), ..lives })));
    at_every_step(|step| check(1, move || live(Lives { writer_interrupted: Some(step), ..lives })));
}

/// Both begin when nothing is in the backing pipe, and before that the kernel carries the bytes.
fn both_begin() {
    check(3, || {
        let (writer, reader) = ends(2);
        let writing = thread::spawn(move || {
            for byte in 0..2 {
                assert!(writer.write(byte));
                if !writer.is_attached() {
                    writer.agrees();
                }
            }
            writer.lives(None, |_| ());
        });
        for byte in 0..2 {
            if !reader.is_attached() {
                reader.channel().reader_waits();
                thread::yield_now();
                reader.has_agreed();
            }
            assert_eq!(reader.read(), Some(byte));
        }
        writing.join().unwrap();
    });
}

#[test]
fn sides_of_a_channel_sleep_and_wake_each_other() {
    sleeps_and_wakes();
}

#[test]
fn writer_of_a_channel_detaches_between_its_writes() {
    writer_detaches();
}

#[test]
fn reader_of_a_channel_detaches_between_its_reads() {
    reader_detaches();
}

#[test]
fn reader_of_a_channel_polls_and_leaves_the_token() {
    reader_polls();
}

#[test]
fn both_sides_of_a_channel_detach_at_once() {
    both_detach();
}

#[test]
fn writer_of_a_channel_is_killed_at_every_step() {
    writer_is_killed();
}

#[test]
fn reader_of_a_channel_is_killed_at_every_step() {
    reader_is_killed();
}

#[test]
fn signal_handler_detaches_a_channel_at_every_step() {
    handler_detaches();
}

#[test]
fn channel_begins_while_the_backing_pipe_is_empty() {
    both_begin();
}

/// Fails if the models find nothing, or only come to their limits, without the check.
fn fault_without(check: Check, models: fn()) {
    let search = move || {
        leave_out(Some(check));
        models();
    };
    let fault = std::thread::spawn(search).join().expect_err("it is not needed");
    let text = fault.downcast_ref::<String>().map_or_else(|| *fault.downcast_ref::<&str>().unwrap(), String::as_str);
    assert!(!text.contains("maximum number"), "{text}");
}

macro_rules! needed {
    ($($name:ident: $check:ident, $models:expr;)*) => {$(
        #[test]
        fn $name() {
            fault_without(Check::$check, $models);
        }
    )*};
}

needed! {
    reader_that_does_not_look_before_it_sleeps_is_found: BytesBeforeSleep, sleeps_and_wakes;
    writer_without_fence_after_it_publishes_is_found: FenceAfterPublish, sleeps_and_wakes;
    reader_without_fence_before_it_sleeps_is_found: FenceBeforeSleep, sleeps_and_wakes;
    writer_that_does_not_look_before_it_sleeps_is_found: RoomBeforeSleep, sleeps_and_wakes;
    reader_without_fence_after_it_consumes_is_found: FenceAfterConsume, sleeps_and_wakes;
    writer_without_fence_before_it_sleeps_is_found: FenceBeforeRoomSleep, sleeps_and_wakes;
    writer_that_does_not_look_for_its_reader_is_found: ReaderGone, reader_is_killed;
    reader_that_does_not_look_after_the_end_is_found: BytesAfterEnd, writer_is_killed;
    reader_that_does_not_look_for_its_note_is_found: HandlerTookToken, handler_detaches;
    drain_that_leaves_the_token_is_found: NoTokenAmongContent, writer_detaches;
    drain_after_which_the_reader_sleeps_is_found: NoSleepOnceFrozen, handler_detaches;
    drain_that_does_not_wait_for_the_token_is_found: TokenOnItsWay, handler_detaches;
    drain_that_begins_again_after_a_death_is_found: GoOnWhereItStopped, writer_is_killed;
    drain_that_forgets_what_was_taken_is_found: TakenEarly, writer_is_killed;
    drain_that_waits_for_a_dead_process_is_found: DrainerGone, writer_is_killed;
    drain_that_does_not_wake_the_writer_is_found: WakeAfterDrain, reader_detaches;
    writer_that_begins_at_a_full_pipe_is_found: BackingPipeEmpty, both_begin;
}

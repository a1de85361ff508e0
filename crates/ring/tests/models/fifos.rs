//! A FIFO that ends of ours and plain programs share: the stream moves between the ring and the kernel while
//! participants come and go. Bytes below 10 are ours, the others are foreign.

use loom::sync::Arc;
use loom::thread;
use millstream_ring::sync::{AtomicU32, Ordering};

use crate::fifo_world::{Attempt, Fifo};
use crate::world::{Me, OCCASIONAL, check};

const WRITER: Me = Me(OCCASIONAL);
const READER: Me = Me(OCCASIONAL + 1);
const OTHER: Me = Me(OCCASIONAL + 2);

/// What a plain reader gets out of the FIFO.
fn rest(fifo: &Fifo) -> Vec<u8> {
    fifo.kernel.read(usize::MAX).unwrap_or_default()
}

/// Reads as a reader of ours that does not wait.
fn read_all(fifo: &Fifo, me: &Me, got: &mut Vec<u8>) {
    for _ in 0..100 {
        if matches!(fifo.try_read(me, got), Attempt::Nothing | Attempt::End) {
            return;
        }
    }
    panic!("it comes to no end");
}

#[test]
fn reader_gets_bytes_before_the_end_of_the_stream() {
    check(3, || {
        let fifo = Fifo::with(1, 1, false);
        let theirs = fifo.clone();
        let writer = thread::spawn(move || {
            theirs.write(&WRITER, 1);
            theirs.write(&WRITER, 2);
            // As if killed: it flushes nothing to the kernel.
            theirs.kernel.close_writer();
        });
        let mut got = Vec::new();
        while fifo.read(&READER, &mut got) {}
        writer.join().unwrap();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn closing_writer_leaves_its_bytes_and_then_the_end() {
    check(3, || {
        let fifo = Fifo::with(1, 1, false);
        fifo.write(&WRITER, 1);
        let theirs = fifo.clone();
        let writer = thread::spawn(move || {
            theirs.write(&WRITER, 2);
            theirs.leave_writing(&WRITER);
        });
        let mut got = Vec::new();
        while fifo.read(&READER, &mut got) {}
        writer.join().unwrap();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn foreign_bytes_keep_their_place_between_ours() {
    check(2, || {
        let fifo = Fifo::with(1, 1, true);
        let theirs = fifo.clone();
        let writers = thread::spawn(move || {
            theirs.write(&WRITER, 1);
            theirs.kernel.write(&[11]);
            theirs.write(&WRITER, 2);
        });
        let mut got = Vec::new();
        (0..3).for_each(|_| assert!(fifo.read(&READER, &mut got)));
        writers.join().unwrap();
        assert_eq!(got, [1, 11, 2]);
    });
}

#[test]
fn leaving_reader_leaves_the_rest_to_a_plain_one() {
    check(3, || {
        let fifo = Fifo::with(1, 1, true);
        fifo.write(&WRITER, 1);
        let theirs = fifo.clone();
        let writer = thread::spawn(move || theirs.write(&WRITER, 2));
        let mut got = Vec::new();
        let _ = fifo.try_read(&READER, &mut got);
        fifo.leave_reading(&READER);
        writer.join().unwrap();
        // The writer stays, and does nothing more.
        got.extend(rest(&fifo));
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn two_readers_that_leave_at_once_leave_the_rest_to_a_plain_one() {
    check(3, || {
        let fifo = Fifo::with(2, 1, true);
        fifo.write(&WRITER, 1);
        fifo.write(&WRITER, 2);
        let theirs = fifo.clone();
        let other = thread::spawn(move || theirs.leave_reading(&OTHER));
        fifo.leave_reading(&READER);
        other.join().unwrap();
        assert_eq!(rest(&fifo), [1, 2]);
    });
}

#[test]
fn closing_writer_flushes_for_a_plain_reader_what_ours_does_not_read() {
    check(3, || {
        let fifo = Fifo::with(1, 1, true);
        let theirs = fifo.clone();
        let writer = thread::spawn(move || {
            theirs.write(&WRITER, 1);
            theirs.write(&WRITER, 2);
            theirs.leave_writing(&WRITER);
        });
        let mut got = Vec::new();
        let _ = fifo.try_read(&READER, &mut got);
        writer.join().unwrap();
        got.extend(rest(&fifo));
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn plain_reader_gets_all_when_both_sides_leave_at_once() {
    check(3, || {
        let fifo = Fifo::with(1, 1, true);
        fifo.write(&WRITER, 1);
        let theirs = fifo.clone();
        let writer = thread::spawn(move || {
            theirs.write(&WRITER, 2);
            theirs.leave_writing(&WRITER);
        });
        fifo.leave_reading(&READER);
        writer.join().unwrap();
        assert_eq!(rest(&fifo), [1, 2]);
    });
}

#[test]
fn bytes_without_a_reader_are_flushed_and_a_later_reader_goes_on() {
    check(2, || {
        let fifo = Fifo::with(1, 1, true);
        fifo.write(&WRITER, 1);
        fifo.let_time_pass();
        let theirs = fifo.clone();
        let writer = thread::spawn(move || theirs.write(&WRITER, 2));
        let mut got = Vec::new();
        (0..2).for_each(|_| assert!(fifo.read(&READER, &mut got)));
        writer.join().unwrap();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn two_readers_get_each_byte_once_during_a_flush() {
    check(1, || {
        let fifo = Fifo::with(2, 1, true);
        fifo.write(&WRITER, 1);
        fifo.let_time_pass();
        let theirs = fifo.clone();
        let writer = thread::spawn(move || theirs.write(&WRITER, 2));
        let theirs = fifo.clone();
        let other = thread::spawn(move || {
            let mut got = Vec::new();
            let _ = theirs.try_read(&OTHER, &mut got);
            got
        });
        let mut got = Vec::new();
        let _ = fifo.try_read(&READER, &mut got);
        got.extend(other.join().unwrap());
        writer.join().unwrap();
        read_all(&fifo, &READER, &mut got);
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn polling_process_finds_all_that_is_written_in_the_fifo() {
    check(3, || {
        let fifo = Fifo::with(1, 1, false);
        fifo.write(&WRITER, 1);
        let theirs = fifo.clone();
        let writer = thread::spawn(move || theirs.write(&WRITER, 2));
        fifo.keep_to_kernel(&READER);
        writer.join().unwrap();
        assert_eq!(rest(&fifo), [1, 2]);
    });
}

#[test]
fn polling_process_finds_in_an_empty_fifo_what_is_written_later() {
    check(3, || {
        let fifo = Fifo::with(1, 1, false);
        let theirs = fifo.clone();
        let writer = thread::spawn(move || theirs.write(&WRITER, 1));
        fifo.keep_to_kernel(&READER);
        writer.join().unwrap();
        assert_eq!(rest(&fifo), [1]);
    });
}

#[test]
fn flush_of_killed_process_delivers_each_byte_once() {
    check(2, || {
        let fifo = Fifo::with(1, 1, true);
        fifo.write(&WRITER, 1);
        let theirs = fifo.clone();
        let dying = thread::spawn(move || {
            theirs.die_giving_back(&OTHER);
            theirs.write(&WRITER, 2);
        });
        let mut got = Vec::new();
        (0..2).for_each(|_| assert!(fifo.read(&READER, &mut got)));
        dying.join().unwrap();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn reader_asleep_at_the_fifo_wakes_when_the_stream_goes_to_the_ring() {
    check(3, || {
        let fifo = Fifo::with(1, 2, false);
        // No reader is active: the first byte goes to the FIFO.
        fifo.let_time_pass();
        let theirs = fifo.clone();
        let writer = thread::spawn(move || (1..=2).for_each(|byte| theirs.write(&WRITER, byte)));
        let mut got = Vec::new();
        (0..2).for_each(|_| assert!(fifo.read(&READER, &mut got)));
        writer.join().unwrap();
        assert_eq!(got, [1, 2]);
    });
}

#[test]
fn foreign_bytes_keep_their_place_beside_a_write_monitor() {
    check(3, || {
        let fifo = Fifo::with(1, 1, true);
        fifo.look_out();
        let theirs = fifo.clone();
        let writers = thread::spawn(move || {
            theirs.write(&WRITER, 1);
            theirs.kernel.write(&[11]);
            theirs.write(&WRITER, 2);
        });
        let mut got = Vec::new();
        for _ in 0..3 {
            assert!(fifo.read(&READER, &mut got));
            fifo.look_out();
        }
        writers.join().unwrap();
        assert_eq!(got, [1, 11, 2]);
    });
}

#[test]
fn writer_that_knows_of_a_foreign_write_comes_after_it_while_the_monitor_restarts() {
    check(2, || {
        let fifo = Fifo::with(1, 1, true);
        fifo.look_out();
        fifo.write(&WRITER, 1);
        let told = Arc::new(AtomicU32::new(0));
        let (theirs, tells) = (fifo.clone(), told.clone());
        let stranger = thread::spawn(move || {
            theirs.kernel.write(&[11]);
            tells.store(1, Ordering::Release);
        });
        let theirs = fifo.clone();
        let writer = thread::spawn(move || {
            let was_told = told.load(Ordering::Acquire) == 1;
            theirs.write(&WRITER, 2);
            was_told
        });
        let mut got = Vec::new();
        let _ = fifo.try_read(&READER, &mut got);
        fifo.look_out();
        stranger.join().unwrap();
        let was_told = writer.join().unwrap();
        fifo.look_out();
        read_all(&fifo, &READER, &mut got);
        let place = |byte| got.iter().position(|&other| other == byte).unwrap();
        assert!(got.len() == 3 && place(1) < place(2), "{got:?}");
        assert!(!was_told || place(11) < place(2), "{got:?}");
    });
}

#[test]
fn restarting_monitor_does_not_miss_a_write_in_between() {
    check(3, || {
        let fifo = Fifo::with(1, 1, true);
        fifo.look_out();
        fifo.write(&WRITER, 1);
        fifo.kernel.write(&[11]);
        let theirs = fifo.clone();
        let writer = thread::spawn(move || {
            // A plain reader is faster than ours, and so the FIFO is empty again.
            let taken = theirs.kernel.read(1).unwrap_or_default();
            theirs.kernel.write(&[12]);
            theirs.write(&WRITER, 2);
            taken
        });
        fifo.look_out();
        let taken = writer.join().unwrap();
        assert_eq!(taken, [11]);
        let mut got = Vec::new();
        read_all(&fifo, &READER, &mut got);
        assert_eq!(got, [1, 12, 2]);
    });
}

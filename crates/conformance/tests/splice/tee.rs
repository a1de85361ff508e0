//! Copies of what waits.

use std::io::Write;

use millstream_conformance::pattern::{bytes, check};
use millstream_conformance::task::{start, start_and_wait_until_asleep};
use millstream_conformance::{alone, ours, pattern};

use crate::places::{ROUTES, Route, TOTAL, fill, pipe, start_reading, start_writing};

alone! {
    fn what_is_teed_arrives_and_still_waits() {
        for (first, second) in ROUTES.into_iter().flat_map(|first| ROUTES.map(|second| (first, second))) {
            let ((reader, writer, _given), (last, between, _too)) = (pipe(first), pipe(second));
            (&writer).write_all(&bytes(0..30_000)).unwrap();
            assert_eq!(reader.tee(&between, 0).unwrap(), 0);
            assert_eq!(reader.tee(&between, 10_000).unwrap(), 10_000, "{first:?} {second:?}");
            assert_eq!(reader.bytes_readable().unwrap(), 30_000);
            assert_eq!((reader.statistics().bytes, between.statistics().bytes_spliced), (0, 10_000));
            let last = ours::Reader(last);
            check(0, &pattern::read_exact(&last, 10_000));
            assert_eq!(reader.tee(&between, usize::MAX).unwrap(), 30_000, "{first:?} {second:?}");
            check(0, &pattern::read_exact(&last, 30_000));
            drop(writer);
            let reader = ours::Reader(reader);
            check(0, &pattern::read_exact(&reader, 30_000));
            assert_eq!(reader.0.tee(&between, usize::MAX).unwrap(), 0, "the end");
        }
    }

    fn a_tee_sleeps_until_there_is_something_or_room() {
        for (first, second) in ROUTES.into_iter().flat_map(|first| ROUTES.map(|second| (first, second))) {
            let ((reader, writer, _given), (last, between, _too)) = (pipe(first), pipe(second));
            let task = start_and_wait_until_asleep(move || (reader.tee(&between, 100).unwrap(), reader, between));
            (&writer).write_all(b"grain").unwrap();
            let (count, reader, between) = task.join();
            assert_eq!(count, 5, "{first:?} {second:?}");
            assert_eq!(pattern::read_exact(&ours::Reader(last.try_clone().unwrap()), 5), b"grain");
            fill(&between);
            let task = start_and_wait_until_asleep(move || (reader.tee(&between, 100).unwrap(), reader, between));
            let drained = last.bytes_readable().unwrap();
            assert_eq!(pattern::read_exact(&ours::Reader(last.try_clone().unwrap()), drained).len(), drained);
            assert_eq!(task.join().0, 5, "{first:?} {second:?}");
            assert_eq!(pattern::read_exact(&ours::Reader(last), 5), b"grain");
        }
    }

    fn a_stream_is_teed_and_copied_on_as_the_program_tee_does() {
        for (first, second) in ROUTES.into_iter().flat_map(|first| ROUTES.map(|second| (first, second))) {
            let ((reader, writer, _given), (last, between, _too)) = (pipe(first), pipe(second));
            let (other, to_other, _three) = pipe(first);
            let writing = start(move || drop(start_writing(writer, TOTAL).join()));
            let (one, two) = (start_reading(last), start_reading(other));
            loop {
                let count = reader.tee(&between, 50_000).unwrap();
                if count == 0 {
                    break;
                }
                assert_eq!(reader.copy_to_pipe(&to_other, count as u64).unwrap(), count as u64);
            }
            drop((between, to_other));
            assert_eq!((one.join(), two.join()), (TOTAL, TOTAL), "{first:?} {second:?}");
            writing.join();
        }
    }

    fn relays_in_circle_and_resizers_do_not_deadlock() {
        let ((first_reader, first_writer, _), (second_reader, second_writer, _)) = (pipe(Route::Ring), pipe(Route::Ring));
        (&first_writer).write_all(&[7; 30_000]).unwrap();
        let resizers = [first_writer.try_clone().unwrap(), second_writer.try_clone().unwrap()];
        let tasks = resizers.map(|writer| {
            start(move || {
                for round in 0..3000 {
                    // Refused while more waits.
                    let _ = writer.set_capacity(4096 << (round % 5));
                }
            })
        });
        let there = start(move || first_reader.copy_to_pipe(&second_writer, 50_000_000).unwrap());
        let back = start(move || second_reader.copy_to_pipe(&first_writer, 50_000_000).unwrap());
        for task in tasks {
            task.join();
        }
        assert!(there.join() > 30_000 && back.join() > 30_000);
    }
}

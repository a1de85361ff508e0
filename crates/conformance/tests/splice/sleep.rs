//! Sleep and signals.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use millstream_conformance::pattern::{bytes, check};
use millstream_conformance::process::{HANDLED, count_signals, interrupt};
use millstream_conformance::task::{start, start_and_wait_until_asleep, wait_until_these_sleep};
use millstream_conformance::{alone, error_of, ours, pattern};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::Signal;

use crate::places::{Clean, ROUTES, Route, drain, file, pipe, rest, unix};

alone! {
    fn sleeping_copier_does_not_block_other_calls() {
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let (full, _peer) = unix();
            let (quiet, _other_peer) = unix();
            let (copier, target) = (reader.try_clone().unwrap(), full.try_clone().unwrap());
            let feeding = writer.try_clone().unwrap();
            let feeder = start(move || while (&feeding).write_all(&[0; 9000]).is_ok() {});
            let to_full = start_and_wait_until_asleep(move || copier.copy_to(&target, u64::MAX));
            let (copier, source) = (writer.try_clone().unwrap(), quiet.try_clone().unwrap());
            // The feeder too.
            let from_quiet = start_and_wait_until_asleep(move || copier.copy_from(&source, u64::MAX));
            // What the feeder writes comes past the one, and what is read past the other.
            assert_eq!(pattern::read_exact(&ours::Reader(reader), 5_000_000).len(), 5_000_000, "{route:?}");
            assert!(!to_full.is_finished() && !from_quiet.is_finished() && !feeder.is_finished());
        }
    }

    fn a_signal_ends_a_sleep_with_what_was_moved_or_the_call_goes_on() {
        let _clean = Clean;
        for restart in [false, true] {
            count_signals(Signal::USR1, restart);
            for route in ROUTES {
                // Asleep because nothing comes, with and without something moved.
                for before in [0_u64, 5000] {
                    let (reader, writer, _given) = pipe(route);
                    (&writer).write_all(&bytes(0..before)).unwrap();
                    let target = file();
                    let task = start_and_wait_until_asleep(move || reader.copy_to(&target, 6000));
                    interrupt(task.id, Signal::USR1);
                    if restart {
                        std::thread::sleep(Duration::from_millis(20));
                        (&writer).write_all(&bytes(before..6000)).unwrap();
                    }
                    match (restart, before) {
                        (true, _) => assert_eq!(task.join().unwrap(), 6000, "{route:?}"),
                        (false, 0) => assert_eq!(error_of(task.join()), Errno::INTR, "{route:?}"),
                        (false, _) => assert_eq!(task.join().unwrap(), before, "{route:?}"),
                    }
                    let (quiet, mut peer) = unix();
                    peer.write_all(&bytes(0..before)).unwrap();
                    let (reader, writer, _given) = pipe(route);
                    let task = start_and_wait_until_asleep(move || writer.copy_from(&quiet, 6000));
                    interrupt(task.id, Signal::USR1);
                    if restart {
                        std::thread::sleep(Duration::from_millis(20));
                        peer.write_all(&bytes(before..6000)).unwrap();
                    }
                    match (restart, before) {
                        (true, _) => assert_eq!(task.join().unwrap(), 6000, "{route:?}"),
                        (false, 0) => assert_eq!(error_of(task.join()), Errno::INTR, "{route:?}"),
                        (false, _) => assert_eq!(task.join().unwrap(), before, "{route:?}"),
                    }
                    check(0, &rest(reader));
                }
                // Asleep because nothing is taken.
                let (reader, writer, _given) = pipe(route);
                let (full, peer) = unix();
                let writing = start(move || pattern::write_stream(&ours::Writer(writer), 0..3_000_000, 9000));
                let task = start(move || (reader.copy_to(&full, u64::MAX), full, reader));
                // Both, for a copier alone may sleep because the writer was not run for a while.
                wait_until_these_sleep(&[writing.id, task.id]);
                interrupt(task.id, Signal::USR1);
                if restart {
                    let arriving = drain(OwnedFd::from(peer).into());
                    let (moved, socket, _reader) = task.join();
                    assert_eq!(moved.unwrap(), 3_000_000, "{route:?}");
                    drop(socket);
                    assert_eq!(arriving.join(), 3_000_000);
                } else {
                    let (moved, socket, reader) = task.join();
                    let moved = moved.unwrap();
                    assert!((1..3_000_000).contains(&moved), "{route:?}");
                    drop(socket);
                    assert_eq!(drain(OwnedFd::from(peer).into()).join(), moved);
                    let left = rest(reader);
                    check(moved, &left);
                    assert_eq!(moved + left.len() as u64, 3_000_000);
                }
                writing.join();
            }
        }
    }

    fn the_last_reader_goes_while_a_quiet_source_is_waited_for() {
        count_signals(Signal::PIPE, true);
        for route in [Route::Ring, Route::Kernel] {
            let (reader, writer, _given) = pipe(route);
            let (quiet, _peer) = unix();
            let before = HANDLED.load(SeqCst);
            let task = start_and_wait_until_asleep(move || writer.copy_from(&quiet, u64::MAX));
            drop(reader);
            assert_eq!(error_of(task.join()), Errno::PIPE, "{route:?}");
            assert_eq!(HANDLED.load(SeqCst), before + 1);
        }
    }

    fn the_last_reader_goes_while_a_file_without_end_is_copied() {
        for route in [Route::Ring, Route::Kernel] {
            let (mut reader, writer, _given) = pipe(route);
            let task = start(move || {
                let zero = File::open("/dev/zero").unwrap();
                let moved = writer.copy_from(&zero, u64::MAX).unwrap();
                (moved, error_of(writer.copy_from(&zero, u64::MAX)))
            });
            reader.read_exact(&mut vec![1; 1_000_000]).unwrap();
            drop(reader);
            let (moved, error) = task.join();
            assert!(moved >= 1_000_000);
            assert_eq!(error, Errno::PIPE);
        }
    }
}

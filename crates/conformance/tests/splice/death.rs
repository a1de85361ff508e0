//! Ends that are killed.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use millstream_conformance::pattern::{Random, check};
use millstream_conformance::process::fork;
use millstream_conformance::seed::seed;
use millstream_conformance::task::start;
use millstream_conformance::{alone, error_of};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::places::{Clean, Route, file, pipe, rest, start_reading, start_writing};

alone! {
    fn a_writer_that_is_killed_has_ended_and_all_it_wrote_is_copied() {
        let _clean = Clean;
        let mut random = Random::from_seed(seed());
        for round in 0..60 {
            let (reader, writer, _none) = pipe(Route::Ring);
            let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
                drop(reader);
                let zero = File::open("/dev/zero").unwrap();
                match round % 2 {
                    0 => drop(writer.copy_from(&zero, u64::MAX)),
                    _ => loop {
                        (&writer).write_all(&[0; 7000]).unwrap();
                    },
                }
            });
            drop(writer);
            let target = file();
            let to = target.try_clone().unwrap();
            let task = start(move || reader.copy_to(&to, u64::MAX).unwrap());
            std::thread::sleep(Duration::from_micros(random.within(0..3000) as u64));
            child.kill();
            assert_eq!(task.join(), target.metadata().unwrap().len());
        }
    }

    fn a_reader_that_is_killed_ends_what_is_copied_from_a_file() {
        let mut random = Random::from_seed(seed());
        for _ in 0..60 {
            let (reader, writer, _none) = pipe(Route::Ring);
            let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
                drop(writer);
                let null = File::create("/dev/null").unwrap();
                let _ = reader.copy_to(&null, u64::MAX);
            });
            drop(reader);
            let task = start(move || {
                let zero = File::open("/dev/zero").unwrap();
                while writer.copy_from(&zero, u64::MAX).is_ok() {}
                error_of(writer.copy_from(&zero, 1))
            });
            std::thread::sleep(Duration::from_micros(random.within(0..3000) as u64));
            child.kill();
            assert_eq!(task.join(), Errno::PIPE);
        }
    }

    fn killed_copier_leaves_bytes_that_it_did_not_copy() {
        let _clean = Clean;
        // One call; see `PIECE` in `foreign.rs`.
        const PIECE: u64 = 128 << 10;
        let mut random = Random::from_seed(seed());
        for round in 0..90 {
            let route = [Route::Ring, Route::Ring, Route::Kernel][round % 3];
            let (reader, writer, _given) = pipe(route);
            let to_pipe = round % 2 == 1;
            let (last, between, _too) = pipe(route);
            let target = file();
            let (child, (reader, writer, last, between, target)) =
                fork((reader, writer, last, between, target), |(reader, writer, last, between, target)| {
                    drop((writer, last));
                    let _ = match to_pipe {
                        true => reader.copy_to_pipe(&between, u64::MAX),
                        false => reader.copy_to(&target, u64::MAX),
                    };
                });
            drop(between);
            let writing = start(move || drop(start_writing(writer, 5_000_000).join()));
            let arriving = start_reading(last);
            std::thread::sleep(Duration::from_micros(random.within(0..4000) as u64));
            child.signal(Signal::KILL);
            let _ = child.wait();
            let left = start(move || rest(reader));
            writing.join();
            let (left, copied) = (left.join(), arriving.join());
            let copied = if to_pipe { copied } else { target.metadata().unwrap().len() };
            let begin = 5_000_000 - left.len() as u64;
            check(begin, &left);
            // Between handing bytes over and consuming them is an instant.
            assert!(begin <= copied && copied - begin <= PIECE, "{copied} copied, the rest begins at {begin}");
        }
    }
}

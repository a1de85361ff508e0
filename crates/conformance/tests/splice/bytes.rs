//! Every byte, from everywhere to everywhere.

use std::fs::File;
use std::io::{Read, Seek, Write};

use millstream_conformance::pattern::{Random, bytes};
use millstream_conformance::seed::seed;
use millstream_conformance::task::start;
use millstream_conformance::{alone, ours, pattern};
use rustix::fd::AsFd;

use crate::places::{
    Clean, PLACES, Place, ROUTES, Route, TOTAL, copy_to_end, file, length, pipe, rest, source, start_reading,
    start_writing, target, unix,
};

alone! {
    fn every_byte_arrives_at_every_kind_of_target_by_every_route() {
        let _clean = Clean;
        let mut random = Random::from_seed(seed());
        for (place, route) in PLACES.into_iter().flat_map(|place| ROUTES.map(|route| (place, route))) {
            let (reader, writer, given) = pipe(route);
            let (to, arrived) = target(place);
            let task = start_writing(writer, TOTAL);
            let first = reader.copy_to(&to, 100_000).unwrap();
            assert_eq!(first, 100_000, "{place:?} {route:?}");
            let closing = start(move || drop(task.join()));
            assert_eq!(first + copy_to_end(&reader, to.as_fd(), &mut random), TOTAL, "{place:?} {route:?}");
            closing.join();
            assert_eq!(reader.statistics().bytes_spliced, TOTAL);
            assert_eq!(reader.statistics().bytes_through_kernel, if route == Route::Ring { 0 } else { TOTAL });
            drop((to, given));
            assert_eq!(arrived(), TOTAL, "{place:?} {route:?}");
        }
    }

    fn every_byte_arrives_from_every_kind_of_source_by_every_route() {
        let _clean = Clean;
        let mut random = Random::from_seed(seed());
        for (place, route) in PLACES.into_iter().flat_map(|place| ROUTES.map(|route| (place, route))) {
            let (reader, writer, given) = pipe(route);
            let (from, task) = source(place);
            let reading = start_reading(reader);
            let mut total = 0;
            while total < TOTAL {
                let wanted = length(&mut random).min(TOTAL - total);
                let count = writer.copy_from(&from, wanted).unwrap();
                assert_eq!(count, wanted, "{place:?} {route:?}");
                total += count;
            }
            if let Some(task) = task {
                task.join();
            }
            if !matches!(place, Place::Terminal | Place::TerminalMaster) {
                assert_eq!(writer.copy_from(&from, u64::MAX).unwrap(), 0, "{place:?} {route:?}");
            }
            assert_eq!(writer.statistics().bytes_spliced, TOTAL);
            drop((writer, given));
            assert_eq!(reading.join(), TOTAL, "{place:?} {route:?}");
        }
    }

    fn every_byte_arrives_from_pipe_to_pipe_by_every_route() {
        let mut random = Random::from_seed(seed());
        for (first, second) in ROUTES.into_iter().flat_map(|first| ROUTES.map(|second| (first, second))) {
            let ((reader, writer, _given), (last, between, _too)) = (pipe(first), pipe(second));
            let writing = start_writing(writer, TOTAL);
            let closing = start(move || drop(writing.join()));
            let reading = start_reading(last);
            let mut total = 0;
            loop {
                match reader.copy_to_pipe(&between, length(&mut random)).unwrap() {
                    0 => break,
                    count => total += count,
                }
            }
            closing.join();
            assert_eq!(total, TOTAL, "{first:?} {second:?}");
            assert_eq!((reader.statistics().bytes_spliced, between.statistics().bytes_spliced), (TOTAL, TOTAL));
            drop(between);
            assert_eq!(reading.join(), TOTAL, "{first:?} {second:?}");
        }
    }

    fn until_the_end_is_until_the_end() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let (last, between, _too) = pipe(route);
            let writing = start(move || drop(start_writing(writer, TOTAL).join()));
            let relaying = start(move || reader.copy_to_pipe(&between, u64::MAX).unwrap());
            let mut target = file();
            assert_eq!(last.copy_to(&target, u64::MAX).unwrap(), TOTAL, "{route:?}");
            assert_eq!(last.copy_to(&target, u64::MAX).unwrap(), 0);
            assert_eq!(relaying.join(), TOTAL);
            writing.join();
            target.rewind().unwrap();
            let (reader, writer, _given) = pipe(route);
            let reading = start_reading(reader);
            assert_eq!(writer.copy_from(&target, u64::MAX).unwrap(), TOTAL);
            drop(writer);
            assert_eq!(reading.join(), TOTAL);
        }
    }

    fn what_is_devoured_is_counted_and_nothing_is_nothing() {
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let null = File::options().read(true).write(true).open("/dev/null").unwrap();
            assert_eq!((reader.copy_to(&null, 0).unwrap(), writer.copy_from(&null, 0).unwrap()), (0, 0));
            assert_eq!(writer.copy_from(&null, 10).unwrap(), 0, "it ends where it begins");
            let zero = File::open("/dev/zero").unwrap();
            assert_eq!(writer.copy_from(&zero, 5000).unwrap(), 5000);
            assert_eq!(reader.copy_to(&null, 4000).unwrap(), 4000);
            assert_eq!(pattern::read_exact(&ours::Reader(reader), 1000), [0; 1000]);
        }
    }

    fn several_copy_and_read_at_once_and_each_byte_goes_to_one() {
        let _clean = Clean;
        let (reader, writer, _none) = pipe(Route::Ring);
        let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        let (one, other) = (reader.try_clone().unwrap(), reader.try_clone().unwrap());
        let (mut socket, peer) = unix();
        let to_file = start(move || {
            let mut target = file();
            assert!(one.copy_to(&target, u64::MAX).is_ok());
            target.rewind().unwrap();
            let mut all = Vec::new();
            target.read_to_end(&mut all).unwrap();
            all
        });
        let to_socket = start(move || other.copy_to(&peer, u64::MAX).unwrap());
        let from_socket = start(move || {
            let mut all = Vec::new();
            socket.read_to_end(&mut all).unwrap();
            all
        });
        let reading = start(move || rest(reader));
        let copied = writer.try_clone().unwrap();
        let copying = start(move || {
            let mut source = File::from(rustix::fs::memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
            source.write_all(&bytes(0..TOTAL)).unwrap();
            source.rewind().unwrap();
            assert_eq!(copied.copy_from(&source, u64::MAX).unwrap(), TOTAL);
        });
        drop(start_writing(writer, TOTAL).join());
        copying.join();
        let all = [to_file.join(), from_socket.join(), reading.join()];
        let moved = to_socket.join();
        assert_eq!(moved, all[1].len() as u64);
        assert_eq!(all.iter().map(|part| part.len() as u64).sum::<u64>(), 2 * TOTAL);
        assert_eq!(all.iter().map(|part| sum(part)).sum::<u64>(), 2 * sum(&bytes(0..TOTAL)));
    }
}

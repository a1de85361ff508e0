//! What the other side does not take stays in the pipe.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::atomic::Ordering::SeqCst;

use millstream_conformance::pattern::{bytes, check};
use millstream_conformance::process::{HANDLED, count_signals, private_directories};
use millstream_conformance::task::start;
use millstream_conformance::{alone, error_of, ours};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::places::{
    Clean, ROUTES, TOTAL, copy_until_full, drain, fifo, file, fill, path, pipe, rest, start_writing, tcp, terminal,
    unix,
};

alone! {
    fn a_full_device_takes_nothing_and_nothing_is_lost() {
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let full = File::options().write(true).open("/dev/full").unwrap();
            assert_eq!(start_writing(writer, 20_000).join().copy_from(&full, 0).map_err(|e| e.raw_os_error()), Err(Some(9)));
            assert_eq!(error_of(reader.copy_to(&full, u64::MAX)), Errno::NOSPC, "{route:?}");
            let left = rest(reader);
            check(0, &left);
            assert_eq!(left.len(), 20_000);
        }
    }

    fn a_disk_that_becomes_full_keeps_what_it_took_and_the_pipe_the_rest() {
        const ROOM: usize = 40 << 10;
        private_directories(ROOM);
        for (route, append) in ROUTES.into_iter().flat_map(|route| [(route, false), (route, true)]) {
            let (reader, writer, _given) = pipe(route);
            let path = std::env::temp_dir().join(format!("{route:?}"));
            let target = File::options().create(true).append(append).write(true).open(&path).unwrap();
            ours::Writer(writer).0.write_all(&bytes(0..60_000)).unwrap();
            let count = reader.copy_to(&target, u64::MAX).unwrap();
            let taken = std::fs::read(&path).unwrap();
            assert_eq!(count, taken.len() as u64, "{route:?} {append}");
            assert!((1..60_000).contains(&count));
            assert_eq!(error_of(reader.copy_to(&target, u64::MAX)), Errno::NOSPC);
            check(0, &taken);
            let left = rest(reader);
            check(count, &left);
            assert_eq!(count + left.len() as u64, 60_000);
            drop(target);
            std::fs::remove_file(&path).unwrap();
        }
    }

    fn a_file_at_its_limit_keeps_what_it_took_and_the_pipe_the_rest() {
        let _clean = Clean;
        count_signals(Signal::XFSZ, true);
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            drop(start_writing(writer, 50_000).join());
            let (target, before) = (file(), getrlimit(Resource::Fsize));
            setrlimit(Resource::Fsize, Rlimit { current: Some(30_000), ..before }).unwrap();
            assert_eq!(reader.copy_to(&target, u64::MAX).unwrap(), 30_000, "{route:?}");
            assert_eq!(error_of(reader.copy_to(&target, u64::MAX)), Errno::FBIG);
            setrlimit(Resource::Fsize, before).unwrap();
            let left = rest(reader);
            check(30_000, &left);
            assert_eq!(left.len(), 20_000);
        }
    }

    fn a_target_without_a_reader_is_a_broken_pipe_and_one_signal() {
        let _clean = Clean;
        count_signals(Signal::PIPE, true);
        let alone_ends = || {
            let (to_pipe, to_socket) = (std::io::pipe().unwrap().1, unix().0);
            [OwnedFd::from(to_pipe), to_socket.into(), fifo().1]
        };
        for route in ROUTES {
            for to in alone_ends() {
                let (reader, writer, _given) = pipe(route);
                drop(start_writing(writer, 20_000).join());
                let before = HANDLED.load(SeqCst);
                assert_eq!(error_of(reader.copy_to(&to, u64::MAX)), Errno::PIPE, "{route:?} {to:?}");
                assert_eq!(HANDLED.load(SeqCst), before + 1, "{route:?} {to:?}");
                check(0, &rest(reader));
            }
            for second in ROUTES {
                let ((reader, writer, _given), (last, between, too)) = (pipe(route), pipe(second));
                drop((start_writing(writer, 20_000).join(), last, too));
                let before = HANDLED.load(SeqCst);
                assert_eq!(error_of(reader.copy_to_pipe(&between, u64::MAX)), Errno::PIPE, "{route:?} {second:?}");
                assert_eq!(error_of(reader.tee(&between, 1)), Errno::PIPE);
                assert_eq!(HANDLED.load(SeqCst), before + 2, "{route:?} {second:?}");
                let left = rest(reader);
                check(0, &left);
                assert_eq!(left.len(), 20_000);
            }
        }
    }

    fn a_full_target_that_does_not_block_takes_what_fits() {
        let _clean = Clean;
        for route in ROUTES {
            let sockets = unix();
            let (from_tcp, to_tcp) = tcp();
            let (slave, master) = terminal();
            let (from_pipe, to_pipe) = std::io::pipe().unwrap();
            let (from_fifo, to_fifo) = fifo();
            let targets: [(OwnedFd, OwnedFd); 5] = [
                (sockets.0.into(), sockets.1.into()),
                (to_tcp.into(), from_tcp.into()),
                (to_pipe.into(), from_pipe.into()),
                (to_fifo, from_fifo),
                (slave, master),
            ];
            for (to, from) in targets {
                const MANY: u64 = 20_000_000;
                millstream_sys::transfer::set_nonblocking(&to, true).unwrap();
                let (reader, writer, given) = pipe(route);
                let writing = start(move || drop(start_writing(writer, MANY).join()));
                let count = copy_until_full(&reader, &to);
                assert!((1..MANY).contains(&count), "{route:?} {to:?}");
                millstream_sys::transfer::set_nonblocking(&to, false).unwrap();
                let arriving = drain(from.into());
                let more = reader.copy_to(&to, 100_000).unwrap();
                assert_eq!(more, 100_000, "{route:?} {to:?}");
                drop(to);
                assert_eq!(arriving.join(), count + more);
                let (mut left, mut buffer, mut reader) = (0, vec![0; 1 << 16], reader);
                while let moved @ 1.. = reader.read(&mut buffer).unwrap() {
                    check(count + more + left, &buffer[..moved]);
                    left += moved as u64;
                }
                assert_eq!(count + more + left, MANY, "{route:?}");
                writing.join();
                drop(given);
            }
        }
    }

    fn an_end_that_does_not_block_moves_what_there_is() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            reader.set_nonblocking(true).unwrap();
            writer.set_nonblocking(true).unwrap();
            let mut both = file();
            assert_eq!(error_of(reader.copy_to(&both, 10)), Errno::AGAIN);
            both.write_all(&bytes(0..TOTAL)).unwrap();
            both.rewind().unwrap();
            let count = writer.copy_from(&both, u64::MAX).unwrap();
            assert!((4096..TOTAL).contains(&count), "{route:?}");
            assert_eq!(error_of(writer.copy_from(&both, u64::MAX)), Errno::AGAIN);
            assert_eq!(both.stream_position().unwrap(), count, "nothing was read that the pipe did not take");
            let target = File::create(path("target")).unwrap();
            assert_eq!(reader.copy_to(&target, u64::MAX).unwrap(), count);
            assert_eq!(error_of(reader.copy_to(&target, u64::MAX)), Errno::AGAIN);
            let (quiet, _peer) = unix();
            quiet.set_nonblocking(true).unwrap();
            assert_eq!(error_of(writer.copy_from(&quiet, 1)), Errno::AGAIN);
            for second in ROUTES {
                let (last, between, _too) = pipe(second);
                between.set_nonblocking(true).unwrap();
                assert_eq!(error_of(reader.copy_to_pipe(&between, 1)), Errno::AGAIN, "empty");
                assert_eq!(error_of(reader.tee(&between, 1)), Errno::AGAIN, "empty");
                fill(&between);
                between.set_nonblocking(true).unwrap();
                (&writer).write_all(b"x").unwrap();
                assert_eq!(error_of(reader.copy_to_pipe(&between, 1)), Errno::AGAIN, "full");
                assert_eq!(error_of(reader.tee(&between, 1)), Errno::AGAIN, "full");
                assert_eq!((&reader).read(&mut [0; 2]).unwrap(), 1);
                drop(last);
            }
        }
    }

    fn what_is_appended_comes_behind_what_was_there() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            std::fs::write(path("log"), b"before ").unwrap();
            let log = File::options().append(true).open(path("log")).unwrap();
            (&writer).write_all(b"between after").unwrap();
            assert_eq!(reader.copy_to(&log, 8).unwrap(), 8, "{route:?}");
            File::options().append(true).open(path("log")).unwrap().write_all(b"and ").unwrap();
            drop(writer);
            assert_eq!(reader.copy_to(&log, u64::MAX).unwrap(), 5);
            assert_eq!(std::fs::read(path("log")).unwrap(), b"before between and after", "{route:?}");
        }
    }

    fn a_file_that_changes_later_does_not_change_what_was_copied_from_it() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, _given) = pipe(route);
            let mut source = file();
            source.write_all(&bytes(0..20_000)).unwrap();
            source.rewind().unwrap();
            assert_eq!(writer.copy_from(&source, u64::MAX).unwrap(), 20_000);
            source.rewind().unwrap();
            source.write_all(&[0; 20_000]).unwrap();
            drop(writer);
            let copied = rest(reader);
            check(0, &copied);
            assert_eq!(copied.len(), 20_000, "{route:?}");
        }
    }

    fn copy_is_refused_with_wrong_access_or_own_other_end() {
        let _clean = Clean;
        for route in ROUTES {
            let (reader, writer, given) = pipe(route);
            let (for_reading, for_writing) = (File::open("/dev/null").unwrap(), File::create(path("new")).unwrap());
            (&writer).write_all(b"x").unwrap();
            assert_eq!(error_of(reader.copy_to(&for_reading, 1)), Errno::BADF);
            assert_eq!(error_of(writer.copy_from(&for_writing, 1)), Errno::BADF);
            assert_eq!(error_of(reader.copy_to_pipe(&writer, 1)), Errno::INVAL);
            assert_eq!(error_of(reader.tee(&writer, 1)), Errno::INVAL);
            if let Some(given) = &given {
                assert_eq!(error_of(writer.copy_from(given, 1)), Errno::INVAL, "its own other end");
            }
            assert_eq!(reader.bytes_readable().unwrap(), 1);
        }
    }
}

//! Idle mode: a reader that sleeps again and again for few bytes sleeps in the backing pipe, and the stream goes
//! through there meanwhile. These tests have what is special to it; the contract runs over it too (`contract.rs`,
//! `ours_quiet`).

use std::io::{IoSlice, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use millstream_conformance::alone;
use millstream_conformance::ours::{become_quiet, segments};
use millstream_conformance::pattern::Random;
use millstream_conformance::process::{Child, FORKED, end, fork, fork_at, signal_thread};
use millstream_conformance::seed::seed;
use millstream_conformance::task::{start, start_and_wait_until_asleep, wait_until_asleep, wait_until_state};
use millstream_pipe::live;
use millstream_pipe::{Builder, Reader, WaitPolicy, Writer, pipe};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

fn quiet_pipe() -> (Reader, Writer) {
    quiet_pipe_of(millstream_pipe::DEFAULT_CAPACITY)
}

fn quiet_pipe_of(capacity: usize) -> (Reader, Writer) {
    let (reader, writer) = Builder::new().capacity(capacity).create().unwrap();
    become_quiet(&reader, &writer).unwrap();
    (reader, writer)
}

/// A child that sleeps in the backing pipe of an idle pipe for a byte, and then goes on as `body` says.
fn sleeping_child(reader: Reader, writer: Writer, body: impl FnOnce(Reader)) -> (Child, Reader, Writer) {
    let (child, (reader, writer)) = fork((reader, writer), |(mut reader, writer)| {
        drop(writer);
        reader.read_exact(&mut [0]).unwrap();
        body(reader);
    });
    wait_until_asleep(child.id);
    (child, reader, writer)
}

fn fill(writer: &Writer) -> usize {
    writer.set_nonblocking(true).unwrap();
    let (mut filled, mut writer) = (0, writer);
    loop {
        match writer.write(&[7; 1000]) {
            Ok(count) => filled += count,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::AGAIN.raw_os_error()));
                return filled;
            }
        }
    }
}

fn counts_bytes_that_waiter_gets((mut reader, mut writer): (Reader, Writer)) {
    let before = (reader.statistics(), writer.statistics());
    let task = start_and_wait_until_asleep(move || {
        reader.read_exact(&mut [0]).unwrap();
        reader
    });
    writer.write_all(&[1]).unwrap();
    let after = (task.join().statistics(), writer.statistics());
    for (before, after) in [(before.0, after.0), (before.1, after.1)] {
        let more = |what: fn(&millstream_pipe::Statistics) -> u64| what(&after) - what(&before);
        assert_eq!((more(|of| of.bytes), more(|of| of.bytes_through_kernel), more(|of| of.transfers)), (1, 1, 1));
    }
    assert_eq!(after.0.sleeps - before.0.sleeps, 1);
    assert_eq!(after.1.wakes - before.1.wakes, 1);
}

/// All that puts bytes into a pipe: at most so many of 7. They return how many they put.
fn ways_to_put() -> [fn(&Writer, usize) -> usize; 6] {
    let from_a_pipe = |writer: &Writer, count: usize| {
        let (from, mut source) = pipe().unwrap();
        source.write_all(&vec![7; count]).unwrap();
        from.copy_to_pipe(writer, count as u64).unwrap() as usize
    };
    let tee_of_a_pipe = |writer: &Writer, count: usize| {
        let (from, mut source) = pipe().unwrap();
        source.write_all(&vec![7; count]).unwrap();
        from.tee(writer, count).unwrap()
    };
    let from_a_file = |writer: &Writer, count: usize| {
        let path = std::env::temp_dir().join(format!("millstream-quiet-{}", std::process::id()));
        std::fs::write(&path, vec![7; count]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        writer.copy_from(&file, count as u64).unwrap() as usize
    };
    let one_write = |mut writer: &Writer, count: usize| writer.write(&vec![7; count]).unwrap();
    let several_slices = |mut writer: &Writer, count: usize| {
        let bytes = vec![7; count];
        let (first, second) = bytes.split_at(1);
        writer.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]).unwrap()
    };
    let reserved = |writer: &Writer, count: usize| {
        let mut writer = writer.try_clone().unwrap();
        let mut room = writer.reserve(count).unwrap();
        let count = room.len();
        room.write_all(&vec![7; count]).unwrap();
        room.commit(count).unwrap();
        count
    };
    [from_a_pipe, tee_of_a_pipe, from_a_file, one_write, several_slices, reserved]
}

alone! {
    fn a_stream_takes_the_ring_again() {
        let (mut reader, mut writer) = quiet_pipe();
        let task = start_and_wait_until_asleep(move || {
            let mut bytes = vec![0; 8 << 20];
            reader.read_exact(&mut bytes).unwrap();
            (bytes, reader.statistics())
        });
        let sent: Vec<u8> = (0..8 << 20).map(|position: u32| (position % 251) as u8).collect();
        writer.write_all(&sent).unwrap();
        let (bytes, statistics) = task.join();
        assert!(bytes == sent);
        assert!(statistics.bytes_through_kernel < statistics.bytes / 2, "{statistics:?}");
    }

    fn what_a_reader_asleep_gets_has_gone_through_the_kernel_and_is_counted() {
        counts_bytes_that_waiter_gets(quiet_pipe());
    }

    fn a_reader_sleeps_in_the_place_of_one_that_dozes() {
        let (reader, writer) = Builder::new().wait(WaitPolicy::Block).create().unwrap();
        // The thread that read there has ended, and still counts as dozing.
        become_quiet(&reader, &writer).unwrap();
        counts_bytes_that_waiter_gets((reader, writer));
    }

    fn census_sees_waiter_of_idle_pipe() {
        let (mut reader, mut writer) = quiet_pipe();
        let task = start_and_wait_until_asleep(move || reader.read(&mut [0]).unwrap());
        let own = std::process::id();
        let seen = live::look().unwrap().pipes;
        let pipe = seen.iter().find(|pipe| pipe.holders.contains(&own)).unwrap();
        assert_eq!((pipe.readers_asleep, pipe.path), (1, live::Path::Kernel));
        writer.write_all(&[1]).unwrap();
        task.join();
    }

    fn stopped_waiter_does_not_shrink_pipe() {
        for capacity in [4096, 65_536, millstream_pipe::DEFAULT_CAPACITY] {
            let (reader, writer) = quiet_pipe_of(capacity);
            let (child, reader, writer) = sleeping_child(reader, writer, |mut reader| {
                let mut rest = Vec::new();
                reader.read_to_end(&mut rest).unwrap();
                assert!(rest.iter().all(|&byte| byte == 7), "{}", rest.len());
            });
            child.signal(Signal::STOP);
            wait_until_state(child.id, 'T');
            assert_eq!((reader.capacity().unwrap(), writer.capacity().unwrap()), (capacity, capacity));
            let filled = fill(&writer);
            // The kernel's pipe counts pages, of which writes of 1000 bytes fill four fifths to all.
            assert!(filled <= capacity && filled >= capacity * 3 / 4, "{filled} of {capacity}");
            assert_eq!(writer.bytes_readable().unwrap(), filled);
            child.signal(Signal::CONT);
            drop((reader, writer));
            child.succeed();
        }
    }

    fn killed_waiter_takes_no_bytes() {
        let (reader, writer) = quiet_pipe();
        let (child, mut reader, mut writer) = sleeping_child(reader, writer, drop);
        child.kill();
        writer.write_all(b"left").unwrap();
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"left");
        // A reader whose timeout ends without a byte finds that the waiter is dead. Then the ring carries a stream
        // again.
        let began = Instant::now();
        let task = start(move || {
            let mut bytes = vec![0; 32 << 20];
            reader.read_exact(&mut bytes).unwrap();
            reader.statistics()
        });
        while began.elapsed() < Duration::from_millis(1500) {
            thread::sleep(Duration::from_millis(10));
        }
        let before = writer.statistics();
        writer.write_all(&vec![7; 32 << 20]).unwrap();
        let through_kernel = writer.statistics().bytes_through_kernel - before.bytes_through_kernel;
        assert!(through_kernel < 16 << 20, "{through_kernel}");
        task.join();
    }

    fn stream_returns_to_ring_after_waiter_is_killed() {
        let (reader, writer) = quiet_pipe();
        let (child, mut reader, mut writer) = sleeping_child(reader, writer, drop);
        child.kill();
        // This reader never sleeps, so that no timeout ends.
        reader.set_nonblocking(true).unwrap();
        let on_ring = |writer: &Writer| writer.statistics().bytes - writer.statistics().bytes_through_kernel;
        let (before, began) = (on_ring(&writer), Instant::now());
        while on_ring(&writer) == before {
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", writer.statistics());
            writer.write_all(&[7; 1000]).unwrap();
            reader.read_exact(&mut [0; 1000]).unwrap();
        }
    }

    fn copy_to_appended_file_does_not_wait_for_killed_waiter() {
        let (reader, writer) = quiet_pipe();
        let (child, reader, mut writer) = sleeping_child(reader, writer, drop);
        child.kill();
        writer.write_all(b"grain").unwrap();
        let path = std::env::temp_dir().join(format!("millstream-quiet-{}", std::process::id()));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let copied = reader.copy_to(&file, 5);
        let content = std::fs::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!((copied.unwrap(), &*content.unwrap()), (5, &b"grain"[..]));
    }

    fn copy_to_appended_file_waits_for_stopped_waiter() {
        let (reader, writer) = quiet_pipe();
        let (child, reader, mut writer) = sleeping_child(reader, writer, drop);
        child.signal(Signal::STOP);
        wait_until_state(child.id, 'T');
        writer.write_all(b"!grain").unwrap();
        let path = std::env::temp_dir().join(format!("millstream-quiet-{}", std::process::id()));
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let copy = start(move || reader.copy_to(&file, 5).unwrap());
        thread::sleep(Duration::from_millis(50));
        assert!(!copy.is_finished());
        child.signal(Signal::CONT);
        assert_eq!(copy.join(), 5);
        let content = std::fs::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(content.unwrap(), b"grain");
        child.succeed();
    }

    fn what_one_that_dozes_may_take_is_not_copied_to_the_end_of_a_file_too() {
        // Here the two meet by chance; a model of the ring (`tests/models/quiet.rs`) has every order.
        const RECORDS: u32 = 40_000;
        let (reader, mut writer) = Builder::new().wait(WaitPolicy::Block).create().unwrap();
        become_quiet(&reader, &writer).unwrap();
        let path = std::env::temp_dir().join(format!("millstream-quiet-{}", std::process::id()));
        // Slow, where the file is on a disk: there is time to take what is being copied.
        let sync = OFlags::SYNC.bits().cast_signed();
        let file = std::fs::OpenOptions::new().create(true).append(true).custom_flags(sync).open(&path).unwrap();
        let (mut dozer, copier) = (reader.try_clone().unwrap(), reader);
        let dozer = start(move || {
            let (mut bytes, mut record) = (vec![], [0; 4]);
            while let 1.. = dozer.read(&mut record).unwrap() {
                bytes.extend(record);
            }
            bytes
        });
        // Not more than a slow disk writes in time; the other takes the rest.
        let copier = start(move || (0..4000).take_while(|_| copier.copy_to(&file, 4).unwrap() > 0).count());
        for record in 0..RECORDS {
            writer.write_all(&record.to_ne_bytes()).unwrap();
            // Both readers sleep. The first of some records wakes one, which then dozes while it takes the next.
            if record % 8 == 0 {
                thread::sleep(Duration::from_micros(100));
            }
        }
        drop(writer);
        let mut bytes = dozer.join();
        copier.join();
        bytes.extend(std::fs::read(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        let mut records: Vec<u32> =
            bytes.chunks(4).map(|record| u32::from_ne_bytes(record.try_into().unwrap())).collect();
        records.sort_unstable();
        assert!(records.iter().copied().eq(0..RECORDS), "{} records", records.len());
    }

    fn a_child_that_a_handler_forks_leaves_its_sleeping_parent_alone() {
        let (mut reader, mut writer) = quiet_pipe();
        fork_at(Signal::USR1);
        let own = std::process::id();
        let task = start_and_wait_until_asleep(move || loop {
            match reader.read(&mut [0]) {
                Ok(count) => return count,
                Err(_) if std::process::id() != own => end(0),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Interrupted),
            }
        });
        assert!(signal_thread(task.id, Signal::USR1));
        while FORKED.load(SeqCst) == 0 {
            thread::yield_now();
        }
        let child = Pid::from_raw(FORKED.load(SeqCst)).unwrap();
        wait_until_state(child, 'T');
        wait_until_asleep(task.id);
        kill_process(child, Signal::CONT).unwrap();
        let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
        writer.write_all(&[1]).unwrap();
        assert_eq!(task.join(), 1);
    }

    fn what_was_put_into_a_quiet_pipe_is_known_to_be_there() {
        for put in ways_to_put() {
            let (reader, writer) = quiet_pipe();
            let (child, mut reader, mut writer) = sleeping_child(reader, writer, drop);
            child.signal(Signal::STOP);
            wait_until_state(child.id, 'T');
            // As much as the backing pipe of an idle pipe holds; the stopped reader takes none of it.
            let mut done = 0;
            while done < 65_536 {
                done += put(&writer, 65_536 - done);
            }
            writer.write_all(&[8]).unwrap();
            child.signal(Signal::CONT);
            child.succeed();
            let mut rest = vec![0; 65_536];
            reader.read_exact(&mut rest).unwrap();
            assert!(rest[..65_535].iter().all(|&byte| byte == 7) && rest[65_535] == 8);
        }
    }

    fn whatever_fills_a_quiet_pipe_finds_all_of_its_capacity() {
        for put in ways_to_put() {
            let (reader, writer) = quiet_pipe();
            let (child, reader, writer) = sleeping_child(reader, writer, drop);
            child.signal(Signal::STOP);
            wait_until_state(child.id, 'T');
            let mut done = 0;
            while done < 3 << 16 {
                done += put(&writer, (3 << 16) - done);
            }
            assert_eq!(reader.bytes_readable().unwrap(), done);
            child.kill();
        }
    }

    fn poller_of_idle_pipe_sees_its_room() {
        let (reader, writer) = quiet_pipe_of(1 << 17);
        let (child, _reader, mut writer) = sleeping_child(reader, writer, drop);
        child.signal(Signal::STOP);
        wait_until_state(child.id, 'T');
        writer.write_all(&[7; 1 << 16]).unwrap();
        let is_writable = |writer: &Writer| {
            let mut polled = [PollFd::from_borrowed_fd(writer.readiness().unwrap(), PollFlags::OUT)];
            poll(&mut polled, Some(&rustix::time::Timespec::default())).unwrap() > 0
        };
        assert!(is_writable(&writer));
        writer.write_all(&[7; 1 << 16]).unwrap();
        assert!(!is_writable(&writer));
        assert_eq!(writer.set_capacity(1 << 18).unwrap(), 1 << 18);
        assert!(is_writable(&writer));
        child.kill();
    }

    fn a_pipe_that_was_one_page_when_quiet_says_that_there_is_room_when_it_has_grown() {
        for quiet_at in [4096, millstream_pipe::DEFAULT_CAPACITY] {
            let (mut reader, mut writer) = quiet_pipe_of(quiet_at);
            let task = start_and_wait_until_asleep(move || {
                reader.read_exact(&mut [0]).unwrap();
                reader
            });
            assert_eq!(writer.set_capacity(4096).unwrap(), 4096);
            writer.write_all(&[1]).unwrap();
            let mut reader = task.join();
            // More than goes to a dozing reader: through the ring.
            writer.write_all(&[1; 2000]).unwrap();
            reader.read_exact(&mut [0; 2000]).unwrap();
            assert_eq!(writer.set_capacity(65_536).unwrap(), 65_536);
            let ends = [(reader.readiness().unwrap(), PollFlags::IN), (writer.readiness().unwrap(), PollFlags::OUT)];
            (&writer).write_all(&[1]).unwrap();
            let mut polled = ends.map(|(end, flags)| PollFd::from_borrowed_fd(end, flags));
            poll(&mut polled, Some(&rustix::time::Timespec::default())).unwrap();
            assert_eq!([polled[0].revents(), polled[1].revents()], [PollFlags::IN, PollFlags::OUT]);
        }
    }

    fn a_pipe_whose_end_was_away_keeps_its_capacity_when_quiet() {
        let (reader, writer) = pipe().unwrap();
        let mut writer = Writer::attach(writer.into_fd().unwrap()).unwrap();
        become_quiet(&reader, &writer).unwrap();
        let clone = reader.try_clone().unwrap();
        let mut reader = reader;
        let task = start_and_wait_until_asleep(move || reader.read(&mut [0; 9]).unwrap());
        assert_eq!(clone.capacity().unwrap(), millstream_pipe::DEFAULT_CAPACITY);
        assert_eq!(writer.set_capacity(16_384).unwrap(), 16_384);
        writer.write_all(&[1]).unwrap();
        assert_eq!(task.join(), 1);
        let filled = fill(&writer);
        assert!(filled <= 16_384 && filled + 1000 > 16_384, "{filled}");
        assert_eq!(clone.capacity().unwrap(), 16_384);
    }

    fn concurrent_writers_all_get_epipe_when_readers_are_gone() {
        for _ in 0..300 {
            let (reader, writer) = quiet_pipe();
            drop(reader);
            let start = std::sync::Barrier::new(3);
            let kinds: Vec<_> = thread::scope(|scope| {
                let tasks = [(); 3].map(|()| {
                    let mut writer = writer.try_clone().unwrap();
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        writer.write(&[1; 2000]).map_err(|error| error.kind())
                    })
                });
                tasks.map(|task| task.join().unwrap()).into()
            });
            assert!(kinds.iter().all(|kind| *kind == Err(std::io::ErrorKind::BrokenPipe)), "{kinds:?}");
        }
    }

    fn end_of_stream_reaches_waiter() {
        let (mut reader, writer) = quiet_pipe();
        let task = start_and_wait_until_asleep(move || reader.read(&mut [0; 9]).unwrap());
        drop(writer);
        assert_eq!(task.join(), 0);
    }

    fn writer_gets_epipe_when_killed_waiter_was_last_reader() {
        let (reader, writer) = quiet_pipe();
        let (child, reader, mut writer) = sleeping_child(reader, writer, drop);
        drop(reader);
        child.kill();
        assert_eq!(writer.write(&[1]).unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }

    fn the_capacity_can_be_changed_while_the_reader_sleeps_and_stays_so() {
        for capacity in [4096, 16_384, 262_144] {
            let (mut reader, mut writer) = quiet_pipe();
            let clone = reader.try_clone().unwrap();
            let task = start_and_wait_until_asleep(move || reader.read(&mut [0; 9]).unwrap());
            assert_eq!(writer.set_capacity(capacity).unwrap(), capacity);
            assert_eq!((writer.capacity().unwrap(), clone.capacity().unwrap()), (capacity, capacity));
            writer.write_all(&[1]).unwrap();
            assert_eq!(task.join(), 1);
            // More than goes to a dozing reader, and no reader sleeps: through the ring, which has the requested size.
            writer.write_all(&[1; 2000]).unwrap();
            (&clone).read_exact(&mut [0; 2000]).unwrap();
            let filled = fill(&writer);
            assert!(filled <= capacity && filled + 1000 > capacity, "{filled} of {capacity}");
            assert_eq!(clone.capacity().unwrap(), capacity);
        }
    }

    fn capacity_below_bytes_for_stopped_waiter_is_refused() {
        let (reader, writer) = quiet_pipe();
        let (child, reader, mut writer) = sleeping_child(reader, writer, |mut reader| {
            assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 9999);
        });
        child.signal(Signal::STOP);
        wait_until_state(child.id, 'T');
        writer.write_all(&[7; 10_000]).unwrap();
        let refused = writer.set_capacity(8192).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::BUSY.raw_os_error()));
        assert_eq!(writer.set_capacity(65_536).unwrap(), 65_536);
        child.signal(Signal::CONT);
        drop((reader, writer));
        child.succeed();
    }

    fn poller_beside_waiter_sees_new_bytes() {
        let (mut reader, mut writer) = quiet_pipe();
        let watched = reader.try_clone().unwrap();
        let task = start_and_wait_until_asleep(move || {
            reader.read_exact(&mut [0; 1]).unwrap();
            reader
        });
        let is_readable = |limit| {
            let mut polled = [PollFd::from_borrowed_fd(watched.readiness().unwrap(), PollFlags::IN)];
            let limit = rustix::time::Timespec::try_from(Duration::from_millis(limit)).unwrap();
            poll(&mut polled, Some(&limit)).unwrap() > 0
        };
        assert!(!is_readable(0));
        writer.write_all(&[1]).unwrap();
        let mut reader = task.join();
        assert!(!is_readable(0));
        for _ in 0..100 {
            writer.write_all(&[2, 3]).unwrap();
            assert!(is_readable(10_000));
            reader.read_exact(&mut [0; 2]).unwrap();
            assert!(!is_readable(0));
        }
    }

    fn an_end_can_leave_and_come_back_while_the_reader_sleeps() {
        let (mut reader, writer) = quiet_pipe();
        let other = writer.try_clone().unwrap();
        let task = start_and_wait_until_asleep(move || {
            let mut bytes = [0; 6];
            reader.read_exact(&mut bytes).unwrap();
            (bytes, reader)
        });
        let given = writer.into_fd().unwrap();
        rustix::io::write(&given, b"abc").unwrap();
        let mut writer = Writer::attach(given).unwrap();
        writer.write_all(b"def").unwrap();
        let (bytes, mut reader) = task.join();
        assert_eq!(&bytes, b"abcdef");
        writer.write_all(b"g").unwrap();
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"g");
        drop(other);
    }

    fn an_idle_quiet_pipe_keeps_little_memory() {
        let (mut reader, mut writer) = pipe().unwrap();
        let bulk = thread::spawn(move || {
            writer.write_all(&vec![1; 1 << 20]).unwrap();
            writer
        });
        reader.read_exact(&mut vec![0; 1 << 20]).unwrap();
        let writer = bulk.join().unwrap();
        become_quiet(&reader, &writer).unwrap();
        let task = start_and_wait_until_asleep(move || reader.read(&mut [0]).unwrap());
        let pages: u64 = segments().iter().map(|file| file.metadata().unwrap().blocks() / 8).sum();
        // A page of header and at most two of the ring.
        assert!(pages <= 3, "{pages} pages");
        drop(writer);
        assert_eq!(task.join(), 0);
    }

    fn several_readers_and_writers_in_bursts_and_pauses_lose_nothing() {
        let mut random = Random::from_seed(seed());
        for round in 0..12 {
            let policy = [WaitPolicy::Adaptive, WaitPolicy::Block][round % 2];
            let (reader, writer) = Builder::new().capacity([4096, 65_536, 1 << 19][round % 3]).wait(policy).create().unwrap();
            become_quiet(&reader, &writer).unwrap();
            let mut sum = 0;
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let mut writer = writer.try_clone().unwrap();
                    let writes: Vec<(usize, u64)> = (0..400)
                        .map(|_| {
                            let size = [1, 20, 4096, 5000, 70_000][random.within(0..5)];
                            (1 + random.within(0..size), [0, 0, 0, 30, 200][random.within(0..5)])
                        })
                        .collect();
                    sum += writes.iter().map(|&(size, _)| size as u64).sum::<u64>();
                    thread::spawn(move || {
                        for (size, pause) in writes {
                            writer.write_all(&vec![1; size]).unwrap();
                            thread::sleep(Duration::from_micros(pause));
                        }
                    })
                })
                .collect();
            drop(writer);
            let readers: Vec<_> = (0..=round % 2)
                .map(|_| {
                    let mut reader = reader.try_clone().unwrap();
                    let size = [1, 100, 4096, 100_000][random.within(0..4)].max(if round % 2 == 0 { 50 } else { 1 });
                    thread::spawn(move || {
                        let (mut buffer, mut got) = (vec![0; size], 0);
                        loop {
                            match reader.read(&mut buffer).unwrap() {
                                0 => return got,
                                // A byte that only rings is 0.
                                count => got += buffer[..count].iter().map(|&byte| u64::from(byte)).sum::<u64>(),
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            let got: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
            assert_eq!(got, sum, "round {round}");
        }
    }
}

//! One writer and several readers that each see every byte, in threads and in processes. Among them are slow, lossy,
//! killed and interrupted ones, and one that scribbles over everything it shares.
//!
//! What fails prints the seed; `MILLSTREAM_SEED=N` begins with the same again, `MILLSTREAM_KILLS=N` runs so many lives.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use millstream_conformance::ours::segments;
use millstream_conformance::pattern::{self, Random};
use millstream_conformance::process::{
    Child, count_signals, files_left, fork, interrupt, private_directories, repeat_alarm,
};
use millstream_conformance::seed::{number, seed};
use millstream_conformance::task::{start, start_and_wait_until_asleep, wait_until_asleep};
use millstream_conformance::{PIPE_BUF, alone, error_of};
use millstream_pipe::WaitPolicy;
use millstream_pipe::broadcast::{Builder, LostError, Reader, Writer};
use millstream_ring::BROADCAST_HEADER_BYTES;
use millstream_sys::shared::Shared;
use rustix::io::Errno;
use rustix::process::Signal;

const POLICIES: [WaitPolicy; 3] = [WaitPolicy::Adaptive, WaitPolicy::Block, WaitPolicy::Spin];

/// Writes the pattern from `position` on in writes of random sizes; returns how far it came without an error.
fn write_pattern(writer: &mut Writer, mut position: u64, end: u64, random: &mut Random, largest: usize) -> u64 {
    while position < end {
        let len = random.within(1..largest + 1).min((end - position) as usize) as u64;
        match writer.write(&pattern::bytes(position..position + len)) {
            Ok(count) => position += count as u64,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return position,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
    position
}

/// Reads to the end and checks every byte; returns where it ended.
fn read_pattern(reader: &mut Reader, mut position: u64, random: &mut Random, largest: usize) -> u64 {
    let mut buffer = vec![0; largest];
    loop {
        let len = random.within(1..largest + 1);
        match reader.read(&mut buffer[..len]) {
            Ok(0) => return position,
            Ok(count) => {
                pattern::check(position, &buffer[..count]);
                position += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn of(readers: usize, capacity: usize, policy: WaitPolicy) -> (Writer, Vec<Reader>) {
    Builder::new().readers(readers).capacity(capacity).wait(policy).create().unwrap()
}

/// A child that has one of the readers, and no other end.
fn child_with(
    index: usize,
    ends: (Writer, Vec<Option<Reader>>),
    body: impl FnOnce(Reader),
) -> (Child, (Writer, Vec<Option<Reader>>)) {
    let (child, (writer, mut readers)) = fork(ends, |(writer, mut readers)| {
        drop(writer);
        let own = readers[index].take().unwrap();
        drop(readers);
        body(own);
    });
    readers[index] = None;
    (child, (writer, readers))
}

/// The only broadcast of this process.
fn segment() -> std::fs::File {
    segments().pop().expect("the broadcast has a segment")
}

alone! {
    fn every_reader_in_threads_sees_every_byte() {
        let mut random = Random::from_seed(seed());
        println!("MILLSTREAM_SEED={}", seed());
        for readers in 1..=8 {
            for policy in POLICIES {
                let (capacity, end) = ([4096, 65_536][random.within(0..2)], 500_000);
                let (mut writer, ends) = of(readers, capacity, policy);
                let reading: Vec<_> = ends
                    .into_iter()
                    .enumerate()
                    .map(|(index, mut reader)| {
                        let (mut random, largest) = (Random::from_seed(seed() + index as u64), 1 << random.within(6..17));
                        start(move || read_pattern(&mut reader, 0, &mut random, largest))
                    })
                    .collect();
                let largest = 1 << random.within(6..18);
                assert_eq!(write_pattern(&mut writer, 0, end, &mut random, largest), end);
                drop(writer);
                reading.into_iter().for_each(|reader| assert_eq!(reader.join(), end));
            }
        }
    }

    fn every_reader_in_processes_sees_every_byte() {
        let mut random = Random::from_seed(seed());
        println!("MILLSTREAM_SEED={}", seed());
        for count in 1..=8 {
            let policy = POLICIES[random.within(0..2)];
            let (writer, readers) = of(count, [4096, 65_536][random.within(0..2)], policy);
            let (mut ends, mut children, end) = ((writer, readers.into_iter().map(Some).collect()), Vec::new(), 1_000_000);
            for index in 0..count {
                let mut random = Random::from_seed(seed() + index as u64);
                let (child, rest) = child_with(index, ends, move |mut reader| {
                    assert_eq!(read_pattern(&mut reader, 0, &mut random, 10_000), end);
                });
                children.push(child);
                ends = rest;
            }
            let (mut writer, _) = ends;
            assert_eq!(write_pattern(&mut writer, 0, end, &mut random, 30_000), end);
            drop(writer);
            children.into_iter().for_each(Child::succeed);
        }
    }

    fn slowest_reader_holds_up_writer() {
        let (mut writer, mut readers) = of(2, 4096, WaitPolicy::Adaptive);
        writer.set_nonblocking(true);
        writer.write_all(&pattern::bytes(0..4096)).unwrap();
        assert_eq!(error_of(writer.write(&[1])), Errno::AGAIN);
        assert_eq!(read_some(&mut readers[0], 4096), pattern::bytes(0..4096));
        assert_eq!(error_of(writer.write(&[1])), Errno::AGAIN, "the other has read nothing");
        assert_eq!(read_some(&mut readers[1], 100), pattern::bytes(0..100));
        // All or nothing up to PIPE_BUF, what there is room for above.
        assert_eq!(error_of(writer.write(&[1; 101])), Errno::AGAIN);
        assert_eq!(writer.write(&pattern::bytes(4096..4096 + PIPE_BUF as u64 + 1)).unwrap(), 100);
        assert_eq!(read_some(&mut readers[0], 4096), pattern::bytes(4096..4196));
        writer.set_nonblocking(false);
        let task = start_and_wait_until_asleep(move || writer.write_all(&[7; 4096]));
        let mut got = Vec::new();
        while got.len() < 4096 - 100 + 100 + 4096 {
            got.extend(read_some(&mut readers[1], 1000));
            while readers[0].bytes_readable() > 0 {
                read_some(&mut readers[0], 500);
            }
        }
        pattern::check(100, &got[..4096]);
        assert_eq!(got[4096..], [7; 4096]);
        task.join().unwrap();
    }

    fn sleeping_reader_wakes_for_each_byte_and_ends_with_writer() {
        let (mut writer, readers) = of(3, 4096, WaitPolicy::Block);
        let reading: Vec<_> = readers
            .into_iter()
            .map(|mut reader| start(move || (0..51).flat_map(|_| read_some(&mut reader, 1)).collect()))
            .collect();
        for byte in 0..50_u8 {
            reading.iter().for_each(|task| wait_until_asleep(task.id));
            writer.write_all(&[byte]).unwrap();
        }
        reading.iter().for_each(|task| wait_until_asleep(task.id));
        drop(writer);
        for task in reading {
            let got: Vec<u8> = task.join();
            assert_eq!(got, (0..50).collect::<Vec<u8>>());
        }
    }

    fn closed_reader_frees_its_place_also_for_writer_that_sleeps_for_it() {
        let (mut writer, mut readers) = of(2, 4096, WaitPolicy::Block);
        let slow = readers.pop().unwrap();
        let mut quick = readers.pop().unwrap();
        let writing = start_and_wait_until_asleep(move || {
            writer.write_all(&pattern::bytes(0..20_000)).unwrap();
            writer
        });
        let reading = start(move || read_pattern(&mut quick, 0, &mut Random::from_seed(1), 3000));
        wait_until_asleep(reading.id);
        wait_until_asleep(writing.id);
        drop(slow);
        let mut writer = writing.join();
        assert_eq!(writer.readers().unwrap(), 1);
        drop(writer);
        assert_eq!(reading.join(), 20_000);
    }

    fn writer_without_readers_gets_epipe() {
        let (mut writer, mut readers) = of(2, 4096, WaitPolicy::Adaptive);
        readers.pop();
        writer.write_all(&[1; 10]).unwrap();
        readers.pop();
        assert_eq!(error_of(writer.write(&[1])), Errno::PIPE);
        assert_eq!(writer.readers().unwrap(), 0);
        // One that comes later makes it useful again.
        let mut late = writer.add_reader().unwrap();
        writer.write_all(&[2; 10]).unwrap();
        assert_eq!(read_some(&mut late, 100), [2; 10]);
    }

    fn last_reader_that_is_killed_wakes_writer_with_epipe() {
        let (writer, readers) = of(1, 4096, WaitPolicy::Block);
        let ends = (writer, readers.into_iter().map(Some).collect());
        let (child, (mut writer, _)) = child_with(0, ends, |_reader| loop {
            std::thread::sleep(Duration::from_secs(60));
        });
        let task = start_and_wait_until_asleep(move || error_of(writer.write_all(&[0; 10_000])));
        child.kill();
        assert_eq!(task.join(), Errno::PIPE);
    }

    fn one_readers_death_sends_no_sigpipe() {
        let (writer, readers) = of(2, 4096, WaitPolicy::Block);
        let ends = (writer, readers.into_iter().map(Some).collect());
        let (victim, (writer, readers)) = child_with(0, ends, |mut reader| {
            let _ = reader.read(&mut [0; 10]);
            panic!("it sleeps until it is killed");
        });
        wait_until_asleep(victim.id);
        let (other, (writer, readers)) = child_with(1, (writer, readers), |mut reader| {
            assert_eq!(read_pattern(&mut reader, 0, &mut Random::from_seed(1), 1000), 40_000);
        });
        let (writing, ends) = fork((writer, readers, Some(victim)), |(mut writer, _readers, victim)| {
            millstream_conformance::process::restore_default(Signal::PIPE);
            // Asleep, so that the writer has to wake it, and dead before it does.
            let victim = victim.unwrap();
            victim.signal(Signal::KILL);
            std::thread::sleep(Duration::from_millis(20));
            std::mem::forget(victim);
            assert_eq!(write_pattern(&mut writer, 0, 40_000, &mut Random::from_seed(2), 1000), 40_000);
        });
        let (writer, readers, victim) = ends;
        drop((writer, readers));
        victim.unwrap().die_of(Signal::KILL);
        writing.succeed();
        other.succeed();
    }

    fn reader_that_joins_sees_what_is_written_from_then_on() {
        let (mut writer, mut readers) = of(1, 4096, WaitPolicy::Adaptive);
        writer.write_all(&pattern::bytes(0..1000)).unwrap();
        let mut late = writer.add_reader().unwrap();
        writer.write_all(&pattern::bytes(1000..2000)).unwrap();
        assert_eq!(writer.readers().unwrap(), 2);
        drop(writer);
        assert_eq!(read_pattern(&mut late, 1000, &mut Random::from_seed(1), 300), 2000);
        assert_eq!(read_pattern(&mut readers[0], 0, &mut Random::from_seed(1), 300), 2000);
    }

    fn places_are_used_again_and_are_64() {
        let (mut writer, mut readers) = of(64, 4096, WaitPolicy::Adaptive);
        let error = writer.add_reader().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
        assert!(error.to_string().contains("64 readers"), "{error}");
        for round in 0..10_u8 {
            readers.remove(usize::from(round));
            readers.push(writer.add_reader().unwrap());
            writer.write_all(&[round]).unwrap();
            readers.iter_mut().for_each(|reader| assert_eq!(read_some(reader, 10), [round]));
        }
        for readers in [0, 65] {
            let error = millstream_pipe::broadcast(readers).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&format!("{readers} readers")), "{error}");
        }
    }

    fn copy_of_writer_that_does_not_know_a_reader_refuses_to_write() {
        let (writer, readers) = of(1, 4096, WaitPolicy::Adaptive);
        let (go, mut gone) = std::io::pipe().unwrap();
        let (child, (mut writer, readers, _)) = fork((writer, readers, go), |(mut writer, _readers, mut go): (Writer, _, std::io::PipeReader)| {
            go.read_exact(&mut [0]).unwrap();
            assert_eq!(error_of(writer.write(&[1])), Errno::STALE);
            assert_eq!(error_of(writer.add_reader()), Errno::STALE);
        });
        let _late = writer.add_reader().unwrap();
        gone.write_all(&[1]).unwrap();
        child.succeed();
        writer.write_all(&[1]).unwrap();
        drop(readers);
    }

    fn lossy_reader_is_told_exactly_how_much_it_lost() {
        let mut random = Random::from_seed(seed());
        println!("MILLSTREAM_SEED={}", seed());
        let (mut writer, mut readers) =
            Builder::new().readers(2).capacity(4096).lossy(true).create().unwrap();
        assert!(writer.is_lossy() && readers[0].is_lossy());
        let (mut written, mut got, mut losses) = (0_u64, [0_u64; 2], [0; 2]);
        for _ in 0..3000 {
            let len = random.within(1..2049) as u64;
            writer.write_all(&pattern::bytes(written..written + len)).unwrap();
            written += len;
            for (index, reader) in readers.iter_mut().enumerate() {
                // The first keeps up.
                let turns = if index == 0 { 1000 } else { random.within(0..3) };
                let mut buffer = [0; 1500];
                for _ in 0..turns {
                    if reader.bytes_readable() == 0 {
                        break;
                    }
                    match reader.read(&mut buffer) {
                        Ok(count) => {
                            pattern::check(got[index], &buffer[..count]);
                            got[index] += count as u64;
                        }
                        Err(error) => {
                            got[index] += LostError::of(&error).expect("a loss").bytes;
                            losses[index] += 1;
                            assert_eq!(got[index], written, "where a write begins");
                        }
                    }
                }
            }
        }
        assert_eq!((losses[0], got[0]), (0, written), "this one keeps up");
        assert!(losses[1] > 10, "{}", losses[1]);
    }

    fn lossy_writer_and_readers_at_once_never_give_torn_bytes() {
        for round in 0..4 {
            let (mut writer, readers) = Builder::new().readers(3).capacity(8192).lossy(true).create().unwrap();
            let (end, largest) = (3_000_000_u64, 4096);
            let reading: Vec<_> = readers
                .into_iter()
                .map(|mut reader| {
                    start(move || {
                        let (mut position, mut lost, mut buffer) = (0, 0, vec![0; 8192]);
                        loop {
                            match reader.read(&mut buffer) {
                                Ok(0) => return (position, lost),
                                Ok(count) => {
                                    pattern::check(position, &buffer[..count]);
                                    position += count as u64;
                                }
                                Err(error) => {
                                    let bytes = LostError::of(&error).expect("a loss").bytes;
                                    (position, lost) = (position + bytes, lost + bytes);
                                }
                            }
                        }
                    })
                })
                .collect();
            let written = write_pattern(&mut writer, 0, end, &mut Random::from_seed(seed() + round), largest);
            drop(writer);
            for reader in reading {
                assert_eq!(reader.join().0, written, "what was read and what was lost is all there was");
            }
        }
    }

    fn readers_killed_at_any_moment_disturb_no_others() {
        private_directories(1 << 20);
        let lives = number("MILLSTREAM_KILLS").unwrap_or(400);
        println!("MILLSTREAM_SEED={}", seed());
        let begun = Instant::now();
        for life in 0..lives {
            let mut random = Random::from_seed(seed() + life);
            let policy = POLICIES[random.within(0..2)];
            let (count, victim) = (random.within(1..4), 0);
            let (writer, readers) = of(count + 1, 4096 << (4 * random.within(0..2)), policy);
            let (mut ends, mut others) = ((writer, readers.into_iter().map(Some).collect()), Vec::new());
            let (dying, rest) = child_with(victim, ends, |mut reader| {
                read_pattern(&mut reader, 0, &mut random, 3000);
                loop {
                    std::thread::sleep(Duration::from_secs(60));
                }
            });
            ends = rest;
            let end = 300_000;
            for index in 1..=count {
                let (child, rest) = child_with(index, ends, |mut reader| {
                    assert_eq!(read_pattern(&mut reader, 0, &mut random, 3000), end);
                });
                others.push(child);
                ends = rest;
            }
            let (mut writer, _) = ends;
            let mut own = random.clone();
            let writing = start(move || {
                assert_eq!(write_pattern(&mut writer, 0, end, &mut own, 9000), end);
                assert!(writer.readers().unwrap() >= 1, "the others are left");
            });
            std::thread::sleep(Duration::from_nanos(random.within(0..[3000, 100_000, 1_000_000][life as usize % 3]) as u64));
            dying.kill();
            writing.join();
            others.into_iter().for_each(Child::succeed);
        }
        assert_eq!(files_left(), Vec::<String>::new());
        println!("{lives} lives in {:?}", begun.elapsed());
    }

    fn readers_get_all_that_a_killed_writer_was_told_it_had_written() {
        let lives = number("MILLSTREAM_KILLS").unwrap_or(400);
        println!("MILLSTREAM_SEED={}", seed());
        for life in 0..lives {
            let mut random = Random::from_seed(seed() + life);
            let (policy, is_lossy) = (POLICIES[random.within(0..2)], random.within(0..4) == 0);
            let builder = Builder::new().readers(2).capacity(4096 << random.within(0..5)).wait(policy).lossy(is_lossy);
            let told = Shared::anonymous(4096).unwrap();
            let (dying, (writer, readers)) = fork(builder.create().unwrap(), |(mut writer, readers)| {
                drop(readers);
                let mut position = 0;
                loop {
                    let len = random.within(1..5000) as u64;
                    writer.write_all(&pattern::bytes(position..position + len)).unwrap();
                    position += len;
                    told.word(0).store(position, Relaxed);
                }
            });
            drop(writer);
            let reading: Vec<_> = readers
                .into_iter()
                .map(|mut reader| {
                    start(move || {
                        let (mut position, mut buffer) = (0, [0; 3000]);
                        loop {
                            match reader.read(&mut buffer) {
                                Ok(0) => return position,
                                Ok(count) => {
                                    pattern::check(position, &buffer[..count]);
                                    position += count as u64;
                                }
                                Err(error) => position += LostError::of(&error).unwrap_or_else(|| panic!("{error}")).bytes,
                            }
                        }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_nanos(random.within(0..[3000, 100_000, 2_000_000][life as usize % 3]) as u64));
            dying.kill();
            for reader in reading {
                let (got, told) = (reader.join(), told.word(0).load(Relaxed));
                assert!(got >= told && got <= told + 5000, "{got} of {told}");
            }
        }
    }

    fn signals_interrupt_as_in_a_pipe() {
        count_signals(Signal::USR1, false);
        let (mut writer, mut readers) = of(1, 4096, WaitPolicy::Block);
        let mut reader = readers.pop().unwrap();
        let task = start_and_wait_until_asleep(move || (error_of(reader.read(&mut [0])), reader));
        interrupt(task.id, Signal::USR1);
        let (error, mut reader) = task.join();
        assert_eq!(error, Errno::INTR);
        writer.write_all(&[0; 4096]).unwrap();
        let task = start_and_wait_until_asleep(move || (error_of(writer.write(&[0; 10])), writer));
        interrupt(task.id, Signal::USR1);
        let (error, mut writer) = task.join();
        assert_eq!(error, Errno::INTR);
        assert_eq!(read_some(&mut reader, 100).len(), 100);
        let task = start_and_wait_until_asleep(move || (writer.write(&[0; 5000]).unwrap(), writer));
        interrupt(task.id, Signal::USR1);
        let (count, writer) = task.join();
        assert_eq!(count, 100, "what was written before");
        count_signals(Signal::USR1, true);
        while reader.bytes_readable() > 0 {
            read_some(&mut reader, 4096);
        }
        let task = start_and_wait_until_asleep(move || reader.read(&mut [0]).unwrap());
        interrupt(task.id, Signal::USR1);
        wait_until_asleep(task.id);
        drop(writer);
        assert_eq!(task.join(), 0, "with SA_RESTART it sleeps on");
    }

    fn stream_survives_an_alarm_every_100_microseconds() {
        count_signals(Signal::ALARM, false);
        let (mut writer, readers) = of(3, 4096, WaitPolicy::Block);
        repeat_alarm(Duration::from_micros(100));
        let reading: Vec<_> = readers
            .into_iter()
            .map(|mut reader| start(move || read_pattern(&mut reader, 0, &mut Random::from_seed(3), 2000)))
            .collect();
        let end = write_pattern(&mut writer, 0, 2_000_000, &mut Random::from_seed(4), 20_000);
        drop(writer);
        let got: Vec<_> = reading.into_iter().map(|reader| reader.join()).collect();
        repeat_alarm(Duration::ZERO);
        assert_eq!(got, [end; 3]);
    }

    fn readiness_says_when_there_is_something_to_read() {
        let (mut writer, mut readers) = of(2, 4096, WaitPolicy::Adaptive);
        let mut reader = readers.pop().unwrap();
        reader.set_nonblocking(true);
        let is_ready = |reader: &Reader| {
            let polled = millstream_sys::transfer::readiness(reader.readiness().unwrap()).unwrap();
            polled.readable || polled.peer_gone
        };
        assert!(!is_ready(&reader));
        let mut quick = readers.pop().unwrap();
        for round in 0..200_u64 {
            writer.write_all(&pattern::bytes(round * 10..round * 10 + 10)).unwrap();
            assert!(is_ready(&reader), "round {round}");
            assert_eq!(read_some(&mut reader, 4), pattern::bytes(round * 10..round * 10 + 4));
            assert!(is_ready(&reader), "six bytes are left");
            assert_eq!(read_some(&mut reader, 10), pattern::bytes(round * 10 + 4..round * 10 + 10));
            assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN);
            assert!(!is_ready(&reader), "round {round}");
            read_some(&mut quick, 100);
        }
        // A writer that sleeps for this reader must not take its readiness away.
        let writing = start_and_wait_until_asleep(move || {
            writer.write_all(&[7; 6000]).unwrap();
            writer
        });
        let draining = start(move || read_pattern_of_sevens(&mut quick));
        let mut left = 6000;
        while left > 0 {
            // The writer says so just after its bytes can be read.
            let has_bytes = reader.bytes_readable() > 0;
            let asked_at = Instant::now();
            while has_bytes && !is_ready(&reader) {
                assert!(asked_at.elapsed() < Duration::from_secs(30), "{left} bytes are left");
                std::thread::yield_now();
            }
            match reader.read(&mut [0; 300]) {
                Ok(count) => left -= count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        drop(writing.join());
        assert!(is_ready(&reader), "the end of the stream");
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert_eq!(draining.join(), 6000);
    }

    fn reader_that_begins_to_be_watched_beside_bytes_is_ready() {
        let (mut writer, readers) = of(1, 4096, WaitPolicy::Adaptive);
        writer.write_all(&[1; 10]).unwrap();
        let ready = millstream_sys::transfer::readiness(readers[0].readiness().unwrap()).unwrap();
        assert!(ready.readable);
    }

    fn reader_travels_to_another_program_and_back() {
        const VARIABLE: &str = "MILLSTREAM_BROADCAST_READER";
        let name = "reader_travels_to_another_program_and_back";
        if std::env::var_os(VARIABLE).is_some() {
            let fd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
            let mut reader = Reader::attach(fd).unwrap();
            assert_eq!(read_pattern(&mut reader, 100, &mut Random::from_seed(9), 5000), 200_000);
            return;
        }
        let (mut writer, mut readers) = of(2, 65_536, WaitPolicy::Adaptive);
        writer.write_all(&pattern::bytes(0..1000)).unwrap();
        let mut reader = readers.pop().unwrap();
        assert_eq!(read_some(&mut reader, 100), pattern::bytes(0..100));
        // In this process, twice over.
        let reader = Reader::attach(reader.into_fd().unwrap()).unwrap();
        let reader = Reader::attach(reader.into_fd().unwrap()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(VARIABLE, "1")
            .stdin(Stdio::from(reader.into_fd().unwrap()))
            .spawn()
            .unwrap();
        let mut own = readers.pop().unwrap();
        let reading = start(move || read_pattern(&mut own, 0, &mut Random::from_seed(8), 5000));
        assert_eq!(write_pattern(&mut writer, 1000, 200_000, &mut Random::from_seed(7), 9000), 200_000);
        drop(writer);
        assert!(child.wait().unwrap().success());
        assert_eq!(reading.join(), 200_000);
    }

    fn what_is_no_reader_of_a_broadcast_is_refused() {
        let (reader, writer) = millstream_pipe::pipe().unwrap();
        for end in [reader.into_fd().unwrap(), std::io::pipe().unwrap().0.into()] {
            assert_eq!(error_of(Reader::attach(end)), Errno::INVAL);
        }
        assert_eq!(error_of(Reader::attach(writer.into_fd().unwrap())), Errno::BADF);
        assert_eq!(error_of(Reader::attach(std::fs::File::open("/dev/null").unwrap().into())), Errno::INVAL);
        let (_writer, mut readers) = of(1, 4096, WaitPolicy::Adaptive);
        let plain = readers.pop().unwrap().into_fd().unwrap();
        let error = millstream_pipe::Reader::attach(plain).unwrap_err();
        assert!(error.to_string().contains("broadcast"), "{error}");
    }

    fn listing_of_pipes_leaves_broadcasts_out() {
        let (mut writer, readers) = of(3, 4096, WaitPolicy::Adaptive);
        writer.write_all(&[1]).unwrap();
        let own = std::process::id();
        let census = millstream_pipe::live::look().unwrap();
        let is_own = |pipe: &&millstream_pipe::live::LivePipe| pipe.holders.contains(&own);
        assert_eq!(census.pipes.iter().filter(is_own).count(), 0);
        let unclear: Vec<_> = census.errors.iter().filter(|error| error.process == own).collect();
        assert!(unclear.is_empty(), "{unclear:?}");
        drop(readers);
    }

    fn hostile_reader_makes_no_process_touch_other_memory() {
        let rounds = number("MILLSTREAM_ROUNDS").unwrap_or(40);
        println!("MILLSTREAM_SEED={}", seed());
        for round in 0..rounds {
            let mut random = Random::from_seed(seed() + round);
            let is_lossy = random.within(0..3) == 0;
            let builder = Builder::new().readers(3).capacity(8192).lossy(is_lossy).wait(POLICIES[random.within(0..2)]);
            let (writer, readers) = builder.create().unwrap();
            let ends = (writer, readers.into_iter().map(Some).collect());
            let (hostile, (mut writer, readers)) = child_with(0, ends, |_reader| {
                let segment = segment();
                let few = [0, 1, 4095, 4096, 8192, 8193, 0x4000_0000, 0x8000_0000, 1 << 40, u64::MAX - 1, u64::MAX];
                loop {
                    let word = random.within(0..BROADCAST_HEADER_BYTES / 8) as u64 % 200 * 8;
                    let value = if random.within(0..2) == 0 {
                        few[random.within(0..few.len())]
                    } else {
                        random.within(0..1 << 40) as u64
                    };
                    let _ = segment.write_at(&value.to_le_bytes()[..4 << random.within(0..2)], word);
                }
            });
            let reading: Vec<_> = readers
                .into_iter()
                .flatten()
                .map(|mut reader| {
                    start(move || {
                        // The end, an error, or any bytes: what it gets is worth nothing.
                        loop {
                            match reader.read(&mut [0; 3000]) {
                                Ok(0) => break,
                                Err(error) if LostError::of(&error).is_none() => break,
                                Ok(_) | Err(_) => {}
                            }
                        }
                    })
                })
                .collect();
            let writing = start(move || {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(30) && matches!(writer.write(&[7; 2000]), Ok(1..)) {}
            });
            // While it lives it may keep the others waiting.
            std::thread::sleep(Duration::from_millis(20));
            hostile.kill();
            writing.join();
            reading.into_iter().for_each(|reader| reader.join());
        }
    }
}

fn read_some(reader: &mut Reader, largest: usize) -> Vec<u8> {
    let mut buffer = vec![0; largest];
    let count = reader.read(&mut buffer).unwrap();
    buffer.truncate(count);
    buffer
}

fn read_pattern_of_sevens(reader: &mut Reader) -> usize {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 7));
    bytes.len()
}

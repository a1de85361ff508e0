//! Whole buffers that are filled beside the ring and lent: what readers and others at the pipe see of it, where a buffer is not
//! the pipe's memory, and what is left when a process dies. That lending carries every stream, and may be cut short anywhere,
//! is in `random.rs`, `soak.rs` and `steps.rs`, for which it is one more way in.
#![allow(unsafe_code, reason = "a promise: the processes of these tests keep to the protocol")]

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use millstream_conformance::ours::segments;
use millstream_conformance::paths::{READ_PATHS, WRITE_PATHS};
use millstream_conformance::pattern::{self, Random};
use millstream_conformance::process::{Child, count_signals, end, fork, interrupt};
use millstream_conformance::ready::by_poll;
use millstream_conformance::seed::{number, seed};
use millstream_conformance::task::{start, start_and_wait_until_asleep, wait_until_asleep, wait_until_state};
use millstream_conformance::{PIPE_BUF, alone, error_of};
use millstream_pipe::{Buffer, Builder, Reader, WaitPolicy, Writer};
use millstream_ring::layout::{layout, offset};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

const MOMENT: Option<Duration> = Some(Duration::ZERO);

/// A pipe of four pages, whose processes trust each other.
fn trusting() -> (Reader, Writer) {
    with_trust(Builder::new().capacity(16_384))
}

fn with_trust(builder: Builder) -> (Reader, Writer) {
    // SAFETY: all ends stay with processes of these tests, which run this crate.
    unsafe { builder.trust_peers() }.create().unwrap()
}

fn filled(writer: &mut Writer, bytes: &[u8]) -> Buffer {
    let mut buffer = writer.buffer(bytes.len()).unwrap();
    buffer.copy_from_slice(bytes);
    buffer
}

/// Lends `bytes` and returns how many of them were not copied.
fn lend(writer: &mut Writer, bytes: &[u8]) -> u64 {
    let before = writer.statistics().bytes_lent;
    let mut buffer = filled(writer, bytes);
    assert_eq!(writer.lend(&mut buffer, bytes.len()).unwrap(), bytes.len());
    assert!(buffer.is_empty());
    writer.statistics().bytes_lent - before
}

fn read(reader: &Reader, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    (&*reader).read_exact(&mut bytes).unwrap();
    bytes
}

/// A child that has done `first` with its copy of `state`, and then only lives.
fn child_that<S>(state: S, first: impl FnOnce(&mut S)) -> (Child, S) {
    let (child, state) = fork(state, |mut state| {
        first(&mut state);
        kill_process(rustix::process::getpid(), Signal::STOP).unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    wait_until_state(child.id, 'T');
    child.signal(Signal::CONT);
    (child, state)
}

alone! {
    fn a_buffer_is_passed_on_whole_and_seen_where_it_is() {
        let (mut reader, mut writer) = trusting();
        for round in 0..10_u64 {
            let bytes = pattern::bytes(round * 10_000..(round + 1) * 10_000);
            assert_eq!(lend(&mut writer, &bytes), 10_000);
            assert_eq!((reader.bytes_readable().unwrap(), by_poll(reader.readiness().unwrap(), MOMENT).contains(rustix::event::PollFlags::IN)), (10_000, true));
            let borrowed = reader.borrow_up_to(10_000).unwrap();
            assert_eq!(borrowed.segments(), [&bytes[..], &[]], "in one piece");
            borrowed.consume(10_000);
        }
        assert_eq!((writer.statistics().bytes_in_place, reader.statistics().bytes_in_place), (100_000, 100_000));
        assert_eq!(writer.statistics().loans_refused, 0);
    }

    fn who_trusts_nobody_reads_what_is_lent_and_lends_a_copy() {
        let (reader, mut writer) = Builder::new().create().unwrap();
        assert!(!writer.buffer(100).unwrap().is_in_pipe());
        assert_eq!(lend(&mut writer, b"a copy"), 0);
        assert_eq!(read(&reader, 6), b"a copy");
        // SAFETY: as in `with_trust`.
        unsafe { writer.trust_peers() };
        assert_eq!(lend(&mut writer, b"no copy"), 7);
        assert_eq!(read(&reader, 7), b"no copy");
        assert_eq!(writer.statistics().loans_refused, 0);
    }

    fn whatever_else_goes_through_the_pipe_the_order_is_kept() {
        let mut random = Random::from_seed(seed());
        for _ in 0..30 {
            let (reader, mut writer) = with_trust(Builder::new().capacity([4096, 16_384, 65_536][random.within(0..3)]));
            let total = random.within(1..300_000) as u64;
            let mut dice = random.clone();
            let writing = start(move || {
                let (mut at, mut kept) = (0, None);
                while at < total {
                    let count = (dice.within(1..[10, 5000, 70_000][dice.clone().within(0..3)]) as u64).min(total - at);
                    let bytes = pattern::bytes(at..at + count);
                    at += count;
                    match dice.within(0..3) {
                        0 => drop(lend(&mut writer, &bytes)),
                        // One that is kept for a while, and never lent.
                        1 => {
                            kept = Some(writer.buffer(100).unwrap());
                            writer.write_all(&bytes).unwrap();
                        }
                        _ => {
                            let path = &WRITE_PATHS[dice.within(0..WRITE_PATHS.len())];
                            let mut done = 0;
                            while done < bytes.len() {
                                done += (path.write)(&writer, &bytes[done..]).unwrap();
                            }
                        }
                    }
                }
                drop(kept);
            });
            let (mut at, mut buffer) = (0, vec![0; 70_000]);
            while at < total {
                let path = &READ_PATHS[random.within(0..READ_PATHS.len())];
                let wanted = random.within(1..70_000).min((total - at) as usize);
                let count = (path.read)(&reader, &mut buffer[..wanted]).unwrap();
                pattern::check(at, &buffer[..count]);
                at += count as u64;
            }
            writing.join();
            assert_eq!((&reader).read(&mut buffer).unwrap(), 0);
        }
    }

    fn there_is_one_buffer_at_a_time_and_the_next_when_it_is_lent_or_dropped() {
        let (reader, mut writer) = trusting();
        let mut other = writer.try_clone().unwrap();
        let first = filled(&mut writer, b"first");
        let second = filled(&mut other, b"second");
        assert_eq!((first.is_in_pipe(), second.is_in_pipe(), other.statistics().loans_refused), (true, false, 1));
        drop(first);
        let mut third = filled(&mut other, b"third");
        assert!(third.is_in_pipe());
        assert_eq!(writer.lend(&mut third, 2).unwrap(), 2);
        assert!(filled(&mut writer, b"fourth").is_in_pipe());
        assert_eq!((read(&reader, 2), reader.bytes_readable().unwrap()), (b"th".to_vec(), 0));
        // What is too large for the ring.
        assert!(writer.buffer(16_384).unwrap().is_in_pipe() && !writer.buffer(16_385).unwrap().is_in_pipe());
    }

    fn it_is_copied_where_something_waits_and_nobody_takes_it() {
        for policy in [WaitPolicy::Adaptive, WaitPolicy::Spin, WaitPolicy::Block] {
            let (reader, mut writer) = with_trust(Builder::new().capacity(16_384).wait(policy));
            writer.write_all(b"before").unwrap();
            let mut buffer = filled(&mut writer, &[7; 10_000]);
            assert!(buffer.is_in_pipe());
            assert_eq!(writer.lend(&mut buffer, 10_000).unwrap(), 10_000);
            assert_eq!((writer.statistics().bytes_lent, reader.bytes_readable().unwrap()), (0, 10_006));
            assert_eq!((read(&reader, 6), read(&reader, 10_000)), (b"before".to_vec(), vec![7; 10_000]));
        }
    }

    fn an_end_that_does_not_block_writes_what_there_is_room_for_and_keeps_the_buffer() {
        let (reader, mut writer) = trusting();
        writer.set_nonblocking(true).unwrap();
        writer.write_all(&[1; 4096]).unwrap();
        let mut buffer = filled(&mut writer, &[2; 16_384]);
        assert_eq!(writer.lend(&mut buffer, 16_384).unwrap(), 12_288);
        assert_eq!((buffer.len(), buffer.is_in_pipe()), (16_384, true));
        assert_eq!(error_of(writer.lend(&mut buffer, 16_384)), Errno::AGAIN);
        assert_eq!(error_of(writer.lend(&mut buffer, PIPE_BUF)), Errno::AGAIN);
        assert!(!by_poll(writer.readiness().unwrap(), MOMENT).contains(rustix::event::PollFlags::OUT));
        read(&reader, 16_384);
        assert!(by_poll(writer.readiness().unwrap(), MOMENT).contains(rustix::event::PollFlags::OUT));
        assert_eq!(writer.lend(&mut buffer, 16_384).unwrap(), 16_384);
        assert_eq!(writer.statistics().bytes_lent, 16_384);
        assert!(!by_poll(writer.readiness().unwrap(), MOMENT).contains(rustix::event::PollFlags::OUT));
        assert_eq!(read(&reader, 16_384), [2; 16_384]);
    }

    fn a_signal_ends_it_with_what_was_copied_and_the_buffer_stays() {
        count_signals(Signal::USR1, false);
        let (reader, mut writer) = trusting();
        writer.write_all(&[1; 4096]).unwrap();
        let mut buffer = filled(&mut writer, &[2; 16_384]);
        // 12 KiB fit behind what waits, then nothing does.
        for expected in [Ok(12_288), Err(Errno::INTR)] {
            let task = start_and_wait_until_asleep(move || {
                let outcome = writer.lend(&mut buffer, 16_384).map_err(|error| Errno::from_io_error(&error).unwrap());
                (outcome, writer, buffer)
            });
            interrupt(task.id, Signal::USR1);
            let outcome;
            (outcome, writer, buffer) = task.join();
            assert_eq!((outcome, buffer.is_in_pipe()), (expected, true));
            assert_eq!(buffer[..], [2; 16_384]);
        }
        assert_eq!(read(&reader, 16_384), [[1; 4096], [2; 4096], [2; 4096], [2; 4096]].concat());
        assert_eq!(writer.lend(&mut buffer, 16_384).unwrap(), 16_384);
        assert_eq!((read(&reader, 16_384), writer.statistics().bytes_lent), (vec![2; 16_384], 16_384));
    }

    fn a_signal_that_asks_for_it_has_it_done_again() {
        count_signals(Signal::USR1, true);
        let (reader, mut writer) = trusting();
        writer.write_all(&[1; 16_384]).unwrap();
        let task = start_and_wait_until_asleep(move || (lend(&mut writer, &[2; 4096]), writer));
        interrupt(task.id, Signal::USR1);
        wait_until_asleep(task.id);
        assert!(!task.is_finished());
        assert_eq!(read(&reader, 16_384), [1; 16_384]);
        task.join();
        assert_eq!(read(&reader, 4096), [2; 4096]);
    }

    fn a_reader_that_sleeps_is_woken_and_a_writer_behind_what_was_lent_too() {
        for policy in [WaitPolicy::Adaptive, WaitPolicy::Block] {
            let (reader, mut writer) = with_trust(Builder::new().capacity(4096).wait(policy));
            let reading = start_and_wait_until_asleep(move || (read(&reader, 4), reader));
            assert_eq!(lend(&mut writer, b"wake"), 4);
            let (bytes, reader) = reading.join();
            assert_eq!(bytes, b"wake");
            assert_eq!(lend(&mut writer, &[1; 4096]), 4096);
            let writing = start_and_wait_until_asleep(move || (&writer).write(b"more").unwrap());
            assert_eq!(read(&reader, 4096), [1; 4096]);
            assert_eq!(writing.join(), 4);
            assert_eq!(read(&reader, 4), b"more");
            assert_eq!((&reader).read(&mut [0]).unwrap(), 0);
        }
    }

    fn the_end_of_the_stream_comes_behind_what_was_lent_and_no_reader_is_an_error() {
        let (reader, mut writer) = trusting();
        assert_eq!(lend(&mut writer, b"the last"), 8);
        let mut kept = filled(&mut writer, b"never written");
        drop(writer);
        assert_eq!((read(&reader, 8), (&reader).read(&mut [0]).unwrap()), (b"the last".to_vec(), 0));
        // It outlives both ends.
        drop(reader);
        kept.fill(9);
        assert!(kept.is_in_pipe() && kept.iter().all(|&byte| byte == 9));

        let (reader, mut writer) = trusting();
        let mut buffer = filled(&mut writer, b"for nobody");
        drop(reader);
        assert_eq!(error_of(writer.lend(&mut buffer, 10)), Errno::PIPE);
        assert_eq!(&buffer[..], b"for nobody");
    }

    fn the_capacity_stays_while_somebody_has_a_buffer() {
        let (reader, mut writer) = trusting();
        writer.write_all(b"x").unwrap();
        let buffer = writer.buffer(10).unwrap();
        assert_eq!(error_of(reader.set_capacity(65_536)), Errno::BUSY);
        assert_eq!(error_of(writer.set_capacity(4096)), Errno::BUSY);
        drop(buffer);
        assert_eq!(reader.set_capacity(65_536).unwrap(), 65_536);
        assert_eq!(read(&reader, 1), b"x");
        for capacity in [4096, 65_536, 8192] {
            assert_eq!(lend(&mut writer, &pattern::bytes(0..4000)), 4000);
            assert_eq!(writer.set_capacity(capacity).unwrap(), capacity);
            pattern::check(0, &read(&reader, 4000));
        }
    }

    fn an_end_is_given_away_with_what_was_lent_and_the_rest_goes_through_the_kernel() {
        let (reader, mut writer) = trusting();
        assert_eq!(lend(&mut writer, b"lent, "), 6);
        let mut buffer = filled(&mut writer, b"and copied");
        let mut reader = std::fs::File::from(reader.into_fd().unwrap());
        assert_eq!(writer.lend(&mut buffer, 10).unwrap(), 10);
        assert_eq!(writer.statistics().bytes_lent, 6);
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "lent, and copied");
    }

    fn a_buffer_of_another_pipe_is_copied() {
        let ((first, mut writer), (second, other)) = (trusting(), trusting());
        let mut buffer = filled(&mut writer, b"there");
        assert_eq!(other.lend(&mut buffer, 5).unwrap(), 5);
        assert_eq!((read(&second, 5), first.bytes_readable().unwrap()), (b"there".to_vec(), 0));
        assert!(writer.buffer(5).unwrap().is_in_pipe());
    }

    fn a_child_has_no_part_in_the_buffer_of_its_parent() {
        let (reader, mut writer) = trusting();
        let buffer = filled(&mut writer, b"the parent's");
        let (child, (writer, mut buffer)) = fork((writer, buffer), |(mut writer, mut buffer)| {
            assert_eq!(error_of(writer.lend(&mut buffer, 3)), Errno::PERM);
            drop(buffer);
            assert!(!writer.buffer(3).unwrap().is_in_pipe(), "the parent has it");
            end(0);
        });
        child.succeed();
        assert_eq!(writer.lend(&mut buffer, 12).unwrap(), 12);
        assert_eq!((writer.statistics().bytes_lent, read(&reader, 12)), (12, b"the parent's".to_vec()));
    }

    fn what_a_dead_one_has_lent_stays_and_what_it_had_not_is_free() {
        let (reader, writer) = trusting();
        let (child, mut writer) = child_that(writer, |writer| {
            assert_eq!(lend(writer, b"lent by the dead"), 16);
            std::mem::forget(filled(writer, b"never lent"));
        });
        assert!(!writer.buffer(10).unwrap().is_in_pipe());
        assert_eq!(error_of(writer.set_capacity(65_536)), Errno::BUSY);
        child.kill();
        assert!(writer.buffer(10).unwrap().is_in_pipe());
        assert_eq!(writer.set_capacity(65_536).unwrap(), 65_536);
        assert_eq!(read(&reader, 16), b"lent by the dead");
        assert_eq!(lend(&mut writer, b"lent by the living"), 18);
        assert_eq!(read(&reader, 18), b"lent by the living");
    }

    fn a_made_up_owner_who_lives_keeps_nobody_from_anything() {
        let (reader, mut writer) = trusting();
        writer.write_all(b"some bytes").unwrap();
        let segment = segments().pop().unwrap();
        for victim in [1, u64::from(rustix::process::getppid().unwrap().as_raw_nonzero().get().unsigned_abs())] {
            for bank in [0, 1 << 31] {
                assert_eq!(segment.write_at(&(victim | bank).to_le_bytes(), offset("state", "spare")).unwrap(), 8);
                assert_eq!(reader.set_capacity(4096 << (bank >> 31)).unwrap(), 4096 << (bank >> 31));
                assert_eq!(segment.write_at(&(victim | bank).to_le_bytes(), offset("state", "spare")).unwrap(), 8);
                assert!(writer.buffer(100).unwrap().is_in_pipe());
            }
        }
        assert_eq!(read(&reader, 10), b"some bytes");
    }

    fn whatever_is_scribbled_meanwhile_a_buffer_stays_where_it_is() {
        let mut random = Random::from_seed(seed());
        for round in 0..1000 {
            let (reader, mut writer) = trusting();
            reader.set_nonblocking(true).unwrap();
            writer.set_nonblocking(true).unwrap();
            lend(&mut writer, &pattern::bytes(0..random.within(1..16_384) as u64));
            let segment = segments().pop().unwrap();
            let length = segment.metadata().unwrap().len();
            let mut buffer = writer.buffer(random.within(1..16_384)).unwrap();
            assert!(buffer.is_in_pipe());
            // A lock is a wait by contract, up to its bound: `hostile.rs` has those.
            let is_lock = |name: &str| ["shared", "inside", "owner", "lock"].contains(&name);
            for word in layout().filter(|word| !is_lock(word.name)) {
                let noise = [random.within(0..1 << 20) as u64, 1 << random.within(0..63), u64::MAX, 0][random.within(0..4)];
                let len = [0, 2, 4, 8][random.within(0..4)];
                segment.write_at(&noise.to_le_bytes()[..len.min(word.bytes)], word.offset as u64).unwrap();
            }
            let (first, last) = (buffer.as_ptr().addr(), buffer.as_ptr().addr() + buffer.len() - 1);
            let mapped = mapping(first);
            assert!(mapped.contains(&last) && (mapped.end - mapped.start) as u64 == length, "round {round}");
            buffer.fill(1);
            // Whatever these say.
            let count = buffer.len();
            let _ = writer.lend(&mut buffer, count);
            let _ = (&reader).read(&mut [0; 20_000]);
            let _ = writer.buffer(100).map(|mut buffer| buffer.fill(2));
        }
    }

    fn a_stream_that_is_lent_survives_kills_at_any_moment() {
        let kills = number("MILLSTREAM_KILLS").unwrap_or(200);
        for seed in seed()..seed() + kills {
            println!("MILLSTREAM_SEED={seed}");
            writer_dies(seed);
        }
    }
}

/// The mapping around an address, as `/proc/self/maps` has it.
fn mapping(address: usize) -> std::ops::Range<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let ranges = maps.lines().filter_map(|line| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    });
    let mut ranges = ranges.filter(|range| range.contains(&address));
    ranges.next().expect("it is mapped")
}

/// Two writers, one of which is killed; what it has lent or written is whole records, and the other's are all there.
fn writer_dies(seed: u64) {
    const RECORD: usize = 1000;
    let mut random = Random::from_seed(seed);
    let (mut reader, writer) = with_trust(Builder::new().capacity([4096, 65_536][random.within(0..2)]));
    let stream = |writer: &mut Writer, who: u8, count: u64| {
        for number in 0..count {
            let mut record = vec![who; RECORD];
            record[1..9].copy_from_slice(&number.to_le_bytes());
            if number % 3 == 0 {
                assert_eq!(writer.write(&record).unwrap(), RECORD);
            } else {
                lend(writer, &record);
            }
        }
    };
    let reader_of_child = reader.try_clone().unwrap();
    let (victim, (mut own, reader_of_child)) = fork((writer, reader_of_child), |(mut writer, reader)| {
        drop(reader);
        stream(&mut writer, 1, u64::MAX);
    });
    drop(reader_of_child);
    let writing = start(move || {
        stream(&mut own, 2, 300);
        own
    });
    let most = [3000, 200_000, 2_000_000][random.within(0..3)];
    let moment = Duration::from_nanos(random.within(0..most) as u64);
    let striking = start(move || {
        let begin = Instant::now();
        while begin.elapsed() < moment {
            std::hint::spin_loop();
        }
        victim.signal(Signal::KILL);
        victim.wait();
    });
    let (mut rest, mut next, mut piece) = (Vec::new(), [0_u64; 3], vec![0; 3000]);
    let mut writing = Some((writing, striking));
    while writing.is_some() || reader.bytes_readable().unwrap() > 0 {
        if writing.as_ref().is_some_and(|(writing, striking)| writing.is_finished() && striking.is_finished()) {
            let (writing, striking) = writing.take().expect("it is there");
            striking.join();
            // Nobody but this one is left, and the bank beside the ring is to be had.
            let mut own = writing.join();
            assert!(own.buffer(4000).unwrap().is_in_pipe());
        }
        if reader.bytes_readable().unwrap() == 0 {
            std::thread::yield_now();
            continue;
        }
        let count = reader.read(&mut piece).unwrap();
        rest.extend_from_slice(&piece[..count]);
        let whole = rest.len() / RECORD * RECORD;
        for record in rest.drain(..whole).as_slice().chunks(RECORD) {
            let who = usize::from(record[0]);
            assert_eq!(record[1..9], next[who].to_le_bytes(), "records of {who}");
            assert!(record[9..].iter().all(|&byte| usize::from(byte) == who), "a record is mixed with another");
            next[who] += 1;
        }
    }
    assert!(rest.is_empty(), "half a record is left");
    assert_eq!(next[2], 300);
}

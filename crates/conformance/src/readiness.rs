//! Readiness: what `poll`, `select` and `epoll` say, and when they wake.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc)]

use std::time::Duration;

use crate::pattern::{self, Random, check, fill, read_exact, read_stream, write_all};
use crate::process::fork;
use crate::ready::{Epoll, Flags, Sigio, WAYS, Way, is_ready_within, now, sleep_until_ready};
use crate::task::{start, start_and_wait_until_asleep, wait_until_all_asleep, wait_until_asleep};
use crate::{BetweenProcesses, End, PIPE_BUF, Polled, ReadEnd, WriteEnd};

const NONE: Flags = Flags::empty();

pub fn a_reader_is_ready_while_bytes_wait<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    assert_eq!(now(&reader), NONE);
    write_all(&writer, &[0; 10_000]);
    assert_eq!(now(&reader), Flags::IN);
    drop(read_exact(&reader, 9_999));
    assert_eq!(now(&reader), Flags::IN);
    drop(read_exact(&reader, 1));
    assert_eq!(now(&reader), NONE);
    write_all(&writer, &[0]);
    assert_eq!(now(&reader), Flags::IN);
}

pub fn a_reader_that_is_first_asked_when_bytes_wait_is_ready<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &[0; 10]);
    assert_eq!(now(&reader), Flags::IN);
    drop(read_exact(&reader, 10));
    assert_eq!(now(&reader), NONE);
}

pub fn a_read_or_write_of_no_bytes_makes_nothing_ready<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    assert_eq!(writer.write(&[]).unwrap(), 0);
    assert_eq!(now(&reader), NONE);
    fill(&writer, 0);
    assert_eq!(reader.read(&mut []).unwrap(), 0);
    assert_eq!(now(&writer), NONE);
}

pub fn a_reader_hears_that_the_writers_are_gone<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let clone = writer.try_clone().unwrap();
    write_all(&writer, &[0; 100]);
    drop(writer);
    assert_eq!(now(&reader), Flags::IN);
    drop(clone);
    assert_eq!(now(&reader), Flags::IN | Flags::HUP);
    drop(read_exact(&reader, 50));
    assert_eq!(now(&reader), Flags::IN | Flags::HUP);
    drop(read_exact(&reader, 50));
    assert_eq!(now(&reader), Flags::HUP);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    assert_eq!(now(&reader), Flags::HUP);
}

pub fn a_reader_that_is_first_asked_at_the_end_hears_of_it<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    drop(writer);
    assert_eq!(now(&reader), Flags::HUP);
}

pub fn a_writer_is_ready_until_the_pipe_is_full<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    assert_eq!(now(&writer), Flags::OUT);
    let capacity = writer.capacity().unwrap();
    for level in (0..capacity).step_by(PIPE_BUF) {
        assert_eq!(now(&writer), Flags::OUT, "at {level} of {capacity}");
        write_all(&writer, &[0; PIPE_BUF]);
    }
    assert_eq!(now(&writer), NONE);
    assert_eq!(now(&reader), Flags::IN);
}

fn room_for_a_small_write<I: BetweenProcesses>(asked_before: bool) {
    let (reader, writer) = I::pipe().unwrap();
    if asked_before {
        assert_eq!(now(&writer), Flags::OUT);
    }
    fill(&writer, 0);
    if asked_before {
        assert_eq!(now(&writer), NONE);
    }
    drop(read_exact(&reader, PIPE_BUF - 1));
    assert_eq!(now(&writer), NONE, "one byte of room is missing");
    drop(read_exact(&reader, 1));
    assert_eq!(now(&writer), Flags::OUT);
    write_all(&writer, &[0; PIPE_BUF]);
    assert_eq!(now(&writer), NONE);
}

pub fn a_writer_is_ready_when_there_is_room_for_a_small_write<I: BetweenProcesses>() {
    room_for_a_small_write::<I>(true);
}

pub fn a_writer_that_is_first_asked_when_the_pipe_was_full_is_ready_in_time<I: BetweenProcesses>() {
    room_for_a_small_write::<I>(false);
}

pub fn a_writer_hears_that_the_readers_are_gone<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let clone = reader.try_clone().unwrap();
    drop(reader);
    assert_eq!(now(&writer), Flags::OUT);
    drop(clone);
    assert_eq!(now(&writer), Flags::OUT | Flags::ERR);
}

pub fn a_writer_of_a_full_pipe_hears_that_the_readers_are_gone<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    fill(&writer, 0);
    drop(reader);
    // There is no room, so no OUT: the bytes stay in the pipe although no reader will take them.
    assert_eq!(now(&writer), Flags::ERR);
}

pub fn clones_are_ready_like_the_original<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let (reader_clone, writer_clone) = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
    assert_eq!((now(&reader_clone), now(&writer_clone)), (NONE, Flags::OUT));
    fill(&writer, 0);
    assert_eq!((now(&reader), now(&writer)), (Flags::IN, NONE));
    assert_eq!((now(&reader_clone), now(&writer_clone)), (Flags::IN, NONE));
    drop(read_exact(&reader_clone, writer.capacity().unwrap()));
    assert_eq!((now(&reader), now(&writer)), (NONE, Flags::OUT));
}

pub fn growing_makes_a_full_pipe_ready_again<I: BetweenProcesses>() {
    let (_reader, writer) = I::pipe().unwrap();
    fill(&writer, 0);
    assert_eq!(now(&writer), NONE);
    writer.set_capacity(2 * writer.capacity().unwrap()).unwrap();
    assert_eq!(now(&writer), Flags::OUT);
}

pub fn each_change_is_told_by_a_signal<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let (for_reader, for_writer) = (Sigio::of(reader.readiness().unwrap()), Sigio::of(writer.readiness().unwrap()));
    // An event before the registration sends no signal, and each event sends one only.
    assert!(!for_reader.is_there());
    for _ in 0..5 {
        write_all(&writer, &[0; 10]);
        assert!(for_reader.is_there(), "of bytes");
        assert!(!for_reader.is_there());
    }
    drop(read_exact(&reader, 50));
    fill(&writer, 0);
    while for_writer.is_there() || for_reader.is_there() {}
    drop(read_exact(&reader, PIPE_BUF));
    assert!(for_writer.is_there(), "of room");
    assert_eq!(now(&writer), Flags::OUT);
    while for_writer.is_there() || for_reader.is_there() {}
    drop(for_writer);
    drop(writer);
    assert!(for_reader.is_there(), "of the end");
    assert_eq!(now(&reader), Flags::IN | Flags::HUP);
}

pub fn write_wakes_poller_of_reader<I: BetweenProcesses>() {
    for way in WAYS {
        let (reader, writer) = I::pipe().unwrap();
        let task = start_and_wait_until_asleep(move || {
            sleep_until_ready(&reader, way);
            reader
        });
        write_all(&writer, &[0]);
        assert_eq!(now(&task.join()), Flags::IN);
    }
}

pub fn end_of_stream_wakes_poller_of_reader<I: BetweenProcesses>() {
    for way in WAYS {
        let (reader, writer) = I::pipe().unwrap();
        let task = start_and_wait_until_asleep(move || {
            sleep_until_ready(&reader, way);
            reader
        });
        drop(writer);
        assert_eq!(now(&task.join()), Flags::HUP);
    }
}

pub fn read_that_makes_room_wakes_poller_of_writer<I: BetweenProcesses>() {
    for way in WAYS {
        let (reader, writer) = I::pipe().unwrap();
        fill(&writer, 0);
        let task = start_and_wait_until_asleep(move || {
            sleep_until_ready(&writer, way);
            writer
        });
        drop(read_exact(&reader, PIPE_BUF - 1));
        wait_until_asleep(task.id);
        assert!(!task.is_finished(), "{way:?}: one byte of room is missing");
        drop(read_exact(&reader, 1));
        assert_eq!(now(&task.join()), Flags::OUT);
    }
}

pub fn last_close_of_readers_wakes_poller_of_writer<I: BetweenProcesses>() {
    for way in WAYS {
        let (reader, writer) = I::pipe().unwrap();
        fill(&writer, 0);
        let task = start_and_wait_until_asleep(move || {
            sleep_until_ready(&writer, way);
            writer
        });
        drop(reader);
        assert_eq!(now(&task.join()), Flags::ERR);
    }
}

pub fn each_write_triggers_an_edge_triggered_reader_again<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let watcher = Epoll::of_edges(reader.readiness().unwrap());
    assert_eq!(watcher.now(), NONE);
    // Nothing is read in between: it is the write that counts, and not that the pipe was empty.
    for _ in 0..10 {
        write_all(&writer, &[0; 10]);
        assert_eq!(watcher.now(), Flags::IN);
        assert_eq!(watcher.now(), NONE, "an edge is told once");
    }
    drop(read_exact(&reader, 50));
    assert_eq!(watcher.now(), NONE, "a read is no news for the reader");
    write_all(&writer, &[0; 10]);
    assert_eq!(watcher.now(), Flags::IN);
    drop(writer);
    assert_eq!(watcher.now(), Flags::IN | Flags::HUP);
    assert_eq!(watcher.now(), NONE);
}

pub fn an_edge_triggered_reader_that_drains_each_time_gets_all<I: BetweenProcesses>() {
    const TOTAL: u64 = 2 << 20;
    let (reader, writer) = I::pipe().unwrap();
    let task = start(move || {
        let (mut at, mut random) = (0, Random(14));
        while at < TOTAL {
            let end = TOTAL.min(at + random.within(1..9000) as u64);
            write_all(&writer, &pattern::bytes(at..end));
            at = end;
        }
    });
    reader.set_nonblocking(true).unwrap();
    let watcher = Epoll::of_edges(reader.readiness().unwrap());
    let (mut at, mut buffer) = (0, [0; 5000]);
    'stream: loop {
        assert_ne!(watcher.wait(None), NONE);
        while let Ok(count) = reader.read(&mut buffer) {
            if count == 0 {
                break 'stream;
            }
            check(at, &buffer[..count]);
            at += count as u64;
        }
    }
    assert_eq!(at, TOTAL);
    task.join();
}

pub fn an_edge_triggered_writer_is_told_when_a_full_pipe_has_room_again<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let watcher = Epoll::of_edges(writer.readiness().unwrap());
    assert_eq!(watcher.now(), Flags::OUT);
    assert_eq!(watcher.now(), NONE);
    for _ in 0..10 {
        fill(&writer, 0);
        let _ = watcher.now();
        assert_eq!(watcher.now(), NONE);
        drop(read_exact(&reader, PIPE_BUF));
        assert_eq!(watcher.now(), Flags::OUT);
        assert_eq!(watcher.now(), NONE);
    }
    drop(reader);
    assert_eq!(watcher.now(), Flags::OUT | Flags::ERR);
}

pub fn an_edge_triggered_writer_that_fills_each_time_sends_all<I: BetweenProcesses>() {
    const TOTAL: u64 = 2 << 20;
    let (reader, writer) = I::pipe().unwrap();
    let task = start(move || read_stream(&reader, 0, 3000));
    writer.set_nonblocking(true).unwrap();
    let watcher = Epoll::of_edges(writer.readiness().unwrap());
    let mut at = 0;
    while at < TOTAL {
        assert_ne!(watcher.wait(None), NONE);
        while at < TOTAL {
            match writer.write(&pattern::bytes(at..TOTAL.min(at + 10_000))) {
                Ok(count) => at += count as u64,
                Err(_) => break,
            }
        }
    }
    drop(writer);
    assert_eq!(task.join(), TOTAL);
}

pub fn a_level_triggered_watcher_tells_it_until_the_pipe_is_drained<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let watcher = Epoll::of(reader.readiness().unwrap(), rustix::event::epoll::EventFlags::empty());
    write_all(&writer, &[0; 100]);
    for _ in 0..10 {
        assert_eq!(watcher.now(), Flags::IN);
        drop(read_exact(&reader, 10));
    }
    assert_eq!(watcher.now(), NONE);
}

/// The ways in which several can wait for one open file description: a signal goes to one owner alone.
const SHARED_WAYS: [Way; 4] = [Way::Poll, Way::Select, Way::EpollLevel, Way::EpollEdge];

pub fn a_poller_whose_time_is_over_leaves_the_others_to_be_woken<I: BetweenProcesses>() {
    for way in SHARED_WAYS {
        let (reader, writer) = I::pipe().unwrap();
        let limits = [Some(Duration::from_millis(50)), Some(Duration::from_secs(3600)), None];
        let [first, second, third] = limits.map(|limit| {
            let clone = reader.try_clone().unwrap();
            start(move || is_ready_within(clone.readiness().unwrap(), way, limit))
        });
        assert!(!first.join(), "{way:?}");
        wait_until_asleep(second.id);
        wait_until_asleep(third.id);
        assert!(!second.is_finished() && !third.is_finished(), "{way:?}");
        write_all(&writer, &[0]);
        assert!(second.join() && third.join(), "{way:?}");
    }
}

pub fn a_write_wakes_every_poller<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let ends = (0..20).map(|index| (reader.try_clone().unwrap(), SHARED_WAYS[index % SHARED_WAYS.len()]));
    let body = |(reader, way)| start(move || is_ready_within(I::Reader::readiness(&reader).unwrap(), way, None));
    let tasks: Vec<_> = ends.map(body).collect();
    wait_until_all_asleep(&tasks);
    write_all(&writer, &[0]);
    assert!(tasks.into_iter().all(|task| task.join()));
}

pub fn poller_does_not_keep_byte_from_reader<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    let clone = reader.try_clone().unwrap();
    let polling = start_and_wait_until_asleep(move || crate::ready::by_poll(clone.readiness().unwrap(), None));
    let reading = start_and_wait_until_asleep(move || (read_exact(&reader, 1), reader));
    write_all(&writer, &[5]);
    let (byte, reader) = reading.join();
    assert_eq!(byte, [5]);
    // It may have woken, found nothing any more and gone on sleeping; the next byte is left for it to see.
    write_all(&writer, &[6]);
    assert_eq!(polling.join(), Flags::IN);
    assert_eq!(read_exact(&reader, 1), [6]);
}

pub fn a_ready_writer_is_never_refused_a_small_write<I: BetweenProcesses>() {
    const TOTAL: u64 = 6 << 20;
    let (reader, writer) = I::pipe().unwrap();
    let task = start(move || {
        let (mut at, mut random) = (0, Random(15));
        while at < TOTAL {
            let size = random.within(1..6000).min((TOTAL - at) as usize);
            check(at, &read_exact(&reader, size));
            at += size as u64;
        }
    });
    writer.set_nonblocking(true).unwrap();
    for at in (0..TOTAL).step_by(PIPE_BUF) {
        sleep_until_ready(&writer, WAYS[(at >> 20) as usize]);
        assert_eq!(writer.write(&pattern::bytes(at..at + PIPE_BUF as u64)).unwrap(), PIPE_BUF);
    }
    task.join();
}

pub fn a_ready_reader_is_never_refused_a_read<I: BetweenProcesses>() {
    const TOTAL: u64 = 6 << 20;
    let (reader, writer) = I::pipe().unwrap();
    let task = start(move || {
        let (mut at, mut random) = (0, Random(16));
        while at < TOTAL {
            let end = TOTAL.min(at + random.within(1..6000) as u64);
            write_all(&writer, &pattern::bytes(at..end));
            at = end;
        }
    });
    reader.set_nonblocking(true).unwrap();
    let (mut at, mut buffer) = (0, [0; 5000]);
    loop {
        sleep_until_ready(&reader, WAYS[(at >> 20) as usize % WAYS.len()]);
        let count = reader.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        check(at, &buffer[..count]);
        at += count as u64;
    }
    assert_eq!(at, TOTAL);
    task.join();
}

pub fn write_wakes_poller_of_reader_in_another_process<I: BetweenProcesses>() {
    for way in WAYS {
        let (reader, writer) = I::pipe().unwrap();
        let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
            drop(writer);
            sleep_until_ready(&reader, way);
            assert_eq!(read_exact(&reader, 1), [3]);
            sleep_until_ready(&reader, way);
            assert_eq!(now(&reader), Flags::HUP);
        });
        drop(reader);
        wait_until_asleep(child.id);
        write_all(&writer, &[3]);
        wait_until_asleep(child.id);
        drop(writer);
        child.succeed();
    }
}

pub fn read_wakes_poller_of_writer_in_another_process<I: BetweenProcesses>() {
    for way in WAYS {
        let (reader, writer) = I::pipe().unwrap();
        fill(&writer, 0);
        let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
            drop(reader);
            sleep_until_ready(&writer, way);
            assert_eq!(now(&writer), Flags::OUT);
            write_all(&writer, &[3; PIPE_BUF]);
            sleep_until_ready(&writer, way);
            assert_eq!(now(&writer), Flags::ERR);
        });
        drop(writer);
        wait_until_asleep(child.id);
        drop(read_exact(&reader, PIPE_BUF));
        wait_until_asleep(child.id);
        drop(reader);
        child.succeed();
    }
}

pub fn writer_death_wakes_poller_of_reader<I: BetweenProcesses>() {
    for way in WAYS {
        let (child, (reader, writer)) = fork(I::pipe().unwrap(), |ends| {
            let _keep = ends;
            std::thread::sleep(Duration::from_secs(3600));
        });
        drop(writer);
        let task = start_and_wait_until_asleep(move || {
            sleep_until_ready(&reader, way);
            reader
        });
        child.kill();
        assert_eq!(now(&task.join()), Flags::HUP, "{way:?}");
    }
}

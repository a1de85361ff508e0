//! Room that is reserved and bytes that are peeked at. The tests show what other processes at the pipe see of them,
//! what is left when their owner dies, and what a hostile process can do. `contract.rs` runs the contract over pipes
//! that are used in place.
#![allow(unsafe_code, reason = "a promise: the processes of these tests keep to the protocol")]

use std::io::{BufRead, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use millstream_conformance::ours::segments;
use millstream_conformance::pattern::{self, Random};
use millstream_conformance::process::{Child, count_signals, end, end_this_thread, fork, interrupt};
use millstream_conformance::seed::{number, seed};
use millstream_conformance::task::{start, start_and_wait_until_asleep, wait_until_asleep};
use millstream_conformance::{PIPE_BUF, alone, error_of};
use millstream_pipe::{Builder, PipeError, Reader, Reservation, WaitPolicy, Writer};
use millstream_ring::layout::{layout, offset};
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

/// A pipe of four pages, whose processes trust each other.
fn trusting() -> (Reader, Writer) {
    with_trust(Builder::new().capacity(16_384))
}

fn with_trust(builder: Builder) -> (Reader, Writer) {
    // SAFETY: all ends stay with processes of these tests, which run this crate.
    unsafe { builder.trust_peers() }.create().unwrap()
}

fn fill(room: &mut Reservation<'_>, bytes: &[u8]) {
    assert_eq!(room.write(bytes).unwrap(), bytes.len());
}

/// Reserves, fills and commits all of `bytes`, in one piece.
fn put(writer: &mut Writer, bytes: &[u8]) {
    let mut room = writer.reserve(bytes.len()).unwrap();
    fill(&mut room, bytes);
    assert_eq!(room.commit(bytes.len()).unwrap(), bytes.len());
}

/// Borrows and consumes all that waits.
fn take(reader: &mut Reader) -> Vec<u8> {
    let borrowed = reader.borrow_up_to(usize::MAX >> 1).unwrap();
    let bytes = borrowed.segments().concat();
    borrowed.consume(bytes.len());
    bytes
}

fn set_nonblocking(reader: &Reader, writer: &Writer) {
    reader.set_nonblocking(true).unwrap();
    writer.set_nonblocking(true).unwrap();
}

/// A child that has done `first` and then only lives.
fn child_that<S>(state: S, first: impl FnOnce(&mut S)) -> (Child, S) {
    let (child, state) = fork(state, |mut state| {
        first(&mut state);
        kill_process(rustix::process::getpid(), Signal::STOP).unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    millstream_conformance::task::wait_until_state(child.id, 'T');
    child.signal(Signal::CONT);
    (child, state)
}

alone! {
    fn nothing_is_copied_where_all_are_trusted() {
        let (mut reader, mut writer) = trusting();
        for _ in 0..100 {
            put(&mut writer, &[7; 3000]);
            assert_eq!(take(&mut reader), [7; 3000]);
        }
        assert_eq!((writer.statistics().bytes_in_place, reader.statistics().bytes_in_place), (300_000, 300_000));
        assert_eq!(writer.statistics().bytes, 300_000);
        let (mut reader, mut writer) = millstream_pipe::pipe().unwrap();
        put(&mut writer, b"copied");
        assert_eq!(take(&mut reader), b"copied");
        assert_eq!((writer.statistics().bytes_in_place, reader.statistics().bytes_in_place), (0, 0));
    }

    fn room_and_bytes_lie_in_two_pieces_around_the_end_of_the_ring() {
        let (mut reader, mut writer) = trusting();
        put(&mut writer, &[1; 10_000]);
        take(&mut reader);
        let mut room = writer.reserve(10_000).unwrap();
        assert_eq!(room.segments_mut().map(|segment| segment.len()), [6384, 3616]);
        fill(&mut room, &pattern::bytes(0..5000));
        fill(&mut room, &pattern::bytes(5000..10_000));
        assert_eq!(room.write(b"more").unwrap(), 0, "it is full");
        room.commit(10_000).unwrap();
        let borrowed = reader.borrow_up_to(20_000).unwrap();
        assert_eq!(borrowed.segments().map(<[u8]>::len), [6384, 3616]);
        assert!(borrowed.segments().concat() == pattern::bytes(0..10_000));
        borrowed.consume(1);
        assert_eq!(reader.bytes_readable().unwrap(), 9999);
    }

    fn what_is_not_committed_was_never_written() {
        for (mut reader, mut writer) in [trusting(), millstream_pipe::pipe().unwrap()] {
            set_nonblocking(&reader, &writer);
            fill(&mut writer.reserve(100).unwrap(), &[1; 100]);
            assert_eq!(error_of(reader.read(&mut [0; 10])), Errno::AGAIN);
            let mut room = writer.reserve(100).unwrap();
            fill(&mut room, &[2; 100]);
            assert_eq!(room.commit(40).unwrap(), 40);
            assert_eq!(reader.bytes_readable().unwrap(), 40);
            writer.write_all(&[3; 10]).unwrap();
            assert_eq!(take(&mut reader), [[2; 40].as_slice(), &[3; 10]].concat());
        }
    }

    fn more_than_the_pipe_holds_gives_what_fits() {
        for (reader, mut writer) in [trusting(), Builder::new().capacity(16_384).create().unwrap()] {
            assert_eq!(writer.reserve(1 << 40).unwrap().len(), 16_384);
            put(&mut writer, &[1; 10_000]);
            assert_eq!(writer.reserve(10_000).unwrap().len(), 6384);
            set_nonblocking(&reader, &writer);
            put(&mut writer, &[1; 4000]);
            assert_eq!(error_of(writer.reserve(PIPE_BUF).map(|room| room.len())), Errno::AGAIN, "all or nothing");
            assert_eq!(writer.reserve(PIPE_BUF + 1).unwrap().len(), 2384);
            assert_eq!(writer.reserve(0).unwrap().len(), 0);
            drop(reader);
        }
    }

    fn a_plain_write_waits_for_room_that_is_being_filled() {
        let (mut reader, mut writer) = trusting();
        let other = writer.try_clone().unwrap();
        let mut room = writer.reserve(5).unwrap();
        fill(&mut room, b"first");
        let writing = start_and_wait_until_asleep(move || (&other).write(b"second").unwrap());
        assert_eq!(room.commit(5).unwrap(), 5);
        assert_eq!(writing.join(), 6);
        assert_eq!(take(&mut reader), b"firstsecond");
    }

    fn splices_wait_for_in_place_lock() {
        let ((mut reader, mut writer), (mut out, into)) = (trusting(), trusting());
        put(&mut writer, b"looked at");
        let (other_reader, other_writer) = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
        let (room, borrowed) = (writer.reserve(3).unwrap(), reader.borrow().unwrap());
        let source = std::fs::File::open("/dev/zero").unwrap();
        let copying = start_and_wait_until_asleep(move || other_writer.copy_from(&source, 2).unwrap());
        let relaying = start_and_wait_until_asleep(move || (other_reader.copy_to_pipe(&into, 5).unwrap(), other_reader));
        drop(room);
        assert_eq!(copying.join(), 2);
        borrowed.consume(3);
        let (count, other_reader) = relaying.join();
        assert_eq!((count, take(&mut out)), (5, b"ked a".to_vec()));
        let borrowed = reader.borrow().unwrap();
        let target = std::fs::File::options().write(true).open("/dev/null").unwrap();
        let copying = start_and_wait_until_asleep(move || other_reader.copy_to(&target, 2).unwrap());
        borrowed.consume(1);
        assert_eq!(copying.join(), 2);
        assert_eq!(reader.bytes_readable().unwrap(), 0);
    }

    fn what_was_read_ahead_is_not_left_out_by_a_splice() {
        let (mut reader, mut writer) = millstream_pipe::pipe().unwrap();
        put(&mut writer, b"one\ntwo\n");
        reader.read_line(&mut String::new()).unwrap();
        put(&mut writer, b"three\n");
        let (_out, into) = millstream_pipe::pipe().unwrap();
        let target = std::fs::File::options().write(true).open("/dev/null").unwrap();
        for outcome in [reader.copy_to(&target, 3), reader.copy_to_pipe(&into, 3), reader.tee(&into, 3).map(|_| 0)] {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ResourceBusy);
        }
        reader.read_line(&mut String::new()).unwrap();
        assert_eq!(reader.copy_to(&target, 6).unwrap(), 6);
    }

    fn writers_that_reserve_take_turns() {
        let (mut reader, mut writer) = trusting();
        let mut other = writer.try_clone().unwrap();
        let room = writer.reserve(5).unwrap();
        let writing = start_and_wait_until_asleep(move || put(&mut other, b"second"));
        drop(room);
        writing.join();
        assert_eq!(take(&mut reader), b"second");
    }

    fn a_plain_read_waits_for_bytes_that_are_looked_at() {
        let (mut reader, writer) = trusting();
        let other = reader.try_clone().unwrap();
        (&writer).write_all(b"one two").unwrap();
        let borrowed = reader.borrow().unwrap();
        assert_eq!(borrowed.segments()[0], b"one two");
        let reading = start_and_wait_until_asleep(move || {
            let mut buffer = [0; 100];
            let count = (&other).read(&mut buffer).unwrap();
            buffer[..count].to_vec()
        });
        borrowed.consume(4);
        assert_eq!(reading.join(), b"two");
    }

    fn nonblocking_call_is_refused_only_while_in_place_lock_is_held() {
        let (mut reader, mut writer) = trusting();
        let (mut other_reader, mut other_writer) = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
        set_nonblocking(&reader, &writer);
        put(&mut writer, b"bytes");
        let (borrowed, room) = (reader.borrow().unwrap(), writer.reserve(10).unwrap());
        assert_eq!(error_of(other_reader.read(&mut [0; 5])), Errno::AGAIN);
        assert_eq!(error_of(other_reader.borrow().map(|bytes| bytes.len())), Errno::AGAIN);
        assert_eq!(error_of(other_writer.write(b"x")), Errno::AGAIN);
        assert_eq!(error_of(other_writer.reserve(1).map(|room| room.len())), Errno::AGAIN);
        drop((borrowed, room));
        assert_eq!(other_writer.write(b"x").unwrap(), 1);
        assert_eq!(other_reader.read(&mut [0; 10]).unwrap(), 6);
    }

    fn what_a_killed_reader_looked_at_is_there_for_the_next() {
        let ((reader, writer), bytes) = (trusting(), pattern::bytes(0..9000));
        (&writer).write_all(&bytes).unwrap();
        let (child, (mut other, _writer)) = child_that((reader.try_clone().unwrap(), writer), |(reader, _)| {
            let borrowed = reader.borrow().unwrap();
            assert_eq!(borrowed.len(), 4096);
            std::mem::forget(borrowed);
        });
        let waiting = start_and_wait_until_asleep(move || take(&mut other));
        child.kill();
        assert!(waiting.join() == bytes);
        assert_eq!(reader.bytes_readable().unwrap(), 0);
    }

    fn what_a_killed_writer_was_filling_is_room_for_the_next() {
        let (mut reader, writer) = trusting();
        let (child, (writer,)) = child_that((writer,), |(writer,)| {
            let mut room = writer.reserve(9000).unwrap();
            fill(&mut room, &[9; 9000]);
            std::mem::forget(room);
        });
        let mut other = writer.try_clone().unwrap();
        let waiting = start_and_wait_until_asleep(move || put(&mut other, b"after"));
        child.kill();
        waiting.join();
        drop(writer);
        assert_eq!(take(&mut reader), b"after");
        assert_eq!(take(&mut reader), b"", "the end");
    }

    fn nonblocking_call_succeeds_when_in_place_owner_is_killed() {
        let (mut reader, writer) = trusting();
        (&writer).write_all(b"bytes").unwrap();
        let (child, (mut other, writer)) = child_that((reader.try_clone().unwrap(), writer), |(reader, writer)| {
            std::mem::forget(reader.borrow().unwrap());
            std::mem::forget(writer.reserve(10).unwrap());
        });
        set_nonblocking(&reader, &writer);
        assert_eq!(error_of(other.read(&mut [0; 5])), Errno::AGAIN);
        child.kill();
        assert_eq!((&writer).write(b"x").unwrap(), 1);
        assert_eq!(take(&mut reader), b"bytesx");
    }

    fn a_claim_outlives_the_first_thread_of_its_process() {
        let (mut reader, writer) = trusting();
        let (child, mut writer) = fork(writer, |mut writer| {
            let (sender, has_reserved) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                let own = rustix::process::getpid();
                let mut room = writer.reserve(5).unwrap();
                sender.send(()).unwrap();
                fill(&mut room, b"first");
                millstream_conformance::task::wait_until_state(own, 'Z');
                // Long enough for a waiter to check the owner, and to take it for dead by mistake.
                std::thread::sleep(Duration::from_millis(300));
                end(i32::from(room.commit(5).unwrap() != 5));
            });
            has_reserved.recv().unwrap();
            end_this_thread();
        });
        millstream_conformance::task::wait_until_state(child.id, 'Z');
        put(&mut writer, b"after");
        child.succeed();
        assert_eq!(take(&mut reader), b"firstafter");
    }

    fn the_child_of_a_fork_cannot_commit_what_its_parent_has_reserved() {
        let (mut reader, mut writer) = trusting();
        put(&mut writer, b"before ");
        let (room, borrowed) = (writer.reserve(6).unwrap(), reader.borrow().unwrap());
        let (child, (mut room, borrowed)) = fork((room, borrowed), |(room, borrowed)| {
            assert_eq!(error_of(room.commit(6)), Errno::PERM);
            borrowed.consume(3);
        });
        child.succeed();
        fill(&mut room, b"parent");
        room.commit(6).unwrap();
        assert_eq!(borrowed.segments()[0], b"before ");
        drop(borrowed);
        assert_eq!(take(&mut reader), b"before parent");
    }

    fn the_child_of_a_fork_reserves_for_itself() {
        let (mut reader, mut writer) = trusting();
        put(&mut writer, b"parent ");
        let (child, (_writer,)) = fork((writer,), |(mut writer,)| {
            put(&mut writer, b"child");
            assert_eq!(writer.statistics().bytes_in_place, 12);
        });
        child.succeed();
        assert_eq!(take(&mut reader), b"parent child");
    }

    fn a_claim_that_was_forgotten_is_given_back_by_its_own_end() {
        let (mut reader, mut writer) = trusting();
        std::mem::forget(writer.reserve(10).unwrap());
        writer.write_all(b"written").unwrap();
        std::mem::forget(writer.reserve(10).unwrap());
        put(&mut writer, b" and put");
        assert_eq!(reader.fill_buf().unwrap(), b"written and put");
        let mut bytes = [0; 7];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"written");
        std::mem::forget(reader.borrow().unwrap());
        let mut other = reader.try_clone().unwrap();
        drop(reader);
        assert_eq!(take(&mut other), b" and put");
        std::mem::forget(writer.reserve(10).unwrap());
        assert_eq!(writer.set_capacity(65_536).unwrap(), 65_536);
    }

    fn kept_room_is_gone_after_another_write() {
        let (mut reader, mut writer) = trusting();
        let mut room = writer.reserve(5).unwrap();
        fill(&mut room, b"grain");
        room.keep();
        assert_eq!(writer.reserved().unwrap().commit(5).unwrap(), 5);
        assert!(writer.reserved().is_none());
        let mut room = writer.reserve(5).unwrap();
        fill(&mut room, b"chaff");
        room.keep();
        writer.write_all(b"!").unwrap();
        assert!(writer.reserved().is_none(), "its room has become that of the write");
        drop(writer);
        reader.borrow().unwrap().keep();
        assert_eq!(take(&mut reader), b"grain!");
    }

    fn capacity_stays_while_in_place_lock_is_held() {
        let (mut reader, mut writer) = trusting();
        let other = writer.try_clone().unwrap();
        put(&mut writer, b"x");
        let room = writer.reserve(10).unwrap();
        assert_eq!(error_of(other.set_capacity(65_536)), Errno::BUSY);
        drop(room);
        let borrowed = reader.borrow().unwrap();
        assert_eq!(error_of(other.set_capacity(65_536)), Errno::BUSY);
        assert_eq!(other.capacity().unwrap(), 16_384);
        drop(borrowed);
        assert_eq!(other.set_capacity(65_536).unwrap(), 65_536);
        assert_eq!(take(&mut reader), b"x");
    }

    fn export_of_end_waits_for_in_place_lock() {
        let (reader, mut writer) = trusting();
        let mut room = writer.reserve(6).unwrap();
        let giving = start_and_wait_until_asleep(move || reader.into_fd().unwrap());
        fill(&mut room, b"filled");
        room.commit(6).unwrap();
        let mut reader = std::fs::File::from(giving.join());
        // From here on through the kernel: reserved room is memory of this process.
        put(&mut writer, b" and more");
        assert_eq!(writer.statistics().bytes_in_place, 6);
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "filled and more");
    }

    fn both_ends_work_where_the_kernel_carries_the_stream() {
        let (reader, writer) = with_trust(Builder::new().cloexec(false));
        let (mut reader, mut writer) = (reader, writer);
        put(&mut writer, b"line one\nline two\n");
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!((line.as_str(), reader.buffered()), ("line one\n", 9));
        assert_eq!(reader.bytes_readable().unwrap(), 9);
        let mut rest = [0; 9];
        reader.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"line two\n");
        set_nonblocking(&reader, &writer);
        assert_eq!(error_of(reader.fill_buf().map(<[u8]>::len)), Errno::AGAIN);
        while writer.reserve(PIPE_BUF).is_ok_and(|room| room.commit(PIPE_BUF).is_ok()) {}
        assert_eq!(error_of(writer.reserve(1).map(|room| room.len())), Errno::AGAIN);
        drop(reader);
        assert_eq!(error_of(writer.reserve(1).map(|room| room.len())), Errno::PIPE);
    }

    fn an_end_with_bytes_read_ahead_is_not_given_away() {
        let (mut reader, mut writer) = millstream_pipe::pipe().unwrap();
        put(&mut writer, b"one\ntwo\n");
        reader.read_line(&mut String::new()).unwrap();
        assert_eq!(reader.buffered(), 4);
        assert_eq!(writer.bytes_readable().unwrap(), 0, "they have left the pipe");
        let error = reader.into_fd().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        assert!(error.get_ref().unwrap().downcast_ref::<PipeError>().is_some());
    }

    fn lines_are_read_whole_in_place_and_by_copy() {
        for (reader, writer) in [trusting(), Builder::new().capacity(16_384).create().unwrap()] {
            let count = 20_000;
            let writing = start(move || {
                for number in 0..count {
                    (&writer).write_all(format!("line {number}, {}\n", "x".repeat(number % 90)).as_bytes()).unwrap();
                }
            });
            let mut lines = reader.lines();
            for number in 0..count {
                assert_eq!(lines.next().unwrap().unwrap(), format!("line {number}, {}", "x".repeat(number % 90)));
            }
            assert!(lines.next().is_none());
            writing.join();
        }
    }

    fn a_signal_ends_the_wait_for_a_claim() {
        let (mut reader, mut writer) = trusting();
        let (other_reader, other_writer) = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
        put(&mut writer, b"x");
        let (room, borrowed) = (writer.reserve(10).unwrap(), reader.borrow().unwrap());
        count_signals(Signal::USR1, false);
        let writing = start_and_wait_until_asleep(move || (error_of((&other_writer).write(b"y")), other_writer));
        interrupt(writing.id, Signal::USR1);
        let (error, other_writer) = writing.join();
        assert_eq!(error, Errno::INTR);
        let reading = start_and_wait_until_asleep(move || (error_of((&other_reader).read(&mut [0; 1])), other_reader));
        interrupt(reading.id, Signal::USR1);
        let (error, other_reader) = reading.join();
        assert_eq!(error, Errno::INTR);
        count_signals(Signal::USR1, true);
        let writing = start_and_wait_until_asleep(move || (&other_writer).write(b"y").unwrap());
        let reading = start_and_wait_until_asleep(move || (&other_reader).read(&mut [0; 9]).unwrap());
        interrupt(writing.id, Signal::USR1);
        interrupt(reading.id, Signal::USR1);
        wait_until_asleep(writing.id);
        wait_until_asleep(reading.id);
        drop(room);
        assert_eq!(writing.join(), 1);
        borrowed.consume(1);
        assert_eq!(reading.join(), 1);
    }

    fn waiter_for_in_place_lock_gets_epipe_when_readers_are_gone() {
        let (reader, mut writer) = trusting();
        let other = writer.try_clone().unwrap();
        let room = writer.reserve(10).unwrap();
        let writing = start_and_wait_until_asleep(move || error_of((&other).write(b"y")));
        drop(reader);
        assert_eq!(writing.join(), Errno::PIPE);
        assert_eq!(room.commit(10).unwrap_or(10), 10);
        assert_eq!(error_of(writer.reserve(1).map(|room| room.len())), Errno::PIPE);
    }

    fn a_reader_that_sleeps_is_woken_by_a_commit_and_a_writer_by_what_is_consumed() {
        for policy in [WaitPolicy::Adaptive, WaitPolicy::Block] {
            let (mut reader, mut writer) = with_trust(Builder::new().capacity(4096).wait(policy));
            let reading = start_and_wait_until_asleep(move || (take(&mut reader), reader));
            put(&mut writer, b"wake");
            let (bytes, mut reader) = reading.join();
            assert_eq!(bytes, b"wake");
            put(&mut writer, &[1; 4096]);
            let writing = start_and_wait_until_asleep(move || {
                put(&mut writer, &[2; 4096]);
                writer
            });
            assert_eq!(take(&mut reader), [1; 4096]);
            writing.join();
            assert_eq!(take(&mut reader), [2; 4096]);
        }
    }

    fn forged_in_place_lock_of_living_process_blocks_no_call() {
        let claims = [offset("writers", "claim"), offset("readers", "claim")];
        let (reader, writer) = millstream_pipe::pipe().unwrap();
        (&writer).write_all(b"some bytes").unwrap();
        let segment = segments().pop().unwrap();
        for victim in [1, std::process::id(), rustix::process::getppid().unwrap().as_raw_nonzero().get().unsigned_abs()] {
            for bits in [0, 1 << 31] {
                claims.iter().for_each(|&claim| assert_eq!(segment.write_at(&(victim | bits).to_le_bytes(), claim).unwrap(), 4));
                assert_eq!((&writer).write(b"x").unwrap(), 1);
                assert_eq!((&reader).read(&mut [0; 1]).unwrap(), 1);
                claims.iter().for_each(|&claim| assert_eq!(segment.write_at(&(victim | bits).to_le_bytes(), claim).unwrap(), 4));
                assert_eq!(reader.set_capacity(4096 << (bits >> 31)).unwrap(), 4096 << (bits >> 31));
            }
        }
        // A lock without an owner, with the bit for waiters.
        claims.iter().for_each(|&claim| assert_eq!(segment.write_at(&(1_u32 << 31).to_le_bytes(), claim).unwrap(), 4));
        assert_eq!((&writer).write(b"x").unwrap(), 1);
        assert_eq!((&reader).read(&mut [0; 1]).unwrap(), 1);
    }

    fn whatever_is_scribbled_meanwhile_room_and_bytes_stay_where_they_are() {
        let mut random = Random::from_seed(seed());
        for round in 0..1000 {
            let (mut reader, mut writer) = trusting();
            put(&mut writer, &pattern::bytes(0..random.within(1..16_384) as u64));
            set_nonblocking(&reader, &writer);
            let segment = segments().pop().unwrap();
            let length = segment.metadata().unwrap().len();
            let (first, last) = (address(reader.borrow().unwrap().segments()[0]), address(&[0; 0]));
            assert_ne!(first, last);
            let mut room = writer.reserve(random.within(1..9000)).ok();
            let borrowed = reader.borrow().unwrap();
            // A lock is a wait by contract, up to its bound: `hostile.rs` has those.
            let is_lock = |name: &str| ["shared", "inside", "owner", "lock"].contains(&name);
            for word in layout().filter(|word| !is_lock(word.name)) {
                let noise = [random.within(0..1 << 20) as u64, 1 << random.within(0..63), u64::MAX, 0][random.within(0..4)];
                let len = [0, 2, 4, 8][random.within(0..4)];
                segment.write_at(&noise.to_le_bytes()[..len.min(word.bytes)], word.offset as u64).unwrap();
            }
            let mapped = mapping(first);
            assert_eq!((mapped.end - mapped.start) as u64, length, "round {round}");
            for bytes in borrowed.segments() {
                assert!(bytes.is_empty() || mapped.contains(&address(bytes)) && mapped.contains(&(address(bytes) + bytes.len() - 1)));
                assert!(bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>() < u64::MAX);
            }
            if let Some(room) = &mut room {
                for bytes in room.segments_mut() {
                    assert!(bytes.is_empty() || mapped.contains(&address(bytes)) && mapped.contains(&(address(bytes) + bytes.len() - 1)));
                    bytes.fill(1);
                }
            }
            // Whatever these say.
            let _ = room.map(|room| { let len = room.len(); room.commit(len) });
            borrowed.consume(1);
        }
    }

    fn a_stream_in_place_survives_kills_at_any_moment() {
        let kills = number("MILLSTREAM_KILLS").unwrap_or(300);
        for seed in seed()..seed() + kills {
            println!("MILLSTREAM_SEED={seed}");
            if seed.is_multiple_of(2) { writer_dies(seed) } else { reader_dies(seed) }
        }
    }
}

fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr().addr()
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

fn strike(random: &mut Random, child: Child) {
    let most = [3000, 200_000, 2_000_000][random.within(0..3)];
    let moment = Duration::from_nanos(random.within(0..most) as u64);
    let begin = std::time::Instant::now();
    while begin.elapsed() < moment {
        std::hint::spin_loop();
    }
    child.signal(Signal::KILL);
    child.wait();
}

/// Two writers, one of which is killed; what it had committed is whole records, and the other's are all there.
fn writer_dies(seed: u64) {
    const RECORD: usize = 1000;
    let mut random = Random::from_seed(seed);
    let (mut reader, writer) = with_trust(Builder::new().capacity([4096, 65_536][random.within(0..2)]));
    let stream = |writer: &mut Writer, who: u8, count: u64| {
        for number in 0..count {
            let mut record = vec![who; RECORD];
            record[1..9].copy_from_slice(&number.to_le_bytes());
            if number % 3 == 0 { assert_eq!(writer.write(&record).unwrap(), RECORD) } else { put(writer, &record) }
        }
    };
    let reader_of_child = reader.try_clone().unwrap();
    let (victim, (writer, reader_of_child)) = fork((writer, reader_of_child), |(mut writer, reader)| {
        drop(reader);
        stream(&mut writer, 1, u64::MAX);
    });
    drop(reader_of_child);
    let mut own = writer;
    let writing = start(move || stream(&mut own, 2, 300));
    let mut dice = random.clone();
    let striking = start(move || strike(&mut dice, victim));
    let (mut rest, mut next) = (Vec::new(), [0_u64; 3]);
    loop {
        let bytes = take(&mut reader);
        if bytes.is_empty() {
            break;
        }
        rest.extend(bytes);
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
    writing.join();
    striking.join();
}

/// Two readers, one of which is killed; no byte goes to both, and what the dead one had not consumed goes to the other.
fn reader_dies(seed: u64) {
    let mut random = Random::from_seed(seed);
    let total = random.within(1..400_000) as u64;
    let (reader, writer) = with_trust(Builder::new().capacity([4096, 65_536][random.within(0..2)]));
    let says = millstream_sys::shared::Shared::anonymous(4096).unwrap();
    let sizes = random.clone();
    let (victim, (mut reader, mut writer)) = fork((reader, writer), |(mut reader, writer)| {
        drop(writer);
        let mut sizes = sizes;
        loop {
            let borrowed = reader.borrow().unwrap();
            let count = sizes.within(1..10_000).min(borrowed.len());
            if count == 0 {
                break;
            }
            // Said before: the death may come right after, and then the other counts what this one took.
            says.word(8).store(count as u64, std::sync::atomic::Ordering::SeqCst);
            borrowed.consume(count);
            says.word(0).fetch_add(count as u64, std::sync::atomic::Ordering::SeqCst);
            says.word(8).store(0, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let writing = start(move || {
        let (mut at, mut sizes) = (0, Random::from_seed(seed));
        while at < total {
            let bytes = pattern::bytes(at..total.min(at + sizes.within(1..3000) as u64));
            put(&mut writer, &bytes);
            at += bytes.len() as u64;
        }
    });
    let mut dice = random.clone();
    let striking = start(move || strike(&mut dice, victim));
    let mut taken = 0;
    loop {
        let count = reader
            .borrow_up_to(random.within(1..5000))
            .map(|bytes| {
                let len = bytes.len();
                bytes.consume(len);
                len
            })
            .unwrap();
        if count == 0 {
            break;
        }
        taken += count as u64;
    }
    writing.join();
    striking.join();
    let word = |at| says.word(at).load(std::sync::atomic::Ordering::SeqCst);
    let (done, in_hand) = (word(0), word(8));
    assert!(taken + done <= total && taken + done + in_hand >= total, "{taken} + {done} of {total}, {in_hand} in hand");
}

//! Single-copy transfer: the reader copies straight out of the memory of a blocked writer. The statistics of the
//! ends show that it was really done. The returned count is exact whatever ends the write, and no process sees memory
//! that the writer has not offered.
#![allow(unsafe_code)]

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;

use millstream_conformance::pattern::{self, Random, check};
use millstream_conformance::process::{count_signals, fork, interrupt, restore_default};
use millstream_conformance::seed::seed;
use millstream_conformance::task::{Task, start, start_and_wait_until_asleep, wait_until_asleep, wait_until_state};
use millstream_conformance::trace::{Sleep, call_of, sleeps_in};
use millstream_conformance::{PIPE_BUF, alone, error_of};
use millstream_pipe::{Builder, DirectPolicy, Reader, Writer};
use millstream_sys::shared::Shared;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

const MIB: usize = 1 << 20;

/// What is offered at once, at most (`docs/pipe.md`).
const LARGEST_OFFER: usize = 4 * MIB;

/// The smallest pipe, so that nearly all of a large write goes directly.
fn pipe() -> (Reader, Writer) {
    Builder::new().capacity(PIPE_BUF).direct(DirectPolicy::Always).create().unwrap()
}

fn stream(len: usize) -> Vec<u8> {
    pattern::bytes(0..len as u64)
}

fn read_exactly(mut reader: &Reader, from: usize, count: usize) {
    let mut bytes = vec![0; count];
    reader.read_exact(&mut bytes).unwrap();
    check(from as u64, &bytes);
}

/// Reads the stream from `from` on to its end, of which it returns where that is.
fn read_to_end(mut reader: &Reader, from: usize) -> usize {
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    check(from as u64, &rest);
    from + rest.len()
}

/// Reads and checks the whole stream, now less and now more at a time; returns how long it is.
fn read_in_pieces_to_end(mut reader: &Reader, mut random: Random) -> usize {
    let (mut at, mut buffer) = (0, vec![0; MIB]);
    loop {
        if random.within(0..100) == 0 {
            // However busy the machine is, the writer falls asleep now and then, and that is when it offers.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let size = [10_000, 300_000, MIB][random.within(0..3)];
        let count = reader.read(&mut buffer[..size]).unwrap();
        if count == 0 {
            return at;
        }
        check(at as u64, &buffer[..count]);
        at += count;
    }
}

/// A thread that sleeps in the middle of a write of a mebibyte, of which `taken` bytes have been read, more than the ring
/// held. It returns what the write returned, and its end.
fn in_the_middle(taken: usize) -> (Reader, Task<(std::io::Result<usize>, Writer)>) {
    assert!(taken > PIPE_BUF);
    let (reader, mut writer) = pipe();
    let task = start_and_wait_until_asleep(move || (writer.write(&stream(MIB)), writer));
    read_exactly(&reader, 0, taken);
    assert_eq!(reader.statistics().bytes_direct as usize, taken - PIPE_BUF);
    wait_until_asleep(task.id);
    (reader, task)
}

const TAKEN: usize = PIPE_BUF + 100_001;

alone! {
    fn a_write_that_does_not_fit_is_read_straight_out_of_its_memory_by_another_process() {
        let (child, (reader, writer)) = fork(pipe(), |(reader, mut writer)| {
            drop(reader);
            assert_eq!(writer.write(&stream(10 * MIB)).unwrap(), 10 * MIB);
            assert!(writer.statistics().bytes_direct as usize > 9 * MIB);
            assert_eq!((writer.statistics().bytes as usize, writer.statistics().direct_refused), (10 * MIB, 0));
        });
        drop(writer);
        // What the ring holds, and one offer of the largest size, three times.
        for at in (0..10 * MIB).step_by(PIPE_BUF + LARGEST_OFFER) {
            wait_until_asleep(child.id);
            read_exactly(&reader, at, (10 * MIB - at).min(PIPE_BUF + LARGEST_OFFER));
        }
        assert_eq!(read_to_end(&reader, 10 * MIB), 10 * MIB);
        let statistics = reader.statistics();
        assert!(statistics.bytes_direct as usize > 9 * MIB);
        assert_eq!((statistics.bytes as usize, statistics.bytes_through_kernel, statistics.direct_refused), (10 * MIB, 0, 0));
        child.succeed();
    }

    fn the_parent_too_can_be_read_from_and_a_grandchild_and_one_after_the_other() {
        let (reader, writer) = pipe();
        let writing = std::sync::Arc::new(Shared::anonymous(4096).unwrap());
        let write = |mut writer: &Writer, turn: usize| {
            writing.word(8 * turn).store(rustix::thread::gettid().as_raw_pid() as u64, Relaxed);
            writer.write_all(&stream(MIB)).unwrap();
        };
        let (child, (reader, writer)) = fork((reader, writer.try_clone().unwrap()), |(reader, clone)| {
            drop((clone, reader));
            write(&writer, 0);
            let (grandchild, _) = fork((), |()| write(&writer, 1));
            grandchild.succeed();
            assert!(writer.statistics().bytes_direct > 0);
        });
        let seen = std::sync::Arc::clone(&writing);
        let reading = start(move || {
            for turn in 0..3 {
                let writer = loop {
                    match Pid::from_raw(seen.word(8 * turn).load(Relaxed) as i32) {
                        Some(writer) => break writer,
                        None => std::thread::sleep(std::time::Duration::from_millis(1)),
                    }
                };
                wait_until_asleep(writer);
                read_exactly(&reader, 0, MIB);
            }
            assert!(reader.statistics().bytes_direct as usize > 5 * MIB / 2);
        });
        child.succeed();
        write(&writer, 2);
        assert!(writer.statistics().bytes_direct > 0);
        reading.join();
    }

    fn a_thread_is_read_from_like_another_process() {
        let (mut reader, mut writer) = pipe();
        let task =
            start_and_wait_until_asleep(move || { writer.write_all(&stream(3 * MIB)).unwrap(); writer.statistics() });
        let (mut at, mut first, mut second) = (0, [0; 3000], [0; 50_000]);
        loop {
            let count = reader.read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]).unwrap();
            check(at as u64, &first[..count.min(3000)]);
            check(at as u64 + 3000, &second[..count.saturating_sub(3000)]);
            at += count;
            if count == 0 {
                break;
            }
        }
        assert_eq!(at, 3 * MIB);
        assert_eq!(task.join().bytes_direct, reader.statistics().bytes_direct);
        assert!(reader.statistics().bytes_direct as usize > 2 * MIB);
    }

    fn the_buffers_of_a_vectored_write_are_taken_in_turn() {
        let (reader, mut writer) = pipe();
        let task = start_and_wait_until_asleep(move || {
            let bytes = stream(MIB);
            let (first, rest) = bytes.split_at(100);
            let (second, third) = rest.split_at(300_000);
            let buffers = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second), IoSlice::new(third)];
            writer.write_vectored(&buffers).unwrap()
        });
        read_exactly(&reader, 0, 300_100);
        wait_until_asleep(task.id);
        assert_eq!(read_to_end(&reader, 300_100), MIB);
        assert_eq!(task.join(), MIB);
        assert!(reader.statistics().bytes_direct as usize > MIB * 9 / 10);
    }

    fn a_write_of_many_offers_returns_when_the_last_byte_is_taken() {
        let (reader, mut writer) = pipe();
        let offers = [LARGEST_OFFER, LARGEST_OFFER, MIB];
        let total = offers.iter().map(|offer| PIPE_BUF + offer).sum();
        let task = start_and_wait_until_asleep(move || writer.write(&stream(total)).unwrap());
        let mut at = 0;
        for offer in offers {
            // A reader that reads on at once takes the next bytes from the ring, before the writer can offer any.
            wait_until_asleep(task.id);
            read_exactly(&reader, at, PIPE_BUF + offer - 5);
            wait_until_asleep(task.id);
            assert!(!task.is_finished());
            at += PIPE_BUF + offer - 5;
            read_exactly(&reader, at, 5);
            at += 5;
        }
        assert_eq!(task.join(), total);
        assert_eq!(reader.statistics().bytes_direct as usize, offers.iter().sum::<usize>());
    }

    fn what_fits_does_not_wait_for_a_reader() {
        for policy in [DirectPolicy::Adaptive, DirectPolicy::Always, DirectPolicy::Never] {
            let (reader, mut writer) = Builder::new().direct(policy).create().unwrap();
            assert_eq!(writer.write(&stream(millstream_pipe::DEFAULT_CAPACITY)).unwrap(), millstream_pipe::DEFAULT_CAPACITY);
            read_exactly(&reader, 0, millstream_pipe::DEFAULT_CAPACITY);
            assert_eq!(reader.statistics().bytes_direct, 0);
        }
    }

    fn by_itself_it_is_used_for_large_writes_to_a_small_pipe_on_one_cpu() {
        let cpus = millstream_sys::cpu::allowed().unwrap();
        millstream_sys::cpu::restrict_to(&cpus[..1]).unwrap();
        let direct = |capacity, size| {
            let (reader, mut writer) = Builder::new().capacity(capacity).create().unwrap();
            // The reader's CPU is known from the first byte that it has read.
            writer.write_all(&[0]).unwrap();
            (&reader).read_exact(&mut [0]).unwrap();
            // The writer has to sleep before the first read: if each filled ring is emptied at once, it never finds one
            // full.
            let write = move || stream(MIB).chunks(size).for_each(|bytes| writer.write_all(bytes).unwrap());
            let task = start_and_wait_until_asleep(write);
            assert_eq!(read_to_end(&reader, 0), MIB);
            task.join();
            reader.statistics().bytes_direct
        };
        assert!(direct(65_536, MIB) >= 512 << 10);
        assert_eq!(direct(65_536, 65_536), 0, "too small to pay");
        assert_eq!(direct(131_072, MIB), 0, "the ring holds much");
    }

    fn direct_never_makes_no_single_copy_transfer() {
        let (reader, mut writer) = Builder::new().capacity(PIPE_BUF).direct(DirectPolicy::Never).create().unwrap();
        let task = start(move || { writer.write_all(&stream(MIB)).unwrap(); writer.statistics() });
        assert_eq!(read_to_end(&reader, 0), MIB);
        assert_eq!((task.join().bytes_direct, reader.statistics().bytes_direct), (0, 0));
    }

    fn large_reads_take_small_writes_from_the_ring() {
        for size in [1, 512, PIPE_BUF] {
            let (mut reader, mut writer) = pipe();
            let total = 400 * size;
            let task = start(move || {
                stream(total).chunks(size).for_each(|bytes| assert_eq!(writer.write(bytes).unwrap(), bytes.len()));
                writer.statistics()
            });
            let (mut at, mut buffer) = (0, vec![0; MIB]);
            while at < total {
                let count = reader.read(&mut buffer).unwrap();
                check(at as u64, &buffer[..count]);
                at += count;
            }
            assert_eq!((task.join().bytes_direct, reader.statistics().bytes_direct), (0, 0));
        }
    }

    fn nonblocking_writer_makes_no_single_copy_transfer() {
        let (reader, mut writer) = pipe();
        writer.set_nonblocking(true).unwrap();
        assert_eq!(writer.write(&stream(MIB)).unwrap(), PIPE_BUF);
        assert_eq!(error_of(writer.write(&stream(MIB))), Errno::AGAIN);
        assert_eq!(reader.bytes_readable().unwrap(), PIPE_BUF);
    }

    fn what_waits_is_counted_as_far_as_the_pipe_holds_it() {
        let (reader, task) = in_the_middle(TAKEN);
        assert_eq!(reader.bytes_readable().unwrap(), PIPE_BUF);
        read_exactly(&reader, TAKEN, MIB - TAKEN - 10);
        assert_eq!(reader.bytes_readable().unwrap(), 10);
        read_exactly(&reader, MIB - 10, 10);
        assert_eq!((reader.bytes_readable().unwrap(), task.join().0.unwrap()), (0, MIB));
    }

    fn a_reader_that_does_not_block_takes_an_offer_too() {
        let (reader, task) = in_the_middle(TAKEN);
        reader.set_nonblocking(true).unwrap();
        read_exactly(&reader, TAKEN, MIB - TAKEN);
        let (outcome, writer) = task.join();
        assert_eq!(outcome.unwrap(), MIB);
        assert_eq!(error_of((&reader).read(&mut [0])), Errno::AGAIN);
        drop(writer);
    }

    fn poll_reports_single_copy_transfer_and_its_end() {
        let (reader, mut writer) = pipe();
        let other = writer.try_clone().unwrap();
        let ready = || millstream_sys::transfer::readiness(reader.readiness().unwrap()).unwrap();
        let has_room = || millstream_sys::transfer::readiness(other.readiness().unwrap()).unwrap().writable;
        assert!(!ready().readable && has_room());
        let task = start_and_wait_until_asleep(move || writer.write(&stream(MIB)).unwrap());
        assert!(ready().readable && !has_room());
        read_exactly(&reader, 0, MIB - 1);
        assert!(ready().readable && !has_room());
        read_exactly(&reader, MIB - 1, 1);
        assert!(!ready().readable && has_room());
        assert_eq!(task.join(), MIB);
    }
}

// What ends a write in the middle.
alone! {
    fn a_signal_in_the_middle_returns_what_was_taken() {
        for restart in [false, true] {
            count_signals(Signal::USR1, restart);
            let (reader, task) = in_the_middle(TAKEN);
            interrupt(task.id, Signal::USR1);
            let (outcome, writer) = task.join();
            assert_eq!((outcome.unwrap(), writer.statistics().bytes_direct as usize), (TAKEN, TAKEN - PIPE_BUF));
            assert_eq!(reader.bytes_readable().unwrap(), 0);
            (&writer).write_all(&pattern::bytes(TAKEN as u64..MIB as u64)[..1000]).unwrap();
            drop(writer);
            assert_eq!(read_to_end(&reader, TAKEN), TAKEN + 1000, "and no byte of what was offered");
        }
    }

    fn a_signal_before_anything_was_taken_is_an_error() {
        count_signals(Signal::USR1, false);
        let (reader, mut writer) = pipe();
        writer.write_all(&stream(PIPE_BUF)).unwrap();
        let task = start_and_wait_until_asleep(move || (error_of(writer.write(&[7; MIB])), writer));
        interrupt(task.id, Signal::USR1);
        let (error, writer) = task.join();
        assert_eq!(error, Errno::INTR);
        drop(writer);
        assert_eq!(read_to_end(&reader, 0), PIPE_BUF);
    }

    fn a_storm_of_signals_makes_every_count_exact() {
        count_signals(Signal::USR1, false);
        let (reader, mut writer) = pipe();
        let task = start(move || {
            let (mut at, mut partial) = (0, 0);
            // Until some writes are cut short and some bytes are read directly: how long that takes is up to the
            // scheduler.
            while at < 40 * MIB || partial < 2 || writer.statistics().bytes_direct == 0 {
                match writer.write(&pattern::bytes(at as u64..at as u64 + 200_000)) {
                    Ok(count) => { partial += u32::from(count < 200_000); at += count },
                    Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::INTR.raw_os_error())),
                }
            }
            println!("{partial} writes of {at} bytes in all ended in the middle");
            (at, writer.statistics().bytes_direct)
        });
        let id = task.id;
        let storm = start(move || while millstream_conformance::process::signal_thread(id, Signal::USR1) {
            std::thread::sleep(std::time::Duration::from_micros(50));
        });
        let count = read_in_pieces_to_end(&reader, Random::from_seed(seed()));
        assert_eq!(task.join(), (count, reader.statistics().bytes_direct));
        storm.join();
    }

    fn a_reader_that_goes_in_the_middle_leaves_what_was_taken() {
        restore_default(Signal::PIPE);
        count_signals(Signal::PIPE, false);
        let (reader, task) = in_the_middle(TAKEN);
        drop(reader);
        let (outcome, mut writer) = task.join();
        assert_eq!(outcome.unwrap(), TAKEN);
        assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
    }

    fn a_writer_that_dies_in_the_middle_leaves_what_was_taken_and_the_end() {
        let (child, (reader, writer)) = fork(pipe(), |(_, mut writer)| drop(writer.write(&stream(MIB))));
        wait_until_asleep(child.id);
        read_exactly(&reader, 0, TAKEN);
        let other = writer.try_clone().unwrap();
        drop(writer);
        wait_until_asleep(child.id);
        child.kill();
        assert_eq!(reader.bytes_readable().unwrap(), 0, "nothing that is not coming");
        drop(other);
        assert_eq!(read_to_end(&reader, TAKEN), TAKEN);
    }

    fn writer_goes_on_behind_transfer_of_killed_writer() {
        let (child, (reader, mut writer)) = fork(pipe(), |(_, mut writer)| drop(writer.write(&stream(MIB))));
        wait_until_asleep(child.id);
        read_exactly(&reader, 0, TAKEN);
        let task = start_and_wait_until_asleep(move || writer.write(b"behind").unwrap());
        assert!(!task.is_finished(), "there is no room behind an offer");
        child.kill();
        assert_eq!(task.join(), 6, "without a read");
        let mut bytes = [0; 100];
        let count = (&reader).read(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"behind");
    }

    fn a_writer_killed_while_it_is_copied_from_leaves_a_beginning_and_the_end() {
        let mut random = Random::from_seed(seed());
        let mut direct = 0;
        for round in 0..200 {
            let (child, (reader, writer)) = fork(pipe(), |(reader, mut writer)| {
                drop(reader);
                let bytes = stream(16 * MIB);
                while writer.write_all(&bytes).is_ok() {}
            });
            drop(writer);
            if round % 10 == 0 {
                // However busy the machine is, some offers stand when the reader comes.
                wait_until_asleep(child.id);
            }
            let reading = start(move || {
                let (mut at, mut buffer) = (0_u64, vec![0; 300_000]);
                loop {
                    let count = (&reader).read(&mut buffer).unwrap();
                    if count == 0 {
                        return reader.statistics().bytes_direct;
                    }
                    // The stream begins again every 16 MiB.
                    let (head, tail) = buffer[..count].split_at(count.min(16 * MIB - (at % (16 * MIB as u64)) as usize));
                    check(at % (16 * MIB as u64), head);
                    check(0, tail);
                    at += count as u64;
                }
            });
            std::thread::sleep(std::time::Duration::from_micros(random.within(0..20_000) as u64));
            child.kill();
            direct += reading.join();
        }
        assert!(direct > 0);
    }

    fn a_reader_killed_while_it_copies_takes_nothing_from_the_next_one() {
        let mut random = Random::from_seed(seed());
        let said = Shared::anonymous(4096).unwrap();
        let mut direct = 0;
        for _ in 0..200 {
            said.word(0).store(0, Relaxed);
            let (child, (reader, mut writer)) = fork(pipe(), |(reader, writer)| {
                drop(writer);
                let mut buffer = vec![0; 100_000];
                loop {
                    let count = (&reader).read(&mut buffer).unwrap();
                    check(said.word(0).load(Relaxed), &buffer[..count]);
                    said.word(0).fetch_add(count as u64, Relaxed);
                }
            });
            let writing = start(move || writer.write(&stream(4 * MIB)).unwrap());
            std::thread::sleep(std::time::Duration::from_micros(random.within(0..3000) as u64));
            child.kill();
            let done = said.word(0).load(Relaxed) as usize;
            let mut rest = Vec::new();
            (&reader).read_to_end(&mut rest).unwrap();
            assert_eq!(writing.join(), 4 * MIB, "all that was not taken is still there");
            // What one call had taken when it died is gone with it.
            let from = 4 * MIB - rest.len();
            assert!((done..=done + 100_000).contains(&from), "{done} bytes were read, then the stream went on at {from}");
            check(from as u64, &rest);
            direct += reader.statistics().bytes_direct;
        }
        assert!(direct > 0);
    }
}

// Stopped processes, and pipes that change during a transfer.
alone! {
    fn a_stopped_writer_is_read_from() {
        let (child, (reader, writer)) = fork(pipe(), |(_, mut writer)| {
            assert_eq!(writer.write(&stream(3 * MIB)).unwrap(), 3 * MIB);
        });
        wait_until_asleep(child.id);
        child.signal(Signal::STOP);
        wait_until_state(child.id, 'T');
        read_exactly(&reader, 0, 3 * MIB);
        assert!(reader.statistics().bytes_direct > 0);
        child.signal(Signal::CONT);
        child.succeed();
        drop(writer);
    }

    fn a_reader_stopped_while_it_copies_keeps_no_other_from_the_offer() {
        let mut random = Random::from_seed(seed());
        // Made before: that takes longer than to write it.
        let bytes = std::sync::Arc::new(stream(8 * MIB));
        let (mut copied, mut held_a_lock) = (0, 0);
        while copied < 30 {
            let (child, (reader, mut writer)) = fork(pipe(), |(reader, writer)| {
                drop(writer);
                let mut buffer = vec![0; 3 * MIB];
                while (&reader).read(&mut buffer).is_ok() {}
            });
            // Stopped before it has closed the write end it would keep the stream from ending.
            wait_until_asleep(child.id);
            let written = bytes.clone();
            let writing = start(move || drop(writer.write(&written)));
            std::thread::sleep(std::time::Duration::from_micros(random.within(0..3000) as u64));
            child.signal(Signal::STOP);
            wait_until_state(child.id, 'T');
            let copies = call_of(child.id) == Some(libc::SYS_process_vm_readv);
            copied += u32::from(copies);
            println!("stopped {}", if copies { "while it copied" } else { "elsewhere" });
            let reading = start(move || {
                let mut buffer = vec![0; 100_000];
                while (&reader).read(&mut buffer).unwrap() > 0 {}
            });
            // The child copies without a lock, so the other reader does not wait for ever. Elsewhere the child may have
            // been stopped while it held a lock: a limit that has nothing to do with single-copy transfers. A running
            // process releases its lock when it has the CPU again, sooner than this.
            let (mut is_stopped, mut looks_in_vain) = (!copies, 0);
            while is_stopped && !reading.is_finished() {
                let waits = sleeps_in(reading.id) == Some(Sleep::Futex);
                looks_in_vain = if waits { looks_in_vain + 1 } else { 0 };
                if looks_in_vain == 500 {
                    child.signal(Signal::CONT);
                    (is_stopped, held_a_lock) = (false, held_a_lock + 1);
                }
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            reading.join();
            writing.join();
            child.kill();
        }
        println!("stopped elsewhere with a lock {held_a_lock} times");
    }

    fn single_copy_transfer_goes_through_backing_pipe_when_end_is_exported() {
        let (reader, task) = in_the_middle(TAKEN);
        let program = Command::new("cat").stdin(reader.into_fd().unwrap()).stdout(Stdio::piped()).spawn().unwrap();
        let output = start(move || program.wait_with_output().unwrap().stdout);
        let (outcome, writer) = task.join();
        assert_eq!((outcome.unwrap(), writer.statistics().bytes_direct as usize), (MIB, TAKEN - PIPE_BUF));
        drop(writer);
        let rest = output.join();
        assert_eq!(rest.len(), MIB - TAKEN);
        check(TAKEN as u64, &rest);
    }

    fn what_is_offered_goes_into_the_ring_when_that_has_grown() {
        let (reader, task) = in_the_middle(TAKEN);
        assert_eq!(reader.set_capacity(MIB).unwrap(), MIB);
        let (outcome, writer) = task.join();
        assert_eq!(outcome.unwrap(), MIB, "all of the rest fits, without a read");
        assert_eq!(writer.bytes_readable().unwrap(), MIB - TAKEN);
        drop(writer);
        assert_eq!(read_to_end(&reader, TAKEN), MIB);
    }

    fn paths_that_change_all_the_time_keep_the_stream() {
        let (reader, mut writer) = pipe();
        let other = writer.try_clone().unwrap();
        let is_through = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let tells = is_through.clone();
        let task = start(move || {
            let (mut random, mut at) = (Random::from_seed(seed()), 0);
            let all_ways = |of: &Writer| of.statistics().bytes_direct > 0 && of.statistics().bytes_through_kernel > 0;
            // How long that takes is up to the scheduler.
            while at < 60 * MIB || !all_ways(&writer) {
                let size = [100, 5000, 70_000, 900_000][random.within(0..4)];
                let bytes = pattern::bytes(at as u64..(at + 1 + random.within(0..size)) as u64);
                writer.write_all(&bytes).unwrap();
                at += bytes.len();
            }
            tells.store(true, Relaxed);
            (at, writer.statistics().direct_refused)
        });
        let changing = start(move || {
            let (mut other, mut random) = (other, Random::from_seed(seed() + 1));
            while !is_through.load(Relaxed) {
                match random.within(0..3) {
                    0 => drop(other.set_capacity(4096 << random.within(0..4))),
                    1 => drop(other.bytes_readable()),
                    _ => other = Writer::attach(other.into_fd().unwrap()).unwrap(),
                }
                std::thread::sleep(std::time::Duration::from_micros(random.within(0..2000) as u64));
            }
        });
        let count = read_in_pieces_to_end(&reader, Random::from_seed(seed() + 2));
        changing.join();
        assert_eq!(task.join(), (count, 0));
    }
}

/// Pages of the pattern, and behind them two without the right to read.
fn buffer_with_an_end(pages: usize) -> &'static [u8] {
    let len = (pages + 2) * 4096;
    // SAFETY: new memory; a slice over the pages behind it is only ever given to a pipe, which has to cope with that.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let start = start.cast::<u8>();
        std::ptr::copy_nonoverlapping(stream(pages * 4096).as_ptr(), start, pages * 4096);
        assert_eq!(libc::mprotect(start.add(pages * 4096).cast(), 8192, libc::PROT_NONE), 0);
        std::slice::from_raw_parts(start, len)
    }
}

alone! {
    fn a_fault_in_the_memory_of_another_process_ends_that_ones_write_with_what_was_taken() {
        let (child, (reader, writer)) = fork(pipe(), |(reader, mut writer)| {
            drop(reader);
            writer.write_all(&[0; PIPE_BUF]).unwrap();
            assert_eq!(writer.write(buffer_with_an_end(30)).unwrap(), 30 * 4096);
        });
        drop(writer);
        (&reader).read_exact(&mut [0; PIPE_BUF]).unwrap();
        assert_eq!(read_to_end(&reader, 0), 30 * 4096);
        assert_eq!(reader.statistics().direct_refused, 0);
        child.succeed();
    }

    fn a_fault_in_the_first_byte_is_the_writers_error_and_nothing_to_the_reader() {
        let (mut reader, mut writer) = pipe();
        writer.write_all(&[0; PIPE_BUF]).unwrap();
        let task = start_and_wait_until_asleep(move || (error_of(writer.write(buffer_with_an_end(0))), writer));
        reader.read_exact(&mut [0; PIPE_BUF]).unwrap();
        let reading = start_and_wait_until_asleep(move || {
            let mut bytes = vec![0; MIB];
            let count = reader.read(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"good");
        });
        let (error, mut writer) = task.join();
        assert_eq!(error, Errno::FAULT);
        writer.write_all(b"good").unwrap();
        reading.join();
    }
}

alone! {
    fn a_splice_has_what_is_offered_come_through_the_ring() {
        for to_a_pipe in [false, true] {
            let (reader, task) = in_the_middle(TAKEN);
            let rest = (MIB - TAKEN) as u64;
            let file = std::fs::File::from(rustix::fs::memfd_create("target", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
            let copied = if to_a_pipe {
                let (mut second, target) = Builder::new().capacity(MIB).create().unwrap();
                let copied = reader.copy_to_pipe(&target, rest).unwrap();
                drop(target);
                let mut bytes = Vec::new();
                second.read_to_end(&mut bytes).unwrap();
                (&file).write_all(&bytes).unwrap();
                copied
            } else {
                reader.copy_to(&file, rest).unwrap()
            };
            assert_eq!(copied, rest);
            let mut bytes = vec![0; rest as usize];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
            check(TAKEN as u64, &bytes);
            assert_eq!(task.join().0.unwrap(), MIB);
            assert_eq!(reader.statistics().bytes_direct as usize, TAKEN - PIPE_BUF);
        }
    }
}

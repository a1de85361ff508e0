//! Foreign bytes in a FIFO, and bytes of ours in its ring. None is lost or left lying, those of each writer come in
//! order, and small writes come whole, whenever a process closes, polls or changes to the kernel.

use std::io::{ErrorKind, Write};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use millstream_conformance::fifo::{Hand, Name, Ours, Plain, acquainted, get_acquainted};
use millstream_conformance::pattern::{read_exact, read_to_end, write_all};
use millstream_conformance::process::{fork, restore_default};
use millstream_conformance::ready::{Flags, now};
use millstream_conformance::task::start;
use millstream_conformance::{End, ReadEnd, WriteEnd as _, alone, kernel, ours};
use millstream_pipe::live;
use millstream_sys::transfer;

/// Longer than a reader may stay away and still count as taking part (50 ms).
const AWAY: Duration = Duration::from_millis(120);

fn plain_reader(name: &Name) -> kernel::Reader {
    Plain::reader(name.path(), false).unwrap()
}

fn plain_writer(name: &Name) -> kernel::Writer {
    Plain::writer(name.path(), false).unwrap()
}

/// Bytes of ours in the ring and those of a foreign process in the FIFO.
fn with_both_in_it(name: &Name) -> (ours::Reader, ours::Writer, kernel::Writer) {
    let (reader, writer) = acquainted(name);
    let stranger = plain_writer(name);
    // A reader that is not run for a while does not take part, and the kernel gets the bytes: then once more.
    loop {
        let before = writer.0.statistics().bytes_through_kernel;
        write_all(&writer, b"ours");
        if writer.0.statistics().bytes_through_kernel == before {
            break;
        }
        assert_eq!(read_exact(&reader, 4), b"ours");
        get_acquainted(&reader, &writer);
    }
    assert_eq!(writer.0.bytes_readable().unwrap(), 4);
    write_all(&stranger, b"plain");
    (reader, writer, stranger)
}

fn position(text: &[u8], wanted: &[u8]) -> usize {
    text.windows(wanted.len())
        .position(|window| window == wanted)
        .unwrap_or_else(|| panic!("no {:?} in {:?}", String::from_utf8_lossy(wanted), String::from_utf8_lossy(text)))
}

/// Returns how long it took.
fn reopen_while_another_process_attaches() -> Duration {
    let name = Name::new().unwrap();
    let (reader, writer, stranger) = with_both_in_it(&name);
    // Its bytes stay in the ring, where a reader of ours finds them before the foreign ones.
    drop(writer);
    let joining = plain_reader(&name);
    let began = Instant::now();
    transfer::try_lock_whole(&joining.0).unwrap();
    let path = name.path().to_owned();
    let task = start(move || {
        let writer = Ours::writer(&path, false).unwrap();
        write_all(&writer, b"again");
        writer
    });
    thread::sleep(Duration::from_millis(20));
    transfer::unlock_whole(&joining.0).unwrap();
    let writer = task.join();
    let took = began.elapsed();
    if took < Duration::from_millis(900) {
        assert_eq!(joining.bytes_readable().unwrap(), 5, "what it wrote went into the FIFO");
        assert_eq!(read_exact(&reader, 14), b"oursplainagain");
    }
    drop((writer, stranger));
    took
}

/// Until both are there.
fn see_to_end_of_both(reader: impl ReadEnd, stranger: kernel::Writer, writer: ours::Writer) -> Vec<u8> {
    write_all(&writer, b"OURS");
    write_all(&stranger, b"PLAIN");
    drop((writer, stranger));
    read_to_end(&reader)
}

alone! {
    fn bytes_left_behind_foreign_bytes_reach_plain_reader() {
        for _ in 0..50 {
            let name = Name::new().unwrap();
            let (reader, writer, stranger) = with_both_in_it(&name);
            let plain = plain_reader(&name);
            drop(reader);
            let text = see_to_end_of_both(plain, stranger, writer);
            assert_eq!(text.len(), 18, "{:?}", String::from_utf8_lossy(&text));
            assert!(position(&text, b"ours") < position(&text, b"OURS"));
            assert!(position(&text, b"plain") < position(&text, b"PLAIN"));
        }
    }

    fn what_a_writer_that_has_gone_left_is_there_when_our_reader_leaves() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let (child, writer) = fork(writer, |writer| {
            write_all(&writer, b"committed");
            thread::sleep(Duration::from_secs(1000));
        });
        while reader.bytes_readable().unwrap() < 9 {
            thread::yield_now();
        }
        std::mem::forget(writer.0.try_clone().unwrap());
        child.kill();
        let plain = plain_reader(&name);
        drop(reader);
        assert_eq!(read_exact(&plain, 9), b"committed");
    }

    fn order_behind_foreign_write_outlives_killed_write_monitor() {
        for _ in 0..10 {
            let name = Name::new().unwrap();
            let (reader, writer) = acquainted(&name);
            let stranger = plain_writer(&name);
            let path = name.path().to_owned();
            let (child, writer) = fork(writer, |writer| {
                drop(writer);
                let busy = Ours::reader(&path, false).unwrap();
                while busy.read(&mut [0; 64]).is_ok() {}
            });
            // After many small writes the writers request a write monitor, and only the child can be one.
            for _ in 0..5000 {
                write_all(&writer, b"........");
            }
            child.kill();
            write_all(&stranger, b"plain");
            write_all(&writer, b"ours");
            drop((writer, stranger));
            let text = read_to_end(&reader);
            assert!(position(&text, b"plain") < position(&text, b"ours"));
        }
    }

    fn bytes_of_closed_writer_reach_plain_reader() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let plain = plain_reader(&name);
        write_all(&writer, b"last words");
        drop(writer);
        // Our reader has just read, and does not read again.
        assert_eq!(read_to_end(&plain), b"last words");
        drop(reader);
    }

    fn new_poller_is_told_of_all_waiting_bytes() {
        let name = Name::new().unwrap();
        let (reader, writer, stranger) = with_both_in_it(&name);
        let mut left = 9;
        while left > 0 {
            assert_eq!(now(&reader), Flags::IN, "{left} bytes are left");
            left -= reader.read(&mut [0; 2]).unwrap();
        }
        assert_eq!((now(&reader), now(&writer)), (Flags::empty(), Flags::OUT));
        write_all(&writer, b"x");
        assert_eq!(now(&reader), Flags::IN);
        drop(stranger);
    }

    fn exported_end_has_all_earlier_bytes() {
        let name = Name::new().unwrap();
        let (reader, writer, stranger) = with_both_in_it(&name);
        let given = kernel::Reader(reader.0.into_fd().unwrap());
        let text = see_to_end_of_both(given, stranger, writer);
        assert_eq!(text.len(), 18, "{:?}", String::from_utf8_lossy(&text));
        assert!(position(&text, b"ours") < position(&text, b"OURS"));

        let (reader, writer, stranger) = with_both_in_it(&name);
        let mut file = std::fs::File::from(writer.0.into_fd().unwrap());
        file.write_all(b"then plain").unwrap();
        drop((file, stranger));
        let text = read_to_end(&reader);
        assert!(position(&text, b"ours") < position(&text, b"then plain"));
        assert_eq!(text.len(), 19);
    }

    fn foreign_write_keeps_its_place_between_two_of_ours() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let stranger = plain_writer(&name);
        for round in 0..5000 {
            write_all(&writer, b"one ");
            write_all(&stranger, b"two ");
            write_all(&writer, b"three ");
            write_all(&stranger, b"four ");
            // In small pieces too.
            let text: Vec<u8> = (0..19).step_by(if round % 2 == 0 { 1 } else { 19 }).flat_map(|_| {
                read_exact(&reader, if round % 2 == 0 { 1 } else { 19 })
            }).collect();
            assert_eq!(String::from_utf8_lossy(&text), "one two three four ", "in round {round}");
            if round % 100 == 0 {
                get_acquainted(&reader, &writer);
            }
        }
    }

    fn what_a_thread_wrote_before_the_ring_was_known_comes_before_what_it_writes_then() {
        const THREADS: u8 = 3;
        const COUNT: u32 = 200;
        for round in 0..40 {
            let name = Name::new().unwrap();
            let reader = Ours::reader(name.path(), true).unwrap();
            let writer = Ours::writer(name.path(), false).unwrap();
            reader.set_nonblocking(false).unwrap();
            let together = Barrier::new(THREADS.into());
            let mut last = [None; THREADS as usize];
            thread::scope(|scope| {
                for id in 0..THREADS {
                    let (writer, together) = (writer.0.try_clone().unwrap(), &together);
                    scope.spawn(move || {
                        together.wait();
                        for index in 0..COUNT {
                            let mut record = [id; 5];
                            record[1..].copy_from_slice(&index.to_le_bytes());
                            write_all(&ours::Writer(writer.try_clone().unwrap()), &record);
                        }
                    });
                }
                for _ in 0..u32::from(THREADS) * COUNT {
                    let record = read_exact(&reader, 5);
                    let index = u32::from_le_bytes(record[1..].try_into().unwrap());
                    let before = last[usize::from(record[0])].replace(index);
                    assert!(before.is_none_or(|before| before < index), "thread {} in round {round}", record[0]);
                }
            });
        }
    }

    fn of_handles_that_are_dropped_at_once_one_leaves() {
        for _ in 0..200 {
            let name = Name::new().unwrap();
            let (reader, writer) = acquainted(&name);
            write_all(&writer, b"waiting");
            let plain = plain_reader(&name);
            let (other, together) = (ours::Reader(reader.0.try_clone().unwrap()), Barrier::new(2));
            thread::scope(|scope| {
                for reader in [reader, other] {
                    let together = &together;
                    scope.spawn(move || {
                        together.wait();
                        drop(reader);
                    });
                }
            });
            assert_eq!(read_exact(&plain, 7), b"waiting");
            drop(writer);
        }
    }

    fn query_raises_no_sigpipe_when_readers_are_gone() {
        let name = Name::new().unwrap();
        // So that the FIFO lives on.
        let both = Plain::both(name.path()).unwrap();
        let (child, ()) = fork((), |()| {
            restore_default(rustix::process::Signal::PIPE);
            let lonely = Name::new().unwrap();
            let (reader, writer) = acquainted(&lonely);
            write_all(&writer, b"unread");
            // Like a kill: the end closes without a notice in the ring.
            let (child, reader) = fork(reader, |_reader| ());
            drop(child);
            drop(reader);
            assert!(now(&writer).contains(Flags::ERR));
            let _ = writer.0.set_capacity(8192);
            assert!(writer.0.readiness().is_ok());
        });
        child.succeed();
        drop(both);
    }

    fn reopened_writer_writes_behind_its_earlier_bytes() {
        // The open waits for a second at most: on such a busy machine, try once more.
        while reopen_while_another_process_attaches() > Duration::from_millis(900) {}
    }

    fn records_come_whole_while_readers_of_ours_come_and_go() {
        const COUNT: usize = 6000;
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let (plain, stranger) = (plain_reader(&name), plain_writer(&name));
        let writers = [
            start(move || (0..COUNT).for_each(|index| write_all(&writer, &record(0, index)))),
            start(move || (0..COUNT).for_each(|index| write_all(&stranger, &record(1, index)))),
        ];
        // Away for longer than it counts as taking part, again and again, so that the ring is given back with much in it.
        let ours = start(move || {
            let mut records = Vec::new();
            loop {
                let before = records.len();
                (0..20).for_each(|_| take_records(&reader, &mut records));
                if records.len() == before {
                    return records;
                }
                thread::sleep(Duration::from_millis(70));
            }
        });
        let plain = start(move || {
            let mut records = Vec::new();
            loop {
                let before = records.len();
                take_records(&plain, &mut records);
                if records.len() == before {
                    return records;
                }
                thread::sleep(Duration::from_micros(100));
            }
        });
        writers.into_iter().for_each(|task| task.join());
        let mut seen = [vec![false; COUNT], vec![false; COUNT]];
        for records in [ours.join(), plain.join()] {
            let mut last = [None, None];
            for (id, index) in records {
                assert!(last[id].replace(index).is_none_or(|before| before < index), "the order of writer {id}");
                assert!(!std::mem::replace(&mut seen[id][index], true), "record {index} of {id} came twice");
            }
        }
        assert!(seen.iter().flatten().all(|&seen| seen), "records were lost");
    }

    fn one_of_ours_after_another_joins_and_leaves_beside_a_plain_reader() {
        const COUNT: usize = 4000;
        let name = Name::new().unwrap();
        let plain = Plain::reader(name.path(), true).unwrap();
        let holder = plain_writer(&name);
        let is_over = AtomicBool::new(false);
        let (mut records, mut taken) = (Vec::new(), Vec::new());
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for id in 0..2 {
                    let writer = Ours::writer(name.path(), false).unwrap();
                    (0..COUNT).for_each(|index| write_all(&writer, &record(id, index)));
                }
                is_over.store(true, SeqCst);
            });
            let coming = scope.spawn(|| {
                let mut taken = Vec::new();
                while !is_over.load(SeqCst) {
                    let reader = Ours::reader(name.path(), true).unwrap();
                    // Leaves in the middle of what there is.
                    for _ in 0..30 {
                        try_to_take_records(&reader, &mut taken);
                    }
                }
                taken
            });
            while !(writing.is_finished() && coming.is_finished() && !try_to_take_records(&plain, &mut records)) {
                try_to_take_records(&plain, &mut records);
            }
            taken = coming.join().unwrap();
        });
        drop(holder);
        let mut seen = [vec![false; COUNT], vec![false; COUNT]];
        let mut last = [None, None];
        for &(id, index) in &records {
            assert!(last[id].replace(index).is_none_or(|before| before < index), "the order of writer {id}");
        }
        for (id, index) in records.into_iter().chain(taken) {
            assert!(!std::mem::replace(&mut seen[id][index], true), "record {index} of {id} came twice");
        }
        let lost = seen.iter().flatten().filter(|&&seen| !seen).count();
        assert_eq!(lost, 0, "records were lost");
    }

    fn rings_of_fifos_are_counted_and_listed() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let me = std::process::id();
        let census = live::look().unwrap();
        assert!(census.errors.iter().all(|error| error.process != me), "{:?}", census.errors);
        let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(name.path()).unwrap());
        let listed: Vec<_> = census.pipes.iter().filter(|pipe| pipe.fifo == Some(inode)).collect();
        assert_eq!(listed.len(), 1);
        assert!(listed[0].holders.contains(&me) && listed[0].ends.iter().any(|end| end.process == me));
        drop((reader, writer));
    }

    fn unclaimed_bytes_reach_plain_reader_despite_foreign_writes() {
        let name = Name::new().unwrap();
        let (reader, writer, stranger) = with_both_in_it(&name);
        thread::sleep(AWAY);
        write_all(&writer, b"OURS");
        let plain = plain_reader(&name);
        assert_eq!(read_exact(&plain, 5), b"plain");
        // There is nothing else in the FIFO now, so the next call of ours flushes the ring to the kernel.
        write_all(&writer, b"!");
        assert_eq!(read_exact(&plain, 9), b"oursOURS!");
        drop((reader, stranger));
    }

    fn what_does_not_fit_into_a_full_fifo_is_there_when_the_last_of_ours_has_gone() {
        for is_reader_last in [false, true] {
            let name = Name::new().unwrap();
            let (reader, writer) = acquainted(&name);
            let (plain, stranger) = (plain_reader(&name), plain_writer(&name));
            // As much as one FIFO holds, in writes that fill no pages, and as much again.
            (0..600).for_each(|index| write_all(&writer, &record(0, index)));
            stranger.set_nonblocking(true).unwrap();
            let mut count = 0;
            while stranger.write(&record(1, count)).is_ok() {
                count += 1;
            }
            if is_reader_last {
                drop(writer);
                drop(reader);
            } else {
                drop(reader);
                drop(writer);
            }
            drop(stranger);
            let mut seen = [Vec::new(), Vec::new()];
            for record in read_to_end(&plain).chunks(RECORD) {
                assert!(record.len() == RECORD && record[4..].iter().all(|&byte| byte == record[4]), "a torn record");
                seen[usize::from(record[4]) - 1].push(u32::from_le_bytes(record[..4].try_into().unwrap()) as usize);
            }
            assert_eq!(seen, [(0..600).collect::<Vec<_>>(), (0..count).collect()], "reader last: {is_reader_last}");
        }
    }

    fn a_forked_child_keeps_the_ring_and_others_find_it_there() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
            drop(writer);
            while reader.read(&mut [0; 100]).unwrap() > 0 {}
            let statistics = reader.0.statistics();
            assert!(statistics.bytes > statistics.bytes_through_kernel);
        });
        // Takes along the mark that it shares with the child.
        drop((reader, writer));
        let late = Ours::writer(name.path(), false).unwrap();
        let is_on_the_ring = || {
            let before = late.0.statistics();
            write_all(&late, b"?");
            let after = late.0.statistics();
            after.bytes_through_kernel == before.bytes_through_kernel
        };
        while !is_on_the_ring() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(late.0.has_ring());
        drop(late);
        child.succeed();
    }

    fn process_without_write_permission_shares_no_ring() {
        let name = Name::new().unwrap();
        let (child, ()) = fork((), |()| {
            let reader = Ours::reader(name.path(), true).unwrap();
            let writer = Ours::writer(name.path(), false).unwrap();
            // The process becomes another user than the owner of the FIFO, without a right to write to it.
            std::fs::set_permissions(name.path(), std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
            millstream_conformance::process::become_unprivileged();
            for _ in 0..100 {
                write_all(&writer, b"?");
                assert_eq!(read_exact(&reader, 1), b"?");
                thread::sleep(Duration::from_millis(1));
            }
            for statistics in [reader.0.statistics(), writer.0.statistics()] {
                assert_eq!((statistics.bytes, statistics.bytes_through_kernel), (100, 100));
            }
            assert!(!reader.0.has_ring() && !writer.0.has_ring());
        });
        child.succeed();
    }

    fn when_our_reader_comes_back_everything_is_in_its_place() {
        let name = Name::new().unwrap();
        let (reader, writer, stranger) = with_both_in_it(&name);
        thread::sleep(AWAY);
        write_all(&writer, b"OURS");
        write_all(&stranger, b"PLAIN");
        assert_eq!(String::from_utf8_lossy(&read_exact(&reader, 18)), "oursplainOURSPLAIN");
    }
}

/// Pages do not hold a whole number of them.
const RECORD: usize = 100;

fn record(id: usize, index: usize) -> [u8; RECORD] {
    let mut record = [id as u8 + 1; RECORD];
    record[..4].copy_from_slice(&(index as u32).to_le_bytes());
    record
}

/// What one read returns, which is whole records.
fn take_records(reader: &impl ReadEnd, records: &mut Vec<(usize, usize)>) {
    let mut buffer = [0; 64 * RECORD];
    let count = reader.read(&mut buffer).unwrap();
    note_records(&buffer[..count], records);
}

/// The same if there is something, and whether there was.
fn try_to_take_records(reader: &impl ReadEnd, records: &mut Vec<(usize, usize)>) -> bool {
    let mut buffer = [0; 64 * RECORD];
    match reader.read(&mut buffer) {
        Ok(count) => {
            note_records(&buffer[..count], records);
            count > 0
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

fn note_records(bytes: &[u8], records: &mut Vec<(usize, usize)>) {
    assert_eq!(bytes.len() % RECORD, 0, "a torn record");
    for record in bytes.chunks(RECORD) {
        let index = u32::from_le_bytes(record[..4].try_into().unwrap()) as usize;
        assert!(record[4..].iter().all(|&byte| byte == record[4]) && (1..=2).contains(&record[4]), "a mixed record");
        records.push((usize::from(record[4]) - 1, index));
    }
}

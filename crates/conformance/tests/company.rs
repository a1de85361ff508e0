//! FIFOs with changing participants: ends of ours that share a ring, and foreign processes that open and close beside
//! them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use millstream_conformance::fifo::{Hand, Name, Ours, Plain, acquainted, get_acquainted};
use millstream_conformance::pattern::{self, read_exact, read_to_end, write_all};
use millstream_conformance::process::{become_unprivileged, fork};
use millstream_conformance::ready::{Flags, by_poll};
use millstream_conformance::task::{start, start_and_wait_until_asleep};
use millstream_conformance::{End, Polled, ReadEnd, WriteEnd, alone, kernel};
use millstream_pipe::FifoOptions;
use millstream_sys::transfer;
use rustix::fs::SeekFrom;
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice, tee};

/// Longer than a reader may stay away and still count as taking part (50 ms).
const AWAY: Duration = Duration::from_millis(120);

fn plain_reader(name: &Name) -> kernel::Reader {
    Plain::reader(name.path(), false).unwrap()
}

alone! {
    fn between_two_of_ours_the_ring_carries_the_bytes() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let before = writer.0.statistics();
        let task = start(move || {
            write_all(&writer, &[7; 10_000_000]);
            writer.0.statistics()
        });
        assert!(read_exact(&reader, 10_000_000).iter().all(|&byte| byte == 7));
        let after = task.join();
        assert_eq!(after.bytes - before.bytes, 10_000_000);
        // When the machine is busy a reader may stay away for a while.
        let through_kernel = after.bytes_through_kernel - before.bytes_through_kernel;
        assert!(through_kernel < 5_000_000, "{through_kernel} of 10000000");
    }

    fn a_plain_reader_gets_what_our_reader_leaves() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        write_all(&writer, &[1; 40_000]);
        assert_eq!(read_exact(&reader, 10_000), [1; 10_000]);
        let plain = plain_reader(&name);
        drop(reader);
        assert_eq!(read_exact(&plain, 30_000), [1; 30_000]);
        write_all(&writer, b"and more");
        assert_eq!(read_exact(&plain, 8), b"and more");
    }

    fn close_reports_bytes_without_room_in_fifo() {
        become_unprivileged();
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let plain = plain_reader(&name);
        // The largest size without privileges: the closing writer cannot enlarge it.
        let most = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap().trim().parse().unwrap();
        fcntl_setpipe_size(plain.0.as_fd(), most).unwrap();
        let through_kernel = writer.0.statistics().bytes_through_kernel;
        write_all(&writer, &[1; 1000]);
        assert_eq!(writer.0.statistics().bytes_through_kernel, through_kernel);
        let stranger = Plain::writer(name.path(), true).unwrap();
        while stranger.write(&[2; 4096]).is_ok() {}
        drop(reader);
        let error = writer.0.close().unwrap_err();
        assert!(error.to_string().contains("no room for the last 1000 bytes"), "{error}");
        assert!(read_exact(&plain, most).iter().all(|&byte| byte == 2));
    }

    fn close_hands_bytes_to_plain_reader() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let plain = plain_reader(&name);
        write_all(&writer, &[1; 1000]);
        drop(reader);
        writer.0.close().unwrap();
        assert_eq!(read_exact(&plain, 1000), [1; 1000]);
    }

    fn a_plain_reader_gets_what_our_reader_does_not_come_for() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let plain = plain_reader(&name);
        write_all(&writer, b"waiting");
        let waiting = start_and_wait_until_asleep(move || (read_exact(&plain, 10), plain));
        thread::sleep(AWAY);
        // The next call of ours finds that no participant reads it, and flushes it to the kernel.
        write_all(&writer, b"new");
        let (bytes, plain) = waiting.join();
        assert_eq!(bytes, b"waitingnew");
        // And our reader takes part again when it comes by.
        write_all(&writer, b"!");
        drop(plain);
        assert_eq!(read_exact(&reader, 1), b"!");
        get_acquainted(&reader, &writer);
    }

    fn an_end_whose_bytes_lie_in_the_ring_is_exact_as_a_descriptor() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        // A reader that is not run for a while does not take part, and the kernel gets the bytes: then once more.
        let waiting = pattern::bytes(0..10_000);
        loop {
            let before = writer.0.statistics().bytes_through_kernel;
            write_all(&writer, &waiting);
            if writer.0.statistics().bytes_through_kernel == before {
                break;
            }
            assert_eq!(read_exact(&reader, 10_000), waiting);
            get_acquainted(&reader, &writer);
        }
        assert_eq!((reader.bytes_readable().unwrap(), writer.bytes_readable().unwrap()), (10_000, 10_000));
        let reader = reader.into_descriptor().unwrap();
        assert_eq!((ioctl_fionread(&reader), writer.bytes_readable().unwrap()), (Ok(10_000), 10_000));
        assert_eq!(by_poll(reader.as_fd(), Some(Duration::ZERO)), Flags::IN);
        assert_eq!(fcntl_setpipe_size(&reader, 4096), Err(Errno::BUSY));
        assert_eq!(rustix::fs::seek(&reader, SeekFrom::Start(0)), Err(Errno::SPIPE));
        assert_eq!(rustix::fs::ftruncate(&reader, 0), Err(Errno::INVAL));
        assert_eq!(rustix::io::write(&reader, b"x"), Err(Errno::BADF));
        let (other_reader, other_writer) = pipe().unwrap();
        assert_eq!(tee(&reader, &other_writer, 10_000, SpliceFlags::empty()), Ok(10_000));
        assert_eq!(read_exact(&kernel::Reader(other_reader.try_clone().unwrap()), 10_000), waiting);
        assert_eq!(splice(&reader, None, &other_writer, None, 4000, SpliceFlags::empty()), Ok(4000));
        assert_eq!((ioctl_fionread(&reader), ioctl_fionread(&other_reader)), (Ok(6000), Ok(4000)));
        // The writer goes on behind what waits.
        write_all(&writer, b"and on");
        drop(writer);
        assert_eq!(read_to_end(&kernel::Reader(reader)), [&waiting[4000..], b"and on"].concat());
    }

    fn an_end_that_was_opened_for_programs_too_is_theirs_and_shares_no_ring() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let given = FifoOptions::new().ring(true).cloexec(false).open_writer(name.path()).unwrap();
        let number = given.readiness().unwrap().as_raw_fd();
        let script = format!("printf words > /proc/self/fd/{number}; exec sleep 3600");
        let mut program = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
        assert!(!given.has_ring());
        drop((given, writer));
        assert_eq!(read_exact(&reader, 5), b"words");
        let task = start_and_wait_until_asleep(move || reader.read(&mut [0]).unwrap());
        program.kill().unwrap();
        assert_eq!(task.join(), 0);
        program.wait().unwrap();
    }

    fn a_writer_that_sleeps_on_a_full_ring_hands_it_to_a_plain_reader() {
        let name = Name::new().unwrap();
        let (_reader, writer) = acquainted(&name);
        let writing = start_and_wait_until_asleep(move || write_all(&writer, &[3; 500_000]));
        let plain = plain_reader(&name);
        assert_eq!(read_exact(&plain, 500_000), vec![3; 500_000]);
        writing.join();
    }

    fn what_a_killed_reader_had_not_taken_is_for_the_next_plain_one() {
        let name = Name::new().unwrap();
        let reader = Ours::reader(name.path(), true).unwrap();
        let writer = Ours::writer(name.path(), false).unwrap();
        reader.set_nonblocking(false).unwrap();
        let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
            drop(writer);
            drop(read_exact(&reader, 2000));
            thread::sleep(Duration::from_secs(1000));
        });
        drop(reader);
        for _ in 0..2000 {
            write_all(&writer, b"?");
            thread::sleep(Duration::from_micros(20));
        }
        while writer.bytes_readable().unwrap() > 0 {
            thread::yield_now();
        }
        write_all(&writer, b"for the next");
        let plain = plain_reader(&name);
        child.kill();
        drop(writer);
        assert_eq!(read_exact(&plain, 12), b"for the next");
        assert_eq!(plain.read(&mut [0]).unwrap(), 0);
    }

    fn a_reader_of_ours_that_comes_later_joins_the_ring_that_a_writer_kept() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        let second = Ours::reader(name.path(), false).unwrap();
        drop(reader);
        get_acquainted(&second, &writer);
    }

    fn plain_and_attached_writers_are_read_in_order_of_writes() {
        let name = Name::new().unwrap();
        let (reader, first) = acquainted(&name);
        for round in 0..100_u32 {
            let plain = Plain::writer(name.path(), false).unwrap();
            write_all(&plain, b"plain");
            drop(plain);
            let ours = Ours::writer(name.path(), false).unwrap();
            write_all(&ours, b"ours!");
            drop(ours);
            let again = Plain::writer(name.path(), false).unwrap();
            write_all(&again, b"again");
            assert_eq!(read_exact(&reader, 15), b"plainours!again", "in round {round}");
            if round % 10 == 0 {
                get_acquainted(&reader, &first);
            }
        }
    }

    fn both_sides_count_what_waits_in_ring_and_fifo() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        write_all(&writer, &[0; 1000]);
        let plain = Plain::writer(name.path(), false).unwrap();
        write_all(&plain, &[0; 500]);
        assert_eq!((reader.bytes_readable().unwrap(), writer.bytes_readable().unwrap()), (1500, 1500));
        let second = Ours::reader(name.path(), false).unwrap();
        assert_eq!(second.bytes_readable().unwrap(), 1500);
        drop(read_exact(&reader, 1500));
        assert_eq!(writer.bytes_readable().unwrap(), 0);
    }

    fn another_user_is_served_through_the_kernel() {
        let name = Name::new().unwrap();
        std::fs::set_permissions(name.path(), std::os::unix::fs::PermissionsExt::from_mode(0o622)).unwrap();
        let (reader, writer) = acquainted(&name);
        let (child, _) = fork((), |()| {
            become_unprivileged();
            let mut writer = millstream_pipe::FifoOptions::new().ring(true).open_writer(name.path()).unwrap();
            for _ in 0..100 {
                writer.write_all(&[9; 1000]).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
            let statistics = writer.statistics();
            assert_eq!((statistics.bytes, statistics.bytes_through_kernel), (100_000, 100_000));
        });
        assert_eq!(read_exact(&reader, 100_000), vec![9; 100_000]);
        child.succeed();
        get_acquainted(&reader, &writer);
    }

    fn a_mark_that_leads_to_another_fifos_ring_is_not_followed() {
        let (name, other) = (Name::new().unwrap(), Name::new().unwrap());
        let (other_reader, other_writer) = acquainted(&other);
        let plain = Plain::reader(name.path(), true).unwrap();
        plain.set_nonblocking(false).unwrap();
        // Any process that may open this FIFO can put the marks of the other one there.
        let bait = Plain::writer(name.path(), false).unwrap();
        let probe = Plain::writer(other.path(), false).unwrap();
        let baits = copy_marks(&probe.0, &bait.0);
        assert!(baits > 0);
        let victim = Ours::writer(name.path(), false).unwrap();
        for _ in 0..50 {
            write_all(&victim, b"private");
            assert_eq!(read_exact(&plain, 7), b"private");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(victim.0.statistics().bytes_through_kernel, 350);
        get_acquainted(&other_reader, &other_writer);
    }

    fn poller_is_told_of_bytes_in_ring_and_fifo() {
        use millstream_conformance::ready::{Flags, now};
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        write_all(&writer, b"in the ring");
        assert_eq!(now(&reader), Flags::IN);
        assert_eq!(read_exact(&reader, 11), b"in the ring");
        assert_eq!((now(&reader), now(&writer)), (Flags::empty(), Flags::OUT));
        let before = writer.0.statistics().bytes_through_kernel;
        write_all(&writer, b"x");
        assert_eq!(now(&reader), Flags::IN);
        assert_eq!(writer.0.statistics().bytes_through_kernel, before + 1);
    }

    fn an_end_given_away_takes_its_bytes_along() {
        let name = Name::new().unwrap();
        let (reader, writer) = acquainted(&name);
        write_all(&writer, b"one\ntwo\n");
        let mut counter = std::process::Command::new("wc");
        counter.arg("-l").stdin(reader.0.into_fd().unwrap()).stdout(std::process::Stdio::piped());
        let child = counter.spawn().unwrap();
        drop(counter);
        write_all(&writer, b"three\n");
        drop(writer);
        assert_eq!(child.wait_with_output().unwrap().stdout, b"3\n");

        let (reader, writer) = acquainted(&name);
        write_all(&writer, b"ours, ");
        let mut file = std::fs::File::from(writer.0.into_fd().unwrap());
        file.write_all(b"then plain").unwrap();
        drop(file);
        let mut text = String::new();
        (&reader.0).read_to_string(&mut text).unwrap();
        assert_eq!(text, "ours, then plain");
    }

    fn mixed_company_delivers_every_record_once_and_each_writers_in_order() {
        const RECORDS: u32 = 3000;
        let name = Name::new().unwrap();
        let readers_open = (Ours::reader(name.path(), true).unwrap(), Plain::reader(name.path(), true).unwrap());
        readers_open.0.set_nonblocking(false).unwrap();
        readers_open.1.set_nonblocking(false).unwrap();
        let writers = (0..4_u32).map(|id| {
            let path = name.path().to_owned();
            let (ours, plain) = (Ours::writer(&path, false).unwrap(), Plain::writer(&path, false).unwrap());
            start(move || {
                for index in 0..RECORDS {
                    let record = record(id, index);
                    if id % 2 == 0 { write_all(&ours, &record) } else { write_all(&plain, &record) }
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let (ours, plain) = readers_open;
        let readers = [start(move || records_of(&ours)), start(move || records_of(&plain))];
        writers.into_iter().for_each(|task| task.join());
        let mut seen = HashMap::new();
        for records in readers.map(|task| task.join()) {
            let mut last = HashMap::new();
            for (id, index) in records {
                assert!(last.insert(id, index).is_none_or(|before| before < index), "the order of writer {id}");
                *seen.entry((id, index)).or_insert(0) += 1;
            }
        }
        assert!(seen.values().all(|&count| count == 1), "a record came twice");
        assert_eq!(seen.len(), 4 * RECORDS as usize);
    }
}

/// Pages do not hold a whole number of them.
const RECORD: usize = 100;

fn record(id: u32, index: u32) -> [u8; RECORD] {
    let mut record = [id as u8; RECORD];
    record[..4].copy_from_slice(&id.to_le_bytes());
    record[4..8].copy_from_slice(&index.to_le_bytes());
    record
}

/// All records up to the end of the stream, which every read returns whole.
fn records_of(reader: &impl ReadEnd) -> Vec<(u32, u32)> {
    let (mut records, mut buffer) = (Vec::new(), [0; 64 * RECORD]);
    loop {
        let count = reader.read(&mut buffer).unwrap();
        if count == 0 {
            return records;
        }
        assert_eq!(count % RECORD, 0, "a torn record");
        for bytes in buffer[..count].chunks(RECORD) {
            let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            assert!(bytes[8..].iter().all(|&byte| byte == bytes[0]), "a mixed record");
            records.push((number(0), number(4)));
        }
    }
}

/// Puts the marks that can be seen from `from` on `to`, a write end.
fn copy_marks(from: &impl AsFd, to: &impl AsFd) -> usize {
    let marks = transfer::marks(from, 10).unwrap();
    marks.iter().for_each(|&mark| transfer::mark(to, mark).unwrap());
    marks.len()
}

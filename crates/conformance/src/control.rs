//! Control: how much waits, how much fits, and changing that.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc)]

use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use crate::kernel::capacity_max;
use crate::pattern::{self, Random, check, fill, read_exact, read_stream, write_all, write_stream};
use crate::process::{become_unprivileged, fork, keep_capabilities};
use crate::task::{start, start_and_wait_until_asleep, wait_until_asleep};
use crate::{BetweenProcesses, End, Implementation, PIPE_BUF, ReadEnd, WriteEnd, error_of};

/// Every process may have this much (`pipe-max-size` is not below the default of a page and usually this).
const LARGE: usize = 1 << 20;

fn assert_readable<I: Implementation>(ends: &(I::Reader, I::Writer), wanted: usize) {
    assert_eq!((ends.0.bytes_readable().unwrap(), ends.1.bytes_readable().unwrap()), (wanted, wanted));
}

pub fn both_ends_count_the_waiting_bytes_at_every_level<I: Implementation>() {
    let ends = I::pipe().unwrap();
    let capacity = ends.1.capacity().unwrap();
    assert_readable::<I>(&ends, 0);
    let (mut level, mut random) = (0, Random(11));
    while level < capacity {
        // Not over the end of a page, where the kernel would begin a new one and never use the rest of the old.
        let size = random.within(1..300).min(PIPE_BUF - level % PIPE_BUF);
        write_all(&ends.1, &vec![0; size]);
        level += size;
        assert_readable::<I>(&ends, level);
    }
    while level > 0 {
        let size = random.within(1..300).min(level);
        drop(read_exact(&ends.0, size));
        level -= size;
        assert_readable::<I>(&ends, level);
    }
}

pub fn waiting_bytes_are_counted_after_the_other_end_is_gone<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &[0; 12_345]);
    drop(writer);
    assert_eq!(reader.bytes_readable().unwrap(), 12_345);
    drop(read_exact(&reader, 12_345));
    assert_eq!(reader.bytes_readable().unwrap(), 0);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    assert_eq!(reader.bytes_readable().unwrap(), 0);
}

pub fn the_capacity_is_rounded_up_to_a_power_of_two_of_pages<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    for (asked, granted) in [
        (0, 4096),
        (1, 4096),
        (4095, 4096),
        (4096, 4096),
        (4097, 8192),
        (8193, 16_384),
        (65_535, 65_536),
        (65_536, 65_536),
        (65_537, 131_072),
        (100_000, 131_072),
        (LARGE - 1, LARGE),
        (LARGE, LARGE),
    ] {
        assert_eq!(writer.set_capacity(asked).unwrap(), granted, "asked for {asked}");
        assert_eq!(writer.capacity().unwrap(), granted);
        assert_eq!(reader.capacity().unwrap(), granted);
        assert_eq!(reader.set_capacity(asked).unwrap(), granted, "asked for {asked}");
    }
}

pub fn the_capacity_can_be_set_when_the_other_end_is_gone<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &pattern::bytes(0..10_000));
    drop(writer);
    assert_eq!(reader.set_capacity(LARGE).unwrap(), LARGE);
    assert_eq!(read_stream(&reader, 0, 999), 10_000);
}

pub fn as_many_bytes_fit_as_the_capacity_says<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let mut size = PIPE_BUF;
    while size <= LARGE {
        assert_eq!(writer.set_capacity(size).unwrap(), size);
        assert_eq!(fill(&writer, 0), size);
        check(0, &read_exact(&reader, size));
        // In one piece too.
        writer.set_nonblocking(true).unwrap();
        assert_eq!(writer.write(&pattern::bytes(0..size as u64 + 1)).unwrap(), size);
        check(0, &read_exact(&reader, size));
        size *= 2;
    }
}

pub fn shrinking_below_the_content_is_refused_and_changes_nothing<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let capacity = writer.capacity().unwrap();
    (0..3).for_each(|page| write_all(&writer, &pattern::bytes(page * 4096..(page + 1) * 4096)));
    for asked in [0, 4096, 8192] {
        assert_eq!(error_of(writer.set_capacity(asked)), Errno::BUSY);
        assert_eq!(error_of(reader.set_capacity(asked)), Errno::BUSY);
    }
    assert_eq!(reader.capacity().unwrap(), capacity);
    assert_eq!(writer.set_capacity(12_288).unwrap(), 16_384);
    drop(writer);
    assert_eq!(read_stream(&reader, 0, 5000), 12_288);
}

pub fn a_full_pipe_can_be_shrunk_once_enough_was_read<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let capacity = fill(&writer, 0);
    assert_eq!(error_of(writer.set_capacity(capacity / 2)), Errno::BUSY);
    check(0, &read_exact(&reader, capacity / 2));
    assert_eq!(writer.set_capacity(capacity / 2).unwrap(), capacity / 2);
    writer.set_nonblocking(true).unwrap();
    assert_eq!(error_of(writer.write(&[0])), Errno::AGAIN);
    drop(writer);
    assert_eq!(read_stream(&reader, capacity as u64 / 2, 5000), capacity as u64 / 2);
}

pub fn more_than_two_gibibytes_are_refused<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let capacity = writer.capacity().unwrap();
    assert_eq!(error_of(writer.set_capacity((1 << 31) + 1)), Errno::INVAL);
    assert_eq!(error_of(reader.set_capacity(u32::MAX as usize)), Errno::INVAL);
    assert_eq!(writer.capacity().unwrap(), capacity);
}

fn more_than_the_limit_is_refused_after<I: BetweenProcesses>(give_up_privileges: impl FnOnce()) {
    let (child, (reader, writer)) = fork(I::pipe().unwrap(), |(reader, writer)| {
        give_up_privileges();
        let capacity = writer.capacity().unwrap();
        assert_eq!(reader.set_capacity(capacity_max()).unwrap(), capacity_max());
        assert_eq!(writer.set_capacity(capacity).unwrap(), capacity);
        for asked in [capacity_max() + 1, 2 * capacity_max(), 1 << 30, (1 << 30) + 1, 1 << 31] {
            assert_eq!(error_of(writer.set_capacity(asked)), Errno::PERM, "asked for {asked}");
            assert_eq!(error_of(reader.set_capacity(asked)), Errno::PERM, "asked for {asked}");
        }
        assert_eq!(error_of(writer.set_capacity((1 << 31) + 1)), Errno::INVAL, "beyond what there is to allow");
        assert_eq!(writer.capacity().unwrap(), capacity);
        write_all(&writer, b"unharmed");
    });
    child.succeed();
    drop(writer);
    assert_eq!(read_exact(&reader, 8), b"unharmed");
}

pub fn more_than_the_limit_is_refused_to_the_unprivileged<I: BetweenProcesses>() {
    more_than_the_limit_is_refused_after::<I>(become_unprivileged);
}

/// The quotas on pipe memory do not apply to such a process, but this limit does.
pub fn more_than_the_limit_is_refused_without_cap_sys_resource<I: BetweenProcesses>() {
    more_than_the_limit_is_refused_after::<I>(|| keep_capabilities(CapabilitySet::all() - CapabilitySet::SYS_RESOURCE));
}

pub fn growing_and_shrinking_keep_what_waits<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let mut random = Random(12);
    let (mut written, mut read) = (0, 0);
    for _ in 0..2000 {
        // Content at any place of the buffer, also across its end.
        let room = (writer.capacity().unwrap() - (written - read) as usize) / 2;
        if room > PIPE_BUF {
            let end = written + random.within(1..(room - PIPE_BUF).min(50_000) + 1) as u64;
            writer.set_nonblocking(true).unwrap();
            let count = writer.write(&pattern::bytes(written..end)).unwrap_or(0);
            written += count as u64;
        }
        let size = random.within(0..(written - read).min(60_000) as usize + 1);
        check(read, &read_exact(&reader, size));
        read += size as u64;
        let asked = PIPE_BUF << random.within(0..9);
        match writer.set_capacity(asked) {
            Ok(granted) => assert_eq!(granted, asked),
            refused => assert_eq!(error_of(refused), Errno::BUSY),
        }
        assert_eq!(reader.bytes_readable().unwrap() as u64, written - read);
    }
    drop(writer);
    assert_eq!(read_stream(&reader, read, 5000), written - read);
}

pub fn a_stream_is_not_disturbed_by_changes_of_the_capacity<I: Implementation>() {
    const TOTAL: u64 = 8 << 20;
    let (reader, writer) = I::pipe().unwrap();
    let clone = writer.try_clone().unwrap();
    let writing = start(move || write_stream(&clone, 0..TOTAL, 3000));
    let reading = start(move || read_stream(&reader, 0, 5000));
    let mut random = Random(13);
    while !writing.is_finished() {
        match writer.set_capacity(PIPE_BUF << random.within(0..9)) {
            Ok(_) => {}
            refused => assert_eq!(error_of(refused), Errno::BUSY),
        }
        std::thread::yield_now();
    }
    drop(writer);
    writing.join();
    assert_eq!(reading.join(), TOTAL);
}

pub fn a_sleeping_writer_goes_on_when_the_pipe_grows<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    writer.set_capacity(4096).unwrap();
    let filled = fill(&writer, 0) as u64;
    let task =
        start_and_wait_until_asleep(move || writer.write(&pattern::bytes(filled..filled + PIPE_BUF as u64)).unwrap());
    assert_eq!(reader.set_capacity(8192).unwrap(), 8192);
    assert_eq!(task.join(), PIPE_BUF);
    assert_eq!(read_stream(&reader, 0, 999), 8192);
}

pub fn a_sleeping_reader_sleeps_on_when_the_pipe_grows<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let task = start_and_wait_until_asleep(move || read_stream(&reader, 0, 200_000));
    assert_eq!(writer.set_capacity(LARGE).unwrap(), LARGE);
    wait_until_asleep(task.id);
    assert!(!task.is_finished());
    write_stream(&writer, 0..LARGE as u64, 100_000);
    drop(writer);
    assert_eq!(task.join(), LARGE as u64);
}

pub fn a_writer_in_another_process_goes_on_when_the_pipe_grows<I: BetweenProcesses>() {
    let (reader, writer) = I::pipe().unwrap();
    writer.set_capacity(4096).unwrap();
    fill(&writer, 0);
    let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
        drop(reader);
        assert_eq!(writer.write(&pattern::bytes(4096..100_000)).unwrap(), 100_000 - 4096);
    });
    drop(writer);
    wait_until_asleep(child.id);
    assert_eq!(reader.set_capacity(131_072).unwrap(), 131_072);
    child.succeed();
    assert_eq!(read_stream(&reader, 0, 999), 100_000);
}

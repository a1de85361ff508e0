//! What an adversarial review found: each test failed once, and its name says what holds since.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use millstream_conformance::kernel::{self, Kernel};
use millstream_conformance::ours::{Ours, Reader, Writer, segments};
use millstream_conformance::pattern::{
    self, Random, check, fill, read_exact, read_stream, read_to_end, write_all, write_stream,
};
use millstream_conformance::process::{HANDLED, become_unprivileged, count_signals, fork, new_directory};
use millstream_conformance::ready::{Flags, now};
use millstream_conformance::task::{start, start_and_wait_until_asleep, wait_until_asleep};
use millstream_conformance::{End, Implementation, PIPE_BUF, Polled, ReadEnd, WriteEnd, alone, error_of};
use millstream_ring::layout::offset;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;

fn pipe() -> (Reader, Writer) {
    Ours::pipe().unwrap()
}

fn pipe_of(capacity: usize) -> (Reader, Writer) {
    let (reader, writer) = millstream_pipe::Builder::new().capacity(capacity).create().unwrap();
    (Reader(reader), Writer(writer))
}

/// A pipe whose stream goes through the backing pipe, since a copy of its read end, the third here, is exported.
fn pipe_in_other_hands() -> (Reader, Writer, OwnedFd) {
    let (reader, writer) = pipe();
    let given = reader.try_clone().unwrap().0.into_fd().unwrap();
    (reader, writer, given)
}

fn busy_for(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Words that a child of a fork shares with its parent. They live as long as the process.
fn shared_words() -> &'static [AtomicU32; 2] {
    // SAFETY: a new mapping of zeros, which is never undone; atomics of zero are valid.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast()
    }
}

/// The pending lock of this thread: if it ended now, the kernel would take that for one in acquisition or release.
fn pending_lock() -> usize {
    let (mut head, mut len): (*const usize, usize) = (std::ptr::null(), 0);
    // SAFETY: the kernel writes the two variables. The list belongs to this thread, and its third word
    // (`struct robust_list_head`) is the pending lock.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut len), 0);
        *head.add(2)
    }
}

alone! {
    fn no_lock_stays_announced_when_both_sides_were_locked() {
        let (reader, writer) = pipe();
        write_all(&writer, b"x");
        assert_eq!(pending_lock(), 0);
        writer.set_capacity(8192).unwrap();
        assert_eq!(pending_lock(), 0, "after a change of the capacity");
        let given = reader.0.into_fd().unwrap();
        assert_eq!(pending_lock(), 0, "after giving an end away");
        drop((writer, given));
        assert_eq!(pending_lock(), 0, "when the mapping is gone");
        let (reader, writer) = pipe();
        write_all(&writer, b"x");
        let writer = millstream_pipe::Writer::attach(writer.0.into_fd().unwrap()).unwrap();
        assert_eq!(pending_lock(), 0, "after the return to the ring");
        drop((reader, writer));
        assert_eq!(pending_lock(), 0, "when the second mapping is gone");
    }
}

// Given away.
alone! {
    fn a_reader_is_given_away_while_a_writer_streams_and_waits() {
        const TOTAL: u64 = 2_000_000;
        for round in 0..100 {
            let (reader, writer) = pipe();
            let watched = writer.try_clone().unwrap();
            let task = start(move || write_stream(&writer, 0..TOTAL, 65_536));
            if round % 2 == 1 {
                while watched.bytes_readable().unwrap() < watched.capacity().unwrap() {
                    std::hint::spin_loop();
                }
            }
            drop(watched);
            busy_for(Duration::from_micros(4 * round));
            let mut bytes = Vec::new();
            File::from(reader.0.into_fd().unwrap()).read_to_end(&mut bytes).unwrap();
            check(0, &bytes);
            assert_eq!(bytes.len() as u64, TOTAL, "round {round}");
            task.join();
        }
    }

    fn a_writer_is_given_away_by_the_unprivileged_with_a_full_mebibyte() {
        as_unprivileged(writer_given_away_with_a_full_ring);
    }

    fn writer_is_exported_without_quota_for_large_kernel_pipe() {
        as_unprivileged(|| {
            let _hoard = all_that_this_user_may_have();
            writer_given_away_with_a_full_ring();
        });
    }

    fn a_reader_that_could_not_be_given_away_says_why_and_leaves_a_pipe_that_works_as_before() {
        const FULL: usize = 1 << 20;
        as_unprivileged(|| {
            let _hoard = all_that_this_user_may_have();
            let (reader, writer) = pipe_of(FULL);
            assert_eq!(fill(&writer, 0), FULL);
            let refused = reader.try_clone().unwrap().0.into_fd().unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::QuotaExceeded);
            assert!(refused.to_string().contains("read some before the end is given away"), "{refused}");
            assert_eq!(error_of::<()>(Err(refused)), Errno::NOBUFS);
            check(0, &read_exact(&reader, FULL));
            // No end is exported, so the stream returns to the ring, as the capacity shows.
            let mut at = FULL as u64;
            while writer.capacity().unwrap() != FULL {
                write_all(&writer, &pattern::bytes(at..at + 1000));
                check(at, &read_exact(&reader, 1000));
                at += 1000;
                std::thread::sleep(Duration::from_millis(3));
            }
            write_all(&writer, &pattern::bytes(at..at + 1000));
            let given = kernel::Reader(reader.0.into_fd().unwrap());
            check(at, &read_exact(&given, 1000));
        });
    }
}

/// Pipes of the kernel, until the user has all the pages that `pipe-user-pages-soft` allows.
fn all_that_this_user_may_have() -> Vec<(kernel::Reader, kernel::Writer)> {
    let mut hoard = Vec::new();
    assert!(
        rustix::process::geteuid().as_raw() >= 1_000_000_000,
        "root is needed to become a user without other pipes"
    );
    loop {
        let pipe = Kernel::pipe().unwrap();
        match pipe.1.set_capacity(1 << 20) {
            Ok(_) => hoard.push(pipe),
            refused => {
                assert_eq!(error_of(refused), Errno::PERM);
                return hoard;
            }
        }
    }
}

/// In a child that is not root, or was not root before.
fn as_unprivileged(body: impl FnOnce()) {
    let (child, ()) = fork((), |()| {
        become_unprivileged();
        // Without it what `/proc` says of this process belongs to root.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).unwrap();
        body();
    });
    child.succeed();
}

fn writer_given_away_with_a_full_ring() {
    const FULL: u64 = 1 << 20;
    const MORE: u64 = 600_000;
    let (reader, writer) = pipe_of(FULL as usize);
    assert_eq!(fill(&writer, 0) as u64, FULL);
    let ours = writer.try_clone().unwrap();
    let plain = kernel::Writer(writer.0.into_fd().unwrap());
    // In turn, so that the order is known.
    let task = start_and_wait_until_asleep(move || {
        for at in (FULL..FULL + MORE).step_by(6000) {
            write_all(&ours, &pattern::bytes(at..at + 3000));
            write_all(&plain, &pattern::bytes(at + 3000..at + 6000));
        }
    });
    assert_eq!(read_stream(&reader, 0, 5000), FULL + MORE);
    task.join();
}

// Opened once more by a program, without our knowledge.
alone! {
    fn nothing_is_lost_when_a_program_opens_its_input_again() {
        let (reader, writer) = pipe();
        let program = Command::new("sh")
            .args(["-c", "exec cat </dev/stdin"])
            .stdin(reader.0.into_fd().unwrap())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut wanted = Vec::new();
        for line in 0..100 {
            let line = format!("line {line}\n");
            write_all(&writer, line.as_bytes());
            wanted.extend(line.into_bytes());
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(writer);
        let output = program.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), String::from_utf8(wanted).unwrap());
    }

    fn nothing_is_lost_when_a_program_opens_its_output_again() {
        let (reader, writer) = pipe();
        let ours = writer.try_clone().unwrap();
        let script = "exec >/dev/stdout; for i in 0 1 2 3 4 5 6 7 8 9; do echo theirs; sleep 0.05; done";
        let mut program = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(writer.0.into_fd().unwrap())
            .spawn()
            .unwrap();
        let task = start(move || {
            for _ in 0..120 {
                write_all(&ours, b"ours\n");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let text = String::from_utf8(read_to_end(&reader)).unwrap();
        task.join();
        assert!(program.wait().unwrap().success());
        let count = |wanted| text.lines().filter(|&line| line == wanted).count();
        assert_eq!((count("theirs"), count("ours"), text.lines().count()), (10, 120, 130), "{text}");
    }

    fn a_thread_that_writes_and_reads_by_itself_returns_to_the_ring() {
        let (reader, writer) = pipe();
        let capacity = writer.capacity().unwrap();
        let given = reader.try_clone().unwrap().0.into_fd().unwrap();
        write_all(&writer, &pattern::bytes(0..1000));
        let back = Reader(millstream_pipe::Reader::attach(given).unwrap());
        // Not at once, because bytes wait in the kernel's pipe, whose capacity is another.
        assert_ne!(writer.capacity().unwrap(), capacity);
        check(0, &read_exact(&back, 1000));
        let mut at = 1000;
        while writer.capacity().unwrap() != capacity {
            write_all(&writer, &pattern::bytes(at..at + 1000));
            check(at, &read_exact(&reader, 1000));
            at += 1000;
            // Asked for now and then only.
            std::thread::sleep(Duration::from_millis(1));
        }
        write_all(&writer, &pattern::bytes(at..at + 1000));
        check(at, &read_exact(&reader, 1000));
    }

    fn everything_works_after_a_given_end_was_closed_without_being_attached() {
        for gives_reader in [true, false] {
            let (reader, writer) = pipe();
            write_all(&writer, &pattern::bytes(0..1000));
            drop(match gives_reader {
                true => reader.try_clone().unwrap().0.into_fd().unwrap(),
                false => writer.try_clone().unwrap().0.into_fd().unwrap(),
            });
            assert_eq!(reader.bytes_readable().unwrap(), 1000);
            assert_eq!((now(&reader), now(&writer)), (Flags::IN, Flags::OUT));
            check(0, &read_exact(&reader, 1000));
            // Slowly: long enough for our ends to notice that the exported end is gone.
            for at in (1000..11_000).step_by(1000) {
                write_all(&writer, &pattern::bytes(at..at + 1000));
                check(at, &read_exact(&reader, 1000));
                std::thread::sleep(Duration::from_millis(3));
            }
            assert_eq!(now(&reader), Flags::empty());
            reader.set_nonblocking(true).unwrap();
            assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN);
            reader.set_nonblocking(false).unwrap();
            let clone = writer.try_clone().unwrap();
            let task = start(move || write_stream(&clone, 11_000..1_000_000, 7000));
            check(11_000, &read_exact(&reader, 989_000));
            task.join();
            if gives_reader {
                drop(writer);
                assert_eq!(reader.read(&mut [0]).unwrap(), 0);
            } else {
                drop(reader);
                assert_eq!(error_of(writer.write(&[0])), Errno::PIPE);
            }
        }
    }
}

// Many buffers.
alone! {
    fn more_buffers_than_the_kernel_takes_at_once_are_written_whole() {
        let bytes = pattern::bytes(0..1500);
        let slices: Vec<_> = bytes.chunks(1).map(IoSlice::new).collect();
        let (reader, writer) = pipe();
        assert_eq!(writer.write_vectored(&slices).unwrap(), 1500);
        check(0, &read_exact(&reader, 1500));
        let (reader, writer, _given) = pipe_in_other_hands();
        assert_eq!(writer.write_vectored(&slices).unwrap(), 1500);
        check(0, &read_exact(&reader, 1500));
    }

    fn empty_buffers_before_the_others_are_not_the_end_of_the_stream() {
        let read = |reader: &Reader| {
            let mut bytes = [0; 10];
            let mut buffers: Vec<_> = (0..1024).map(|_| IoSliceMut::new(&mut [])).collect();
            buffers.push(IoSliceMut::new(&mut bytes));
            assert_eq!(reader.read_vectored(&mut buffers).unwrap(), 10);
            check(0, &bytes);
        };
        let (reader, writer) = pipe();
        write_all(&writer, &pattern::bytes(0..10));
        read(&reader);
        let (reader, writer, _given) = pipe_in_other_hands();
        write_all(&writer, &pattern::bytes(0..10));
        read(&reader);
        let (reader, writer) = Kernel::pipe().unwrap();
        write_all(&writer, &pattern::bytes(0..10));
        read(&Reader(millstream_pipe::Reader::attach(reader.0).unwrap()));
    }
}

fn assert_told_the_truth(writer: &Writer) {
    let told = now(writer);
    match writer.write(&[0; PIPE_BUF]) {
        Ok(count) => assert_eq!((count, told), (PIPE_BUF, Flags::OUT)),
        refused => assert_eq!((error_of(refused), told), (Errno::AGAIN, Flags::empty())),
    }
}

alone! {
    fn a_watched_writer_is_ready_exactly_when_a_page_fits_after_the_pipe_was_resized() {
        let (reader, writer) = pipe();
        writer.set_nonblocking(true).unwrap();
        write_all(&writer, &[0; 5000]);
        assert_eq!(now(&writer), Flags::OUT);
        assert_eq!(reader.set_capacity(8192).unwrap(), 8192);
        assert_eq!(now(&writer), Flags::empty());
        assert_eq!(error_of(writer.write(&[0; PIPE_BUF])), Errno::AGAIN);
        assert_eq!(reader.set_capacity(16_384).unwrap(), 16_384);
        assert_eq!(now(&writer), Flags::OUT);
        let mut random = Random(41);
        for _ in 0..1000 {
            let _ = writer.write(&vec![0; random.within(1..9000)]);
            assert_told_the_truth(&writer);
            let waiting = reader.bytes_readable().unwrap();
            drop(read_exact(&reader, random.within(0..waiting + 1)));
            let asked = PIPE_BUF << random.within(0..6);
            let end = random.within(0..2);
            match if end == 0 { reader.set_capacity(asked) } else { writer.set_capacity(asked) } {
                Ok(granted) => assert_eq!(granted, asked),
                refused => assert_eq!(error_of(refused), Errno::BUSY),
            }
            assert_told_the_truth(&writer);
        }
    }
}

/// The body runs in a child of one thread, which a timer interrupts every 20 microseconds.
fn under_a_fast_timer(body: impl FnOnce()) {
    let (child, ()) = fork((), |()| {
        count_signals(Signal::ALARM, true);
        let every = |tv_usec| {
            let time = libc::timeval { tv_sec: 0, tv_usec };
            let timer = libc::itimerval { it_interval: time, it_value: time };
            // SAFETY: the kernel reads one variable and writes none.
            assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) }, 0);
        };
        every(20);
        body();
        every(0);
        assert!(HANDLED.load(SeqCst) > 100, "the timer did not run");
    });
    child.succeed();
}

fn refused_for_half_a_second(call: impl Fn() -> std::io::Result<usize>) {
    let begin = Instant::now();
    // However busy the machine is, until the timer has interrupted it often.
    let before = HANDLED.load(SeqCst);
    while begin.elapsed() < Duration::from_millis(500) || HANDLED.load(SeqCst) - before <= 100 {
        assert_eq!(error_of(call()), Errno::AGAIN);
    }
}

// Signals.
alone! {
    fn reads_that_must_not_sleep_are_not_interrupted() {
        under_a_fast_timer(|| {
            let (reader, writer) = pipe();
            reader.set_nonblocking(true).unwrap();
            refused_for_half_a_second(|| reader.read(&mut [0; 8]));
            reader.readiness().unwrap();
            refused_for_half_a_second(|| reader.read(&mut [0; 8]));
            let given = writer.try_clone().unwrap().0.into_fd().unwrap();
            refused_for_half_a_second(|| reader.read(&mut [0; 8]));
            drop(given);
            refused_for_half_a_second(|| reader.read(&mut [0; 8]));
        });
    }

    fn writes_that_must_not_sleep_are_not_interrupted() {
        under_a_fast_timer(|| {
            let (reader, writer) = pipe_of(4096);
            fill(&writer, 0);
            writer.set_nonblocking(true).unwrap();
            refused_for_half_a_second(|| writer.write(&[0; 8]));
            writer.readiness().unwrap();
            refused_for_half_a_second(|| writer.write(&[0; 8]));
            let given = reader.try_clone().unwrap().0.into_fd().unwrap();
            fill(&writer, 4096);
            writer.set_nonblocking(true).unwrap();
            refused_for_half_a_second(|| writer.write(&[0; 8]));
            drop(given);
            refused_for_half_a_second(|| writer.write(&[0; 8]));
        });
    }

    fn bytes_that_move_without_sleeping_move_whole_under_a_timer() {
        under_a_fast_timer(|| {
            let (reader, writer) = pipe();
            reader.set_nonblocking(true).unwrap();
            writer.set_nonblocking(true).unwrap();
            reader.readiness().unwrap();
            writer.readiness().unwrap();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(500) {
                assert_eq!(writer.write(&[1; 3000]).unwrap(), 3000);
                assert_eq!(reader.read(&mut [0; 3000]).unwrap(), 3000);
            }
        });
    }

    fn one_signal_comes_for_each_write_that_fails() {
        count_signals(Signal::PIPE, false);
        let mut expected = HANDLED.load(SeqCst);
        for round in 0..400 {
            let (reader, writer, given);
            match round % 4 {
                0 | 1 => ((reader, writer), given) = (pipe(), None),
                2 => {
                    ((reader, writer), given) = (pipe(), None);
                    writer.readiness().unwrap();
                }
                _ => {
                    let (r, w, g) = pipe_in_other_hands();
                    ((reader, writer), given) = ((r, w), Some(g));
                }
            }
            let leaving = start(move || {
                std::thread::sleep(Duration::from_micros(20 + 5 * round));
                drop((reader, given));
            });
            // More than fits: it sleeps, or finds no reader.
            match writer.write(&[1; 600_000]) {
                Ok(count) => assert!(count < 600_000),
                refused => assert_eq!(error_of(refused), Errno::PIPE),
            }
            leaving.join();
            expected += 1;
            assert_eq!(HANDLED.load(SeqCst), expected, "round {round}, a write that slept");
            assert_eq!(error_of(writer.write(&[1])), Errno::PIPE);
            expected += 1;
            assert_eq!(HANDLED.load(SeqCst), expected, "round {round}, a write of one byte");
        }
    }
}

alone! {
    /// Shared before the pipe is first used, so that neither process had mapped it.
    fn a_reader_that_another_process_says_it_closed_is_closed() {
        let [told, _] = shared_words();
        for round in 0..300 {
            told.store(0, SeqCst);
            let (reader, writer) = pipe_of(1 << 20);
            writer.set_nonblocking(true).unwrap();
            let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
                drop(writer);
                busy_for(Duration::from_micros(300));
                drop(reader);
                told.store(1, SeqCst);
            });
            drop(reader);
            loop {
                let is_told = told.load(SeqCst) == 1;
                let written = writer.write(b"x");
                match written {
                    Err(_) => {
                        let error = error_of(written);
                        if error == Errno::PIPE {
                            break;
                        }
                        // Full, which is no answer.
                        assert_eq!((error, is_told), (Errno::AGAIN, false), "round {round}");
                    }
                    Ok(_) => assert!(!is_told, "round {round}: written without a reader"),
                }
            }
            child.succeed();
        }
    }
}

/// A new FIFO in the file system.
struct Fifo(std::path::PathBuf);

impl Fifo {
    fn new() -> Fifo {
        let path = new_directory().unwrap().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Fifo(path)
    }

    fn open(&self, flags: OFlags) -> OwnedFd {
        rustix::fs::open(&self.0, flags | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

alone! {
    fn attaching_the_reader_of_a_fifo_that_never_had_a_writer_is_no_hangup() {
        let fifo = Fifo::new();
        let reader = kernel::Reader(fifo.open(OFlags::RDONLY | OFlags::NONBLOCK));
        assert_eq!(now(&reader), Flags::empty());
        let reader = Reader(millstream_pipe::Reader::attach(reader.0).unwrap());
        assert_eq!(now(&reader), Flags::empty());
        let writer = kernel::Writer(fifo.open(OFlags::WRONLY));
        write_all(&writer, b"x");
        assert_eq!(now(&reader), Flags::IN);
    }

    fn attaching_fifo_end_does_not_complete_foreign_open() {
        let fifo = Fifo::new();
        // A writer whose reader has left.
        let passing = fifo.open(OFlags::RDONLY | OFlags::NONBLOCK);
        let writer = fifo.open(OFlags::WRONLY);
        drop(passing);
        let path = fifo.0.clone();
        let foreign = start_and_wait_until_asleep(move || {
            rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
        });
        let writer = millstream_pipe::Writer::attach(writer).unwrap();
        wait_until_asleep(foreign.id);
        assert!(!foreign.is_finished(), "a process opened the FIFO for reading");
        let _reader = fifo.open(OFlags::RDONLY);
        drop((foreign.join(), writer));
    }
}

const WAITING: usize = 400_000;

/// The fewest and the most bytes that are said to wait while `stop` is not set.
fn extremes_until(end: &impl End, stop: &AtomicU32) -> (usize, usize) {
    let (mut least, mut most) = (usize::MAX, 0);
    loop {
        let is_last = stop.load(SeqCst) == 1;
        let count = end.bytes_readable().unwrap();
        (least, most) = (least.min(count), most.max(count));
        if is_last {
            return (least, most);
        }
    }
}

alone! {
    fn waiting_bytes_are_counted_once_while_a_thread_gives_an_end_away() {
        let [stop, _] = shared_words();
        for round in 0..200 {
            stop.store(0, SeqCst);
            let (reader, writer) = pipe();
            write_all(&writer, &[1; WAITING]);
            let task = start(move || extremes_until(&writer, stop));
            busy_for(Duration::from_micros(round));
            let _given = reader.0.into_fd().unwrap();
            stop.store(1, SeqCst);
            assert_eq!(task.join(), (WAITING, WAITING), "round {round}");
        }
    }

    fn waiting_bytes_are_counted_once_while_another_process_gives_an_end_away() {
        let [stop, _] = shared_words();
        for round in 0..100 {
            stop.store(0, SeqCst);
            let (reader, writer) = pipe();
            write_all(&writer, &[1; WAITING]);
            let (child, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
                drop(writer);
                busy_for(Duration::from_micros(2 * round));
                let _given = reader.0.into_fd().unwrap();
                stop.store(1, SeqCst);
            });
            let seen = extremes_until(&writer, stop);
            child.succeed();
            drop(reader);
            assert_eq!(seen, (WAITING, WAITING), "round {round}");
        }
    }
}

/// Positions in the header of the one pipe of this process: where writers are, and readers.
fn positions() -> (&'static AtomicU64, &'static AtomicU64) {
    let file = segments().pop().unwrap();
    // SAFETY: a new mapping of the header's page, which is never undone; others use its words as atomics only.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let file = std::os::fd::AsRawFd::as_raw_fd(&file);
        let page = libc::mmap(std::ptr::null_mut(), 4096, access, libc::MAP_SHARED, file, 0);
        assert_ne!(page, libc::MAP_FAILED);
        let position = |line| &*page.byte_add(offset(line, "position") as usize).cast();
        (position("write_pos"), position("read_pos"))
    }
}

alone! {
    fn positions_at_the_end_of_all_numbers_are_no_reason_to_end_the_process() {
        let (reader, writer) = pipe();
        write_all(&writer, b"x");
        drop(read_exact(&reader, 1));
        let (written, read) = positions();
        read.store(u64::MAX - 10, SeqCst);
        written.store(u64::MAX.wrapping_add(90), SeqCst);
        assert_eq!(reader.bytes_readable().unwrap(), 100);
        assert_eq!(read_exact(&reader, 100).len(), 100);
        for (at, transfer) in [(u64::MAX - 10, 100), (u64::MAX - 4096, 8192), (u64::MAX - 100_000, 300_000)] {
            read.store(at, SeqCst);
            written.store(at, SeqCst);
            write_all(&writer, &pattern::bytes(0..transfer));
            assert_eq!(reader.bytes_readable().unwrap() as u64, transfer);
            check(0, &read_exact(&reader, transfer as usize));
        }
        // The same while an end is exported.
        read.store(u64::MAX - 50_000, SeqCst);
        written.store(u64::MAX - 50_000, SeqCst);
        write_all(&writer, &pattern::bytes(0..100_000));
        let reader = kernel::Reader(reader.0.into_fd().unwrap());
        check(0, &read_exact(&reader, 100_000));
    }

    fn impossible_positions_are_an_error() {
        let (reader, writer) = pipe();
        write_all(&writer, b"x");
        let (written, read) = positions();
        for (write_at, read_at) in [(0, 1), (u64::MAX, 0), (0, u64::MAX - (1 << 40)), (1 << 63, 0)] {
            written.store(write_at, SeqCst);
            read.store(read_at, SeqCst);
            assert_eq!(reader.read(&mut [0; 100]).unwrap_err().kind(), std::io::ErrorKind::Other);
            assert_eq!(reader.bytes_readable().unwrap_err().kind(), std::io::ErrorKind::Other);
            // It may still know of enough room from before, and then it does not look.
            match writer.write(&[0; 100]) {
                Ok(count) => assert_eq!(count, 100),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Other),
            }
        }
    }
}

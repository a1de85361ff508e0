//! Opening a FIFO: which side waits for the other, what is refused, and what the other side sees when one opens and
//! closes (`fifo(7)`).
//!
//! Each test is generic over the implementation of writer and reader. A test of a bug that FreeBSD had for years has
//! the number of the bug in its name.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc)]

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use millstream_pipe::Fifo;
use rustix::io::Errno;
use rustix::process::Signal;

use crate::fifo::{Hand, Name};
use crate::pattern::{read_exact, write_all};
use crate::process::{HANDLED, become_unprivileged, count_signals, fork, interrupt, signal_thread};
use crate::ready::{Epoll, Flags, Sigio, WAYS, now, sleep_until_ready};
use crate::task::{Task, start, start_and_wait_until_asleep};
use crate::{End, Polled, ReadEnd, WriteEnd, error_of};

/// Makes a `#[test]` of each test of this module for writers in the hand `$writers` and readers in the hand `$readers`.
#[macro_export]
macro_rules! opening {
    ($writers:ty, $readers:ty) => {
        $crate::opening! { @ $writers, $readers;
            reader_open_waits_until_writer_opens
            writer_open_waits_until_reader_opens
            opening_for_reading_without_blocking_never_waits
            opening_for_writing_without_blocking_needs_a_reader
            opening_both_sides_never_waits_and_never_ends
            a_signal_ends_an_open_that_waits
            an_open_goes_on_after_a_restarting_signal
            a_matched_open_is_not_lost_though_the_peer_has_left_again
            a_hundred_matched_opens_survive_a_storm_of_signals
            a_reader_that_never_had_a_writer_reads_nothing_and_polls_nothing_bug_116770
            a_read_without_writers_does_not_block
            select_and_poll_return_when_the_writer_closes_bugs_76525_94772_76144
            select_and_poll_return_when_the_reader_closes_bugs_76525_94772_76144
            the_end_is_over_when_a_writer_opens_again
            a_writer_goes_on_when_a_reader_opens_again
            either_side_closes_and_opens_again_a_hundred_times
            bytes_wait_for_the_next_reader_while_a_writer_is_left
            bytes_are_gone_when_all_ends_are_closed
            open_ends_go_on_when_the_name_is_gone
            a_name_made_again_is_another_fifo
            a_hundred_waiting_readers_are_let_in_by_one_writer
            the_permissions_are_those_that_were_asked_for_less_the_umask
            open_is_refused_without_permission
            the_unprivileged_can_make_one_bug_74242
            what_is_missing_or_no_fifo_is_refused
        }
    };
    (@ $writers:ty, $readers:ty; $($test:ident)*) => {
        $(#[test] fn $test() {
            $crate::isolated::run(module_path!(), stringify!($test), $crate::opening::$test::<$writers, $readers>);
        })*
    };
}

fn both<W: Hand, R: Hand>(path: &Path) -> (R::Reader, W::Writer) {
    let reader = R::reader(path, true).unwrap();
    let writer = W::writer(path, false).unwrap();
    reader.set_nonblocking(false).unwrap();
    (reader, writer)
}

pub fn reader_open_waits_until_writer_opens<W: Hand, R: Hand>() {
    let name = Arc::new(Name::new().unwrap());
    let same = name.clone();
    let opening = start_and_wait_until_asleep(move || R::reader(same.path(), false).unwrap());
    let writer = W::writer(name.path(), true).unwrap();
    write_all(&writer, b"grain");
    assert_eq!(read_exact(&opening.join(), 5), b"grain");
}

pub fn writer_open_waits_until_reader_opens<W: Hand, R: Hand>() {
    let name = Arc::new(Name::new().unwrap());
    let same = name.clone();
    let opening = start_and_wait_until_asleep(move || W::writer(same.path(), false).unwrap());
    let reader = R::reader(name.path(), false).unwrap();
    write_all(&opening.join(), b"grain");
    assert_eq!(read_exact(&reader, 5), b"grain");
}

pub fn opening_for_reading_without_blocking_never_waits<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let reader = R::reader(name.path(), true).unwrap();
    let writer = W::writer(name.path(), true).unwrap();
    assert_eq!(error_of(reader.read(&mut [0])), Errno::AGAIN);
    drop(writer);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn opening_for_writing_without_blocking_needs_a_reader<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    assert_eq!(W::writer(name.path(), true).err().unwrap().raw_os_error(), Some(Errno::NXIO.raw_os_error()));
    let reader = R::reader(name.path(), true).unwrap();
    let writer = W::writer(name.path(), true).unwrap();
    let capacity = writer.capacity().unwrap();
    assert_eq!(writer.write(&vec![0; 2 * capacity]).unwrap(), capacity, "without blocking");
    drop((reader, writer));
    assert_eq!(W::writer(name.path(), true).err().unwrap().raw_os_error(), Some(Errno::NXIO.raw_os_error()));
}

pub fn opening_both_sides_never_waits_and_never_ends<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (kept_reader, kept_writer) = R::both(name.path()).unwrap();
    let writer = W::writer(name.path(), true).unwrap();
    write_all(&writer, b"one");
    drop(writer);
    assert_eq!(read_exact(&kept_reader, 3), b"one");
    kept_reader.set_nonblocking(true).unwrap();
    assert_eq!(error_of(kept_reader.read(&mut [0])), Errno::AGAIN, "it writes itself, so there is no end");
    write_all(&kept_writer, b"two");
    assert_eq!(read_exact(&kept_reader, 3), b"two");
    drop(kept_reader);
    assert_eq!(kept_writer.write(b"three").unwrap(), 5, "the description can still read");
    let reader = R::reader(name.path(), false).unwrap();
    drop(kept_writer);
    assert_eq!(read_exact(&reader, 5), b"three");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn a_signal_ends_an_open_that_waits<W: Hand, R: Hand>() {
    let name = Arc::new(Name::new().unwrap());
    count_signals(Signal::USR1, false);
    let same = name.clone();
    let reading = start_and_wait_until_asleep(move || R::reader(same.path(), false).err());
    interrupt(reading.id, Signal::USR1);
    assert_eq!(reading.join().unwrap().raw_os_error(), Some(Errno::INTR.raw_os_error()));
    let same = name.clone();
    let writing = start_and_wait_until_asleep(move || W::writer(same.path(), false).err());
    interrupt(writing.id, Signal::USR1);
    assert_eq!(writing.join().unwrap().raw_os_error(), Some(Errno::INTR.raw_os_error()));
    // An open that has given up does not count as a reader any longer.
    assert!(W::writer(name.path(), true).is_err());
}

pub fn an_open_goes_on_after_a_restarting_signal<W: Hand, R: Hand>() {
    let name = Arc::new(Name::new().unwrap());
    count_signals(Signal::USR1, true);
    let same = name.clone();
    let reading = start_and_wait_until_asleep(move || R::reader(same.path(), false).unwrap());
    interrupt(reading.id, Signal::USR1);
    crate::task::wait_until_asleep(reading.id);
    assert!(!reading.is_finished());
    let writer = W::writer(name.path(), true).unwrap();
    write_all(&writer, b"x");
    assert_eq!(read_exact(&reading.join(), 1), b"x");
}

pub fn a_matched_open_is_not_lost_though_the_peer_has_left_again<W: Hand, R: Hand>() {
    let name = Arc::new(Name::new().unwrap());
    for _ in 0..20 {
        let same = name.clone();
        let opening = start_and_wait_until_asleep(move || R::reader(same.path(), false).unwrap());
        drop(W::writer(name.path(), true).unwrap());
        assert_eq!(opening.join().read(&mut [0]).unwrap(), 0);
        let same = name.clone();
        let opening = start_and_wait_until_asleep(move || W::writer(same.path(), false).unwrap());
        drop(R::reader(name.path(), true).unwrap());
        assert_eq!(error_of(opening.join().write(b"x")), Errno::PIPE);
    }
}

pub fn a_hundred_matched_opens_survive_a_storm_of_signals<W: Hand, R: Hand>() {
    let name = Arc::new(Name::new().unwrap());
    count_signals(Signal::USR1, false);
    for _ in 0..100 {
        let same = name.clone();
        let opening = start(move || {
            loop {
                match R::reader(same.path(), false) {
                    // Only an open that has not been matched is interrupted, and is done again.
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    outcome => return outcome.unwrap(),
                }
            }
        });
        let thread = opening.id;
        let writer = loop {
            signal_thread(thread, Signal::USR1);
            match W::writer(name.path(), true) {
                Ok(writer) => break writer,
                Err(_) => thread::yield_now(),
            }
        };
        write_all(&writer, b"x");
        signal_thread(thread, Signal::USR1);
        // A reader that came after an interrupted one finds the byte too: the writer has kept it.
        let reader = opening.join();
        let mut byte = [0];
        while reader.read(&mut byte).is_err() {}
        assert_eq!(&byte, b"x");
    }
    assert!(HANDLED.load(SeqCst) > 0);
}

pub fn a_reader_that_never_had_a_writer_reads_nothing_and_polls_nothing_bug_116770<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let reader = R::reader(name.path(), true).unwrap();
    // Linux: poll says nothing before a first writer has come, while read says that there is none.
    assert_eq!(now(&reader), Flags::empty());
    let (edges, signals) = (Epoll::of_edges(reader.readiness().unwrap()), Sigio::of(reader.readiness().unwrap()));
    assert_eq!((edges.now(), signals.is_there()), (Flags::empty(), false));
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    assert_eq!(now(&reader), Flags::empty());
    assert_eq!((edges.now(), signals.is_there()), (Flags::empty(), false));
    drop(W::writer(name.path(), true).unwrap());
    assert_eq!(now(&reader), Flags::HUP);
    assert_eq!((edges.now(), signals.is_there()), (Flags::HUP, true));
}

pub fn a_read_without_writers_does_not_block<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    drop(writer);
    for _ in 0..3 {
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
    let never_had_one = Name::new().unwrap();
    let reader = R::reader(never_had_one.path(), true).unwrap();
    reader.set_nonblocking(false).unwrap();
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn select_and_poll_return_when_the_writer_closes_bugs_76525_94772_76144<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    let reader = Arc::new(reader);
    let tasks = WAYS.map(|way| {
        let reader = reader.clone();
        start_and_wait_until_asleep(move || sleep_until_ready(&*reader, way))
    });
    drop(writer);
    tasks.into_iter().for_each(Task::join);
    assert_eq!(now(&*reader), Flags::HUP);
}

pub fn select_and_poll_return_when_the_reader_closes_bugs_76525_94772_76144<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    crate::pattern::fill(&writer, 0);
    let writer = Arc::new(writer);
    let tasks = WAYS.map(|way| {
        let writer = writer.clone();
        start_and_wait_until_asleep(move || sleep_until_ready(&*writer, way))
    });
    drop(reader);
    tasks.into_iter().for_each(Task::join);
    assert!((Flags::OUT | Flags::ERR).contains(now(&*writer)));
}

pub fn the_end_is_over_when_a_writer_opens_again<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    let (edges, signals) = (Epoll::of_edges(reader.readiness().unwrap()), Sigio::of(reader.readiness().unwrap()));
    drop(writer);
    assert_eq!(now(&reader), Flags::HUP);
    assert_eq!((edges.now(), signals.is_there()), (Flags::HUP, true));
    let writer = W::writer(name.path(), true).unwrap();
    assert_eq!(now(&reader), Flags::empty());
    assert_eq!(edges.now(), Flags::empty());
    while signals.is_there() {}
    write_all(&writer, b"again");
    assert_eq!(now(&reader), Flags::IN);
    assert_eq!((edges.now(), signals.is_there()), (Flags::IN, true));
    drop(writer);
    assert_eq!(now(&reader), Flags::IN | Flags::HUP);
    assert_eq!((edges.now(), signals.is_there()), (Flags::IN | Flags::HUP, true));
    drop((edges, signals));
    assert_eq!(read_exact(&reader, 5), b"again");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn a_writer_goes_on_when_a_reader_opens_again<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    write_all(&writer, b"first");
    assert_eq!(read_exact(&reader, 5), b"first");
    drop(reader);
    assert_eq!(error_of(writer.write(b"lost")), Errno::PIPE);
    assert!(now(&writer).contains(Flags::ERR));
    let reader = R::reader(name.path(), false).unwrap();
    assert_eq!(now(&writer), Flags::OUT);
    write_all(&writer, b"second");
    assert_eq!(read_exact(&reader, 6), b"second");
}

pub fn either_side_closes_and_opens_again_a_hundred_times<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (mut reader, mut writer) = both::<W, R>(name.path());
    for round in 0..100_u32 {
        let bytes = round.to_le_bytes();
        write_all(&writer, &bytes);
        if round % 3 == 0 {
            drop(reader);
            reader = R::reader(name.path(), false).unwrap();
        }
        assert_eq!(read_exact(&reader, 4), bytes, "in round {round}");
        if round % 2 == 0 {
            drop(writer);
            assert_eq!(reader.read(&mut [0]).unwrap(), 0);
            writer = W::writer(name.path(), true).unwrap();
        }
    }
}

pub fn bytes_wait_for_the_next_reader_while_a_writer_is_left<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    // Read a little first, so that both are attached.
    for _ in 0..10 {
        write_all(&writer, b"grain");
        assert_eq!(read_exact(&reader, 5), b"grain");
    }
    write_all(&writer, b"for a later reader");
    drop(reader);
    assert_eq!(read_exact(&R::reader(name.path(), false).unwrap(), 18), b"for a later reader");
}

pub fn bytes_are_gone_when_all_ends_are_closed<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    write_all(&writer, b"lost");
    drop((reader, writer));
    let (reader, writer) = both::<W, R>(name.path());
    write_all(&writer, b"kept");
    drop(writer);
    assert_eq!(read_exact(&reader, 4), b"kept");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
}

pub fn open_ends_go_on_when_the_name_is_gone<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    write_all(&writer, b"before");
    std::fs::remove_file(name.path()).unwrap();
    write_all(&writer, b"after");
    assert_eq!(read_exact(&reader, 11), b"beforeafter");
    drop(writer);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    assert_eq!(R::reader(name.path(), true).err().unwrap().kind(), std::io::ErrorKind::NotFound);
}

pub fn a_name_made_again_is_another_fifo<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let (old_reader, old_writer) = both::<W, R>(name.path());
    std::fs::remove_file(name.path()).unwrap();
    Fifo::create(name.path(), 0o600).unwrap();
    let (reader, writer) = both::<W, R>(name.path());
    write_all(&old_writer, b"old");
    write_all(&writer, b"new");
    assert_eq!(read_exact(&reader, 3), b"new");
    assert_eq!(read_exact(&old_reader, 3), b"old");
}

pub fn a_hundred_waiting_readers_are_let_in_by_one_writer<W: Hand, R: Hand>() {
    let name = Arc::new(Name::new().unwrap());
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let same = name.clone();
            start(move || R::reader(same.path(), false).unwrap().read(&mut [0]).unwrap())
        })
        .collect();
    crate::task::wait_until_all_asleep(&tasks);
    drop(W::writer(name.path(), true).unwrap());
    assert!(tasks.into_iter().all(|task| task.join() == 0));
}

pub fn the_permissions_are_those_that_were_asked_for_less_the_umask<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    for (umask, asked, granted) in [(0o022, 0o666, 0o644), (0o077, 0o666, 0o600), (0, 0o622, 0o622), (0, 0, 0)] {
        std::fs::remove_file(name.path()).unwrap();
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        Fifo::create(name.path(), asked).unwrap();
        rustix::process::umask(before);
        let status = std::fs::metadata(name.path()).unwrap();
        assert!(status.file_type().is_fifo());
        assert_eq!(status.permissions().mode() & 0o7777, granted);
        assert_eq!(status.uid(), rustix::process::geteuid().as_raw());
    }
    let error = Fifo::create(name.path(), 0o600).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
}

pub fn open_is_refused_without_permission<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let allow = |mode| std::fs::set_permissions(name.path(), PermissionsExt::from_mode(mode)).unwrap();
    allow(0o644);
    let reader = R::reader(name.path(), true).unwrap();
    let (child, _) = fork((), |()| {
        become_unprivileged();
        assert_eq!(error_of(W::writer(name.path(), true).map(drop)), Errno::ACCESS);
        R::reader(name.path(), true).unwrap();
    });
    child.succeed();
    allow(0o622);
    let (child, _) = fork((), |()| {
        become_unprivileged();
        assert_eq!(error_of(R::reader(name.path(), true).map(drop)), Errno::ACCESS);
        write_all(&W::writer(name.path(), true).unwrap(), b"from another user");
    });
    child.succeed();
    assert_eq!(read_exact(&reader, 17), b"from another user");
}

pub fn the_unprivileged_can_make_one_bug_74242<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    std::fs::remove_file(name.path()).unwrap();
    let directory = name.path().parent().unwrap();
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o777)).unwrap();
    let (child, _) = fork((), |()| {
        become_unprivileged();
        Fifo::create(name.path(), 0o600).unwrap();
        let (reader, writer) = both::<W, R>(name.path());
        write_all(&writer, b"x");
        assert_eq!(read_exact(&reader, 1), b"x");
    });
    child.succeed();
}

pub fn what_is_missing_or_no_fifo_is_refused<W: Hand, R: Hand>() {
    let name = Name::new().unwrap();
    let missing = name.path().with_file_name("missing");
    assert_eq!(error_of(R::reader(&missing, true).map(drop)), Errno::NOENT);
    assert_eq!(error_of(W::writer(&missing, true).map(drop)), Errno::NOENT);
    assert_eq!(error_of(R::reader(&name.path().join("below"), true).map(drop)), Errno::NOTDIR);
    // The kernel opens whatever is there; a FIFO is asked for here.
    let file = name.path().with_file_name("file");
    std::fs::write(&file, b"").unwrap();
    assert_eq!(error_of(Fifo::reader(&file)), Errno::INVAL);
    assert_eq!(error_of(Fifo::writer("/dev/null")), Errno::INVAL);
    assert_eq!(error_of(Fifo::open(name.path(), &millstream_pipe::FifoOptions::new())), Errno::INVAL);
}

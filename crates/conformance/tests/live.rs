//! Looking at the pipes of other processes, and changing one. The census is exact for every owner, whatever the
//! processes at the pipe do meanwhile, and they do not notice it.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use millstream_conformance::ours::segments;
use millstream_conformance::pattern::Random;
use millstream_conformance::process::{Child, become_unprivileged, end, fork};
use millstream_conformance::seed::seed;
use millstream_conformance::task::{start_and_wait_until_asleep, wait_until_asleep};
use millstream_conformance::{alone, error_of};
use millstream_pipe::live::{self, Access, LivePipe, Path, SegmentErrorKind};
use millstream_pipe::{Builder, DirectPolicy, PipeError, Reader, Writer, pipe};
use millstream_ring::layout::{layout, offset};
use rustix::io::Errno;
use rustix::process::Signal;

/// Of this process's pipes, those in use.
fn ours() -> Vec<LivePipe> {
    let has_end_here = |pipe: &LivePipe| pipe.ends.iter().any(|end| end.process == std::process::id());
    live::look().unwrap().pipes.into_iter().filter(has_end_here).collect()
}

fn the_pipe() -> LivePipe {
    let mut found = ours();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn id(child: &Child) -> u32 {
    child.id.as_raw_nonzero().get().unsigned_abs()
}

/// The descriptor of an end that this process has for `access`.
fn descriptor(access: Access) -> u32 {
    let pipe = the_pipe();
    let end = pipe.ends.iter().find(|end| end.process == std::process::id() && end.access == access);
    end.expect("this process has that end").descriptor
}

fn set_capacity(access: Access, bytes: usize) -> std::io::Result<usize> {
    live::set_capacity(std::process::id(), descriptor(access), bytes)
}

/// A child that writes `bytes` and then waits for ever.
fn writer_that_stays(bytes: usize) -> (Child, Reader) {
    let (reader, mut writer) = pipe().unwrap();
    let (child, (reader, writer)) = fork((reader, writer.try_clone().unwrap()), move |(reader, _other)| {
        drop(reader);
        writer.write_all(&vec![7; bytes]).unwrap();
        loop {
            std::thread::park();
        }
    });
    drop(writer);
    (child, reader)
}

/// Returns whether no reader slept for long.
fn are_sleeps_and_wake_ups_counted_unless_it_takes_long() -> bool {
    let (reader, mut writer) = pipe().unwrap();
    let reader = Arc::new(reader);
    let mut longest = Duration::ZERO;
    let mut sleeper_sees = |look: fn() -> Option<LivePipe>| {
        let (reader, began) = (reader.clone(), Instant::now());
        let task = start_and_wait_until_asleep(move || (&*reader).read_exact(&mut [0]).unwrap());
        let seen = look();
        writer.write_all(b"x").unwrap();
        task.join();
        longest = longest.max(began.elapsed());
        seen
    };
    let asleep = sleeper_sees(|| Some(the_pipe())).unwrap();
    sleeper_sees(|| None);
    let awake = the_pipe();
    if longest > Duration::from_millis(900) {
        return false;
    }
    assert_eq!((asleep.readers_asleep, asleep.writers_asleep, asleep.is_watched), (1, 0, false));
    assert_eq!((asleep.tallies.reader_sleeps, asleep.tallies.reader_wakes), (1, 0));
    assert_eq!((awake.readers_asleep, awake.tallies.reader_sleeps, awake.tallies.reader_wakes), (0, 2, 2));
    assert_eq!((awake.tallies.writer_sleeps, awake.waiting), (0, Some(0)));
    reader.readiness().unwrap();
    let watched = the_pipe();
    assert_eq!((watched.is_watched, watched.readers_asleep), (true, 0), "a poller is no waiter");
    true
}

#[allow(unsafe_code, reason = "a promise: the processes of these tests keep to the protocol")]
fn trusting() -> (Reader, Writer) {
    // SAFETY: both ends stay with this process, which runs this crate.
    unsafe { Builder::new().trust_peers() }.create().unwrap()
}

alone! {
    fn in_place_owner_is_seen() {
        let (mut reader, mut writer) = trusting();
        writer.write_all(b"bytes").unwrap();
        let (own, workers) = (Some(std::process::id()), |pipe: LivePipe| (pipe.filled_by, pipe.looked_at_by));
        assert_eq!(workers(the_pipe()), (None, None));
        let room = writer.reserve(100).unwrap();
        assert_eq!(workers(the_pipe()), (own, None));
        let borrowed = reader.borrow().unwrap();
        assert_eq!(workers(the_pipe()), (own, own));
        drop((room, borrowed));
        assert_eq!(workers(the_pipe()), (None, None));
    }

    fn what_is_offered_is_seen() {
        let (mut reader, mut writer) = Builder::new().capacity(4096).direct(DirectPolicy::Always).create().unwrap();
        writer.write_all(&[1]).unwrap();
        assert_eq!((the_pipe().waiting, the_pipe().offered), (Some(1), 0));
        let writing = start_and_wait_until_asleep(move || writer.write(&[2; 20_000]).unwrap());
        assert_eq!((the_pipe().waiting, the_pipe().offered), (Some(4096), 20_001 - 4096));
        let mut bytes = vec![0; 20_001];
        reader.read_exact(&mut bytes[..10_000]).unwrap();
        assert_eq!(the_pipe().offered, 10_001);
        reader.read_exact(&mut bytes[10_000..]).unwrap();
        assert_eq!(writing.join(), 20_000);
        assert_eq!(the_pipe().offered, 0);
    }

    fn a_pipe_between_two_processes_is_seen_with_its_ends_and_what_waits() {
        let (child, mut reader) = writer_that_stays(1000);
        reader.read_exact(&mut [0; 300]).unwrap();
        wait_until_asleep(child.id);
        let seen = the_pipe();
        assert_eq!((seen.path, seen.capacity, seen.written), (Path::Ring, 512 << 10, 1000));
        assert_eq!((seen.waiting, seen.is_exact), (Some(700), true));
        let mut ends: Vec<_> = seen.ends.iter().map(|end| (end.process, end.access)).collect();
        ends.sort_by_key(|end| end.0 != std::process::id());
        assert_eq!(ends[0], (std::process::id(), Access::Read));
        // The child was forked by the process that made the pipe, and has two copies of the write end.
        assert!(ends[1..].iter().all(|end| *end == (id(&child), Access::Write)), "{ends:?}");
        assert!(seen.ends.iter().all(|end| !end.command.is_empty()));
        assert!(seen.holders.contains(&std::process::id()) && seen.holders.contains(&id(&child)));
    }

    fn sleeps_and_wake_ups_are_counted() {
        // After a second the timeout wakes a waiter, which sleeps again: on such a busy machine, try once more.
        while !are_sleeps_and_wake_ups_counted_unless_it_takes_long() {}
    }

    fn a_full_pipe_whose_writer_is_stopped_is_seen() {
        let (child, _reader) = writer_that_stays(1 << 20);
        wait_until_asleep(child.id);
        child.signal(Signal::STOP);
        let seen = the_pipe();
        assert_eq!((seen.waiting, seen.writers_asleep), (Some(512 << 10), 1));
    }

    fn a_pipe_that_was_not_used_is_only_counted() {
        // Others on this machine come and go, and now and then many go at once.
        let is_counted = || {
            let before = live::look().unwrap().unused;
            let made: Vec<_> = (0..3).map(|_| pipe().unwrap()).collect();
            assert!(ours().is_empty());
            (live::look().unwrap().unused + 100 >= before + made.len()).then_some(made)
        };
        let made = (0..20).find_map(|_| is_counted()).expect("they are counted");
        made[0].0.capacity().unwrap();
        assert_eq!(the_pipe().waiting, Some(0));
    }

    fn bytes_that_the_kernel_carries_are_not_guessed() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"some").unwrap();
        let given = reader.into_fd().unwrap();
        let seen = the_pipe();
        assert_eq!((seen.path, seen.waiting), (Path::Kernel, None));
        drop(given);
    }

    fn looking_leaves_every_byte_as_it_was_and_keeps_no_end_open() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(&[1; 5000]).unwrap();
        let page = |segment: &std::fs::File| {
            let mut page = [0; 4096];
            segment.read_exact_at(&mut page, 0).unwrap();
            page
        };
        let segment = segments().pop().unwrap();
        let before = (page(&segment), std::fs::read_to_string("/proc/self/maps").unwrap());
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let descriptors = open();
        assert_eq!(the_pipe().waiting, Some(5000));
        assert!(before.0 == page(&segment));
        assert_eq!(open(), descriptors);
        // While a thread looks all the time, the reader closes, and the writer gets `EPIPE` at once.
        let is_over = Arc::new(AtomicBool::new(false));
        let looker = {
            let is_over = is_over.clone();
            std::thread::spawn(move || while !is_over.load(Relaxed) { live::look().unwrap(); })
        };
        drop(reader);
        assert_eq!(error_of(writer.write(b"x")), Errno::PIPE);
        is_over.store(true, Relaxed);
        looker.join().unwrap();
    }

    fn a_header_that_is_scribbled_on_is_refused_or_possible() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(&[1; 5000]).unwrap();
        let memory = the_pipe().memory;
        let segment = segments().pop().unwrap();
        let mut random = Random::from_seed(seed());
        let words: Vec<_> = layout().collect();
        for _ in 0..300 {
            let word = words[random.within(0..words.len())];
            let value = [0, 1, 2, 31, 0x10c, u32::MAX, 1 << 31, random.within(0..1 << 32) as u32][random.within(0..8)];
            // Half of a long word now and then.
            let half = random.within(0..word.bytes / 4) * 4;
            segment.write_at(&value.to_le_bytes(), (word.offset + half) as u64).unwrap();
            let census = live::look().unwrap();
            for pipe in census.pipes.iter().filter(|pipe| pipe.memory == memory) {
                assert!(pipe.capacity <= 1 << 20 && pipe.waiting.is_none_or(|waiting| waiting <= 1 << 20), "{pipe:?}");
            }
        }
        // Something impossible for certain.
        segment.write_at(&millstream_ring::VERSION.to_le_bytes(), offset("identity", "version")).unwrap();
        for (at, word) in [(offset("identity", "magic"), b"mstream\n"), (offset("write_pos", "position"), &[0; 8]), (offset("read_pos", "position"), &[255; 8])] {
            segment.write_at(word, at).unwrap();
        }
        let census = live::look().unwrap();
        assert!(census.pipes.iter().all(|pipe| pipe.memory != memory));
        assert!(census.errors.iter().any(|error| error.process == std::process::id() && error.kind() == SegmentErrorKind::Corrupt), "{census:?}");
        drop((reader, writer));
    }

    fn a_file_that_only_has_the_name_is_told_from_a_segment() {
        let why = || {
            let unclear = live::look().unwrap().errors;
            let own = unclear.into_iter().find(|unclear| unclear.process == std::process::id());
            own.expect("this process has such a file").why
        };
        let file = std::fs::File::from(millstream_sys::memory::sealable_file().unwrap());
        file.set_len(1).unwrap();
        assert_eq!(why(), "it has no size that a segment has");
        file.set_len(4096 + (2 << 20)).unwrap();
        assert_eq!(why(), "it has no size that a segment has", "which can still change");
        millstream_sys::memory::seal_at(&file, 4096 + (2 << 20)).unwrap();
        assert_eq!(why(), "it is no segment of millstream, or not one yet");
        file.write_all_at(b"mstream\n\xff\0\0\0", 0).unwrap();
        assert!(why().contains("another version"), "{}", why());
    }

    fn processes_may_end_during_the_look() {
        let mut random = Random::from_seed(seed());
        for _ in 0..60 {
            let (children, reader): (Vec<_>, _) = {
                let (reader, writer) = pipe().unwrap();
                let child = |_| {
                    let (child, _) = fork((), |()| {
                        (&writer).write_all(&[1; 100]).unwrap();
                        loop {
                            std::thread::park();
                        }
                    });
                    child
                };
                ((0..3).map(child).collect(), reader)
            };
            let killer = std::thread::spawn(move || {
                for child in children {
                    std::thread::sleep(std::time::Duration::from_micros(random.within(0..2000) as u64));
                    child.kill();
                }
                random
            });
            while !killer.is_finished() {
                live::look().unwrap();
            }
            random = killer.join().unwrap();
            assert!(ours().len() <= 1);
            drop(reader);
        }
    }

    fn what_belongs_to_others_is_counted_and_not_shown() {
        // Only root can become another user.
        assert!(rustix::process::geteuid().is_root(), "this test has to run as root");
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"secret").unwrap();
        let memory = the_pipe().memory;
        let (parent, fd) = (std::process::id(), descriptor(Access::Read));
        let (child, (reader, _writer)) = fork((reader, writer), move |ends| {
            // Its own copies of the ends would make it a process of this pipe.
            drop(ends);
            become_unprivileged();
            let census = live::look().unwrap();
            assert!(census.left_out > 0);
            assert!(census.pipes.iter().all(|pipe| pipe.memory != memory));
            let refused = live::set_capacity(parent, fd, 4096).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
            end(0);
        });
        child.succeed();
        assert_eq!(reader.capacity().unwrap(), 512 << 10);
    }

    fn a_live_pipe_changes_its_size_and_keeps_its_bytes() {
        let (mut reader, mut writer) = pipe().unwrap();
        let bytes: Vec<u8> = (0..100_000).map(|at| (at % 251) as u8).collect();
        writer.write_all(&bytes).unwrap();
        assert_eq!(set_capacity(Access::Write, 1 << 20).unwrap(), 1 << 20);
        assert_eq!(error_of(set_capacity(Access::Read, 64 << 10)), Errno::BUSY);
        assert_eq!(set_capacity(Access::Read, 128 << 10).unwrap(), 128 << 10);
        assert_eq!((reader.capacity().unwrap(), writer.capacity().unwrap()), (128 << 10, 128 << 10));
        assert_eq!(error_of(set_capacity(Access::Read, 2 << 20)), Errno::PERM, "there are no addresses for it");
        let mut seen = vec![0; bytes.len()];
        reader.read_exact(&mut seen).unwrap();
        assert!(seen == bytes && the_pipe().path == Path::Ring);
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }

    fn a_writer_that_sleeps_at_a_full_pipe_goes_on_when_it_is_enlarged() {
        let (reader, writer) = Builder::new().capacity(4096).create().unwrap();
        let writing = start_and_wait_until_asleep(move || (&writer).write_all(&[1; 6000]).map(|()| writer));
        assert_eq!(set_capacity(Access::Read, 64 << 10).unwrap(), 64 << 10);
        writing.join().unwrap();
        assert_eq!(reader.bytes_readable().unwrap(), 6000);
    }

    fn a_pipe_of_the_kernel_is_resized_as_the_kernel_does_and_comes_back_to_the_ring() {
        let (reader, writer) = pipe().unwrap();
        reader.capacity().unwrap();
        let given: OwnedFd = reader.into_fd().unwrap();
        let fd = given.as_raw_fd().unsigned_abs();
        assert_eq!(live::set_capacity(std::process::id(), fd, 128 << 10).unwrap(), 128 << 10);
        assert_eq!(writer.capacity().unwrap(), 128 << 10);
        let mut reader = Reader::attach(given).unwrap();
        (&writer).write_all(b"back").unwrap();
        assert_eq!((the_pipe().path, the_pipe().waiting), (Path::Ring, Some(4)));
        reader.read_exact(&mut [0; 4]).unwrap();
        let writer: Writer = writer;
        drop(reader);
        assert_eq!(error_of((&writer).write(b"x")), Errno::PIPE);
    }

    fn what_is_no_pipe_of_ours_is_not_changed() {
        let own = std::process::id();
        let refusal = |fd: u32| {
            let error = live::set_capacity(own, fd, 4096).unwrap_err();
            error.get_ref().and_then(|inner| inner.downcast_ref::<PipeError>()).map(PipeError::raw_os_error)
        };
        let (plain, _other) = millstream_sys::pipe::create().unwrap();
        assert_eq!(refusal(plain.as_raw_fd().unsigned_abs()), Some(libc::EINVAL));
        assert_eq!(millstream_sys::pipe::capacity(&plain), Ok(65_536));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(refusal(file.as_raw_fd().unsigned_abs()), Some(libc::EINVAL));
        assert_eq!(live::set_capacity(own, 999_999, 4096).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

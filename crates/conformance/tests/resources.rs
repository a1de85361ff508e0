//! Too little of something: descriptors, file size, addresses, room in the usual directories. A call then says so, and
//! leaves nothing behind.

use std::io::{ErrorKind, Read, Write};

use millstream_conformance::process::private_directories;
use millstream_conformance::ready::{Flags, now};
use millstream_conformance::task::start_and_wait_until_asleep;
use millstream_conformance::{alone, error_of, ours, pattern};
use millstream_pipe::{Builder, Reader, Writer, pipe};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are open now.
fn open_files() -> usize {
    // Without the one that lists them.
    std::fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// Runs `attempt` with `free` descriptors to be had.
fn with_free_descriptors<T>(free: usize, attempt: impl FnOnce() -> T) -> T {
    let used = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut numbers: Vec<u64> = used.map(|file| file.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    numbers.retain(|number| std::fs::exists(format!("/proc/self/fd/{number}")).unwrap());
    let limit = (0..).filter(|number| !numbers.contains(number)).nth(free).unwrap();
    limited(Resource::Nofile, limit, attempt)
}

fn limited<T>(resource: Resource, limit: u64, attempt: impl FnOnce() -> T) -> T {
    let before = getrlimit(resource);
    setrlimit(resource, Rlimit { current: Some(limit), ..before }).unwrap();
    let outcome = attempt();
    setrlimit(resource, before).unwrap();
    outcome
}

/// The pipe still does what it should.
fn works(mut reader: Reader, mut writer: Writer) {
    let stream = pattern::bytes(0..3000);
    writer.write_all(&stream).unwrap();
    drop(writer);
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    assert!(all == stream);
}

alone! {
    fn a_pipe_needs_three_descriptors_and_says_so() {
        let before = open_files();
        for free in 0..3 {
            assert_eq!(error_of(with_free_descriptors(free, pipe)), Errno::MFILE, "with {free}");
            assert_eq!(open_files(), before, "with {free}");
        }
        let (reader, writer) = with_free_descriptors(3, pipe).unwrap();
        works(reader, writer);
        assert_eq!(open_files(), before);
    }

    fn a_clone_needs_a_descriptor_and_says_so() {
        let (reader, writer) = pipe().unwrap();
        let before = open_files();
        assert_eq!(error_of(with_free_descriptors(0, || reader.try_clone())), Errno::MFILE);
        assert_eq!(error_of(with_free_descriptors(0, || writer.try_clone())), Errno::MFILE);
        assert_eq!(open_files(), before);
        works(reader, writer);
    }

    fn giving_an_end_away_without_descriptors_is_an_error_that_closes_it_and_loses_nothing() {
        for free in 0..2 {
            let (reader, writer) = pipe().unwrap();
            let other = reader.try_clone().unwrap();
            assert_eq!((&writer).write(b"").unwrap(), 0);
            let before = open_files();
            assert_eq!(error_of(with_free_descriptors(free, || reader.into_fd())), Errno::MFILE, "with {free}");
            assert_eq!(open_files(), before - 1, "with {free}");
            works(other, writer);

            let (reader, writer) = pipe().unwrap();
            let other = writer.try_clone().unwrap();
            let before = open_files();
            assert_eq!(error_of(with_free_descriptors(free, || writer.into_fd())), Errno::MFILE, "with {free}");
            assert_eq!(open_files(), before - 1, "with {free}");
            works(reader, other);
        }
    }

    fn attaching_without_descriptors_works_or_is_an_error_and_leaves_nothing() {
        let base = open_files();
        for free in 0..4 {
            let (reader, writer) = pipe().unwrap();
            let given = reader.into_fd().unwrap();
            match with_free_descriptors(free, || Reader::attach(given)) {
                Ok(reader) => works(reader, writer),
                Err(error) => {
                    assert_eq!(error_of(Err::<(), _>(error)), Errno::MFILE, "with {free}");
                    drop(writer);
                }
            }
            assert_eq!(open_files(), base, "with {free}");
        }
    }

    fn a_resize_without_descriptors_happens_or_is_an_error_and_not_both() {
        let (reader, mut writer) = Builder::new().capacity(4096).create().unwrap();
        assert_eq!(with_free_descriptors(0, || reader.set_capacity(8192)).unwrap(), 8192, "nobody is asleep");
        writer.write_all(&[1; 8192]).unwrap();
        let other = writer.try_clone().unwrap();
        let sleeper = start_and_wait_until_asleep(move || writer.write(&[1; 8192]).unwrap());
        // The sleeper has to be told, and that takes a descriptor.
        assert_eq!(error_of(with_free_descriptors(0, || reader.set_capacity(16_384))), Errno::MFILE);
        assert_eq!(reader.capacity().unwrap(), 8192, "after what was said to have failed");
        assert_eq!(error_of(with_free_descriptors(0, || other.set_capacity(16_384))), Errno::MFILE);
        assert_eq!(reader.capacity().unwrap(), 8192, "after what was said to have failed");
        assert!(!sleeper.is_finished());
        assert_eq!(reader.set_capacity(16_384).unwrap(), 16_384);
        assert_eq!(sleeper.join(), 8192);
    }

    fn who_could_not_watch_for_want_of_descriptors_is_told_the_truth_the_next_time() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"grain").unwrap();
        assert_eq!(error_of(with_free_descriptors(0, || reader.readiness())), Errno::MFILE);
        assert_eq!(now(&ours::Reader(reader)), Flags::IN);

        let (_reader, mut writer) = Builder::new().capacity(4096).create().unwrap();
        writer.write_all(&[1; 4096]).unwrap();
        assert_eq!(error_of(with_free_descriptors(0, || writer.readiness())), Errno::MFILE);
        assert_eq!(now(&ours::Writer(writer)), Flags::empty());
    }

    fn a_limit_on_file_sizes_is_an_error_and_no_signal() {
        let (mut reader, mut writer) = pipe().unwrap();
        let before = open_files();
        limited(Resource::Fsize, 4096, || {
            assert_eq!(error_of(writer.write(b"grain")), Errno::FBIG);
            assert_eq!(error_of(reader.read(&mut [0; 5])), Errno::FBIG);
        });
        assert_eq!(open_files(), before);
        works(reader, writer);
    }

    fn too_few_addresses_are_an_error() {
        let (mut reader, mut writer) = pipe().unwrap();
        let before = open_files();
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
        limited(Resource::As, pages * 4096 + (1 << 20), || {
            assert_eq!(error_of(writer.write(b"grain")), Errno::NOMEM);
            assert_eq!(error_of(reader.read(&mut [0; 5])), Errno::NOMEM);
        });
        assert_eq!(open_files(), before);
        works(reader, writer);
    }

    fn full_directories_for_shared_memory_have_no_influence() {
        private_directories(64 << 10);
        for directory in ["/tmp", "/dev/shm"] {
            let full = std::fs::write(format!("{directory}/full"), vec![1; 1 << 20]).unwrap_err();
            assert_eq!(full.kind(), ErrorKind::StorageFull);
        }
        let (reader, writer) = pipe().unwrap();
        works(reader, writer);
    }
}

//! Too little of something: descriptors, file size, addresses, room in the usual directories. A call then says so, and
//! leaves nothing behind.

use std::io::{ErrorKind, Read, Write};

use millstream_conformance::kernel::{Kernel, capacity_max};
use millstream_conformance::process::{
    become_unprivileged, enter_user_namespace, fork, keep_capabilities, places_of_files, private_directories,
};
use millstream_conformance::ready::{Flags, now};
use millstream_conformance::task::start_and_wait_until_asleep;
use millstream_conformance::{End, Implementation, alone, error_of, ours, pattern};
use millstream_pipe::{Builder, Reader, Writer, pipe};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;

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

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

/// What a new pipe holds when it was asked to hold `bytes`.
fn capacity_of_new(bytes: usize) -> Result<usize, Errno> {
    let made = Builder::new().capacity(bytes).create();
    made.and_then(|(reader, _)| reader.capacity()).map_err(|error| error_of::<()>(Err(error)))
}

/// Runs in a child, which first changes its privileges.
fn the_bounds_of_the_capacity_are_exact_for(change: impl FnOnce()) {
    let (child, ()) = fork((), |()| {
        change();
        let limit = capacity_max();
        // Ask the kernel whether this process may have more.
        let (_reader, kernel) = Kernel::pipe().unwrap();
        let may_exceed = match kernel.set_capacity(2 * limit) {
            Ok(_) => true,
            refused => {
                assert_eq!(error_of(refused), Errno::PERM);
                false
            }
        };
        println!("may have more than {limit}: {may_exceed}");
        // A new pipe has at most a gibibyte.
        let if_allowed = |bytes| if may_exceed { Ok(bytes) } else { Err(Errno::PERM) };
        assert_eq!(capacity_of_new(limit), Ok(limit));
        assert_eq!(capacity_of_new(limit + 1), if_allowed(2 * limit));
        assert_eq!(capacity_of_new(GIB / 2 + 1), if_allowed(GIB));
        assert_eq!(capacity_of_new(GIB), if_allowed(GIB));
        assert_eq!(capacity_of_new(GIB + 1), Err(Errno::PERM));
        assert_eq!(capacity_of_new(2 * GIB), Err(Errno::PERM));
        assert_eq!(capacity_of_new(2 * GIB + 1), Err(Errno::INVAL));
        assert_eq!(capacity_of_new(usize::MAX), Err(Errno::INVAL));
        // An existing pipe gets at most what it was made with, or a mebibyte.
        let made_with = [4096, limit, 4 * limit];
        for made in &made_with[..if may_exceed { 3 } else { 2 }] {
            let (reader, writer) = Builder::new().capacity(*made).create().unwrap();
            let largest = if may_exceed { MIB.max(*made) } else { MIB.min(limit).max(*made) };
            assert_eq!(writer.set_capacity(4096).unwrap(), 4096);
            assert_eq!(writer.set_capacity(largest).unwrap(), largest);
            for too_much in [largest + 1, GIB, GIB + 1, 2 * GIB] {
                assert_eq!(error_of(writer.set_capacity(too_much)), Errno::PERM, "{too_much} of {made}");
                assert_eq!(error_of(reader.set_capacity(too_much)), Errno::PERM, "{too_much} of {made}");
            }
            for too_much in [2 * GIB + 1, usize::MAX] {
                assert_eq!(error_of(reader.set_capacity(too_much)), Errno::INVAL, "{too_much} of {made}");
            }
            assert_eq!(reader.capacity().unwrap(), largest);
            works(reader, writer);
        }
    });
    child.succeed();
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
        assert_eq!(with_free_descriptors(0, || reader.set_capacity(8192)).unwrap(), 8192, "without a waiter");
        writer.write_all(&[1; 8192]).unwrap();
        let other = writer.try_clone().unwrap();
        let sleeper = start_and_wait_until_asleep(move || writer.write(&[1; 8192]).unwrap());
        // The waiter needs a wake-up, and that takes a descriptor.
        assert_eq!(error_of(with_free_descriptors(0, || reader.set_capacity(16_384))), Errno::MFILE);
        assert_eq!(reader.capacity().unwrap(), 8192, "after what was said to have failed");
        assert_eq!(error_of(with_free_descriptors(0, || other.set_capacity(16_384))), Errno::MFILE);
        assert_eq!(reader.capacity().unwrap(), 8192, "after what was said to have failed");
        assert!(!sleeper.is_finished());
        assert_eq!(reader.set_capacity(16_384).unwrap(), 16_384);
        assert_eq!(sleeper.join(), 8192);
    }

    fn readiness_is_exact_after_failure_for_want_of_descriptors() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"grain").unwrap();
        assert_eq!(error_of(with_free_descriptors(0, || reader.readiness())), Errno::MFILE);
        assert_eq!(now(&ours::Reader(reader)), Flags::IN);

        let (_reader, mut writer) = Builder::new().capacity(4096).create().unwrap();
        writer.write_all(&[1; 4096]).unwrap();
        assert_eq!(error_of(with_free_descriptors(0, || writer.readiness())), Errno::MFILE);
        assert_eq!(now(&ours::Writer(writer)), Flags::empty());
    }

    fn the_bounds_of_the_capacity_are_exact() {
        the_bounds_of_the_capacity_are_exact_for(|| {});
    }

    fn the_bounds_of_the_capacity_are_exact_for_the_unprivileged() {
        the_bounds_of_the_capacity_are_exact_for(become_unprivileged);
    }

    fn the_bounds_of_the_capacity_are_exact_without_cap_sys_resource() {
        the_bounds_of_the_capacity_are_exact_for(|| {
            keep_capabilities(CapabilitySet::all() - CapabilitySet::SYS_RESOURCE);
        });
    }

    fn the_bounds_of_the_capacity_are_exact_for_root_of_a_user_namespace() {
        the_bounds_of_the_capacity_are_exact_for(enter_user_namespace);
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
        for directory in places_of_files() {
            let full = std::fs::write(directory.join("full"), vec![1; 1 << 20]).unwrap_err();
            assert_eq!(full.kind(), ErrorKind::StorageFull);
        }
        let (reader, writer) = pipe().unwrap();
        works(reader, writer);
    }
}

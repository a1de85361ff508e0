//! What is said from outside a program is what its pipes are like, and nothing that is said can break one.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;

use millstream_conformance::fifo::{self, Hand};
use millstream_conformance::pattern::{read_exact, write_all};
use millstream_conformance::task::start_and_wait_until_asleep;
use millstream_conformance::{End, alone, error_of};
use millstream_pipe::settings::{self, Name};
use millstream_pipe::{Builder, DirectPolicy, Reader, WaitPolicy, Writer, live, pipe};
use rustix::io::Errno;

/// Before the first pipe of the process.
fn set(variable: &str, value: impl AsRef<OsStr>) {
    // SAFETY: the test has this process for itself, and the one other thread of it waits for this one.
    unsafe { std::env::set_var(variable, value) };
}

/// A directory that is gone after the test.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file of the user with this in it, for this process.
fn user_file(text: &str) -> Home {
    let home = std::env::temp_dir().join(format!("millstream-settings-{}", std::process::id()));
    fs::create_dir_all(home.join("millstream")).unwrap();
    fs::write(home.join("millstream/millstream.conf"), text).unwrap();
    set("XDG_CONFIG_HOME", &home);
    Home(home)
}

/// The memory files of pipes that are open here.
fn memory_files() -> usize {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let targets = descriptors.filter_map(|path| fs::read_link(path).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("/memfd:millstream-ring")).count()
}

fn carries_bytes((mut reader, mut writer): (Reader, Writer)) {
    let bytes: Vec<u8> = (0..100_000).map(|at| at as u8).collect();
    let written = bytes.clone();
    let writing = std::thread::spawn(move || writer.write_all(&written));
    let mut seen = Vec::new();
    reader.read_to_end(&mut seen).unwrap();
    writing.join().unwrap().unwrap();
    assert!(seen == bytes);
}

fn trusting(builder: Builder) -> (Reader, Writer) {
    // SAFETY: both ends stay with this process, which runs this crate.
    unsafe { builder.trust_peers() }.create().unwrap()
}

/// Sends so many bytes by reserving and borrowing. Returns how many were not copied so far, and how often each end was
/// refused that.
fn in_place((reader, writer): &mut (Reader, Writer), bytes: usize) -> (u64, u64, u64) {
    let mut room = writer.reserve(bytes).unwrap();
    assert_eq!(room.write(&vec![9; bytes]).unwrap(), bytes);
    room.commit(bytes).unwrap();
    let mut left = bytes;
    while left > 0 {
        let borrowed = reader.borrow_up_to(left).unwrap();
        assert!(borrowed.segments().concat().iter().all(|&byte| byte == 9));
        left -= borrowed.len();
        let count = borrowed.len();
        borrowed.consume(count);
    }
    let (written, read) = (writer.statistics(), reader.statistics());
    (written.bytes_in_place + read.bytes_in_place, written.loans_refused, read.loans_refused)
}

alone! {
    fn the_environment_goes_before_the_file_and_the_program_before_both() {
        let _home = user_file("capacity = 64K\ncapacity_max = 256K\n");
        set("MILLSTREAM_CAPACITY", "128K");
        let (reader, _writer) = pipe().unwrap();
        assert_eq!(reader.capacity().unwrap(), 128 << 10);
        assert_eq!(reader.set_capacity(256 << 10).unwrap(), 256 << 10);
        assert_eq!(error_of(reader.set_capacity(512 << 10)), Errno::PERM);
        let (reader, _writer) = Builder::new().capacity(512 << 10).create().unwrap();
        assert_eq!(reader.capacity().unwrap(), 512 << 10);
    }

    fn the_file_alone_counts_too() {
        let _home = user_file("# small machines\ncapacity = 16K\n");
        let (reader, _writer) = pipe().unwrap();
        assert_eq!(reader.capacity().unwrap(), 16 << 10);
    }

    fn what_is_wrong_fails_no_pipe_and_is_told() {
        let _home = user_file("capacity = ten\nspeed = 11\n\0\0\0 = = =\ncapacity = 32K\ncapacity = 5 apples\n");
        set("MILLSTREAM_WAIT", "for godot");
        let (reader, writer) = pipe().unwrap();
        assert_eq!(reader.capacity().unwrap(), 32 << 10);
        carries_bytes((reader, writer));
        assert_eq!(settings::report().errors.len(), 5, "{:?}", settings::report().errors);
    }

    fn the_settings_are_those_of_the_first_pipe() {
        drop(pipe().unwrap());
        set("MILLSTREAM_CAPACITY", "4K");
        let (reader, _writer) = pipe().unwrap();
        assert_eq!(reader.capacity().unwrap(), 512 << 10);
        assert_eq!(settings::report().entry(Name::Capacity).value, 4096, "what a process that starts now goes by");
    }

    fn pipes_beyond_the_most_are_plain_and_count_again_when_others_are_gone() {
        set("MILLSTREAM_PIPES_MAX", "2");
        let made: Vec<_> = (0..4).map(|_| pipe().unwrap()).collect();
        assert_eq!(memory_files(), 2);
        made.into_iter().for_each(carries_bytes);
        assert_eq!(memory_files(), 0);
        let (reader, writer) = pipe().unwrap();
        assert_eq!(memory_files(), 1);
        let (_second, third) = (pipe().unwrap(), pipe().unwrap());
        // A clone is no pipe.
        let _clone = reader.try_clone().unwrap();
        assert_eq!(memory_files(), 2);
        carries_bytes(third);
        drop((reader, writer));
    }

    fn rings_of_fifos_count_as_pipes_of_which_there_may_be_so_many() {
        // Each end of a FIFO finds the ring for itself.
        set("MILLSTREAM_PIPES_MAX", "2");
        let (name, other) = (fifo::Name::new().unwrap(), fifo::Name::new().unwrap());
        let first = fifo::acquainted(&name);
        let reader = fifo::Ours::reader(other.path(), true).unwrap();
        let writer = fifo::Ours::writer(other.path(), false).unwrap();
        reader.set_nonblocking(false).unwrap();
        for _ in 0..50 {
            write_all(&writer, b"?");
            assert_eq!(read_exact(&reader, 1), b"?");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(writer.0.statistics().bytes_through_kernel, 50);
        assert!(!reader.0.has_ring() && !writer.0.has_ring());
        drop(first);
        fifo::get_acquainted(&reader, &writer);
    }

    fn no_pipe_at_all_has_shared_memory_when_the_most_is_none() {
        set("MILLSTREAM_PIPES_MAX", "0");
        let (reader, writer) = pipe().unwrap();
        assert_eq!((memory_files(), reader.capacity().unwrap()), (0, 512 << 10));
        let fd = writer.into_fd().unwrap();
        carries_bytes((reader, Writer::attach(fd).unwrap()));
    }

    fn a_reader_copies_out_of_a_writer_s_memory_when_the_settings_say_so() {
        set("MILLSTREAM_DIRECT", "always");
        let taken_directly = |(mut reader, writer): (Reader, Writer)| {
            let writing = start_and_wait_until_asleep(move || (&writer).write_all(&vec![7; 100_000]).unwrap());
            let mut bytes = vec![0; 100_000];
            reader.read_exact(&mut bytes).unwrap();
            writing.join();
            assert!(bytes.iter().all(|&byte| byte == 7));
            let statistics = reader.statistics();
            statistics.bytes_direct + statistics.direct_refused > 0
        };
        assert!(taken_directly(Builder::new().capacity(4096).create().unwrap()));
        // The program's word counts more.
        let never = Builder::new().capacity(4096).direct(DirectPolicy::Never).create().unwrap();
        assert!(!taken_directly(never));
    }

    fn nothing_is_worked_on_in_place_where_the_user_may_have_none_of_it() {
        set("MILLSTREAM_USER_LOAN_MAX", "0");
        assert_eq!(in_place(&mut trusting(Builder::new()), 1000), (0, 1, 1));
    }

    fn nor_where_an_end_may_not() {
        set("MILLSTREAM_LOAN_MAX", "0");
        assert_eq!(in_place(&mut trusting(Builder::new()), 1000), (0, 1, 1));
        // The program's word counts more.
        assert_eq!(in_place(&mut trusting(Builder::new().loan_max(1000)), 1000), (2000, 0, 0));
    }

    fn what_is_more_than_the_limit_is_copied_and_what_is_less_is_not() {
        let mut ends = trusting(Builder::new().capacity(65_536).loan_max(5000));
        assert_eq!(in_place(&mut ends, 5000), (10_000, 0, 0));
        // Written from memory of the process, and looked at in place, no more than the limit at once.
        assert_eq!(in_place(&mut ends, 5001), (10_000 + 5001, 1, 0));
        let (reader, writer) = &mut ends;
        writer.write_all(&[1; 20_000]).unwrap();
        assert_eq!(reader.borrow_up_to(20_000).unwrap().len(), 5000);
    }

    fn what_is_in_place_is_seen_from_outside() {
        let mut ends = trusting(Builder::new());
        assert_eq!(in_place(&mut ends, 1000), (2000, 0, 0));
        // Both ends, each with all that it could have reserved or peeked at; pipes of other tests may add more.
        assert!(live::look().unwrap().loaned.unwrap() >= 2 << 20);
    }

    fn an_end_waits_as_it_is_told() {
        set("MILLSTREAM_WAIT", "block");
        let looks_of = |(reader, mut writer): (Reader, Writer)| {
            let reading = start_and_wait_until_asleep(move || {
                (&reader).read_exact(&mut [0; 1]).unwrap();
                reader.statistics()
            });
            writer.write_all(b"x").unwrap();
            let statistics = reading.join();
            statistics.spins + statistics.yields
        };
        assert_eq!(looks_of(pipe().unwrap()), 0);
        // The program's word counts more.
        assert_ne!(looks_of(Builder::new().wait(WaitPolicy::Adaptive).create().unwrap()), 0);
    }
}

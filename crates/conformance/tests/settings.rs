//! What is said from outside a program is what its pipes are like, and nothing that is said can break one.
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;

use millstream_conformance::task::start_and_wait_until_asleep;
use millstream_conformance::{alone, error_of};
use millstream_pipe::settings::{self, Name};
use millstream_pipe::{Builder, Reader, WaitPolicy, Writer, pipe};
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
        assert_eq!(settings::report().complaints.len(), 5, "{:?}", settings::report().complaints);
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

    fn no_pipe_at_all_has_shared_memory_when_the_most_is_none() {
        set("MILLSTREAM_PIPES_MAX", "0");
        let (reader, writer) = pipe().unwrap();
        assert_eq!((memory_files(), reader.capacity().unwrap()), (0, 512 << 10));
        let fd = writer.into_fd().unwrap();
        carries_bytes((reader, Writer::attach(fd).unwrap()));
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

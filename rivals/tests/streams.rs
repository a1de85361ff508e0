//! What every rival must do before it may be measured: carry every byte in order between two processes, end, and leave
//! nothing behind, whoever is killed. No test here asserts a time.

use std::io::{Read, Write};
use std::sync::{Mutex, PoisonError};

use millstream_bench::engine::Launch;
use millstream_bench::engine::crew::{self, Post};
use millstream_bench::engine::placement::Placement;
use millstream_bench::pattern;
use millstream_bench::transport::{Ends, Transport, WriteEnd};
use millstream_rivals::{RIVALS, settle};

/// A helper is ended with the thread that started it, and what is left behind is looked for by the number of this process:
/// one test at a time.
static TURN: Mutex<()> = Mutex::new(());

fn in_turn(test: impl FnOnce()) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    test();
    settle();
    assert_eq!(left_behind(), Vec::<String>::new());
}

/// Names of this process in shared memory, and processes that carry them.
fn left_behind() -> Vec<String> {
    let name = format!("millstream-rivals-{}-", std::process::id());
    let entries = std::fs::read_dir("/dev/shm").unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|n| n.starts_with(&name)).collect()
}

/// Both ends in processes of their own.
fn run(
    transport: &'static dyn Transport,
    placement: Placement,
    write: impl FnOnce(Box<dyn WriteEnd>) -> Result<(), String>,
    read: impl FnOnce(Box<dyn Read>) -> Result<(), String>,
) -> Result<(), String> {
    let cpus = placement.cpus()?;
    let posts = [Post { name: "writer", cpu: cpus[0] }, Post { name: "reader", cpu: cpus[1] }];
    let Ends { writer, reader } = transport.connect(placement)?;
    let launch = crew::run(&posts, move |index| match index {
        0 => {
            drop(reader);
            write(writer).map(|()| None)
        }
        _ => {
            drop(writer);
            read(reader).map(|()| Some(Launch::of(1.0)))
        }
    });
    launch.map(|_| ())
}

/// Writes the pattern in pieces of these sizes, over and over.
fn write_pattern(mut end: Box<dyn WriteEnd>, total: u64, sizes: &[usize]) -> Result<(), String> {
    let mut position = 0;
    for &size in sizes.iter().cycle() {
        let mut bytes = vec![0; size.min((total - position) as usize)];
        pattern::fill(position, &mut bytes);
        end.write_all(&bytes).map_err(|error| format!("at byte {position}: {error}"))?;
        position += bytes.len() as u64;
        if position == total {
            break;
        }
    }
    end.finish();
    Ok(())
}

/// Reads it with buffers of these sizes, over and over, until the end, which must stay.
fn read_pattern(mut end: Box<dyn Read>, total: u64, sizes: &[usize]) -> Result<(), String> {
    let mut position = 0;
    for &size in sizes.iter().cycle() {
        let mut bytes = vec![0; size];
        let count = end.read(&mut bytes).map_err(|error| format!("at byte {position}: {error}"))?;
        if let Some(at) = pattern::first_difference(position, &bytes[..count]) {
            return Err(format!("byte {at} is wrong"));
        }
        position += count as u64;
        if count == 0 {
            break;
        }
    }
    match end.read(&mut [0]) {
        Ok(0) if position == total => Ok(()),
        again => Err(format!("the stream ended after {position} bytes, then gave {again:?}")),
    }
}

fn carries_every_byte(transport: &'static dyn Transport) {
    in_turn(|| {
        for placement in Placement::ALL {
            let total = 1 << 20;
            // Every size at least once, the longest first; buffers that fit, that are too small and too large.
            let sizes: Vec<usize> = (0..70_000).step_by(691).rev().map(|size| size + 1).collect();
            let buffers = [65_536, 1, 70_000, 4_099, 100_000];
            let seen = run(
                transport,
                placement,
                |end| write_pattern(end, total, &sizes),
                |end| read_pattern(end, total, &buffers),
            );
            assert_eq!(seen, Ok(()), "{} at {}", transport.name(), placement.name());
        }
    });
}

/// A library may be made for messages like the first: longer ones must arrive too.
fn grows_with_the_messages(transport: &'static dyn Transport) {
    in_turn(|| {
        let sizes = [1, 17, 300, 5_000, 3];
        let read = |end| read_pattern(end, 40_000, &[64, 9_999]);
        assert_eq!(run(transport, Placement::TwoCpus, |end| write_pattern(end, 40_000, &sizes), read), Ok(()));
    });
}

/// Far more than any of them holds, to a reader that comes late.
fn loses_nothing_when_the_reader_is_slow(transport: &'static dyn Transport) {
    in_turn(|| {
        let total = 64 << 20;
        let read = |mut end: Box<dyn Read>| {
            end.read_exact(&mut [0; 10_000]).map_err(|error| error.to_string())?;
            std::thread::sleep(std::time::Duration::from_millis(300));
            let (mut count, mut bytes, mut position) = (1, vec![0; 60_000], 10_000);
            while count > 0 {
                count = end.read(&mut bytes).map_err(|error| error.to_string())?;
                if let Some(at) = pattern::first_difference(position, &bytes[..count]) {
                    return Err(format!("byte {at} is wrong"));
                }
                position += count as u64;
            }
            if position == total { Ok(()) } else { Err(format!("it ended after {position} bytes")) }
        };
        let seen = run(transport, Placement::OneCpu, |end| write_pattern(end, total, &[50_000]), read);
        assert_eq!(seen, Ok(()));
    });
}

fn ends_without_a_byte(transport: &'static dyn Transport) {
    in_turn(|| {
        let write = |end: Box<dyn WriteEnd>| {
            end.finish();
            Ok(())
        };
        assert_eq!(run(transport, Placement::OneCpu, write, |end| read_pattern(end, 0, &[100])), Ok(()));
    });
}

/// Killed while the other waits for it. Some libraries then wait for ever, so what is asked is that the crew notices and
/// that nothing is left.
fn a_killed_end_stops_the_other(transport: &'static dyn Transport) {
    in_turn(|| {
        let die = || {
            millstream_sys::signals::raise_unblocked(9);
            Ok(())
        };
        let write = |mut end: Box<dyn WriteEnd>| {
            end.write_all(&[7; 1000]).map_err(|error| error.to_string())?;
            std::thread::sleep(std::time::Duration::from_millis(50));
            die()
        };
        let read = |mut end: Box<dyn Read>| {
            let mut count = 1;
            while count > 0 {
                count = end.read(&mut [0; 1000]).map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        let why = run(transport, Placement::TwoCpus, write, read).unwrap_err();
        assert!(why.contains("the writer was killed by signal 9"), "{why}");

        let write = |mut end: Box<dyn WriteEnd>| loop {
            end.write_all(&[7; 1000]).map_err(|error| error.to_string())?;
        };
        let read = |mut end: Box<dyn Read>| {
            end.read_exact(&mut [0; 1000]).map_err(|error| error.to_string())?;
            die()
        };
        let why = run(transport, Placement::TwoCpus, write, read).unwrap_err();
        assert!(why.contains("the reader was killed by signal 9"), "{why}");
    });
}

fn is_dropped_unused(transport: &'static dyn Transport) {
    in_turn(|| drop(transport.connect(Placement::OneCpu).unwrap()));
}

fn named(name: &str) -> &'static dyn Transport {
    RIVALS.map(|rival| rival.transport).into_iter().find(|transport| transport.name() == name).unwrap()
}

macro_rules! every_rival {
    ($($rival:ident $name:literal),*) => {$(
        mod $rival {
            use super::named;

            #[test]
            fn carries_every_byte() {
                super::carries_every_byte(named($name));
            }

            #[test]
            fn grows_with_the_messages() {
                super::grows_with_the_messages(named($name));
            }

            #[test]
            fn loses_nothing_when_the_reader_is_slow() {
                super::loses_nothing_when_the_reader_is_slow(named($name));
            }

            #[test]
            fn ends_without_a_byte() {
                super::ends_without_a_byte(named($name));
            }

            #[test]
            fn a_killed_end_stops_the_other() {
                super::a_killed_end_stops_the_other(named($name));
            }

            #[test]
            fn is_dropped_unused() {
                super::is_dropped_unused(named($name));
            }
        }
    )*

    #[test]
    fn every_rival_is_tested() {
        let names: Vec<&str> = RIVALS.iter().map(|rival| rival.transport.name()).collect();
        assert_eq!(names, [$($name),*]);
    }
    };
}

every_rival! {
    iceoryx2 "iceoryx2",
    zeromq "zeromq",
    ipc_channel "ipc-channel",
    boost_interprocess "boost-interprocess",
    aeron "aeron"
}

//! Processes that work in place again and again, each time with a new handle and its own in-place lock. Beside them are
//! non-blocking processes, which check at once whether the owner of the lock lives. They never take a living owner for
//! a dead one.
#![allow(unsafe_code, reason = "a promise: the processes of these tests keep to the protocol")]

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use millstream_conformance::alone;
use millstream_conformance::process::{Child, end, fork};
use millstream_pipe::{Builder, Reader, Writer};

/// Many more than CPUs, so that the kernel preempts a process at every point of its check of another.
const PROCESSES: u8 = 12;

/// How long, and how many at most: on a busy machine each turn takes long.
const TIME: Duration = Duration::from_secs(3);
const RECORDS: u32 = 5000;
const RECORD: usize = 16;

/// The number of a process's last.
const END: u32 = u32::MAX;

type Record = [u8; RECORD];

/// Its writer, in every other byte, and its number.
fn record(process: u8, number: u32) -> Record {
    let mut record = [process; RECORD];
    let bytes = record.iter_mut().step_by(2).take(4);
    bytes.zip(number.to_le_bytes()).for_each(|(to, byte)| *to = byte);
    record
}

fn pipe() -> (Reader, Writer) {
    // SAFETY: all ends stay with processes of these tests, which run this crate.
    unsafe { Builder::new().capacity(65_536).trust_peers() }.create().unwrap()
}

/// As another program would hold it, with an in-place lock of its own.
fn new_handle(writer: &Writer) -> Writer {
    writer.try_clone().unwrap()
}

/// Returns whether the record was written.
fn reserve_and_commit(writer: &Writer, bytes: &Record) -> io::Result<bool> {
    let mut writer = new_handle(writer);
    let mut room = writer.reserve(RECORD)?;
    if room.len() < RECORD {
        return Ok(false);
    }
    let (first, second) = bytes.split_at(RECORD / 2);
    room.write_all(first)?;
    std::thread::yield_now();
    room.write_all(second)?;
    room.commit(RECORD).map(|count| count == RECORD)
}

/// Writes records, and at last that it has ended.
fn write_records(process: u8, writer: &Writer) {
    let began = Instant::now();
    let all = (0..RECORDS).take_while(|_| began.elapsed() < TIME).map(|number| record(process, number));
    for record in all.chain([record(process, END)]) {
        loop {
            match reserve_and_commit(writer, &record) {
                Ok(true) => break,
                Ok(false) => std::thread::yield_now(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn all_records_come() {
    let mut state = pipe();
    state.1.set_nonblocking(true).unwrap();
    let mut children: Vec<Child> = Vec::new();
    for process in 0..PROCESSES {
        let child;
        (child, state) = fork(state, |(reader, writer)| {
            drop(reader);
            write_records(process, &writer);
            end(0);
        });
        children.push(child);
    }
    let (mut reader, writer) = state;
    drop(writer);
    let (mut next, mut came, mut buffer) = ([0; PROCESSES as usize], Vec::new(), [0; 65_536]);
    loop {
        // Much at a time: it is about the writers, and to be woken for each record takes longer than to write it.
        std::thread::sleep(Duration::from_millis(1));
        match reader.read(&mut buffer).unwrap() {
            0 => break,
            count => came.extend_from_slice(&buffer[..count]),
        }
        let (whole, rest) = came.as_chunks::<RECORD>();
        for bytes in whole {
            let process = bytes[1];
            assert!(process < PROCESSES, "{bytes:?} after {next:?} of each");
            let number = &mut next[usize::from(process)];
            if *bytes == record(process, END) {
                *number = END;
            } else {
                assert_eq!(*bytes, record(process, *number), "after {next:?} of each");
                *number += 1;
            }
        }
        came = rest.to_vec();
    }
    assert_eq!((next, came.len()), ([END; PROCESSES as usize], 0));
    children.into_iter().for_each(Child::succeed);
}

alone! {
    fn reserved_room_is_filled_by_its_owner_only() {
        all_records_come();
    }
}

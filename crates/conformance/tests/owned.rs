//! Sides of a pipe that one process owns, and that others use now and then.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use millstream_conformance::alone;
use millstream_conformance::process::fork;
use millstream_pipe::{Builder, Reader, WaitPolicy, Writer};
use rustix::process::Signal;

const RECORD: usize = 64;

/// Writes numbered records in writes of `batch`, resting between them, until `time` is over; returns how many.
fn write(mut writer: &Writer, me: u64, batch: usize, rest: Duration, time: Duration) -> u64 {
    let begin = Instant::now();
    let mut number = 0_u64;
    while begin.elapsed() < time {
        let mut bytes = Vec::new();
        for _ in 0..batch {
            let mut record = [me as u8; RECORD];
            record[..8].copy_from_slice(&number.to_le_bytes());
            number += 1;
            bytes.extend_from_slice(&record);
        }
        writer.write_all(&bytes).unwrap();
        if rest > Duration::ZERO {
            std::thread::sleep(rest);
        }
    }
    number
}

/// Reads to the end; every record is whole and comes in its writer's order.
fn read(mut reader: &Reader, dawdle: Duration) -> [u64; 8] {
    let mut next = [0_u64; 8];
    let mut record = [0; RECORD];
    let mut count = 0_u64;
    loop {
        let first = reader.read(&mut record).unwrap();
        if first == 0 {
            return next;
        }
        reader.read_exact(&mut record[first..]).unwrap();
        let me = record[8];
        assert!(record[8..].iter().all(|&byte| byte == me), "{record:?}");
        let number = u64::from_le_bytes(record[..8].try_into().unwrap());
        assert_eq!(number, next[me as usize], "of writer {me}");
        next[me as usize] += 1;
        count += 1;
        if dawdle > Duration::ZERO && count.is_multiple_of(4096) {
            std::thread::sleep(dawdle);
        }
    }
}

fn run(policy: WaitPolicy, batch: usize, rest: Duration, stop: Option<Duration>, time: Duration) {
    let (reader, writer) = Builder::new().capacity(65_536).wait(policy).create().unwrap();
    let (steady, (reader, writer)) = fork((reader, writer), |(reader, writer)| {
        drop(reader);
        write(&writer, 1, batch, Duration::ZERO, time);
    });
    let others: Vec<_> = (2..4)
        .map(|me| {
            let writer = writer.try_clone().unwrap();
            std::thread::spawn(move || write(&writer, me, batch, rest, time))
        })
        .collect();
    drop(writer);
    let stopper = stop.map(|stop| {
        let id = steady.id;
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            rustix::process::kill_process(id, Signal::STOP).unwrap();
            std::thread::sleep(stop);
            rustix::process::kill_process(id, Signal::CONT).unwrap();
        })
    });
    let next = read(&reader, Duration::from_millis(u64::from(policy == WaitPolicy::Block)));
    let done: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).collect();
    assert_eq!([next[2], next[3]], [done[0], done[1]]);
    if let Some(stopper) = stopper {
        stopper.join().unwrap();
    }
    steady.succeed();
}

alone! {
    fn steady_writer_and_two_occasional_ones_lose_no_record() {
        for policy in [WaitPolicy::Adaptive, WaitPolicy::Block] {
            for (batch, rest) in [(1, 3), (1, 0), (64, 2), (500, 5)] {
                run(policy, batch, Duration::from_millis(rest), None, Duration::from_millis(500));
            }
        }
    }

    fn a_steady_writer_that_is_stopped_for_longer_than_patience_lasts() {
        run(WaitPolicy::Adaptive, 64, Duration::from_millis(2), Some(Duration::from_secs(6)), Duration::from_secs(7));
    }
}

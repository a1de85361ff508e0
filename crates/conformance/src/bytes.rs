//! Bytes: in order, none lost, none twice, no boundaries between messages, and small writes whole.
// The names say what is promised, and every one of them panics when it is not kept.
#![allow(missing_docs, clippy::missing_panics_doc)]

use std::collections::BTreeSet;
use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;

use crate::pattern::{self, Random, check, fill, read_exact, read_stream, read_to_end, write_all, write_stream};
use crate::process::fork;
use crate::task::start;
use crate::{BetweenProcesses, End, Implementation, PIPE_BUF, ReadEnd, WriteEnd, error_of};

/// Streams `total` bytes from one thread to another.
fn stream<I: Implementation>(total: u64, write_size: usize, read_size: usize) {
    let (reader, writer) = I::pipe().unwrap();
    let task = start(move || write_stream(&writer, 0..total, write_size));
    assert_eq!(read_stream(&reader, 0, read_size), total);
    task.join();
}

pub fn a_stream_of_four_times_the_capacity_arrives_in_order<I: Implementation>() {
    stream::<I>(4 * 65_536, 1000, 777);
}

pub fn a_long_stream_arrives_whole_in_large_transfers<I: Implementation>() {
    stream::<I>(16 << 20, 100_000, 65_536);
}

pub fn a_long_stream_arrives_whole_from_small_writes_to_large_reads<I: Implementation>() {
    stream::<I>(2 << 20, 100, 131_072);
}

pub fn a_long_stream_arrives_whole_from_large_writes_to_small_reads<I: Implementation>() {
    stream::<I>(2 << 20, 131_072, 100);
}

pub fn single_bytes_arrive_in_order<I: Implementation>() {
    stream::<I>(100_000, 1, 1);
}

pub fn single_bytes_fill_the_pipe_to_its_capacity<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let capacity = writer.capacity().unwrap();
    write_stream(&writer, 0..capacity as u64, 1);
    writer.set_nonblocking(true).unwrap();
    assert_eq!(error_of(writer.write(&[0])), Errno::AGAIN);
    drop(writer);
    assert_eq!(read_stream(&reader, 0, 1), capacity as u64);
}

pub fn transfers_of_no_bytes_return_at_once_and_move_nothing<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    assert_eq!(writer.write(&[]).unwrap(), 0);
    // Both would sleep if there were anything to transfer, and neither must be taken for the end of the stream.
    assert_eq!(reader.read(&mut []).unwrap(), 0);
    let filled = fill(&writer, 0);
    assert_eq!(writer.write(&[]).unwrap(), 0);
    assert_eq!(reader.read(&mut []).unwrap(), 0);
    assert_eq!(reader.bytes_readable().unwrap(), filled);
    check(0, &read_exact(&reader, filled));
}

pub fn an_empty_list_of_buffers_is_a_transfer_of_no_bytes<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    assert_eq!(writer.write_vectored(&[]).unwrap(), 0);
    assert_eq!(reader.read_vectored(&mut []).unwrap(), 0);
    assert_eq!(writer.write_vectored(&[IoSlice::new(&[]), IoSlice::new(&[])]).unwrap(), 0);
    assert_eq!(reader.read_vectored(&mut [IoSliceMut::new(&mut [])]).unwrap(), 0);
}

pub fn an_empty_write_is_no_end_of_the_stream<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    assert_eq!(writer.write(&[]).unwrap(), 0);
    reader.set_nonblocking(true).unwrap();
    assert_eq!(error_of(reader.read(&mut [0; 10])), Errno::AGAIN);
}

/// Small writes and reads of every size in turn, in one thread, so that every alignment at the end of the buffer comes.
fn wrap_around<I: Implementation>(capacity: usize, seed: u64) {
    let (reader, writer) = I::pipe().unwrap();
    writer.set_capacity(capacity).unwrap();
    writer.set_nonblocking(true).unwrap();
    reader.set_nonblocking(true).unwrap();
    let mut random = Random(seed);
    let (mut written, mut read) = (0, 0);
    for _ in 0..20_000 {
        let size = random.within(1..PIPE_BUF + 1);
        match writer.write(&pattern::bytes(written..written + size as u64)) {
            Ok(count) => {
                assert_eq!(count, size);
                written += count as u64;
            }
            refused => assert_eq!(error_of(refused), Errno::AGAIN),
        }
        let mut buffer = vec![0; random.within(1..PIPE_BUF + 1)];
        match reader.read(&mut buffer) {
            Ok(count) => {
                check(read, &buffer[..count]);
                read += count as u64;
            }
            refused => assert_eq!((error_of(refused), read), (Errno::AGAIN, written)),
        }
        assert_eq!(reader.bytes_readable().unwrap() as u64, written - read);
    }
    drop(writer);
    assert_eq!(read_stream(&reader, read, 1000), written - read);
}

pub fn the_smallest_pipe_wraps_around_at_every_size<I: Implementation>() {
    wrap_around::<I>(4096, 1);
}

pub fn a_pipe_of_two_pages_wraps_around_at_every_size<I: Implementation>() {
    wrap_around::<I>(8192, 2);
}

pub fn a_pipe_of_the_default_size_wraps_around_at_every_size<I: Implementation>() {
    wrap_around::<I>(65_536, 3);
}

pub fn the_smallest_pipe_holds_exactly_one_page<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    assert_eq!(writer.set_capacity(4096).unwrap(), 4096);
    writer.set_nonblocking(true).unwrap();
    for round in 0..100 {
        let position = round * 4096;
        assert_eq!(writer.write(&pattern::bytes(position..position + 4096)).unwrap(), 4096);
        assert_eq!(error_of(writer.write(&[0])), Errno::AGAIN);
        check(position, &read_exact(&reader, 4096));
    }
}

pub fn a_stream_through_the_smallest_pipe_arrives_whole<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    writer.set_capacity(4096).unwrap();
    let task = start(move || {
        let (mut random, mut at) = (Random(5), 0);
        while at < 1 << 20 {
            let end = at + random.within(1..10_000) as u64;
            write_all(&writer, &pattern::bytes(at..end));
            at = end;
        }
        at
    });
    assert_eq!(read_stream(&reader, 0, 3000), task.join());
}

pub fn a_blocking_write_larger_than_the_pipe_goes_in_whole<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let task = start(move || writer.write(&pattern::bytes(0..1_000_000)).unwrap());
    assert_eq!(read_stream(&reader, 0, 30_000), 1_000_000);
    assert_eq!(task.join(), 1_000_000);
}

pub fn a_read_returns_all_that_waits_up_to_its_size<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let mut buffer = [0; 20_000];
    for sizes in [&[100, 100][..], &[1; 50], &[4096; 3], &[4000, 200, 5000], &[10_000, 1]] {
        let total: usize = sizes.iter().sum();
        sizes.iter().for_each(|&size| write_all(&writer, &vec![9; size]));
        assert_eq!(reader.read(&mut buffer[..total]).unwrap(), total, "{sizes:?}");
        // With more room than bytes too: there are no messages to stop at.
        sizes.iter().for_each(|&size| write_all(&writer, &vec![9; size]));
        assert_eq!(reader.read(&mut buffer).unwrap(), total, "{sizes:?}");
    }
}

pub fn a_read_takes_a_part_of_a_write_and_leaves_the_rest<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &pattern::bytes(0..200));
    check(0, &read_exact(&reader, 150));
    let mut buffer = [0; 200];
    assert_eq!(reader.read(&mut buffer).unwrap(), 50);
    check(150, &buffer[..50]);
}

pub fn a_large_nonblocking_write_takes_what_fits<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let capacity = writer.capacity().unwrap();
    writer.set_nonblocking(true).unwrap();
    assert_eq!(writer.write(&pattern::bytes(0..2 * capacity as u64)).unwrap(), capacity);
    check(0, &read_exact(&reader, 8192));
    let at = capacity as u64;
    assert_eq!(writer.write(&pattern::bytes(at..at + 20_000)).unwrap(), 8192);
    assert_eq!(error_of(writer.write(&[0; 20_000])), Errno::AGAIN);
    drop(writer);
    assert_eq!(read_stream(&reader, 8192, 10_000), at);
}

pub fn a_small_nonblocking_write_goes_in_whole_or_not_at_all<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let capacity = fill(&writer, 0) as u64;
    writer.set_nonblocking(true).unwrap();
    check(0, &read_exact(&reader, PIPE_BUF - 1));
    assert_eq!(error_of(writer.write(&[0; PIPE_BUF])), Errno::AGAIN);
    assert_eq!(reader.bytes_readable().unwrap() as u64, capacity - (PIPE_BUF as u64 - 1));
    check(PIPE_BUF as u64 - 1, &read_exact(&reader, 1));
    assert_eq!(writer.write(&pattern::bytes(capacity..capacity + PIPE_BUF as u64)).unwrap(), PIPE_BUF);
    drop(writer);
    assert_eq!(read_stream(&reader, PIPE_BUF as u64, 9999), capacity);
}

/// A record holds its length, its writer and how many records that writer wrote before it. The rest of its bytes
/// follow from these. It has at least [`HEADER`] bytes.
fn record(writer: u8, number: u32, len: usize) -> Vec<u8> {
    let mut record = vec![writer.wrapping_mul(31) ^ number as u8; len];
    record[..2].copy_from_slice(&(len as u16).to_le_bytes());
    record[2] = writer;
    record[3..HEADER].copy_from_slice(&number.to_le_bytes());
    record
}

const HEADER: usize = 7;
const RECORDS: u32 = 3000;

/// Writes records, each by one call. Refusals are overcome by trying again.
fn write_records(writer: &impl WriteEnd, id: u8) {
    let mut random = Random(u64::from(id) + 100);
    for number in 0..RECORDS {
        // Mostly short ones, with the largest among them.
        let size_max = [50, 500, PIPE_BUF][random.within(0..3)];
        let record = record(id, number, random.within(HEADER..size_max + 1));
        loop {
            match writer.write(&record) {
                Ok(count) => break assert_eq!(count, record.len(), "a small write was split"),
                refused => assert_eq!(error_of(refused), Errno::AGAIN),
            }
            std::thread::yield_now();
        }
    }
}

/// Reads records of so many writers to the end and checks that each is whole and in its writer's order.
fn read_records(reader: &impl ReadEnd, writers: usize) {
    let bytes = read_to_end(reader);
    let mut next = vec![0; writers];
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let len = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        let id = rest[2];
        let number = &mut next[usize::from(id)];
        assert_eq!(rest[..len], record(id, *number, len), "a record was split or is out of order");
        *number += 1;
        rest = &rest[len..];
    }
    assert_eq!(next, vec![RECORDS; writers]);
}

fn small_writes_of_threads<I: Implementation>(writers: u8, nonblocking: bool) {
    let (reader, writer) = I::pipe().unwrap();
    writer.set_nonblocking(nonblocking).unwrap();
    let clones = (0..writers).map(|id| (id, writer.try_clone().unwrap()));
    let tasks: Vec<_> = clones.map(|(id, writer)| start(move || write_records(&writer, id))).collect();
    drop(writer);
    read_records(&reader, tasks.len());
    tasks.into_iter().for_each(|task| task.join());
}

pub fn small_writes_of_two_threads_stay_whole<I: Implementation>() {
    small_writes_of_threads::<I>(2, false);
}

pub fn small_writes_of_eight_threads_stay_whole<I: Implementation>() {
    small_writes_of_threads::<I>(8, false);
}

pub fn small_nonblocking_writes_of_eight_threads_stay_whole<I: Implementation>() {
    small_writes_of_threads::<I>(8, true);
}

fn small_writes_of_processes<I: BetweenProcesses>(writers: u8, nonblocking: bool) {
    let (reader, writer) = I::pipe().unwrap();
    writer.set_nonblocking(nonblocking).unwrap();
    let mut ends = (reader, writer);
    let mut children = Vec::new();
    for id in 0..writers {
        let child;
        (child, ends) = fork(ends, |(reader, writer)| {
            drop(reader);
            write_records(&writer, id);
        });
        children.push(child);
    }
    let (reader, writer) = ends;
    drop(writer);
    read_records(&reader, children.len());
    children.into_iter().for_each(|child| child.succeed());
}

pub fn small_writes_of_two_processes_stay_whole<I: BetweenProcesses>() {
    small_writes_of_processes::<I>(2, false);
}

pub fn small_writes_of_eight_processes_stay_whole<I: BetweenProcesses>() {
    small_writes_of_processes::<I>(8, false);
}

pub fn small_nonblocking_writes_of_eight_processes_stay_whole<I: BetweenProcesses>() {
    small_writes_of_processes::<I>(8, true);
}

pub fn small_writes_stay_whole_beside_large_ones<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let other = writer.try_clone().unwrap();
    // The large writes are all zeros and may be cut anywhere; the small ones must not be.
    let large = start(move || (0..20).for_each(|_| write_all(&other, &[0; 200_000])));
    let small = start(move || (0..2000).for_each(|_| assert_eq!(writer.write(&[1; 1000]).unwrap(), 1000)));
    let bytes = read_to_end(&reader);
    assert_eq!(bytes.len(), 20 * 200_000 + 2000 * 1000);
    let runs = bytes.chunk_by(|a, b| a == b).filter(|run| run[0] == 1);
    runs.for_each(|run| assert_eq!(run.len() % 1000, 0, "a small write was split"));
    large.join();
    small.join();
}

/// Numbers of eight bytes, each by one write, and what several readers got of them.
const NUMBERS: u64 = 100_000;

fn write_numbers(writer: &impl WriteEnd) {
    (0..NUMBERS).for_each(|number| assert_eq!(writer.write(&number.to_le_bytes()).unwrap(), 8));
}

/// Reads whole numbers to the end.
fn read_numbers(reader: &impl ReadEnd, seed: u64) -> Vec<u64> {
    let mut random = Random(seed);
    let mut numbers: Vec<u64> = Vec::new();
    let mut buffer = [0; 8 * 100];
    loop {
        let wanted = 8 * random.within(1..101);
        let count = reader.read(&mut buffer[..wanted]).unwrap();
        if count == 0 {
            return numbers;
        }
        assert_eq!(count % 8, 0, "a read of whole numbers got a part of one");
        let got = buffer[..count].chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        got.for_each(|number| {
            assert!(numbers.last().is_none_or(|&last| last < number), "out of order");
            numbers.push(number);
        });
    }
}

fn assert_each_once(shares: Vec<Vec<u64>>) {
    assert_eq!(shares.iter().map(Vec::len).sum::<usize>() as u64, NUMBERS);
    let all: BTreeSet<u64> = shares.into_iter().flatten().collect();
    assert!(all.into_iter().eq(0..NUMBERS), "a number came twice and another not at all");
}

pub fn readers_share_a_stream_and_each_byte_goes_to_one<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let clones = (1..=4).map(|seed| (seed, reader.try_clone().unwrap()));
    let tasks: Vec<_> = clones.map(|(seed, reader)| start(move || read_numbers(&reader, seed))).collect();
    drop(reader);
    write_numbers(&writer);
    drop(writer);
    assert_each_once(tasks.into_iter().map(|task| task.join()).collect());
}

pub fn readers_in_four_processes_share_a_stream_and_each_byte_goes_to_one<I: BetweenProcesses>() {
    // Each child returns its share through a pipe of its own.
    let mut ends = I::pipe().unwrap();
    let (mut children, mut results) = (Vec::new(), Vec::new());
    for seed in 1..=4 {
        let (result, reply) = I::pipe().unwrap();
        let child;
        let state;
        (child, state) = fork((ends, result, reply), |((reader, writer), result, reply)| {
            drop((writer, result));
            let numbers = read_numbers(&reader, seed);
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            write_all(&reply, &bytes);
        });
        let (kept, result, reply) = state;
        drop(reply);
        ends = kept;
        children.push(child);
        results.push(result);
    }
    let (reader, writer) = ends;
    drop(reader);
    write_numbers(&writer);
    drop(writer);
    let numbers =
        |bytes: Vec<u8>| bytes.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect::<Vec<_>>();
    assert_each_once(results.iter().map(|result| numbers(read_to_end(result))).collect());
    children.into_iter().for_each(|child| child.succeed());
}

pub fn vectored_transfers_keep_the_order<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let task = start(move || {
        let (mut random, mut at) = (Random(8), 0);
        for _ in 0..2000 {
            let sizes: [usize; 4] = std::array::from_fn(|_| random.within(0..3000));
            let total = sizes.iter().sum::<usize>() as u64;
            let all = pattern::bytes(at..at + total);
            let (mut rest, mut parts) = (&all[..], Vec::new());
            for size in sizes {
                let (part, more) = rest.split_at(size);
                parts.push(IoSlice::new(part));
                rest = more;
            }
            assert_eq!(writer.write_vectored(&parts).unwrap() as u64, total, "a blocking write is never short");
            at += total;
        }
        at
    });
    let (mut random, mut at) = (Random(9), 0);
    loop {
        let mut buffers: [Vec<u8>; 4] = std::array::from_fn(|_| vec![0; random.within(0..3000)]);
        let mut parts: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let count = reader.read_vectored(&mut parts).unwrap();
        if count == 0 && parts.iter().any(|part| !part.is_empty()) {
            break;
        }
        check(at, &buffers.concat()[..count]);
        at += count as u64;
    }
    assert_eq!(at, task.join());
}

pub fn a_vectored_read_fills_its_buffers_in_turn<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    write_all(&writer, &pattern::bytes(0..250));
    let (mut first, mut second, mut third) = ([0; 100], [0; 100], [0; 100]);
    let mut parts = [&mut first[..], &mut [], &mut second, &mut third].map(IoSliceMut::new);
    assert_eq!(reader.read_vectored(&mut parts).unwrap(), 250);
    check(0, &[first, second, third].concat()[..250]);
    assert_eq!(third[50..], [0; 50]);
}

pub fn a_small_vectored_write_goes_in_whole_or_not_at_all<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    fill(&writer, 0);
    writer.set_nonblocking(true).unwrap();
    let parts = [&[1; 2000][..], &[2; 2000], &[], &[3; 96]].map(IoSlice::new);
    drop(read_exact(&reader, PIPE_BUF - 1));
    assert_eq!(error_of(writer.write_vectored(&parts)), Errno::AGAIN);
    drop(read_exact(&reader, 1));
    assert_eq!(writer.write_vectored(&parts).unwrap(), PIPE_BUF);
    assert_eq!(error_of(writer.write_vectored(&parts)), Errno::AGAIN);
}

pub fn a_large_nonblocking_vectored_write_takes_what_fits<I: Implementation>() {
    let (reader, writer) = I::pipe().unwrap();
    let filled = fill(&writer, 0) as u64;
    writer.set_nonblocking(true).unwrap();
    check(0, &read_exact(&reader, 2 * PIPE_BUF));
    let all = pattern::bytes(filled..filled + 30_000);
    let parts = [&all[..5000], &all[5000..5001], &all[5001..]].map(IoSlice::new);
    assert_eq!(writer.write_vectored(&parts).unwrap(), 2 * PIPE_BUF);
    drop(writer);
    assert_eq!(read_stream(&reader, 2 * PIPE_BUF as u64, 1000), filled);
}

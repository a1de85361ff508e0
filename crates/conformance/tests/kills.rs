//! Thousands of deaths: a child streams through a pipe and is killed, or stopped and continued, or stopped and killed,
//! at a moment that a seed decides; the survivors check what the contract promises them. The bytes left are exactly a
//! beginning of the stream, with all bytes of the writes that had returned before the kill. Then comes the end, or
//! `EPIPE`. Each call takes one of the ways of `conformance::paths`.
//!
//! `make test` runs 3000 kills in half a minute. What fails prints the seed; `MILLSTREAM_SEED=N` in the environment
//! begins with the same again, and `MILLSTREAM_KILLS=N` runs N for as long as that takes:
//!
//! ```text
//! MILLSTREAM_KILLS=100000 cargo test --release -p millstream-conformance --test kills -- --nocapture
//! ```

use std::io::{Read, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use millstream_conformance::ours::become_quiet;
use millstream_conformance::paths::{READ_PATHS, WRITE_PATHS};
use millstream_conformance::pattern::{self, Random};
use millstream_conformance::process::{Child, files_left, fork, private_directories};
use millstream_conformance::seed::{number, seed};
use millstream_conformance::task::start;
use millstream_conformance::{PIPE_BUF, alone, error_of};
use millstream_pipe::{Builder, DirectPolicy, Reader, WaitPolicy, Writer};
use millstream_sys::shared::Shared;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// Kills of all tests of this file together, unless the environment says how many.
const KILLS: u64 = 3000;
const TESTS: u64 = 4;

/// What is done to the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Kill,
    StopAndContinue,
    StopAndKill,
}

/// One kill, all of which follows from its seed.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    blow: Blow,
    capacity: usize,
    policy: WaitPolicy,
    direct: DirectPolicy,
    largest: usize,
    moment: Duration,
    /// How long a stopped child is left standing.
    stop: Duration,
    /// Whether survivors dawdle, so that the child finds the ring full, or empty, and sleeps.
    dawdles: bool,
    /// Whether readers that sleep do so in the kernel's pipe from the beginning.
    is_quiet: bool,
    random: Random,
}

impl Case {
    fn of(seed: u64) -> Case {
        let mut random = Random::from_seed(seed);
        let policy = [WaitPolicy::Adaptive, WaitPolicy::Block, WaitPolicy::Spin][random.within(0..3)];
        Case {
            seed,
            blow: [Blow::Kill, Blow::Kill, Blow::StopAndContinue, Blow::StopAndKill][random.within(0..4)],
            capacity: [4096, 8192, 65_536, millstream_pipe::DEFAULT_CAPACITY][random.within(0..4)],
            policy,
            direct: [DirectPolicy::Adaptive, DirectPolicy::Always][random.within(0..2)],
            largest: [64, 1000, PIPE_BUF, 65_536][random.within(0..4)],
            moment: Duration::from_nanos(
                [0..3000, 0..200_000, 0..3_000_000].map(|range| random.within(range))[seed as usize % 3] as u64,
            ),
            stop: Duration::from_nanos(random.within(0..500_000) as u64),
            dawdles: random.within(0..2) == 0,
            // An end that spins never sleeps.
            is_quiet: policy != WaitPolicy::Spin && random.within(0..4) == 0,
            random,
        }
    }

    fn pipe(&self) -> (Reader, Writer) {
        let builder = Builder::new().capacity(self.capacity).wait(self.policy).direct(self.direct);
        let (reader, writer) = builder.create().unwrap();
        if self.is_quiet {
            become_quiet(&reader, &writer).unwrap();
        }
        (reader, writer)
    }

    fn size(&mut self) -> usize {
        self.random.within(1..self.largest + 1)
    }

    /// One call, by one of the ways.
    fn write(&mut self, writer: &Writer, bytes: &[u8]) -> std::io::Result<usize> {
        let path = &WRITE_PATHS[self.random.within(0..WRITE_PATHS.len())];
        (path.whole_if_small(bytes.len()).write)(writer, bytes)
    }

    /// One call, by one of the ways.
    fn read(&mut self, reader: &Reader, buffer: &mut [u8]) -> std::io::Result<usize> {
        (READ_PATHS[self.random.within(0..READ_PATHS.len())].read)(reader, buffer)
    }

    /// One call that takes bytes which follow each other, even beside another reader.
    fn read_once(&mut self, reader: &Reader, buffer: &mut [u8]) -> std::io::Result<usize> {
        let path = &READ_PATHS[self.random.within(0..READ_PATHS.len())];
        (if path.takes_once { path } else { &READ_PATHS[0] }.read)(reader, buffer)
    }

    fn is_fatal(&self) -> bool {
        self.blow != Blow::StopAndContinue
    }

    /// Sometimes wastes some time.
    fn dawdle(&mut self) {
        if self.dawdles && self.random.within(0..30) == 0 {
            wait_for(Duration::from_nanos(self.random.within(0..200_000) as u64));
        }
    }

    /// Does what the case wants to `child`, which must not be waited for before this is over.
    fn strike(&self, child: Pid) {
        wait_for(self.moment);
        match self.blow {
            Blow::Kill => kill_process(child, Signal::KILL).unwrap(),
            Blow::StopAndContinue | Blow::StopAndKill => {
                kill_process(child, Signal::STOP).unwrap();
                wait_for(self.stop);
                let last = if self.is_fatal() { Signal::KILL } else { Signal::CONT };
                kill_process(child, last).unwrap();
            }
        }
    }
}

/// Waits to the nanosecond where that is short; a sleep takes 50 microseconds longer than asked for.
fn wait_for(time: Duration) {
    let begin = Instant::now();
    if time > Duration::from_micros(100) {
        std::thread::sleep(time - Duration::from_micros(80));
    }
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What the child says, in memory that outlives it.
struct Said(Shared);

/// Bytes in all the calls that have returned.
const DONE: usize = 0;
/// Bytes asked for by the call that is just made.
const ASKED: usize = 8;
/// From here on: for each unit of the stream how often it was read; a table for each of two readers.
const UNITS: [usize; 2] = [4096, 4096 + 8 * MOST_UNITS];
const MOST_UNITS: usize = 4096;
const UNIT: usize = 64;

impl Said {
    fn new() -> Said {
        Said(Shared::anonymous(4096 + 2 * 8 * MOST_UNITS).unwrap())
    }

    fn clear(&self) {
        (0..4096 + 2 * 8 * MOST_UNITS).step_by(8).for_each(|word| self.0.word(word).store(0, Relaxed));
    }

    fn get(&self, word: usize) -> u64 {
        self.0.word(word).load(Relaxed)
    }

    fn asks(&self, bytes: usize) {
        self.0.word(ASKED).store(bytes as u64, Relaxed);
    }

    /// In this order: a process that dies between the two stores has said less than it did.
    fn has_done(&self, bytes: usize) {
        self.0.word(DONE).store(self.get(DONE) + bytes as u64, Relaxed);
        self.asks(0);
    }
}

/// Runs this test's share of the kills, and looks whether they have left anything behind.
fn kill_many(run: impl Fn(Case, &Said)) {
    private_directories(1 << 20);
    let kills = number("MILLSTREAM_KILLS").unwrap_or(KILLS).div_ceil(TESTS);
    let said = Said::new();
    let before = open_files();
    let began = Instant::now();
    for seed in seed()..seed() + kills {
        let case = Case::of(seed);
        // Printed before: a case that hangs is ended from outside.
        println!("MILLSTREAM_SEED={seed} {case:?}");
        said.clear();
        run(case, &said);
    }
    println!("{kills} kills in {:?}", began.elapsed());
    assert_eq!(open_files(), before, "descriptors are left");
    let mappings = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!mappings.contains("memfd:"), "memory is left:\n{mappings}");
    assert_eq!(files_left(), [""; 0], "files are left");
    let children = rustix::process::waitpid(None, rustix::process::WaitOptions::NOHANG);
    assert_eq!(children.err(), Some(Errno::CHILD), "a process is left");
}

fn open_files() -> Vec<String> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    // Not the directory itself, which has a number while it is read.
    let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    let mut targets: Vec<_> = targets.map(|target| target.display().to_string()).collect();
    targets.retain(|target| !target.starts_with("/proc/"));
    targets.sort();
    targets
}

/// The child is dead, or has done all that it should.
fn bury(case: &Case, child: Child) {
    let status = child.wait();
    // It may have come to its end before the blow.
    let is_fine = status.exit_status() == Some(0) || status.terminating_signal() == Some(Signal::KILL.as_raw());
    assert!(is_fine && (case.is_fatal() || status.exit_status() == Some(0)), "the child ended with {status:?}");
}

/// Bytes of a stream that is not cut off.
const WHOLE: u64 = 256 << 10;

fn writer_dies(mut case: Case, said: &Said) {
    let length = if case.is_fatal() { u64::MAX } else { WHOLE };
    let (child, (mut reader, writer)) = fork(case.pipe(), |(reader, writer)| {
        drop(reader);
        let (mut case, mut at) = (case.clone(), 0);
        while at < length {
            let bytes = pattern::bytes(at..length.min(at + case.size() as u64));
            said.asks(bytes.len());
            let count = case.write(&writer, &bytes).unwrap();
            said.has_done(count);
            at += count as u64;
        }
    });
    drop(writer);
    let (striker, id) = (case.clone(), child.id);
    let striking = start(move || striker.strike(id));
    let (mut total, mut buffer) = (0, vec![0; 65_536]);
    loop {
        let size = case.size();
        let count = case.read(&reader, &mut buffer[..size]).unwrap();
        if count == 0 {
            break;
        }
        pattern::check(total, &buffer[..count]);
        total += count as u64;
        case.dawdle();
    }
    assert_eq!(reader.read(&mut buffer).unwrap(), 0, "the end stays the end");
    striking.join();
    bury(&case, child);
    let (done, asked) = (said.get(DONE), said.get(ASKED));
    if case.is_fatal() {
        assert!(total >= done && total <= done + asked, "{total} bytes came of {done} written and {asked} begun");
        let is_whole = total == done || total == done + asked;
        assert!(is_whole || asked > PIPE_BUF as u64, "{total} bytes: a part of a small write after {done} bytes");
    } else {
        assert_eq!((total, done), (WHOLE, WHOLE));
    }
}

fn reader_dies(mut case: Case, said: &Said) {
    let length = if case.is_fatal() { u64::MAX } else { WHOLE };
    let (child, (reader, mut writer)) = fork(case.pipe(), |(reader, writer)| {
        drop(writer);
        let (mut case, mut at, mut buffer) = (case.clone(), 0, vec![0; 65_536]);
        loop {
            let size = case.size();
            let count = case.read(&reader, &mut buffer[..size]).unwrap();
            if count == 0 {
                break;
            }
            pattern::check(at, &buffer[..count]);
            at += count as u64;
            said.has_done(count);
        }
        assert_eq!(at, length, "the end came early");
    });
    drop(reader);
    let (striker, id) = (case.clone(), child.id);
    let striking = start(move || striker.strike(id));
    let mut at = 0;
    let refused = loop {
        let bytes = pattern::bytes(at..length.min(at + case.size() as u64));
        if bytes.is_empty() {
            break None;
        }
        match case.write(&writer, &bytes) {
            Ok(count) => at += count as u64,
            refused => break Some(error_of(refused)),
        }
        case.dawdle();
    };
    if case.is_fatal() {
        assert_eq!(refused, Some(Errno::PIPE));
        assert_eq!(error_of(writer.write(&[0])), Errno::PIPE, "and stays so");
    } else {
        assert_eq!(refused, None);
    }
    drop(writer);
    striking.join();
    bury(&case, child);
    // Of a write that found no reader for its last part that part is not counted.
    let read = said.get(DONE);
    assert!(read <= at + 65_536, "{read} bytes were read of {at}");
    assert!(case.is_fatal() || read == WHOLE);
}

/// A record says whose it is, which one it is and how long; what follows is the stream from its number on.
fn record(who: u8, number: u32, len: usize) -> Vec<u8> {
    let mut record = vec![who];
    record.extend(number.to_le_bytes());
    record.extend((len as u16).to_le_bytes());
    record.extend(pattern::bytes(u64::from(number)..u64::from(number) + len as u64 - 7));
    record
}

const RECORDS: u32 = 300;

fn one_of_two_writers_dies(mut case: Case, said: &Said) {
    case.largest = case.largest.min(PIPE_BUF);
    let write_records = |case: &mut Case, who: u8, writer: &mut Writer, count: u32, said: Option<&Said>| {
        for number in 0..count {
            let record = record(who, number, case.size().max(7));
            said.inspect(|said| said.asks(1));
            assert_eq!(case.write(writer, &record).unwrap(), record.len());
            said.inspect(|said| said.has_done(1));
        }
    };
    let count = if case.is_fatal() { u32::MAX } else { RECORDS };
    let (victim, (reader, writer)) = fork(case.pipe(), |(reader, mut writer)| {
        drop(reader);
        write_records(&mut case.clone(), 0, &mut writer, count, Some(said));
    });
    let (survivor, (reader, writer)) = fork((reader, writer), |(reader, mut writer)| {
        drop(reader);
        let mut case = Case::of(case.seed + 1);
        case.largest = case.largest.min(PIPE_BUF);
        write_records(&mut case, 1, &mut writer, RECORDS, None);
    });
    drop(writer);
    let (striker, id) = (case.clone(), victim.id);
    let striking = start(move || striker.strike(id));
    let (mut bytes, mut next) = (Vec::new(), [0, 0]);
    let mut buffer = vec![0; 65_536];
    loop {
        let size = case.random.within(1..65_536);
        let count = case.read(&reader, &mut buffer[..size]).unwrap();
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..count]);
        let mut used = 0;
        while let Some(head) = bytes[used..].first_chunk::<7>() {
            let len = usize::from(u16::from_le_bytes([head[5], head[6]]));
            let Some(found) = bytes[used..].get(..len) else { break };
            let who = head[0];
            assert!(who < 2 && len >= 7 && found == record(who, next[usize::from(who)], len), "a record is not whole");
            next[usize::from(who)] += 1;
            used += len;
        }
        bytes.drain(..used);
        case.dawdle();
    }
    assert!(bytes.is_empty(), "half a record is left");
    striking.join();
    bury(&case, victim);
    survivor.succeed();
    let (done, asked, came) = (said.get(DONE), said.get(ASKED), u64::from(next[0]));
    assert_eq!(next[1], RECORDS, "of the survivor's records");
    assert!(came >= done && came <= done + asked, "{came} records came of {done}");
}

fn one_of_two_readers_dies(mut case: Case, said: &Said) {
    // All in whole units, so that every read begins with one, which says where in the stream it belongs.
    let units = case.random.within(1..MOST_UNITS);
    let size = |case: &mut Case| case.size().next_multiple_of(UNIT);
    let read_units = |case: &mut Case, reader: &mut Reader, table: usize, is_victim: bool| {
        let mut buffer = vec![0; 65_536 + UNIT];
        loop {
            let size = size(case);
            if is_victim {
                said.asks(size);
            }
            let count = case.read_once(reader, &mut buffer[..size]).unwrap();
            if count == 0 {
                break;
            }
            assert_eq!(count % UNIT, 0);
            for unit in buffer[..count].chunks(UNIT) {
                let at = u64::from_le_bytes(*unit.first_chunk().unwrap());
                assert!(unit[8..] == pattern::bytes(at..at + UNIT as u64 - 8), "unit {at} is damaged");
                said.0.word(table + 8 * at as usize).fetch_add(1, Relaxed);
            }
            if !is_victim {
                case.dawdle();
            }
        }
    };
    let (victim, (reader, writer)) = fork(case.pipe(), |(mut reader, writer)| {
        drop(writer);
        read_units(&mut case.clone(), &mut reader, UNITS[0], true);
    });
    let (survivor, (reader, writer)) = fork((reader, writer), |(mut reader, writer)| {
        drop(writer);
        read_units(&mut Case::of(case.seed + 1), &mut reader, UNITS[1], false);
    });
    drop(reader);
    let (striker, id) = (case.clone(), victim.id);
    let striking = start(move || striker.strike(id));
    let mut stream = Vec::new();
    for unit in 0..units as u64 {
        stream.extend(unit.to_le_bytes());
        stream.extend(pattern::bytes(unit..unit + UNIT as u64 - 8));
    }
    let mut rest = &stream[..];
    while !rest.is_empty() {
        let size = size(&mut case).min(rest.len());
        // A write may return early when a reader dies; none of its bytes is lost.
        let count = case.write(&writer, &rest[..size]).unwrap();
        rest = &rest[count..];
    }
    drop(writer);
    striking.join();
    bury(&case, victim);
    survivor.succeed();
    let times_read = |unit: usize| UNITS.iter().map(|table| said.get(table + 8 * unit)).sum::<u64>();
    let missing: Vec<_> = (0..units).filter(|&unit| times_read(unit) == 0).collect();
    assert!((0..units).all(|unit| times_read(unit) <= 1), "a unit was read twice");
    let asked = said.get(ASKED) as usize;
    if let (Some(first), Some(last)) = (missing.first(), missing.last()) {
        assert!(case.is_fatal(), "{missing:?} are lost, and no process died");
        assert_eq!(last - first + 1, missing.len(), "{missing:?} are not what one call can have taken along");
        assert!(missing.len() * UNIT <= asked, "{missing:?} are more than {asked} bytes");
    }
}

alone! {
    fn a_killed_writer_leaves_what_it_wrote_and_the_end() {
        kill_many(writer_dies);
    }

    fn a_killed_reader_leaves_a_broken_pipe() {
        kill_many(reader_dies);
    }

    fn the_other_writer_of_a_killed_one_goes_on_and_records_are_whole() {
        kill_many(one_of_two_writers_dies);
    }

    fn the_other_reader_of_a_killed_one_gets_the_rest() {
        kill_many(one_of_two_readers_dies);
    }
}

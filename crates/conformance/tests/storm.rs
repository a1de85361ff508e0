//! Sixty-four writers and sixty-four readers of one FIFO, ours and plain, that open, close and are killed at random; and
//! an account of every record. `MILLSTREAM_STORM` is how many seconds it lasts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use millstream_conformance::fifo::{Hand, Name, Ours, Plain};
use millstream_conformance::pattern::{Random, write_all};
use millstream_conformance::process::{Child, fork};
use millstream_conformance::{ReadEnd, WriteEnd, alone};
use millstream_sys::shared::Shared;
use rustix::io::Errno;

const SIDE: usize = 64;

/// Bytes of a record: every write is one, so none is torn, though pages do not hold a whole number of them.
const RECORD: usize = 100;

/// Records that a writer writes in its life, and a reader takes at once, at most.
const RECORDS: usize = 60;
const AT_ONCE: usize = 16;

/// Processes that may write in one storm.
const LIVES: usize = 30_000;

/// What the processes tell each other: for each life how many records were written, and for each record how often it was
/// read.
struct Account(Shared);

impl Account {
    fn new() -> Account {
        Account(Shared::anonymous(8 * LIVES * (1 + RECORDS)).unwrap())
    }

    fn written(&self, life: usize) -> &AtomicU64 {
        self.0.word(8 * life)
    }

    fn read(&self, life: usize, index: usize) -> &AtomicU64 {
        self.0.word(8 * (LIVES + life * RECORDS + index))
    }
}

fn write_records(writer: &impl WriteEnd, account: &Account, life: usize, count: usize) {
    for index in 0..count {
        let mut record = [life as u8; RECORD];
        record[..8].copy_from_slice(&(life as u64).to_le_bytes());
        record[8..16].copy_from_slice(&(index as u64).to_le_bytes());
        write_all(writer, &record);
        account.written(life).store(index as u64 + 1, SeqCst);
    }
}

/// Reads `turns` times, or until nothing waits if the end does not block.
fn read_records(reader: &impl ReadEnd, account: &Account, turns: usize) {
    let (mut buffer, mut last) = ([0; AT_ONCE * RECORD], HashMap::new());
    for _ in 0..turns {
        let count = match reader.read(&mut buffer) {
            Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => return,
            outcome => outcome.unwrap(),
        };
        assert_eq!(count % RECORD, 0, "a torn record");
        for record in buffer[..count].chunks(RECORD) {
            let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap()) as usize;
            let (life, index) = (number(0), number(8));
            assert!(record[16..].iter().all(|&byte| byte == life as u8), "a mixed record");
            assert!(last.insert(life, index).is_none_or(|before| before < index), "out of order");
            assert_eq!(account.read(life, index).fetch_add(1, SeqCst), 0, "record {index} of {life} came twice");
        }
    }
}

fn writer_of(name: &Name, account: &Account, life: usize, is_ours: bool, count: usize) -> Child {
    let body = |()| match is_ours {
        true => write_records(&Ours::writer(name.path(), false).unwrap(), account, life, count),
        false => write_records(&Plain::writer(name.path(), false).unwrap(), account, life, count),
    };
    fork((), body).0
}

fn reader_of(name: &Name, account: &Account, is_ours: bool, turns: usize) -> Child {
    let body = |()| match is_ours {
        true => read_records(&Ours::reader(name.path(), false).unwrap(), account, turns),
        false => read_records(&Plain::reader(name.path(), false).unwrap(), account, turns),
    };
    fork((), body).0
}

/// Whether a child has ended; one that failed is not forgiven.
fn has_ended(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(child.id), options).unwrap().is_some()
}

fn storm(plain_one_in: usize) {
    let seconds = std::env::var("MILLSTREAM_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let (name, account) = (Name::new().unwrap(), Account::new());
    // Somebody always has both sides open, so nobody waits in open, ends or lacks a reader.
    let (held_reader, held_writer) = Plain::both(name.path()).unwrap();
    let mut random = Random(seconds);
    let (mut writers, mut readers): (Vec<Child>, Vec<Child>) = (Vec::new(), Vec::new());
    let (mut life, mut killed_readers, mut killed_writers) = (0, 0, 0);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) && life + SIDE < LIVES {
        while writers.len() < SIDE {
            let is_ours = random.within(0..plain_one_in) != 0;
            writers.push(writer_of(&name, &account, life, is_ours, 1 + random.within(0..RECORDS)));
            life += 1;
        }
        while readers.len() < SIDE {
            let is_ours = random.within(0..plain_one_in) != 0;
            readers.push(reader_of(&name, &account, is_ours, 1 + random.within(0..200)));
        }
        for (side, killed) in [(&mut writers, &mut killed_writers), (&mut readers, &mut killed_readers)] {
            let victim = side.swap_remove(random.within(0..SIDE));
            if has_ended(&victim) {
                victim.succeed();
            } else {
                *killed += 1;
                victim.signal(rustix::process::Signal::KILL);
                drop(victim);
            }
            for index in (0..side.len()).rev() {
                if has_ended(&side[index]) {
                    side.swap_remove(index).succeed();
                }
            }
        }
    }
    // The writers finish while readers are left; then the readers go, and what nobody took is read here.
    for writer in writers {
        while !has_ended(&writer) {
            readers.retain(|reader| !has_ended(reader));
            while readers.len() < SIDE / 8 {
                readers.push(reader_of(&name, &account, true, 50));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        writer.succeed();
    }
    let last = Ours::reader(name.path(), true).unwrap();
    killed_readers += readers.len();
    drop(readers);
    // Longer than dead readers count as taking part.
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(60));
        read_records(&last, &account, usize::MAX);
    }
    let (mut written, mut lost) = (0, 0);
    for life in 0..life {
        let count = account.written(life).load(SeqCst) as usize;
        written += count;
        lost += (0..count).filter(|&index| account.read(life, index).load(SeqCst) == 0).count();
    }
    println!(
        "{life} writers, {written} records, {lost} lost with {killed_readers} readers; {killed_writers} writers killed"
    );
    assert!(written > 0);
    // Who is killed takes along what it had read and not yet told; who gives back, a page.
    assert!(lost <= killed_readers * AT_ONCE + killed_writers * 4096 / RECORD, "{lost} of {written} records lost");
    drop((held_reader, held_writer));
}

alone! {
    fn every_record_of_a_storm_of_ours_is_accounted_for() {
        storm(usize::MAX);
    }

    fn every_record_of_a_mixed_storm_is_accounted_for() {
        storm(4);
    }
}

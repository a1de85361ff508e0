//! What one of the storm's processes does: opens, moves a few records, closes, opens again, until it has had enough.

use std::collections::HashMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rustix::io::Errno;

use super::account::{Account, Call, Count, Mistake, RECORDS};
use crate::fifo::{Hand, Ours, Plain};
use crate::pattern::Random;
use crate::{ReadEnd, WriteEnd, kernel, ours};

/// Bytes of a record that say whose it is and which.
const HEAD: usize = 16;

/// Records that are read at once, at most.
pub(super) const AT_ONCE: usize = 16;

/// What an end that does not block waits between two calls.
const PAUSE: Duration = Duration::from_millis(1);

/// What all processes of the storm share.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) path: &'a Path,
    pub(super) account: &'a Account,
    pub(super) seed: u64,
    /// Bytes of a record: at most `PIPE_BUF`, so that none is torn.
    pub(super) record: usize,
    pub(super) mistake: Option<Mistake>,
}

/// One process.
pub(super) struct Life<'a> {
    world: World<'a>,
    number: usize,
    random: Random,
}

impl<'a> Life<'a> {
    pub(super) fn new(world: World<'a>, number: usize) -> Life<'a> {
        Life { world, number, random: Random::from_seed(world.seed.wrapping_mul(1 << 24).wrapping_add(number as u64)) }
    }

    pub(super) fn write(mut self, is_ours: bool) {
        if is_ours { self.write_by::<Ours>() } else { self.write_by::<Plain>() }
    }

    pub(super) fn read(mut self, is_ours: bool) {
        if is_ours { self.read_by::<Ours>() } else { self.read_by::<Plain>() }
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.random.within(0..times) == 0
    }

    /// Pauses at times, often for longer than the 50 ms after which a reader no longer counts as a participant.
    fn pause_at_times(&mut self) {
        if self.one_in(100) {
            self.world.account.add(Count::Naps, 1);
            sleep(Duration::from_millis(self.random.within(1..100) as u64));
        }
    }

    fn is_in(&self, call: Call) {
        self.world.account.is_in(self.number, call);
    }

    fn write_by<H: Moved>(&mut self) {
        let (total, mut next) = (self.random.within(1..RECORDS + 1), 0);
        while next < total {
            let nonblocking = self.one_in(8);
            let writer = match H::writer(self.world.path, nonblocking) {
                Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                    sleep(PAUSE);
                    continue;
                }
                opened => opened.unwrap(),
            };
            self.world.account.add(Count::Opens, 1);
            let until = total.min(next + self.random.within(1..RECORDS));
            while next < until {
                match self.write_one(&writer, next) {
                    Ok(()) => next += 1,
                    Err(Errno::AGAIN) => sleep(PAUSE),
                    Err(Errno::PIPE) => {
                        self.world.account.add(Count::Broken, 1);
                        break;
                    }
                    Err(error) => panic!("a write failed: {error}"),
                }
                self.pause_at_times();
            }
            self.count(H::written(&writer));
            self.is_in(Call::Close);
            drop(writer);
            self.is_in(Call::None);
        }
    }

    fn write_one(&self, writer: &impl WriteEnd, index: usize) -> Result<(), Errno> {
        let World { account, mistake, record: size, .. } = self.world;
        let mut record = self.record(index);
        let due = |wanted| mistake == Some(wanted) && account.is_due();
        // Nothing is written by a write that fails, so no mistake is made by it either.
        let not_made = |_| {
            account.take_back();
            Errno::AGAIN
        };
        let is_swapped = index + 1 < RECORDS && due(Mistake::Swapped);
        if is_swapped {
            record = self.record(index + 1);
        } else if due(Mistake::Doubled) {
            writer.write(&record).map_err(not_made)?;
        } else if due(Mistake::Torn) {
            writer.write(&record[..size / 2]).map_err(not_made)?;
        } else if due(Mistake::Lost) {
            account.has_written(self.number, index + 1);
            return Ok(());
        }
        self.is_in(Call::Write);
        let outcome = writer.write(&record);
        match outcome {
            Ok(count) => {
                assert_eq!(count, size, "a small write was not whole");
                account.has_written(self.number, index + 1);
            }
            Err(error) => {
                self.is_in(Call::None);
                if is_swapped {
                    account.take_back();
                }
                return Err(Errno::from_io_error(&error).expect("an error of the kernel"));
            }
        }
        self.is_in(Call::None);
        Ok(())
    }

    fn record(&self, index: usize) -> Vec<u8> {
        let mut record = vec![self.number as u8; self.world.record];
        record[..8].copy_from_slice(&(self.number as u64).to_le_bytes());
        record[8..HEAD].copy_from_slice(&(index as u64).to_le_bytes());
        record
    }

    fn read_by<H: Moved>(&mut self) {
        let (mut buffer, mut last) = (vec![0; AT_ONCE * self.world.record], HashMap::new());
        if self.world.mistake == Some(Mistake::Left) && self.world.account.is_due() {
            leave_a_process();
        }
        for _ in 0..self.random.within(1..4) {
            let nonblocking = self.one_in(8);
            let reader = H::reader(self.world.path, nonblocking).unwrap();
            self.world.account.add(Count::Opens, 1);
            for _ in 0..self.random.within(1..150) {
                let records = self.random.within(1..AT_ONCE + 1);
                let wanted = &mut buffer[..records * self.world.record];
                self.is_in(Call::Read(records));
                match reader.read(wanted) {
                    Ok(0) => {
                        self.is_in(Call::None);
                        self.world.account.add(Count::Ends, 1);
                        break;
                    }
                    Ok(count) => self.enter(&wanted[..count], &mut last),
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => sleep(PAUSE),
                    Err(error) => panic!("a read failed: {error}"),
                }
                self.is_in(Call::None);
                self.pause_at_times();
            }
            self.count(H::read(&reader));
            self.is_in(Call::Close);
            drop(reader);
            self.is_in(Call::None);
            if self.world.account.is_over() {
                break;
            }
        }
    }

    fn enter(&self, bytes: &[u8], last: &mut HashMap<usize, usize>) {
        enter(&self.world, bytes, last);
    }

    fn count(&self, [bytes, through_kernel]: [u64; 2]) {
        self.world.account.add(Count::ByRing, bytes - through_kernel);
        self.world.account.add(Count::ByKernel, through_kernel);
    }
}

/// Enters what was read into the account.
///
/// # Panics
/// When a record is not one that was written, came before, or too early.
pub(super) fn enter(world: &World<'_>, bytes: &[u8], last: &mut HashMap<usize, usize>) {
    assert_eq!(bytes.len() % world.record, 0, "a torn record");
    for record in bytes.chunks(world.record) {
        let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap()) as usize;
        let (life, index) = (number(0), number(8));
        let is_whole = index < RECORDS && record[HEAD..].iter().all(|&byte| byte == life as u8);
        assert!(is_whole, "a mixed record: {:?}...", &record[..HEAD.max(record.len().min(64))]);
        let before = last.insert(life, index);
        assert!(before < Some(index), "record {index} of {life} came after {before:?}");
        assert!(world.account.has_read(life, index), "record {index} of {life} came twice");
    }
}

/// One that lives on when its parent has ended.
fn leave_a_process() {
    let (child, ()) = crate::process::fork((), |()| sleep(Duration::from_secs(1000)));
    child.forget();
}

/// The bytes through an end in all, and through the kernel; plain ends count neither.
trait Moved: Hand {
    fn read(reader: &Self::Reader) -> [u64; 2];
    fn written(writer: &Self::Writer) -> [u64; 2];
}

impl Moved for Plain {
    fn read(_: &kernel::Reader) -> [u64; 2] {
        [0, 0]
    }

    fn written(_: &kernel::Writer) -> [u64; 2] {
        [0, 0]
    }
}

impl Moved for Ours {
    fn read(reader: &ours::Reader) -> [u64; 2] {
        let statistics = reader.0.statistics();
        [statistics.bytes, statistics.bytes_through_kernel]
    }

    fn written(writer: &ours::Writer) -> [u64; 2] {
        let statistics = writer.0.statistics();
        [statistics.bytes, statistics.bytes_through_kernel]
    }
}

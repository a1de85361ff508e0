//! The table itself: words in shared memory, and how a process counts in them.

use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::record::{Direction, End, Origin, Program, Record, Ring};
use crate::fate::Fate;

const MAGIC: u64 = u64::from_le_bytes(*b"mlldgr\0\x02");
const ENTRIES: usize = 65_536;
/// Entries that are searched for a free one before a pipe goes unrecorded.
const PROBES: usize = 256;

/// The shared table. Only ever seen behind a reference into mapped memory.
#[repr(C)]
pub struct Ledger {
    magic: AtomicU64,
    token: AtomicU64,
    pipe_device: AtomicU64,
    next_ordinal: AtomicU32,
    unrecorded: AtomicU32,
    _reserved: [AtomicU64; 4],
    /// One more than the index of the entry that was made first, second and so on; 0 until it is whole.
    order: [AtomicU32; ENTRIES],
    entries: [Entry; ENTRIES],
}

#[repr(C)]
struct Entry {
    inode: AtomicU64,
    origin: AtomicU32,
    _padding: AtomicU32,
    capacity: AtomicU64,
    maker: SharedProgram,
    _reserved: [AtomicU64; 2],
    written: SharedEnd,
    read: SharedEnd,
}

/// The counters of one end of a pipe. They have a cache line, which only this end writes while the pipe is attached.
#[repr(C, align(64))]
pub struct SharedEnd {
    bytes: AtomicU64,
    program: SharedProgram,
    ring_bytes: AtomicU64,
    sleeps: AtomicU32,
    wakes: AtomicU32,
    spins: AtomicU32,
    /// [`Fate::word`].
    fate: AtomicU32,
}

#[repr(C)]
struct SharedProgram {
    /// 0: no process yet.
    pid: AtomicU32,
    /// 1: other processes followed.
    more: AtomicU32,
    name: [AtomicU64; 2],
}

const _: () = {
    assert!(size_of::<SharedEnd>() == 64);
    assert!(size_of::<Entry>() == 192);
    assert!(core::mem::offset_of!(Ledger, order) == 64);
    assert!(core::mem::offset_of!(Ledger, entries) == 64 + ENTRIES * 4);
    assert!(size_of::<Ledger>() == 64 + ENTRIES * (4 + 192));
};

impl Ledger {
    /// Marks empty counters as those of a run; `pipe_device` is the file system of anonymous pipes.
    #[cfg(feature = "std")]
    pub(super) fn initialize(&self, token: u64, pipe_device: u64) {
        self.pipe_device.store(pipe_device, Relaxed);
        self.token.store(token, Relaxed);
        self.magic.store(MAGIC, Relaxed);
    }

    /// Whether these are the counters of the run with this token.
    pub(super) fn belongs_to(&self, token: u64) -> bool {
        self.magic.load(Relaxed) == MAGIC && self.token.load(Relaxed) == token
    }

    /// The file system of anonymous pipes; see [`crate::pipe::Identity`].
    pub fn pipe_device(&self) -> u64 {
        self.pipe_device.load(Relaxed)
    }

    /// Pipes that found no room in the table.
    pub fn unrecorded(&self) -> u32 {
        self.unrecorded.load(Relaxed)
    }

    /// Notes a pipe at its creation. A pipe that is known already stays as it was noted first.
    pub fn record(&self, inode: u64, origin: Origin, capacity: u64, maker: Option<Program>) {
        let Some(place) = self.place_of(inode) else {
            self.unrecorded.fetch_add(1, Relaxed);
            return;
        };
        if !place.is_new {
            return;
        }
        place.entry.origin.store(origin as u32, Relaxed);
        place.entry.capacity.store(capacity, Relaxed);
        if let Some(maker) = maker {
            place.entry.maker.note(maker);
        }
        self.publish(&place);
    }

    /// Adds `bytes` to the count of one direction of a pipe. A pipe that was not recorded yet is recorded as
    /// [`Origin::Unseen`]; only then `capacity` is called. Returns the end; `None` if the table is full.
    pub fn count(
        &self,
        inode: u64,
        direction: Direction,
        bytes: u64,
        capacity: impl FnOnce() -> u64,
        program: Program,
    ) -> Option<&SharedEnd> {
        let end = self.end(inode, direction, capacity)?;
        end.bytes.fetch_add(bytes, Relaxed);
        end.program.note(program);
        Some(end)
    }

    /// One end of a pipe, for as long as the counters are mapped; `None` if the table is full. A pipe that was not
    /// recorded yet is recorded, as in [`count`](Self::count).
    pub fn end(&self, inode: u64, direction: Direction, capacity: impl FnOnce() -> u64) -> Option<&SharedEnd> {
        let place = self.place_of(inode)?;
        if place.is_new {
            place.entry.capacity.store(capacity(), Relaxed);
            self.publish(&place);
        }
        Some(place.entry.end(direction))
    }

    /// Records that a program which counts has begun with this end of a pipe. What is recorded later replaces it. A pipe that was not
    /// recorded yet stays so: its maker has yet to say where it is from.
    pub fn expect_calls(&self, inode: u64, direction: Direction) {
        let start = first_probe(inode);
        let mut probes = (0..PROBES).filter_map(|probe| self.entries.get((start + probe) % ENTRIES));
        if let Some(entry) = probes.find(|entry| entry.inode.load(Relaxed) == inode) {
            let fate = &entry.end(direction).fate;
            let _ = fate.compare_exchange(Fate::Untold.word(), Fate::Uncounted.word(), Relaxed, Relaxed);
        }
    }

    /// Copies out every pipe that is recorded now, in the order of their making.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let made = self.next_ordinal.load(Relaxed) as usize;
        self.order.iter().take(made).zip(1..).filter_map(|(place, ordinal)| {
            let index = place.load(Acquire).checked_sub(1)?; // L1
            Some(self.entries.get(index as usize)?.copy_out(ordinal))
        })
    }

    /// The entry of the pipe `inode`, which is made if there is none; `None` if all [`PROBES`] entries are taken.
    fn place_of(&self, inode: u64) -> Option<Place<'_>> {
        let start = first_probe(inode);
        for probe in 0..PROBES {
            let index = (start + probe) % ENTRIES;
            let entry = self.entries.get(index)?;
            match entry.inode.compare_exchange(0, inode, Relaxed, Relaxed) {
                Ok(_) => return Some(Place { index, entry, is_new: true }),
                Err(found) if found == inode => return Some(Place { index, entry, is_new: false }),
                Err(_) => {}
            }
        }
        None
    }

    /// Lets [`records`](Self::records) see a new entry.
    fn publish(&self, place: &Place<'_>) {
        let ordinal = self.next_ordinal.fetch_add(1, Relaxed) as usize;
        if let Some(word) = self.order.get(ordinal) {
            word.store(place.index as u32 + 1, Release); // L1
        }
    }
}

/// Fibonacci hashing (Knuth, volume 3, 6.4): inode numbers are consecutive, and this spreads those best.
fn first_probe(inode: u64) -> usize {
    (inode.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize
}

struct Place<'a> {
    index: usize,
    entry: &'a Entry,
    is_new: bool,
}

impl Entry {
    fn end(&self, direction: Direction) -> &SharedEnd {
        match direction {
            Direction::Written => &self.written,
            Direction::Read => &self.read,
        }
    }

    fn copy_out(&self, ordinal: u32) -> Record {
        Record {
            inode: self.inode.load(Relaxed),
            ordinal,
            origin: Origin::from_word(self.origin.load(Relaxed)),
            capacity: self.capacity.load(Relaxed),
            maker: self.maker.copy_out(),
            written: self.written.copy_out(),
            read: self.read.copy_out(),
        }
    }
}

impl SharedEnd {
    /// Records the reason why this end is attached or is not.
    pub fn set_reason(&self, fate: Fate) {
        self.fate.store(fate.word(), Relaxed);
    }

    /// Counts bytes through the ring. Only the one thread that has this end may call it: the store is plain.
    #[inline]
    pub fn count_in_ring(&self, bytes: u64) {
        self.ring_bytes.store(self.ring_bytes.load(Relaxed) + bytes, Relaxed);
    }

    /// Counts a sleep. For the one thread that has this end, as the next two functions.
    pub fn count_sleep(&self) {
        add(&self.sleeps, 1);
    }

    /// Counts a wake-up of the peer.
    pub fn count_wake(&self) {
        add(&self.wakes, 1);
    }

    /// Counts how often this end read the ring while it waited for its peer.
    pub fn count_spins(&self, looks: u32) {
        add(&self.spins, looks);
    }

    fn copy_out(&self) -> End {
        let in_ring = self.ring_bytes.load(Relaxed);
        let [sleeps, wakes, spins] = [&self.sleeps, &self.wakes, &self.spins].map(|word| word.load(Relaxed));
        End {
            bytes: self.bytes.load(Relaxed) + in_ring,
            ring: (in_ring > 0).then_some(Ring { bytes: in_ring, sleeps, wakes, spins }),
            fate: Fate::from_word(self.fate.load(Relaxed)),
            program: self.program.copy_out(),
            more: self.program.more.load(Relaxed) != 0,
        }
    }
}

fn add(word: &AtomicU32, more: u32) {
    word.store(word.load(Relaxed).saturating_add(more), Relaxed);
}

impl SharedProgram {
    fn note(&self, program: Program) {
        match self.pid.compare_exchange(0, program.pid, Relaxed, Relaxed) {
            Ok(_) => {
                for (to, word) in self.name.iter().zip(program.name_words()) {
                    to.store(word, Relaxed);
                }
            }
            Err(pid) if pid == program.pid => {}
            Err(_) => self.more.store(1, Relaxed),
        }
    }

    fn copy_out(&self) -> Option<Program> {
        let pid = self.pid.load(Relaxed);
        let [first, last] = &self.name;
        (pid != 0).then(|| Program::from_words(pid, [first.load(Relaxed), last.load(Relaxed)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::create;
    use std::vec::Vec;

    fn new_counters() -> &'static Ledger {
        create(7).unwrap().1
    }

    fn listed(ledger: &Ledger) -> Vec<Record> {
        ledger.records().collect()
    }

    #[test]
    fn pipes_are_listed_in_the_order_of_their_making() {
        let ledger = new_counters();
        let bash = Program::new(10, b"bash");
        ledger.record(900, Origin::Pipe, 65_536, Some(bash));
        ledger.record(17, Origin::Stdin, 4096, None);
        let records = listed(ledger);
        assert_eq!(records.len(), 2);
        assert_eq!((records[0].origin, records[0].capacity, records[0].maker), (Origin::Pipe, 65_536, Some(bash)));
        assert_eq!((records[1].origin, records[1].capacity, records[1].maker), (Origin::Stdin, 4096, None));
    }

    #[test]
    fn each_end_counts_for_itself_and_keeps_its_first_program() {
        let ledger = new_counters();
        let (cat, grep, wc) = (Program::new(1, b"cat"), Program::new(2, b"grep"), Program::new(3, b"wc"));
        ledger.record(5, Origin::Pipe, 65_536, None);
        ledger.count(5, Direction::Written, 100, || 0, cat);
        ledger.count(5, Direction::Written, 20, || 0, cat);
        ledger.count(5, Direction::Read, 70, || 0, grep);
        ledger.count(5, Direction::Read, 50, || 0, wc);
        let record = &listed(ledger)[0];
        assert_eq!((record.written.bytes, record.written.program, record.written.more), (120, Some(cat), false));
        assert_eq!((record.read.bytes, record.read.program, record.read.more), (120, Some(grep), true));
    }

    #[test]
    fn bytes_through_a_ring_are_part_of_all_and_counted_apart() {
        let ledger = new_counters();
        ledger.count(5, Direction::Written, 100, || 4096, Program::new(1, b"cat"));
        let end = ledger.end(5, Direction::Written, || 0).unwrap();
        end.count_in_ring(1000);
        end.count_in_ring(1000);
        end.count_sleep();
        end.count_wake();
        end.count_spins(7);
        end.set_reason(Fate::called(c"dup2"));
        ledger.end(5, Direction::Read, || 0).unwrap().set_reason(Fate::Peer);
        let record = &listed(ledger)[0];
        assert_eq!((record.written.bytes, record.capacity), (2100, 4096));
        assert_eq!(record.written.ring, Some(Ring { bytes: 2000, sleeps: 1, wakes: 1, spins: 7 }));
        assert_eq!((record.written.fate, record.read.fate), (Fate::called(c"dup2"), Fate::Peer));
        assert_eq!((record.read.bytes, record.read.ring), (0, None));
    }

    #[test]
    fn unrecorded_pipe_is_recorded_when_it_is_used() {
        let ledger = new_counters();
        ledger.count(5, Direction::Read, 70, || 8192, Program::new(2, b"grep"));
        let record = &listed(ledger)[0];
        assert_eq!((record.origin, record.capacity, record.read.bytes), (Origin::Unseen, 8192, 70));
    }

    #[test]
    fn full_table_counts_unrecorded_pipes() {
        let ledger = new_counters();
        let made = ENTRIES as u64 + 500;
        for inode in 1..=made {
            ledger.record(inode, Origin::Pipe, 1, None);
        }
        let listed = ledger.records().count() as u64;
        assert!(listed > ENTRIES as u64 * 9 / 10, "{listed}");
        assert_eq!(listed + u64::from(ledger.unrecorded()), made);
    }

    #[test]
    fn names_are_cut_at_sixteen_bytes() {
        assert_eq!(&Program::new(1, b"a-very-long-program-name").name, b"a-very-long-prog");
        assert_eq!(&Program::new(1, b"wc").name[..3], b"wc\0");
    }

    #[test]
    fn many_threads_lose_no_count() {
        let ledger = new_counters();
        std::thread::scope(|scope| {
            for pid in 1..=4 {
                scope.spawn(move || {
                    for inode in 1..=200 {
                        ledger.count(inode, Direction::Written, 3, || 0, Program::new(pid, b"t"));
                    }
                });
            }
        });
        let records = listed(ledger);
        assert_eq!(records.len(), 200);
        assert!(records.iter().all(|record| record.written.bytes == 12));
    }
}

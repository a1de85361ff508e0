//! What the participants of a life say while it lasts, in memory that outlives them, and what the whole soak has done.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use millstream_sys::shared::Shared;

use super::plan::{PARTS_MAX, SHARED_MAX};
use super::stream::UNIT;

const DESK_BYTES: usize = 128;
/// Behind the desks: how often each unit was read, where several readers share a stream.
const UNITS: usize = 4096;
const UNITS_MAX: usize = SHARED_MAX as usize / UNIT;

/// The memory of one life after another.
pub(super) struct Said(Shared);

/// What one participant says. A death between two stores leaves more asked for than was done, never less.
#[derive(Clone, Copy)]
pub(super) struct Desk<'a> {
    /// Bytes in all the calls that have returned.
    done: &'a AtomicU64,
    /// Bytes asked for by the call that is just made.
    asked: &'a AtomicU64,
    /// Whether it came to its end: a reader to that of the stream, a writer to that of its bytes.
    ended: &'a AtomicU64,
    /// Whether it got `EPIPE`.
    refused: &'a AtomicU64,
    /// Of a reader: bytes that came from each writer.
    from: &'a [AtomicU64],
}

impl Said {
    pub(super) fn new() -> Said {
        Said(Shared::anonymous(UNITS + 8 * UNITS_MAX).expect("memory to say things in"))
    }

    pub(super) fn clear(&self, length: u64) {
        let desks = self.0.words(0, PARTS_MAX * DESK_BYTES / 8);
        desks.iter().chain(self.units(length)).for_each(|word| word.store(0, Relaxed));
    }

    pub(super) fn desk(&self, part: usize) -> Desk<'_> {
        let words = self.0.words(part * DESK_BYTES, DESK_BYTES / 8);
        Desk { done: &words[0], asked: &words[1], ended: &words[2], refused: &words[3], from: &words[4..4 + PARTS_MAX] }
    }

    /// How often each unit of a stream was read.
    pub(super) fn units(&self, length: u64) -> &[AtomicU64] {
        self.0.words(UNITS, (length as usize / UNIT).min(UNITS_MAX))
    }
}

impl Desk<'_> {
    pub(super) fn asks(&self, bytes: usize) {
        self.asked.store(bytes as u64, Release);
    }

    /// In this order: a participant that dies between the two stores has asked for more than it did.
    pub(super) fn has_done(&self, bytes: usize) {
        self.done.store(self.done.load(Relaxed) + bytes as u64, Release);
        self.asks(0);
    }

    pub(super) fn has_got(&self, writer: usize, bytes: usize) {
        self.from[writer].fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn has_ended(&self) {
        self.ended.store(1, Release);
    }

    pub(super) fn was_refused(&self) {
        self.refused.store(1, Release);
    }

    pub(super) fn done(&self) -> u64 {
        self.done.load(Acquire)
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Acquire)
    }

    /// Bytes that may have moved until now, at most: asked first, because what is asked for becomes what is done.
    pub(super) fn done_at_most(&self) -> u64 {
        let asked = self.asked();
        asked + self.done()
    }

    pub(super) fn ended(&self) -> bool {
        self.ended.load(Acquire) == 1
    }

    pub(super) fn refused(&self) -> bool {
        self.refused.load(Acquire) == 1
    }

    pub(super) fn from(&self, writer: usize) -> u64 {
        self.from[writer].load(Acquire)
    }
}

/// What is counted through the whole soak.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Lives,
    Bytes,
    Kills,
    Stops,
    Interrupted,
    Resizes,
    Clones,
    Shadows,
    Forks,
    Counted,
    RingBytes,
    DirectBytes,
    SplicedBytes,
    KernelBytes,
    BrokenPipes,
    Prefixes,
}

/// All counts, with the words that say what they are.
pub(super) const COUNTS: [(Count, &str); 16] = [
    (Count::Lives, "lives"),
    (Count::Bytes, "bytes checked"),
    (Count::RingBytes, "bytes through the ring"),
    (Count::DirectBytes, "bytes straight from the writer's memory"),
    (Count::SplicedBytes, "bytes spliced"),
    (Count::KernelBytes, "bytes through the kernel"),
    (Count::Kills, "killed"),
    (Count::Prefixes, "streams cut off by a kill"),
    (Count::BrokenPipes, "writers without a reader"),
    (Count::Stops, "stopped and continued"),
    (Count::Interrupted, "calls interrupted"),
    (Count::Resizes, "resized"),
    (Count::Counted, "times waiting bytes were counted"),
    (Count::Clones, "ends cloned"),
    (Count::Shadows, "ends given away and taken back"),
    (Count::Forks, "forks in the middle"),
];

/// The life that each lane is at, 64 at most.
const LANES: usize = 2560;

/// Lives of each kind of pipe, 64 at most.
const KINDS: usize = 512;

/// Calls and bytes of each way, 32 of each direction at most.
const PATHS: usize = 1024;
const PATHS_MAX: usize = 32;

/// Counters that all processes of a soak share.
pub(super) struct Totals(Shared);

impl Totals {
    pub(super) fn new() -> Totals {
        Totals(Shared::anonymous(4096).expect("memory to count in"))
    }

    pub(super) fn add(&self, count: Count, amount: u64) {
        self.0.word(8 * count as usize).fetch_add(amount, Relaxed);
    }

    pub(super) fn get(&self, count: Count) -> u64 {
        self.0.word(8 * count as usize).load(Relaxed)
    }

    pub(super) fn begins(&self, lane: usize, life: u64) {
        self.0.word(LANES + 8 * lane).store(life, Relaxed);
    }

    pub(super) fn last_begun(&self, lane: usize) -> u64 {
        self.0.word(LANES + 8 * lane).load(Relaxed)
    }

    pub(super) fn add_pipe(&self, kind: usize) {
        self.kind(kind).fetch_add(1, Relaxed);
    }

    /// Lives of a kind of pipe.
    pub(super) fn pipes(&self, kind: usize) -> u64 {
        self.kind(kind).load(Relaxed)
    }

    fn kind(&self, kind: usize) -> &AtomicU64 {
        &self.0.words(KINDS, (PATHS - KINDS) / 8)[kind]
    }

    pub(super) fn add_calls(&self, is_writer: bool, path: usize, calls: u64, bytes: u64) {
        let [calls_word, bytes_word] = self.path(is_writer, path);
        calls_word.fetch_add(calls, Relaxed);
        bytes_word.fetch_add(bytes, Relaxed);
    }

    /// Calls and bytes of a way.
    pub(super) fn calls(&self, is_writer: bool, path: usize) -> [u64; 2] {
        self.path(is_writer, path).map(|word| word.load(Relaxed))
    }

    fn path(&self, is_writer: bool, path: usize) -> [&AtomicU64; 2] {
        assert!(path < PATHS_MAX, "room for more ways is needed here");
        let at = PATHS + 16 * (path + PATHS_MAX * usize::from(is_writer));
        [at, at + 8].map(|offset| self.0.word(offset))
    }
}

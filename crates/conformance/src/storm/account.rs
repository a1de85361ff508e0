//! The account of a storm, in memory that outlives every process that writes to it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use millstream_sys::shared::Shared;

/// Records that one life writes at most: a bit for each.
pub(super) const RECORDS: usize = 64;

/// Lives that one storm has room for; pages without an access cost nothing.
pub(super) const LIVES: usize = 1 << 21;

/// Words of each life.
const WORDS: usize = 3;

/// Words before those of the lives.
const HEAD: usize = 64;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Lives,
    Opens,
    Written,
    Read,
    ByRing,
    ByKernel,
    Kills,
    KillsInCalls,
    Stops,
    Ends,
    Broken,
    Naps,
    Lost,
}

/// All counts, with the words that say what they are. What was lost comes last: it may be nothing.
pub(super) const COUNTS: [(Count, &str); 13] = [
    (Count::Lives, "lives"),
    (Count::Opens, "times opened"),
    (Count::Written, "records written"),
    (Count::Read, "records read"),
    (Count::ByRing, "bytes of ours through the ring"),
    (Count::ByKernel, "bytes of ours through the kernel"),
    (Count::Naps, "pauses with an open end"),
    (Count::Kills, "killed"),
    (Count::KillsInCalls, "killed in a call"),
    (Count::Stops, "stopped and continued"),
    (Count::Ends, "ends of the stream"),
    (Count::Broken, "writers without a reader"),
    (Count::Lost, "records that the killed have taken along"),
];

/// Where the word is that says that the storm is over.
const OVER: usize = 8 * COUNTS.len();

/// Where the word is that says that the mistake was made.
const MISTAKEN: usize = OVER + 8;

/// The call in which a process is, or was when it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Between two calls, or opening.
    None,
    Write,
    /// Of so many records.
    Read(usize),
    Close,
}

impl Call {
    fn word(self) -> u64 {
        match self {
            Call::None => 0,
            Call::Write => 1,
            Call::Close => 2,
            Call::Read(records) => 2 + records as u64,
        }
    }

    fn of_word(word: u64) -> Call {
        match word {
            0 => Call::None,
            1 => Call::Write,
            2 => Call::Close,
            read => Call::Read(read as usize - 2),
        }
    }
}

/// The account.
pub(super) struct Account(Shared);

impl Account {
    pub(super) fn new() -> Account {
        Account(Shared::anonymous(8 * (HEAD + LIVES * WORDS)).expect("memory for the account"))
    }

    fn of(&self, life: usize) -> &[AtomicU64] {
        self.0.words(8 * (HEAD + life * WORDS), WORDS)
    }

    pub(super) fn add(&self, count: Count, amount: u64) {
        self.0.word(8 * count as usize).fetch_add(amount, SeqCst);
    }

    pub(super) fn get(&self, count: Count) -> u64 {
        self.0.word(8 * count as usize).load(SeqCst)
    }

    pub(super) fn set_over(&self) {
        self.0.word(OVER).store(1, SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.word(OVER).load(SeqCst) != 0
    }

    /// Whether the mistake is to be made now: once in a storm, some time after it began.
    pub(super) fn is_due(&self) -> bool {
        self.get(Count::Written) > 500 && self.0.word(MISTAKEN).swap(1, SeqCst) == 0
    }

    /// It was not made after all: the next one that is asked makes it.
    pub(super) fn take_back(&self) {
        self.0.word(MISTAKEN).store(0, SeqCst);
    }

    pub(super) fn is_mistaken(&self) -> bool {
        self.0.word(MISTAKEN).load(SeqCst) != 0
    }

    /// Says what is done now, until the next word.
    pub(super) fn is_in(&self, life: usize, call: Call) {
        self.of(life)[0].store(call.word(), SeqCst);
    }

    /// What it was doing when it was killed.
    pub(super) fn was_in(&self, life: usize) -> Call {
        Call::of_word(self.of(life)[0].load(SeqCst))
    }

    /// So many records of this life are written.
    pub(super) fn has_written(&self, life: usize, records: usize) {
        self.of(life)[1].store(records as u64, SeqCst);
        self.add(Count::Written, 1);
    }

    pub(super) fn written(&self, life: usize) -> usize {
        self.of(life)[1].load(SeqCst) as usize
    }

    /// A record was read; whether for the first time.
    pub(super) fn has_read(&self, life: usize, record: usize) -> bool {
        self.add(Count::Read, 1);
        self.of(life)[2].fetch_or(1 << record, SeqCst) >> record & 1 == 0
    }

    /// A bit for each record that was read.
    pub(super) fn read(&self, life: usize) -> u64 {
        self.of(life)[2].load(SeqCst)
    }
}

/// Mistakes that are made on purpose, to see that they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A record is not written.
    Lost,
    /// A record is written twice.
    Doubled,
    /// Two records change places.
    Swapped,
    /// A record is cut in two.
    Torn,
    /// A reader leaves a process behind.
    Left,
}

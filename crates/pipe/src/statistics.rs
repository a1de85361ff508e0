//! What an end has done.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millstream_sys::clock;

use crate::policy::{self, Effort};

/// What one handle has done since it was made. Clones and forks count for themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes moved, by whatever way.
    pub bytes: u64,
    /// Of these, the bytes that went through the kernel's pipe.
    pub bytes_through_kernel: u64,
    /// Of `bytes`, those that [`Reader::copy_to`](crate::Reader::copy_to),
    /// [`Writer::copy_from`](crate::Writer::copy_from) and their relatives moved, through no memory of this process.
    pub bytes_spliced: u64,
    /// Of `bytes`, those that the reader has copied straight out of the writer's memory.
    pub bytes_direct: u64,
    /// Times that this was tried and not allowed, by the kernel or a rule of this machine. It is not tried again at
    /// that pipe.
    pub direct_refused: u64,
    /// Of `bytes`, those that the program itself put into the ring or looked at there, without a copy.
    pub bytes_in_place: u64,
    /// Times that bytes were copied although the others are trusted. They were more than the limit for one end (the
    /// setting `loan_max`), the user's ends had as much in place as they may (`user_loan_max`), or there was no
    /// descriptor left.
    pub loans_refused: u64,
    /// Times that bytes were moved.
    pub transfers: u64,
    /// Looks at the ring while waiting for the other side.
    pub spins: u64,
    /// Times that this end yielded the CPU to the other side.
    pub yields: u64,
    /// Times that this end did not yield, because a third program had been seen to take the CPU.
    pub yields_withheld: u64,
    /// Times that this end, a reader, found bytes and let more gather before it went on, for some microseconds.
    pub gathered: u64,
    /// Times that this end went to sleep.
    pub sleeps: u64,
    /// Times that this end woke the other side, or notified a program that polls it.
    pub wakes: u64,
    /// Times that this end gave the memory of a pipe back that had long been empty.
    pub pages_given_back: u64,
    /// What it costs to be woken by a process on another CPU, as all ends of this process have measured; 0 until one
    /// was.
    pub wake_nanoseconds: u64,
}

/// Counters of a handle that several threads may use.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    bytes: AtomicU64,
    bytes_through_kernel: AtomicU64,
    bytes_spliced: AtomicU64,
    bytes_direct: AtomicU64,
    transfers_direct: AtomicU64,
    bytes_asleep: AtomicU64,
    transfers_asleep: AtomicU64,
    sleeps_inside: AtomicU64,
    bytes_to_sleepers: AtomicU64,
    wakes_of_sleepers: AtomicU64,
    direct_refused: AtomicU64,
    bytes_in_place: AtomicU64,
    loans_refused: AtomicU64,
    transfers: AtomicU64,
    spins: AtomicU64,
    yields: AtomicU64,
    yields_withheld: AtomicU64,
    gathered: AtomicU64,
    sleeps: AtomicU64,
    wakes: AtomicU64,
    pages_given_back: AtomicU64,
}

impl Counters {
    /// Only with the lock of the side held: that makes load and store as good as one atomic step, and cheaper.
    #[inline]
    pub(crate) fn moved(&self, bytes: usize) {
        add(&self.bytes, bytes as u64);
        add(&self.transfers, 1);
    }

    /// Only with a claim, which keeps others away as the lock does.
    #[inline]
    pub(crate) fn moved_in_place(&self, bytes: usize) {
        self.moved(bytes);
        add(&self.bytes_in_place, bytes as u64);
    }

    pub(crate) fn moved_through_kernel(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        self.bytes_through_kernel.fetch_add(bytes as u64, Relaxed);
        self.transfers.fetch_add(1, Relaxed);
    }

    /// As [`Counters::moved`], by a splice.
    pub(crate) fn spliced(&self, bytes: usize) {
        self.moved(bytes);
        self.bytes_spliced.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn spliced_through_kernel(&self, bytes: usize) {
        self.moved_through_kernel(bytes);
        self.bytes_spliced.fetch_add(bytes as u64, Relaxed);
    }

    /// By a reader that slept in the kernel's pipe: with no lock held, and therefore counted apart. Only as the one
    /// waiter there, which keeps others away as a lock does.
    pub(crate) fn moved_asleep(&self, bytes: usize) {
        add(&self.sleeps_inside, 1);
        if bytes > 0 {
            add(&self.bytes_asleep, bytes as u64);
            add(&self.transfers_asleep, 1);
        }
    }

    /// As [`Counters::moved`], into a kernel's pipe in which a reader sleeps.
    pub(crate) fn moved_to_waiter(&self, bytes: usize) {
        self.moved(bytes);
        add(&self.bytes_to_sleepers, bytes as u64);
        add(&self.wakes_of_sleepers, 1);
    }

    /// All bytes moved so far.
    pub(crate) fn bytes(&self) -> u64 {
        let ways = [&self.bytes, &self.bytes_direct, &self.bytes_asleep];
        ways.map(|bytes| bytes.load(Relaxed)).iter().sum()
    }

    /// How often a reader has read.
    #[inline]
    pub(crate) fn reads(&self) -> u64 {
        self.transfers.load(Relaxed) + self.transfers_asleep.load(Relaxed)
    }

    /// With no lock held, and therefore counted apart. Once for each copy at the reader.
    pub(crate) fn moved_directly(&self, bytes: usize) {
        self.bytes_direct.fetch_add(bytes as u64, Relaxed);
        self.transfers_direct.fetch_add(1, Relaxed);
    }

    /// Once for each offer at the writer, of which perhaps nothing was taken.
    pub(crate) fn was_taken_directly(&self, bytes: usize) {
        if bytes > 0 {
            self.moved_directly(bytes);
        }
    }

    pub(crate) fn was_refused_a_loan(&self) {
        self.loans_refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn was_refused_direct(&self) {
        self.direct_refused.fetch_add(1, Relaxed);
    }

    /// Whether the handle moves so often for each time that it sleeps or wakes that a lock of its own pays. The
    /// price: every waiter has to make the other CPUs pass a fence.
    pub(crate) fn move_without_waking(&self) -> bool {
        let interruptions = self.sleeps() + self.wakes();
        self.transfers.load(Relaxed) / 32 > interruptions
    }

    pub(crate) fn waited(&self, effort: Effort) {
        self.spins.fetch_add(effort.looks, Relaxed);
        self.yields.fetch_add(effort.offers, Relaxed);
        self.yields_withheld.fetch_add(effort.withheld, Relaxed);
        self.gathered.fetch_add(effort.gathered, Relaxed);
    }

    fn sleeps(&self) -> u64 {
        self.sleeps.load(Relaxed) + self.sleeps_inside.load(Relaxed)
    }

    fn wakes(&self) -> u64 {
        self.wakes.load(Relaxed) + self.wakes_of_sleepers.load(Relaxed)
    }

    pub(crate) fn slept(&self) {
        self.sleeps.fetch_add(1, Relaxed);
    }

    pub(crate) fn woke_peer(&self) {
        self.wakes.fetch_add(1, Relaxed);
    }

    pub(crate) fn gave_pages_back(&self) {
        self.pages_given_back.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Statistics {
        Statistics {
            bytes: self.bytes(),
            bytes_through_kernel: [&self.bytes_through_kernel, &self.bytes_asleep, &self.bytes_to_sleepers]
                .map(|bytes| bytes.load(Relaxed))
                .iter()
                .sum(),
            bytes_spliced: self.bytes_spliced.load(Relaxed),
            bytes_in_place: self.bytes_in_place.load(Relaxed),
            loans_refused: self.loans_refused.load(Relaxed),
            bytes_direct: self.bytes_direct.load(Relaxed),
            direct_refused: self.direct_refused.load(Relaxed),
            transfers: [&self.transfers, &self.transfers_direct, &self.transfers_asleep]
                .map(|transfers| transfers.load(Relaxed))
                .iter()
                .sum(),
            spins: self.spins.load(Relaxed),
            yields: self.yields.load(Relaxed),
            yields_withheld: self.yields_withheld.load(Relaxed),
            gathered: self.gathered.load(Relaxed),
            sleeps: self.sleeps(),
            wakes: self.wakes(),
            pages_given_back: self.pages_given_back.load(Relaxed),
            wake_nanoseconds: policy::wake_ticks().map_or(0, |ticks| clock::nanoseconds_of(ticks.into())),
        }
    }
}

/// For a counter to which no other thread adds at the same time: a load and a store, cheaper than one atomic step.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed) + more, Relaxed);
}

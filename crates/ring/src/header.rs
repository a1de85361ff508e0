//! The first page of the shared segment: every word that the participants of a pipe share. `docs/layout.md` draws it.
//!
//! A segment begins as zeros, and zeros are a valid state: a process need not wait for the first one. The layout is an
//! ABI between different builds of millstream; [`VERSION`] changes with it.

use crate::biased::BiasedLock;
use crate::bytes::Lines;
use crate::error::RingError;
use crate::lock::{Guard, Lock, Parking};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The first eight bytes of a segment: `mstream` and a line feed, which text conversion would destroy.
pub const MAGIC: u64 = u64::from_le_bytes(*b"mstream\n");

/// The layout described here.
pub const VERSION: u32 = 10;

/// Bytes before the first data bank.
pub const HEADER_BYTES: usize = 4096;

/// A unit of transfer between the caches of two processors. It has 128 bytes: the processors of x86-64 fetch lines in
/// pairs (Intel 64 optimization manual, 3.7.3, "spatial prefetcher"). Those of Apple and Fujitsu have lines of that
/// size.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Line<T>(pub(crate) T);

/// The words. Other processes write all of them, and may be broken or hostile. So each is loaded once, checked, and
/// then used from the copy.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    pub(crate) identity: Line<Identity>,
    pub(crate) state: Line<State>,
    pub(crate) write_pos: Line<Published>,
    pub(crate) writers: Line<Side>,
    pub(crate) read_pos: Line<Published>,
    pub(crate) readers: Line<Side>,
    pub(crate) bell: Line<BellWords>,
    pub(crate) offer: Line<OfferWords>,
}

/// Which pipe the segment belongs to. The first process to map it writes this, once; a process that attaches checks it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    /// Bytes of each data bank.
    pub(crate) bank_bytes: AtomicU32,
    pub(crate) shadow_device: AtomicU64,
    pub(crate) shadow_inode: AtomicU64,
    /// The PID namespace in which the numbers in locks mean something.
    pub(crate) pid_namespace: AtomicU64,
    /// The anonymous pipe with the readiness bytes of a FIFO's ring; 0 where the backing pipe itself holds them.
    pub(crate) bell_inode: AtomicU64,
}

/// Words that every operation reads and hardly any writes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct State {
    /// The layout: where and how large the ring is; see [`crate::geometry::Geometry`].
    pub(crate) geometry: AtomicU64,
    /// The state: where new bytes go; see [`crate::route::Route`].
    pub(crate) route: AtomicU32,
    /// Readers that sleep or are about to, and one for all processes outside that poll for `POLLIN`.
    pub(crate) readers_waiting: AtomicU32,
    /// Writers that sleep or are about to, and one for all processes outside that poll for `POLLOUT`.
    pub(crate) writers_waiting: AtomicU32,
    /// Which ends a process outside polls, as bits; see [`crate::bell`].
    pub(crate) watched: AtomicU32,
    /// Ends closed so far: when it changes, the peer asks the kernel which ends are left.
    pub(crate) closes: AtomicU32,
    /// Ends that were exported so far, and exported ends that came back.
    pub(crate) given: AtomicU32,
    pub(crate) returned: AtomicU32,
    /// When a reader of a FIFO was last active; see [`crate::fifo`].
    pub(crate) attended: AtomicU32,
    /// Not 0: the kernel carries this FIFO's stream for good.
    pub(crate) kernel_only: AtomicU32,
    /// Up to which position the ring of a FIFO is being flushed to the kernel; 0: it is not.
    pub(crate) giving_back: AtomicU64,
    /// At which position of a FIFO's ring the bytes follow that foreign processes have put into the FIFO itself, and
    /// how many they are; 0: nowhere.
    pub(crate) strangers_at: AtomicU64,
    pub(crate) strangers: AtomicU64,
    /// The write monitor of this FIFO, how many pages write monitors have taken, and whether writers want one; see
    /// [`crate::lookout`].
    pub(crate) lookout: AtomicU64,
    pub(crate) lookout_pages: AtomicU32,
    pub(crate) lookout_wanted: AtomicU32,
    /// Writers that sleep or are about to, and are to be woken at [`crate::Ring::refill`] free bytes and not earlier.
    pub(crate) writers_deferring: AtomicU32,
}

/// What one side publishes to the other.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Published {
    /// Bytes that have passed since the beginning. Never wraps: at 100 GB/s it would take six years.
    pub(crate) position: AtomicU64,
    /// The CPU that this side last ran on, plus one.
    pub(crate) cpu: AtomicU32,
}

/// What one side keeps for itself, away from the line that the other side loads.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) lock: BiasedLock,
    /// The other side's position when this side last loaded it.
    pub(crate) peer_position: AtomicU64,
    /// What this side has published, for a thread that owns the lock: the other side's CPU often has the published
    /// line. Any other thread uses the published position, because a thread may have died between storing the two.
    pub(crate) own_position: AtomicU64,
    pub(crate) own_cpu: AtomicU32,
    /// The process that works in place, and how many claims there were so far; see [`crate::claim`].
    pub(crate) claim: AtomicU32,
    pub(crate) claims: AtomicU32,
    /// On which CPU the other side ran then, as in [`Published::cpu`].
    pub(crate) peer_cpu: AtomicU32,
}

impl Side {
    /// Takes the lock of this side.
    #[inline]
    pub(crate) fn lock<'a, P: Parking>(
        &'a self,
        published: &'a Published,
        parking: &'a P,
    ) -> Result<Guard<'a, P>, RingError> {
        // A thread that died in `publish` left the two positions different, and since then none need have published.
        // Not while a process works in place: it may publish at this moment, without the lock.
        let catch_up = || {
            // E11 with `Claims::end`.
            let is_quiet = self.claim.load(Ordering::Acquire) == 0;
            if is_quiet {
                self.own_position.store(published.position.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            is_quiet
        };
        self.lock.acquire(parking, catch_up)
    }

    /// The position of this side.
    #[inline]
    pub(crate) fn position(&self, published: &Published, is_own: bool) -> u64 {
        if is_own { self.own_position.load(Ordering::Relaxed) } else { published.position.load(Ordering::Relaxed) }
    }

    /// The caller found too little by its own position, and will wait. A waiter uses the published one. If a hostile
    /// peer has made the two differ, the waiter finds bytes or room that the caller does not find, and neither ever
    /// sleeps.
    ///
    /// # Errors
    /// [`RingError`]: they differ although there is no claim, whose process alone publishes without the lock.
    pub(crate) fn check_own_position(&self, published: &Published, is_own: bool) -> Result<(), RingError> {
        // E11 with `Claims::end`: without a claim both positions are in place. In this order.
        let is_quiet = is_own && self.claim.load(Ordering::Acquire) == 0;
        let differs = || self.own_position.load(Ordering::Relaxed) != published.position.load(Ordering::Relaxed);
        if is_quiet && differs() { Err(RingError) } else { Ok(()) }
    }

    /// The position of the other side.
    #[inline]
    pub(crate) fn look_at(&self, other: &Published) -> u64 {
        // E1 with `WriteSide::publish`, E2 with `ReadSide::consume`.
        let position = other.position.load(Ordering::Acquire);
        self.peer_position.store(position, Ordering::Relaxed);
        // A model shows nothing about it, and would have many more orders to try.
        if !cfg!(loom) {
            self.peer_cpu.store(other.cpu.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        position
    }

    /// Which CPU has the cache lines of the ring, for a thread that runs on `cpu`: the other side used them last.
    #[inline]
    pub(crate) fn lines(&self, cpu: u32) -> Lines {
        let is_near = cfg!(loom) || self.peer_cpu.load(Ordering::Relaxed) == cpu.wrapping_add(1);
        if is_near { Lines::Near } else { Lines::Away }
    }

    /// As [`lines`](Self::lines), for the CPU on which this side last ran.
    #[inline]
    pub(crate) fn lines_as_noted(&self) -> Lines {
        self.lines(self.own_cpu.load(Ordering::Relaxed).wrapping_sub(1))
    }

    /// Publishes the position of this side.
    #[inline]
    pub(crate) fn publish(&self, published: &Published, position: u64) {
        // E1 with `ReadSide::waiting`, E2 with `WriteSide::room`.
        published.position.store(position, Ordering::Release);
        self.own_position.store(position, Ordering::Relaxed);
    }

    /// Publishes on which CPU the thread runs, if it has moved.
    #[inline]
    pub(crate) fn note_cpu(&self, published: &Published, cpu: u32) {
        let cpu = cpu.wrapping_add(1);
        if self.own_cpu.load(Ordering::Relaxed) != cpu {
            // In this order: if the thread dies between the two, the next one stores both again.
            published.cpu.store(cpu, Ordering::Relaxed);
            self.own_cpu.store(cpu, Ordering::Relaxed);
        }
    }
}

/// See [`crate::offer`]. A writer stores all but `word` before it opens an offer. They hold until the offer is settled.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct OfferWords {
    pub(crate) word: AtomicU64,
    pub(crate) address: AtomicU64,
    pub(crate) voucher: AtomicU64,
    pub(crate) start: AtomicU64,
    pub(crate) process: AtomicU32,
    pub(crate) len: AtomicU32,
    /// Not 0: the kernel did not let a reader read the memory of a writer, and no more offers are made.
    pub(crate) refused: AtomicU32,
}

impl OfferWords {
    pub(crate) fn new() -> OfferWords {
        let (long, short) = (|| AtomicU64::new(0), || AtomicU32::new(0));
        OfferWords {
            word: long(),
            address: long(),
            voucher: long(),
            start: long(),
            process: short(),
            len: short(),
            refused: short(),
        }
    }
}

/// See [`crate::bell`].
#[repr(C)]
#[derive(Debug)]
pub(crate) struct BellWords {
    pub(crate) lock: Lock,
    /// Readiness bytes that lie in the backing pipe.
    pub(crate) bytes: AtomicU32,
    /// For processes that observe the pipe; no decision depends on them.
    pub(crate) tally: Tally,
    /// The time of the last wake-up.
    pub(crate) rung_at: AtomicU64,
    /// The reader that sleeps in the backing pipe itself; see [`crate::sleeper`].
    pub(crate) sleeper: AtomicU32,
    /// Bytes that writers have put into the backing pipe in idle mode, and how many of them readers are known to have
    /// taken; wrapping.
    pub(crate) quiet_put: AtomicU32,
    pub(crate) quiet_taken: AtomicU32,
}

/// Counters of events that take a system call anyway; wrapping.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Tally {
    /// How often a reader, and a writer, began to sleep.
    pub(crate) reader_sleeps: AtomicU32,
    pub(crate) writer_sleeps: AtomicU32,
    /// Wake-ups for bytes, and for room.
    pub(crate) reader_wakes: AtomicU32,
    pub(crate) writer_wakes: AtomicU32,
}

/// Counts one more. Not in models: no decision depends on the word, and it would multiply the orders to try.
pub(crate) fn count_one(word: &AtomicU32) {
    if cfg!(not(loom)) {
        word.fetch_add(1, Ordering::Relaxed);
    }
}

/// As [`count_one`], but cheaper: if another thread counts at the same moment, one of the two may be lost.
pub(crate) fn count_one_roughly(word: &AtomicU32) {
    if cfg!(not(loom)) {
        add(word, 1);
    }
}

/// Adds, wrapping. For a thread that alone changes the word, or that may lose a change of another.
pub(crate) fn add(word: &AtomicU32, more: u32) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[cfg(not(loom))]
const _: () = {
    use core::mem::{align_of, offset_of, size_of};
    assert!(size_of::<Header>() == 1024 && size_of::<Header>() <= HEADER_BYTES);
    assert!(align_of::<Header>() == 128);
    assert!(offset_of!(Header, identity) == 0);
    assert!(offset_of!(Header, state) == 128);
    assert!(offset_of!(Header, write_pos) == 256);
    assert!(offset_of!(Header, writers) == 384);
    assert!(offset_of!(Header, read_pos) == 512);
    assert!(offset_of!(Header, readers) == 640);
    assert!(offset_of!(Header, bell) == 768);
    assert!(offset_of!(Header, offer) == 896);
    assert!(offset_of!(Identity, version) == 8 && offset_of!(Identity, bank_bytes) == 12);
    assert!(offset_of!(Identity, shadow_device) == 16 && offset_of!(Identity, shadow_inode) == 24);
    assert!(offset_of!(Identity, pid_namespace) == 32 && offset_of!(Identity, bell_inode) == 40);
    assert!(offset_of!(State, geometry) == 0 && offset_of!(State, route) == 8);
    assert!(offset_of!(State, readers_waiting) == 12 && offset_of!(State, writers_waiting) == 16);
    assert!(offset_of!(State, watched) == 20 && offset_of!(State, closes) == 24);
    assert!(offset_of!(State, given) == 28 && offset_of!(State, returned) == 32);
    assert!(offset_of!(State, attended) == 36 && offset_of!(State, kernel_only) == 40);
    assert!(offset_of!(State, giving_back) == 48);
    assert!(offset_of!(State, strangers_at) == 56 && offset_of!(State, strangers) == 64);
    assert!(offset_of!(State, lookout) == 72 && offset_of!(State, lookout_pages) == 80);
    assert!(offset_of!(State, lookout_wanted) == 84 && offset_of!(State, writers_deferring) == 88);
    assert!(offset_of!(Published, position) == 0 && offset_of!(Published, cpu) == 8);
    assert!(offset_of!(Side, lock) == 0 && offset_of!(Side, peer_position) == 24);
    assert!(offset_of!(Side, own_position) == 32 && offset_of!(Side, own_cpu) == 40);
    assert!(offset_of!(Side, claim) == 44 && offset_of!(Side, claims) == 48 && offset_of!(Side, peer_cpu) == 52);
    assert!(offset_of!(BellWords, lock) == 0 && offset_of!(BellWords, bytes) == 4);
    assert!(offset_of!(BellWords, tally) == 8 && size_of::<Tally>() == 16);
    assert!(offset_of!(BellWords, rung_at) == 24 && offset_of!(BellWords, sleeper) == 32);
    assert!(offset_of!(BellWords, quiet_put) == 36 && offset_of!(BellWords, quiet_taken) == 40);
    assert!(offset_of!(Tally, reader_sleeps) == 0 && offset_of!(Tally, writer_sleeps) == 4);
    assert!(offset_of!(Tally, reader_wakes) == 8 && offset_of!(Tally, writer_wakes) == 12);
    assert!(offset_of!(OfferWords, word) == 0 && offset_of!(OfferWords, address) == 8);
    assert!(offset_of!(OfferWords, voucher) == 16 && offset_of!(OfferWords, start) == 24);
    assert!(offset_of!(OfferWords, process) == 32 && offset_of!(OfferWords, len) == 36);
    assert!(offset_of!(OfferWords, refused) == 40);
};

impl Header {
    /// A header of zeros. Only for tests and models: a segment is made of zeros already.
    pub fn new() -> Header {
        let side = || {
            Line(Side {
                lock: BiasedLock::new(),
                peer_position: AtomicU64::new(0),
                own_position: AtomicU64::new(0),
                own_cpu: AtomicU32::new(0),
                claim: AtomicU32::new(0),
                claims: AtomicU32::new(0),
                peer_cpu: AtomicU32::new(0),
            })
        };
        let published = || Line(Published { position: AtomicU64::new(0), cpu: AtomicU32::new(0) });
        Header {
            identity: Line(Identity {
                magic: AtomicU64::new(0),
                version: AtomicU32::new(0),
                bank_bytes: AtomicU32::new(0),
                shadow_device: AtomicU64::new(0),
                shadow_inode: AtomicU64::new(0),
                pid_namespace: AtomicU64::new(0),
                bell_inode: AtomicU64::new(0),
            }),
            state: Line(State {
                geometry: AtomicU64::new(0),
                route: AtomicU32::new(0),
                readers_waiting: AtomicU32::new(0),
                writers_waiting: AtomicU32::new(0),
                watched: AtomicU32::new(0),
                closes: AtomicU32::new(0),
                given: AtomicU32::new(0),
                returned: AtomicU32::new(0),
                attended: AtomicU32::new(0),
                kernel_only: AtomicU32::new(0),
                giving_back: AtomicU64::new(0),
                strangers_at: AtomicU64::new(0),
                strangers: AtomicU64::new(0),
                lookout: AtomicU64::new(0),
                lookout_pages: AtomicU32::new(0),
                lookout_wanted: AtomicU32::new(0),
                writers_deferring: AtomicU32::new(0),
            }),
            write_pos: published(),
            writers: side(),
            read_pos: published(),
            readers: side(),
            bell: Line(BellWords {
                lock: Lock::new(),
                bytes: AtomicU32::new(0),
                tally: Tally {
                    reader_sleeps: AtomicU32::new(0),
                    writer_sleeps: AtomicU32::new(0),
                    reader_wakes: AtomicU32::new(0),
                    writer_wakes: AtomicU32::new(0),
                },
                rung_at: AtomicU64::new(0),
                sleeper: AtomicU32::new(0),
                quiet_put: AtomicU32::new(0),
                quiet_taken: AtomicU32::new(0),
            }),
            offer: Line(OfferWords::new()),
        }
    }
}

impl Default for Header {
    fn default() -> Header {
        Header::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::biased::tests::thread;

    #[test]
    fn position_of_thread_dead_while_publishing_is_not_believed() {
        let (header, steady) = (Header::new(), thread(1));
        let (side, published) = (&header.writers.0, &header.write_pos.0);
        side.publish(published, 10);
        // Dead between the two stores of `publish`; then a writer that finds no room again and again.
        published.position.store(20, Ordering::Relaxed);
        let own = loop {
            let guard = side.lock(published, &steady).unwrap();
            assert_eq!(side.position(published, guard.is_own()), 20);
            if guard.is_own() {
                break guard;
            }
        };
        drop(own);
    }
}

//! The first page of the shared segment: every word that the processes at a pipe share. `docs/layout.md` draws it.
//!
//! A segment begins as zeros, and zeros are a valid state: whoever comes first need not be waited for. The layout is an
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

/// What one processor fetches and another takes away again. 128 because the processors of x86-64 fetch lines in pairs
/// (Intel 64 optimization manual, 3.7.3, "spatial prefetcher") and those of Apple and Fujitsu have lines of that size.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Line<T>(pub(crate) T);

/// The words. All are written by other processes, which may be broken or hostile: each is loaded once, checked and then
/// used from the copy.
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

/// Which pipe the segment belongs to. Written once, by the first to map it; checked by those who come from outside.
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
    /// The pipe without a name that is the bell of a FIFO's ring; 0 where the shadow is the bell.
    pub(crate) bell_inode: AtomicU64,
}

/// What every operation reads and hardly any writes.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct State {
    /// Where and how large the ring is; see [`crate::geometry::Geometry`].
    pub(crate) geometry: AtomicU64,
    /// Where new bytes go; see [`crate::route::Route`].
    pub(crate) route: AtomicU32,
    /// Readers that sleep or are about to, and one for everybody outside who watches for `POLLIN`.
    pub(crate) readers_waiting: AtomicU32,
    /// Writers that sleep or are about to, and one for everybody outside who watches for `POLLOUT`.
    pub(crate) writers_waiting: AtomicU32,
    /// Which ends are watched from outside, as bits; see [`crate::bell`].
    pub(crate) watched: AtomicU32,
    /// Ends closed so far: when it changes it is time to ask the kernel who is left.
    pub(crate) closes: AtomicU32,
    /// Ends that were made plain descriptors so far, and that came back.
    pub(crate) given: AtomicU32,
    pub(crate) returned: AtomicU32,
    /// When a reader of a FIFO last took part; see [`crate::fifo`].
    pub(crate) attended: AtomicU32,
    /// Not 0: this FIFO's stream stays with the kernel.
    pub(crate) kernel_only: AtomicU32,
    /// Up to which position bytes are being copied from the ring of a FIFO to the kernel; 0: none are.
    pub(crate) giving_back: AtomicU64,
    /// Where in the ring of a FIFO the bytes come in that others have put into the FIFO itself, and how many they are; 0:
    /// nowhere.
    pub(crate) strangers_at: AtomicU64,
    pub(crate) strangers: AtomicU64,
    /// Who looks out for strangers that write into this FIFO, how many pages were taken for that, and whether writers wish that
    /// somebody did; see [`crate::lookout`].
    pub(crate) lookout: AtomicU64,
    pub(crate) lookout_pages: AtomicU32,
    pub(crate) lookout_wanted: AtomicU32,
    /// Writers that sleep or are about to, but not before there is [`crate::Ring::refill`] to be woken for.
    pub(crate) writers_deferring: AtomicU32,
}

/// What one side tells the other.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Published {
    /// Bytes that have passed since the beginning. Never wraps: at 100 GB/s it would take six years.
    pub(crate) position: AtomicU64,
    /// The CPU that this side last ran on, plus one.
    pub(crate) cpu: AtomicU32,
}

/// What one side keeps for itself, away from the line that the other side looks at.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) lock: BiasedLock,
    /// The other side's position when it was last looked at.
    pub(crate) peer_position: AtomicU64,
    /// What this side has published, for a thread whose own the lock is: the published line is often away, at the other
    /// side. Anybody else could find what a dead one left here, and looks at what was published.
    pub(crate) own_position: AtomicU64,
    pub(crate) own_cpu: AtomicU32,
    /// Who works in place, and how many have so far; see [`crate::claim`].
    pub(crate) claim: AtomicU32,
    pub(crate) claims: AtomicU32,
    /// Where the other side ran then, as it says in [`Published::cpu`].
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
        // Who died in `publish` left the one position and not the other, and nobody need have published since. Not while
        // somebody who works in place may publish at this moment, without the lock.
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

    /// Where this side is.
    #[inline]
    pub(crate) fn position(&self, published: &Published, is_own: bool) -> u64 {
        if is_own { self.own_position.load(Ordering::Relaxed) } else { published.position.load(Ordering::Relaxed) }
    }

    /// The caller found too little by its own position, and will wait. A waiter uses the published one: where a hostile
    /// peer has made the two differ, the waiter finds what the caller does not, and neither ever sleeps.
    ///
    /// # Errors
    /// [`RingError`]: they differ although no claim stands, whose process alone publishes without the lock.
    pub(crate) fn check_own_position(&self, published: &Published, is_own: bool) -> Result<(), RingError> {
        // E11 with `Claims::end`: without a claim both positions are in place. In this order.
        let is_quiet = is_own && self.claim.load(Ordering::Acquire) == 0;
        let differs = || self.own_position.load(Ordering::Relaxed) != published.position.load(Ordering::Relaxed);
        if is_quiet && differs() { Err(RingError) } else { Ok(()) }
    }

    /// Where the other side is.
    #[inline]
    pub(crate) fn look_at(&self, other: &Published) -> u64 {
        // E1 with `WriteSide::publish`, E2 with `ReadSide::consume`.
        let position = other.position.load(Ordering::Acquire);
        self.peer_position.store(position, Ordering::Relaxed);
        // Of no meaning for what a model shows, and many more orders to try.
        if !cfg!(loom) {
            self.peer_cpu.store(other.cpu.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        position
    }

    /// Where the other side has left the lines of the ring, for who runs on `cpu`.
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

    /// Makes known where this side is now.
    #[inline]
    pub(crate) fn publish(&self, published: &Published, position: u64) {
        // E1 with `ReadSide::waiting`, E2 with `WriteSide::room`.
        published.position.store(position, Ordering::Release);
        self.own_position.store(position, Ordering::Relaxed);
    }

    /// Makes known where the thread runs, if it has moved.
    #[inline]
    pub(crate) fn note_cpu(&self, published: &Published, cpu: u32) {
        let cpu = cpu.wrapping_add(1);
        if self.own_cpu.load(Ordering::Relaxed) != cpu {
            // In this order: who dies between the two leaves it to be done again.
            published.cpu.store(cpu, Ordering::Relaxed);
            self.own_cpu.store(cpu, Ordering::Relaxed);
        }
    }
}

/// See [`crate::offer`]. All but `word` are written before an offer is opened and hold until it is settled.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct OfferWords {
    pub(crate) word: AtomicU64,
    pub(crate) address: AtomicU64,
    pub(crate) voucher: AtomicU64,
    pub(crate) start: AtomicU64,
    pub(crate) process: AtomicU32,
    pub(crate) len: AtomicU32,
    /// Not 0: the kernel does not let somebody read the memory of somebody else here, and nothing is offered any more.
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
    /// Meaningless bytes that lie in the shadow.
    pub(crate) bytes: AtomicU32,
    /// For those who look at the pipe from outside; nobody decides anything by them.
    pub(crate) tally: Tally,
    /// When the bell was last rung.
    pub(crate) rung_at: AtomicU64,
    /// The reader that sleeps in the shadow itself; see [`crate::sleeper`].
    pub(crate) sleeper: AtomicU32,
    /// Bytes that writers have put into the shadow of a quiet pipe, and that its readers are known to have taken; wrapping.
    pub(crate) quiet_put: AtomicU32,
    pub(crate) quiet_taken: AtomicU32,
}

/// How often something happened that takes a system call anyway; wrapping.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Tally {
    /// Readers and writers that lay down to sleep.
    pub(crate) reader_sleeps: AtomicU32,
    pub(crate) writer_sleeps: AtomicU32,
    /// Times that the bell was rung for bytes, and for room.
    pub(crate) reader_wakes: AtomicU32,
    pub(crate) writer_wakes: AtomicU32,
}

/// Counts one more. Not in models: a word that nobody decides by would only multiply the orders to be tried.
pub(crate) fn count_one(word: &AtomicU32) {
    if cfg!(not(loom)) {
        word.fetch_add(1, Ordering::Relaxed);
    }
}

/// As [`count_one`], for less: beside somebody who counts at the same moment it may be lost.
pub(crate) fn count_one_roughly(word: &AtomicU32) {
    if cfg!(not(loom)) {
        add(word, 1);
    }
}

/// Wrapping, by who is alone in changing the word, or may lose a change of somebody else.
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
    use crate::biased::tests::somebody;

    #[test]
    fn what_one_who_died_while_publishing_left_is_not_believed() {
        let (header, steady) = (Header::new(), somebody(1));
        let (side, published) = (&header.writers.0, &header.write_pos.0);
        side.publish(published, 10);
        // Dead between the two stores of `publish`; then somebody who finds no room again and again.
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
